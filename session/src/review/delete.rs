//! Deleting checkpoints in somebody's name. What retention protects is deleted only where that is meant.

use std::cell::RefCell;

use parhelia_store::{
    Store,
    delete::delete_chosen,
    id::Ulid,
    projection::{ApprovalStatus, Marks},
    view::View,
};

use super::marks_of;
use crate::{
    error::{Error, Refusal, Result},
    host::{Host, Observer},
    overrides::overridden,
};

/// Deletes checkpoints, all or none. One that is tagged or linked, that somebody has decided about, or that waits for that, is refused, unless
/// `with_protected`.
pub fn delete(
    store: &Store,
    host: &dyn Host,
    checkpoints: &[Ulid],
    reason: Option<&str>,
    with_protected: bool,
    observer: &dyn Observer,
) -> Result<()> {
    let refused = RefCell::new(None);
    let choose = |view: &View| {
        let checks = checkpoints.iter().filter(|_| !with_protected).map(|id| ensure_unprotected(view, *id));
        match checks.collect::<Result<Vec<()>>>() {
            Ok(_) => Ok(checkpoints.to_vec()),
            Err(Error::Store(error)) => Err(error),
            Err(other) => {
                refused.replace(Some(other));
                Ok(Vec::new())
            }
        }
    };
    if with_protected {
        let view = store.refresh()?;
        for id in checkpoints {
            let Some(checkpoint) = view.checkpoint(*id)?.filter(|_| ensure_unprotected(&view, *id).is_err()) else { continue };
            overridden(store, host, (*id, &checkpoint.record.session), &[("protected", true)], observer);
        }
    }
    delete_chosen(store, &choose, &host.actor(), reason, observer)?;
    refused.into_inner().map_or(Ok(()), Err)
}

/// Fails where retention would never remove a checkpoint, because somebody has marked it.
pub fn ensure_unprotected(view: &View, checkpoint: Ulid) -> Result<()> {
    match why(&marks_of(view, checkpoint)?) {
        None => Ok(()),
        Some(why) => Err(Refusal::IsProtected { checkpoint, why }.into()),
    }
}

/// The reason for which a checkpoint is protected.
fn why(marks: &Marks) -> Option<String> {
    let listed = |texts: Vec<&str>| texts.join(", ");
    let approval = marks.approval.as_ref().map(|approval| match approval.status {
        ApprovalStatus::Approved => Some("approved"),
        // What somebody has to look at, or has found wrong, is evidence.
        ApprovalStatus::Pending => Some("waiting for a review"),
        ApprovalStatus::Rejected => Some("rejected"),
        ApprovalStatus::AutoApproved => None,
    });
    let mut reasons = Vec::new();
    if !marks.tags.is_empty() {
        reasons.push(format!("tagged {}", listed(marks.tags.iter().map(String::as_str).collect())));
    }
    if !marks.links.is_empty() {
        reasons.push(format!("linked to {}", listed(marks.links.iter().map(|issue| issue.id.as_str()).collect())));
    }
    reasons.extend(approval.flatten().map(str::to_owned));
    (!reasons.is_empty()).then(|| reasons.join(", and "))
}
