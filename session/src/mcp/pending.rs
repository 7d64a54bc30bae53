//! States that wait for the servers of a session to be started again: the proxy before a server takes its own, once, and gives it to the
//! server before the agent's first request.
//!
//! They lie in the store's folder `mcp/pending/`, one file for each server, in a folder for each session. Whoever starts an agent by hand
//! starts its servers with neither session nor store in their environment; so a file says in which workspace it counts.

use std::{
    fs::{self, DirBuilder, File},
    io::{self, ErrorKind, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use jiff::{SignedDuration, Timestamp};
use parhelia_agent::regular;
use serde::{Deserialize, Serialize};

use super::State;

/// A state that nobody took for so long is another day's.
const TAKEN_WITHIN: SignedDuration = SignedDuration::from_hours(24);
/// No file is longer, in bytes: the longest state that can be configured, as JSON.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// A state that waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pending {
    /// The server's name in the agent's configuration.
    pub name: String,
    /// The session.
    pub session: String,
    /// The session's workspace.
    pub workspace: PathBuf,
    /// The checkpoint that it is from.
    pub checkpoint: String,
    /// The time since when it waits.
    pub since: Timestamp,
    /// The state.
    pub state: State,
}

fn folder(store: &Path) -> PathBuf {
    store.join("mcp").join("pending")
}

/// A name for whatever text: ids and names may have any characters.
pub(super) fn named(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex()[..32].to_owned()
}

/// Leaves these for the servers of a session, in the place of those that still wait.
pub fn leave(store: &Path, session: &str, states: &[Pending]) -> io::Result<()> {
    let folder = folder(store).join(named(session));
    match fs::remove_dir_all(&folder) {
        Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    if states.is_empty() {
        return Ok(());
    }
    DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
    for state in states {
        let (path, draft) = (folder.join(named(&state.name)), folder.join(format!(".{}", named(&state.name))));
        let mut out = File::options().write(true).create_new(true).mode(0o600).open(&draft)?;
        out.write_all(&serde_json::to_vec(state)?)?;
        fs::rename(&draft, &path)?;
    }
    Ok(())
}

/// Takes the state that waits for a server: of the session that is named, else of one whose workspace the folder lies in. It waits no
/// longer, and of two who take it at once one has it.
pub fn take(store: &Path, name: &str, session: Option<&str>, working: &Path, now: Timestamp) -> Option<Pending> {
    let folder = folder(store);
    let of_session = session.map(|session| folder.join(named(session)));
    let all = || fs::read_dir(&folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    let folders: Vec<PathBuf> = of_session.map_or_else(all, |one| vec![one]);
    let fits = |pending: &Pending| {
        let is_meant = session.map_or_else(|| working.starts_with(&pending.workspace), |session| session == pending.session);
        is_meant && pending.name == name && now.duration_since(pending.since).abs() < TAKEN_WITHIN
    };
    folders.into_iter().find_map(|folder| {
        let path = folder.join(named(name));
        let pending: Pending = serde_json::from_slice(&regular::read(&path, FILE_BYTES_MAX).ok()?).ok()?;
        (fits(&pending) && fs::remove_file(&path).is_ok()).then_some(pending)
    })
}
