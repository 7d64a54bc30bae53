//! Comparing what was captured with the session's head: a head that is damaged is no reason to make no checkpoint.

use super::{CapturedState, Roots};
use crate::{
    check::verify::verify_new,
    damaged::DamageSet,
    error::{Error, Result},
    progress::Progress,
    record::Checkpoint,
    store::Store,
    tree::Node,
};

/// The session's head beside what was captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Head {
    /// It has the same workspace and the same conversation, and nothing shows that it is damaged.
    IsSame,
    /// It has others, or is damaged.
    Differs,
    /// It has the same, and damage that nobody knew of.
    IsNewlyDamaged,
}

/// Compares the head with a captured workspace. `is_lacked` says that objects were captured which the store did not have: if the head is the
/// same, it lacks them. Only then, or while damage is known, is the head followed to its chunks.
pub(super) fn compare(
    store: &Store,
    head: &Checkpoint,
    workspace: &Node,
    roots: Roots,
    captured: &CapturedState,
    is_lacked: bool,
    progress: &dyn Progress,
) -> Result<Head> {
    if head.record.links != roots.links || head.record.conversation != captured.conversation {
        return Ok(Head::Differs);
    }
    match store.workspace_node(head) {
        Ok(node) if node != *workspace => return Ok(Head::Differs),
        Ok(_) => {}
        Err(e) if e.is_damage() => {
            progress.notice(&format!("{} is damaged, and taken for another state: {e}", head.id()));
            return Ok(Head::Differs);
        }
        Err(e) => return Err(e),
    }
    let known = DamageSet::read(store.layout());
    if !is_lacked && known.is_empty() {
        return Ok(Head::IsSame);
    }
    let report = match verify_new(store, head, None, progress) {
        // It was deleted, or is being moved about.
        Err(Error::NoCheckpoint { .. } | Error::Overtaken { .. }) => return Ok(Head::Differs),
        report => report?,
    };
    let Some(problem) = report.problems.first() else { return Ok(Head::IsSame) };
    if DamageSet::read(store.layout()) != known {
        return Ok(Head::IsNewlyDamaged);
    }
    let (id, fault) = (head.id(), &problem.error);
    progress.notice(&format!(
        "nothing has changed since {id}, which is damaged, so that this checkpoint is made all the same: {fault}"
    ));
    Ok(Head::Differs)
}
