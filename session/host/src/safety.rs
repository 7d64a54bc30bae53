//! A safety checkpoint: what was overwritten, kept.

use std::path::PathBuf;

use parhelia_ledger::Session;
use parhelia_store::{
    Store,
    record::{Cause, Checkpoint},
};
use schemars::JsonSchema;
use serde::Serialize;

/// A checkpoint that was made before something was overwritten.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Safety {
    /// The checkpoint.
    pub id: String,
    /// Id of the session that it belongs to.
    pub session: String,
    /// Folder that it is of.
    #[serde(rename = "workspace", with = "parhelia_store::name::shown")]
    #[schemars(with = "String")]
    pub folder: PathBuf,
    /// True if it holds only what the one of the whole folder leaves out.
    #[serde(skip)]
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
