//! A run that is under way.

use std::path::PathBuf;

use parhelia_ledger::{Place, Run, Session};
use parhelia_store::name;

/// A run that is under way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Current {
    /// Id of the session that it is a run of.
    pub session: String,
    /// Its id.
    pub run: String,
    /// Number above that of every earlier run of the session, from 1.
    pub epoch: u64,
    /// Absolute path; the folder that the command ran in where the session has none, and empty where neither is known.
    pub workspace: PathBuf,
}

impl Current {
    /// From what the store has of it.
    pub fn of(run: &Run, session: Option<&Session>) -> Self {
        let place = session.and_then(|session| session.workspace.as_ref()).map(Place::folder);
        let cwd = || run.cwd.as_ref().map(|path| name::as_path(&name::parse(path)).to_owned());
        let workspace = place.or_else(cwd).unwrap_or_default();
        Current { session: run.session.clone(), run: run.id.clone(), epoch: run.epoch, workspace }
    }
}
