//! The last state that is known of a session's servers: as the last checkpoint read it, or as the proxy did when the agent had ended. A
//! checkpoint that is made while a server does not run has this one.
//!
//! They lie in the store's folder `mcp/last/`, one file for each server, in a folder for each session; where the proxy knew no session, for
//! each workspace.

use std::{
    fs::{self, DirBuilder},
    io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use jiff::Timestamp;
use parhelia_agent::regular;
use parhelia_store::{clock, name::Shown as _};
use serde::{Deserialize, Serialize};

use super::{State, live::GivenBack, pending::named};
use crate::conversation::write_whole;

/// No file is longer, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 30;
/// A session's states go once they did not change for so long.
const KEPT: Duration = Duration::from_secs(60 * 24 * 60 * 60);

/// A state, and its time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Last {
    /// The server's name in the agent's configuration.
    pub name: String,
    /// The time at which it was read.
    pub at: Timestamp,
    /// The state.
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
    fn folder(self, store: &Path) -> PathBuf {
        let text = match self {
            Whose::Session(session) => format!("session {session}"),
            Whose::Workspace(path) => format!("workspace {}", path.shown()),
        };
        store.join("mcp").join("last").join(named(&text))
    }
}

/// Keeps a state, in the place of the one before.
pub fn keep(store: &Path, whose: Whose<'_>, last: &Last) -> io::Result<()> {
    let folder = whose.folder(store);
    if !folder.is_dir() {
        folder.parent().map_or(Ok(()), |all| DirBuilder::new().recursive(true).mode(0o700).create(all).map(|()| tidy(all)))?;
        DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
    }
    let path = folder.join(named(&last.name));
    write_whole(&path, &mut &serde_json::to_vec(last)?[..]).map_err(io::Error::other)
}

/// The newest state that is known of a server.
pub fn known(store: &Path, whose: &[Whose<'_>], name: &str) -> Option<Last> {
    let read = |whose: &Whose<'_>| {
        let bytes = regular::read(&whose.folder(store).join(named(name)), FILE_BYTES_MAX).ok()?;
        serde_json::from_slice::<Last>(&bytes).ok().filter(|last| last.name == name)
    };
    whose.iter().filter_map(read).max_by_key(|last| last.at)
}

/// Removes what nobody has changed for long.
fn tidy(all: &Path) {
    let is_old = |path: &Path| {
        let changed = path.metadata().and_then(|metadata| metadata.modified());
        changed.is_ok_and(|changed| SystemTime::from(clock::timestamp()).duration_since(changed).is_ok_and(|age| age > KEPT))
    };
    let folders = fs::read_dir(all).into_iter().flatten().flatten().map(|entry| entry.path());
    for folder in folders.filter(|folder| is_old(folder)) {
        let _ = fs::remove_dir_all(folder);
    }
}
