//! From which checkpoint a session goes on: the newest of its head and those that this came from which may be resumed, or by configuration the
//! newest that counts as good. Passing over anything newer is said.

use std::collections::HashSet;

use parhelia_store::{
    Store,
    id::Ulid,
    projection::{Approval, ApprovalStatus, Session},
    record::Checkpoint,
};

use crate::{
    approval::policy::Prefer,
    error::{DecisionRefusal, Refusal, Result},
    intent,
};

/// A checkpoint to go on from.
#[derive(Clone, Debug)]
pub struct Choice {
    /// The checkpoint; none if the session has none.
    pub checkpoint: Option<Checkpoint>,
    /// Newer ones that were passed over, and why.
    pub skipped: Vec<(Ulid, String)>,
}

/// Chooses. `from` is taken as it is, but for rejected ones, which need `override_rejection`.
pub fn choose(store: &Store, session: &Session, from: Option<Ulid>, override_rejection: bool, prefer: Prefer) -> Result<Choice> {
    let view = store.view();
    if let Some(id) = from {
        let Some(found) = view.checkpoint(id)? else {
            return Err(parhelia_store::Error::NoCheckpoint { selector: id.to_string() }.into());
        };
        if found.record.session != session.id {
            let (other, this) = (&found.record.session, &session.id);
            return Err(Refusal::OtherSession { checkpoint: id, of: other.clone(), session: this.clone() }.into());
        }
        if let Some(why) = rejected(store, id)?.filter(|_| !override_rejection) {
            return Err(DecisionRefusal::Rejected { checkpoint: id, why }.into());
        }
        return Ok(Choice { checkpoint: Some(found), skipped: Vec::new() });
    }
    best_from(store, view.head(&session.id)?, &gone_to(store, session)?, prefer)
}

/// Chooses as [`choose`] will once an interrupted rollback of the session is finished, which a resume does first.
pub fn choose_ahead(store: &Store, session: &Session, from: Option<Ulid>, prefer: Prefer) -> Result<Choice> {
    let Some(intent) = intent::open(session).filter(|_| from.is_none()) else {
        return choose(store, session, from, false, prefer);
    };
    let mut chosen = gone_to(store, session)?;
    chosen.insert(intent.target);
    best_from(store, store.view().checkpoint(intent.target)?, &chosen, prefer)
}

/// The preference for a checkpoint that may be resumed: the lower, the better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Best,
    /// A policy approved it, and a person's word is preferred.
    ByPolicy,
    /// It waits for a person.
    Pending,
}

/// The best checkpoint that may be resumed, of one and those that it came from; of equally good ones the newest.
fn best_from(store: &Store, mut next: Option<Checkpoint>, chosen: &HashSet<Ulid>, prefer: Prefer) -> Result<Choice> {
    let view = store.view();
    let mut passed: Vec<(Ulid, String)> = Vec::new();
    let mut best: Option<(Rank, Checkpoint, usize)> = None;
    while let Some(checkpoint) = next {
        let id = checkpoint.record.id;
        next = checkpoint.record.parent.map(|parent| view.checkpoint(parent)).transpose()?.flatten();
        if let Some(why) = passed_over(store, &checkpoint, chosen)? {
            passed.push((id, why));
            continue;
        }
        let approval = view.marks(id)?.approval;
        // Somebody who has gone to one by naming it has said enough.
        let (rank, why) = if chosen.contains(&id) { (Rank::Best, String::new()) } else { ranked(approval.as_ref(), prefer) };
        if best.as_ref().is_none_or(|(other, ..)| rank < *other) {
            best = Some((rank, checkpoint, passed.len()));
        }
        if rank == Rank::Best {
            break;
        }
        passed.push((id, why));
    }
    let Some((_, checkpoint, newer)) = best else { return Ok(Choice { checkpoint: None, skipped: passed }) };
    passed.truncate(newer);
    Ok(Choice { checkpoint: Some(checkpoint), skipped: passed })
}

/// The rank by a decision, and the reason for which something better is preferred, as a predicate.
fn ranked(approval: Option<&Approval>, prefer: Prefer) -> (Rank, String) {
    match approval.map(|approval| approval.status) {
        // Newer work is not left behind because nobody has looked at it yet; that is said.
        _ if prefer == Prefer::Newest => (Rank::Best, String::new()),
        Some(ApprovalStatus::Pending) => (Rank::Pending, waits(approval)),
        Some(ApprovalStatus::Approved) => (Rank::Best, String::new()),
        _ if prefer == Prefer::Approved => (Rank::ByPolicy, "was not approved by a person".into()),
        // What nobody decided about is of an earlier release.
        _ => (Rank::Best, String::new()),
    }
}

/// A checkpoint that waits for a person, as a predicate.
pub(super) fn waits(approval: Option<&Approval>) -> String {
    let rule = approval.and_then(|approval| approval.rule.as_ref()).map(|rule| format!(" ({rule})")).unwrap_or_default();
    format!("waits for a review{rule}")
}

/// The newest `count` checkpoints from which a session may go on, the newest first.
pub fn candidates(store: &Store, session: &Session, count: usize) -> Result<Vec<Checkpoint>> {
    let (view, chosen) = (store.view(), gone_to(store, session)?);
    let (mut found, mut next) = (Vec::new(), view.head(&session.id)?);
    while let Some(checkpoint) = next.filter(|_| found.len() < count) {
        next = checkpoint.record.parent.map(|parent| view.checkpoint(parent)).transpose()?.flatten();
        if passed_over(store, &checkpoint, &chosen)?.is_none() {
            found.push(checkpoint);
        }
    }
    Ok(found)
}

/// Checkpoints that somebody has gone to by naming them: with the last rollback or undo, or to resume from. A safety checkpoint among them
/// is the session's own state, and no longer only a way back.
fn gone_to(store: &Store, session: &Session) -> Result<HashSet<Ulid>> {
    let view = store.view();
    let mut found: HashSet<Ulid> = intent::last(session).map(|last| last.target).into_iter().collect();
    for id in &session.runs {
        found.extend(view.run(id)?.and_then(|run| run.resumed_from?.parse::<Ulid>().ok()));
    }
    Ok(found)
}

/// The reason why a checkpoint is passed over; none if it is not.
fn passed_over(store: &Store, checkpoint: &Checkpoint, gone_to: &HashSet<Ulid>) -> Result<Option<String>> {
    match () {
        () if checkpoint.record.fenced => Ok(Some("was made by a run that another one had taken over from".to_owned())),
        () if checkpoint.record.is_safety() && !gone_to.contains(&checkpoint.record.id) => {
            Ok(Some("was made before something was overwritten".to_owned()))
        }
        () if checkpoint.record.is_of_another_folder() && !gone_to.contains(&checkpoint.record.id) => {
            Ok(Some("was made of another folder, which was in the place of the session's".to_owned()))
        }
        () => rejected(store, checkpoint.record.id),
    }
}

fn rejected(store: &Store, id: Ulid) -> Result<Option<String>> {
    let approval = store.view().marks(id)?.approval.filter(|approval| approval.status == ApprovalStatus::Rejected);
    Ok(approval.map(|approval| match approval.user {
        Some(user) => format!("was rejected by {user}"),
        None => "was rejected".to_owned(),
    }))
}
