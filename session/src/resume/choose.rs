//! From which checkpoint a session goes on: its head, or the newest one behind that which may be resumed. Passing over anything newer
//! is said.

use parhelia_store::{
    Store,
    fold::{ApprovalStatus, Session},
    id::Ulid,
    record::Checkpoint,
};

use crate::{
    error::{Error, Result},
    retention::SAFETY,
};

/// A checkpoint to go on from.
#[derive(Clone, Debug)]
pub struct Choice {
    /// Which; none where the session has none.
    pub checkpoint: Option<Checkpoint>,
    /// Newer ones that were passed over, and why.
    pub skipped: Vec<(Ulid, String)>,
}

/// Whether a checkpoint was made so that something could be undone.
pub fn is_safety(checkpoint: &Checkpoint) -> bool {
    checkpoint.record.trigger_detail.as_deref() == Some(SAFETY)
}

/// Chooses. `from` is taken as it is, but for rejected ones, which need `override_rejection`.
pub fn choose(store: &Store, session: &Session, from: Option<Ulid>, override_rejection: bool) -> Result<Choice> {
    let view = store.view();
    if let Some(id) = from {
        let Some(found) = view.checkpoint(id)? else {
            return Err(parhelia_store::Error::NoCheckpoint { selector: id.to_string() }.into());
        };
        if found.record.session != session.id {
            let (other, this) = (&found.record.session, &session.id);
            return Err(Error::Invalid(format!("checkpoint {id} is of session {other}, not of {this}")));
        }
        if let Some(why) = rejected(store, id)?.filter(|_| !override_rejection) {
            return Err(Error::Invalid(format!("checkpoint {id} {why}; choose another one, or give --force")));
        }
        return Ok(Choice { checkpoint: Some(found), skipped: Vec::new() });
    }
    let mut skipped = Vec::new();
    let mut next = view.head(&session.id)?;
    while let Some(checkpoint) = next {
        let why = match () {
            () if checkpoint.record.fenced => Some("was made by a run that another one had taken over from".to_owned()),
            () if is_safety(&checkpoint) => Some("was made before a rollback".to_owned()),
            () => rejected(store, checkpoint.record.id)?,
        };
        let Some(why) = why else { return Ok(Choice { checkpoint: Some(checkpoint), skipped }) };
        skipped.push((checkpoint.record.id, why));
        next = match checkpoint.record.parent {
            Some(parent) => view.checkpoint(parent)?,
            None => None,
        };
    }
    Ok(Choice { checkpoint: None, skipped })
}

fn rejected(store: &Store, id: Ulid) -> Result<Option<String>> {
    let approval = store.view().marks(id)?.approval.filter(|approval| approval.status == ApprovalStatus::Rejected);
    Ok(approval.map(|approval| match approval.user {
        Some(user) => format!("was rejected by {user}"),
        None => "was rejected".to_owned(),
    }))
}
