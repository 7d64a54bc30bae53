//! The last state that is known of a session's servers: as the last checkpoint read it, or as the proxy did when the agent had ended. A
//! checkpoint that is made while a server does not run has this one.
//!
//! They lie in the store's folder `mcp/last/`, one file for each server, in a folder for each session; where the proxy knew no session, for
//! each workspace.

use std::{
    ffi::OsStr,
    io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use jiff::{SignedDuration, Timestamp};
use parhelia_store::{clock, files::Folder, name::NameExt as _};
use serde::{Deserialize, Serialize};

use parhelia_host::mcp::State;

use super::{live::GivenBack, pending::named};

/// No file is longer, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 30;
/// A session's states go once they did not change for so long.
const KEPT: SignedDuration = SignedDuration::from_hours(60 * 24);
/// The folder's name in the store's.
const FOLDER: &str = "mcp/last";

/// A state, and its time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Last {
    /// The server's name in the agent's configuration.
    pub name: String,
    /// The time at which it was read.
    pub at: Timestamp,
    /// The state as the server handed it out then.
    pub state: State,
    /// The outcome of giving the server a state as it was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub given_back: Option<GivenBack>,
}

/// The owner of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose<'a> {
    /// A session's.
    Session(&'a str),
    /// Whatever works in a workspace.
    Workspace(&'a Path),
}

impl Whose<'_> {
    /// The path of its folder from the store's.
    fn folder(self) -> PathBuf {
        let text = match self {
            Whose::Session(session) => format!("session {session}"),
            Whose::Workspace(path) => format!("workspace {}", path.shown()),
        };
        Path::new(FOLDER).join(named(&text))
    }
}

/// Keeps a state, in the place of the one before.
pub fn keep(store: &Path, whose: Whose<'_>, last: &Last) -> io::Result<()> {
    let below = whose.folder();
    if Folder::inside(store, &below).is_err_and(|e| e.kind() == io::ErrorKind::NotFound) {
        tidy(&Folder::made_inside(store, FOLDER)?);
    }
    let bytes = serde_json::to_vec(last)?;
    Folder::made_inside(store, &below)?.write_synced(OsStr::new(&named(&last.name)), &bytes, false)
}

/// The newest state that is known of a server.
pub fn known(store: &Path, whose: &[Whose<'_>], name: &str) -> Option<Last> {
    let read = |whose: &Whose<'_>| {
        let bytes = Folder::inside(store, whose.folder()).ok()?.read(OsStr::new(&named(name)), FILE_BYTES_MAX).ok()?;
        serde_json::from_slice::<Last>(&bytes).ok().filter(|last| last.name == name)
    };
    whose.iter().filter_map(read).max_by_key(|last| last.at)
}

/// Removes what nobody has changed for long.
fn tidy(all: &Folder) {
    let now = clock::timestamp();
    for name in all.names().unwrap_or_default() {
        let name = OsStr::from_bytes(&name);
        let changed = all.stat(name).ok().and_then(|found| Timestamp::from_second(found.mtime.secs).ok());
        if changed.is_some_and(|changed| now.duration_since(changed) > KEPT) {
            let _ = all.remove_all(name);
        }
    }
}
