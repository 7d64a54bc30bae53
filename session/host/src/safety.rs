//! A safety checkpoint: what was overwritten, kept.

use std::path::PathBuf;

use parhelia_ledger::Session;
use parhelia_store::{
    Store,
    record::{Cause, Checkpoint},
};

/// A safety checkpoint that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Safety {
    /// Id of the checkpoint, a ULID.
    pub id: String,
    /// The session that has it.
    pub session: String,
    /// Absolute path of the folder that it was made of.
    pub folder: PathBuf,
    /// True if it holds only what the one of the whole folder leaves out.
    pub is_rest: bool,
}

/// The newest safety checkpoint that a restore in place has made of a session, behind a place in the order of commits.
pub fn restored_since(store: &Store, session: &str, before: u64) -> Option<Checkpoint> {
    safety_since(store, session, before, |cause| cause == Cause::RestoreSafety)
}

/// The newest safety checkpoint of a session behind a place in the order of commits.
pub fn made_since(store: &Store, session: &Session, before: u64) -> Option<Checkpoint> {
    safety_since(store, &session.id, before, Cause::is_safety)
}

fn safety_since(store: &Store, session: &str, before: u64, fits: impl Fn(Cause) -> bool) -> Option<Checkpoint> {
    let view = store.refresh().ok()?;
    let is_it = |found: &&Checkpoint| {
        let record = &found.record;
        found.sequence > before && record.session == session && record.cause().is_some_and(&fits)
    };
    view.checkpoints().ok()?.iter().rev().find(is_it).cloned()
}
