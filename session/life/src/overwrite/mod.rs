//! Overwriting what somebody works on: the sessions' folders that a restore changes, whether it may, and safety checkpoints of what it replaces.

mod folders;
mod other_folder;
mod safety;

use std::{
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use parhelia_ledger::{LedgerView as _, Place};
use parhelia_store::{Store, name, record::Checkpoint};

use parhelia_host::Result;

pub use folders::{LiveAgent, SessionFolder, folders, live_agents, origins, others_below, overwritten};
pub use other_folder::UnsecuredEntries;
pub(crate) use other_folder::{Overwritten, refuse_another, unsecured};
pub use safety::{SafetyRequest, safety, secure};

/// A path, for messages.
pub(crate) fn display(path: &Path) -> String {
    name::display(path.as_os_str().as_bytes())
}

/// The folder that a checkpoint's session works in by now, or else the one that was captured.
pub fn workspace_of(store: &Store, checkpoint: &Checkpoint) -> Result<PathBuf> {
    let session = store.view().session(&checkpoint.record.session)?;
    let place = session.and_then(|session| session.workspace);
    let recorded = || name::as_path(&name::parse(&checkpoint.record.workspace.path)).to_owned();
    Ok(place.as_ref().map_or_else(recorded, Place::folder))
}
