//! Content that a rejection was about.

use parhelia_store::{Result, Store, id::TreeId, record::Checkpoint, view::View};
use serde_json::{Map, Value, json};

use crate::{
    marks::{Approval, ApprovalStatus, Marks},
    rejected::{FIELD, Rejected},
};

impl Rejected {
    /// The content of a checkpoint that exists, as a rejection names it.
    pub fn of(store: &Store, view: &View, checkpoint: &Checkpoint) -> Result<Self> {
        let content = content(store, checkpoint)?;
        let since = if content.is_some() { since(store, view, checkpoint, content)? } else { None };
        Ok(Rejected { session: checkpoint.record.session.clone(), sequence: checkpoint.sequence, content, since })
    }
}

/// Facts about a checkpoint that its deletion's event keeps: what was rejected with it, where marks say that it was and do not say what it had, as an earlier release
/// recorded the decision.
pub(crate) fn facts_of(store: &Store, view: &View, checkpoint: &Checkpoint, marks: &Marks) -> Map<String, Value> {
    let is_missing = |approval: &Approval| approval.status == ApprovalStatus::Rejected && approval.rejected.is_none();
    let missing = marks.approval.as_ref().filter(|approval| is_missing(approval));
    // What is damaged may be deleted all the same.
    let rejected = missing.and_then(|_| Rejected::of(store, view, checkpoint).ok());
    rejected.into_iter().map(|rejected| (FIELD.to_owned(), json!(rejected))).collect()
}

/// The tree of a checkpoint's workspace; none where it cannot be read, which says nothing.
pub fn content(store: &Store, checkpoint: &Checkpoint) -> Result<Option<TreeId>> {
    match store.workspace_node(checkpoint) {
        Ok(node) => Ok(node.as_folder().map(|(tree, _)| tree)),
        Err(e) if e.is_damage() => Ok(None),
        Err(e) => Err(e),
    }
}

/// Sequence of the oldest checkpoint with this content on the way to one. What a deleted checkpoint had is not known: behind one, the files count
/// as changed.
fn since(store: &Store, view: &View, checkpoint: &Checkpoint, own: Option<TreeId>) -> Result<Option<u64>> {
    let (mut oldest, mut next, mut has_gap) = (checkpoint.sequence, checkpoint.record.parent, false);
    while let Some(id) = next {
        let Some(ancestor) = view.checkpoint(id)? else {
            has_gap = true;
            next = view.origin(id)?;
            continue;
        };
        if content(store, &ancestor)? != own {
            return Ok(Some(oldest));
        }
        (oldest, next) = (ancestor.sequence, ancestor.record.parent);
    }
    Ok(has_gap.then_some(oldest))
}
