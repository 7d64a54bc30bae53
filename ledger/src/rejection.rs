//! Content that a rejection was about.

use parhelia_store::{
    Result, Store,
    fold::{Checkpoints, Contents},
    id::TreeId,
    record::Checkpoint,
    view::View,
};
use serde_json::{Map, Value, json};

use crate::{
    marks::{Approval, ApprovalStatus, Marks},
    rejected::{FIELD, RejectedContent},
};

impl RejectedContent {
    /// The content of a checkpoint that exists, as a rejection names it.
    pub fn of(store: &Store, view: &View, checkpoint: &Checkpoint) -> Result<Self> {
        Self::of_contents(&|checkpoint| store.content_of(checkpoint), view, checkpoint)
    }

    fn of_contents(contents: Contents<'_>, checkpoints: &dyn Checkpoints, checkpoint: &Checkpoint) -> Result<Self> {
        let content = contents(checkpoint)?;
        let since = if content.is_some() { since(contents, checkpoints, checkpoint, content)? } else { None };
        Ok(RejectedContent { session: checkpoint.record.session.clone(), sequence: checkpoint.sequence, content, since })
    }
}

/// Facts about a checkpoint that its deletion's event keeps: what was rejected with it, where marks say that it was and do not say what it had, as an earlier release
/// recorded the decision.
pub(crate) fn facts_of(
    contents: Contents<'_>,
    checkpoints: &dyn Checkpoints,
    checkpoint: &Checkpoint,
    marks: &Marks,
) -> Map<String, Value> {
    let is_missing = |approval: &Approval| approval.status == ApprovalStatus::Rejected && approval.rejected.is_none();
    let missing = marks.approval.as_ref().filter(|approval| is_missing(approval));
    // What is damaged may be deleted all the same.
    let rejected = missing.and_then(|_| RejectedContent::of_contents(contents, checkpoints, checkpoint).ok());
    rejected.into_iter().map(|rejected| (FIELD.to_owned(), json!(rejected))).collect()
}

/// Sequence of the oldest checkpoint with this content on the way to one. What a deleted checkpoint had is not known: behind one, the files count
/// as changed.
fn since(
    contents: Contents<'_>,
    checkpoints: &dyn Checkpoints,
    checkpoint: &Checkpoint,
    own: Option<TreeId>,
) -> Result<Option<u64>> {
    let (mut oldest, mut next, mut has_gap) = (checkpoint.sequence, checkpoint.record.parent, false);
    while let Some(id) = next {
        let Some(ancestor) = checkpoints.checkpoint(id)? else {
            has_gap = true;
            next = checkpoints.origin(id)?;
            continue;
        };
        if contents(&ancestor)? != own {
            return Ok(Some(oldest));
        }
        (oldest, next) = (ancestor.sequence, ancestor.record.parent);
    }
    Ok(has_gap.then_some(oldest))
}
