//! States that wait for the servers of a session to be started again: the proxy before a server takes its own, once, and gives it to the
//! server before the agent's first request.
//!
//! They lie in the store's folder `mcp/pending/`, one file for each server, in a folder for each session. Whoever starts an agent by hand
//! starts its servers with neither session nor store in their environment; so a file says in which workspace it counts.

use std::{
    ffi::{OsStr, OsString},
    io::{self, Write},
    os::unix::ffi::OsStringExt,
    path::{Path, PathBuf},
};

use jiff::{SignedDuration, Timestamp};
use parhelia_store::files::{self, Folder};
use serde::{Deserialize, Serialize};

use parhelia_host::mcp::State;

/// A state that nobody took for so long is another day's.
const TAKEN_WITHIN: SignedDuration = SignedDuration::from_hours(24);
/// No file is longer, in bytes: the longest state that can be configured, as JSON.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// A state that waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingState {
    /// The server's name in the agent's configuration.
    pub name: String,
    /// Id of the session that the state is for.
    pub session: String,
    /// Absolute path of the session's folder; the state counts nowhere else.
    pub workspace: PathBuf,
    /// The checkpoint that it is from.
    pub checkpoint: String,
    /// The time since when it waits.
    pub since: Timestamp,
    /// The state that the server is to be given.
    pub state: State,
}

/// The folder's name in the store's.
const FOLDER: &str = "mcp/pending";

/// A name for whatever text: ids and names may have any characters.
pub(super) fn named(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex()[..32].to_owned()
}

/// Leaves these for the servers of a session, in the place of those that still wait.
pub fn leave(store: &Path, session: &str, states: &[PendingState]) -> io::Result<()> {
    let of_session = named(session);
    files::remove_all(store, &store.join(FOLDER).join(&of_session))?;
    if states.is_empty() {
        return Ok(());
    }
    let folder = Folder::made_inside(store, Path::new(FOLDER).join(&of_session))?;
    for state in states {
        let bytes = serde_json::to_vec(state)?;
        folder.replace(OsStr::new(&named(&state.name)), |file| file.write_all(&bytes))?;
    }
    Ok(())
}

/// Takes the state that waits for a server: of the session that is named, else of one whose workspace the folder lies in. It waits no
/// longer, and of two who take it at once one has it.
pub fn take(store: &Path, name: &str, session: Option<&str>, working: &Path, now: Timestamp) -> Option<PendingState> {
    let all = Folder::inside(store, FOLDER).ok()?;
    let sessions: Vec<OsString> = match session {
        Some(session) => vec![named(session).into()],
        None => all.names().ok()?.into_iter().map(OsString::from_vec).collect(),
    };
    let fits = |pending: &PendingState| {
        let is_meant = session.map_or_else(|| working.starts_with(&pending.workspace), |session| session == pending.session);
        is_meant && pending.name == name && now.duration_since(pending.since).abs() < TAKEN_WITHIN
    };
    let file = named(name);
    sessions.into_iter().find_map(|of_session| {
        let folder = all.folder(&of_session).ok()?;
        let pending: PendingState = serde_json::from_slice(&folder.read(OsStr::new(&file), FILE_BYTES_MAX).ok()?).ok()?;
        (fits(&pending) && folder.remove(OsStr::new(&file)).is_ok()).then_some(pending)
    })
}
