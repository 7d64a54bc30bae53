//! From which checkpoint a session goes on: the newest of its head and those that this came from which may be resumed, or by configuration the
//! newest that counts as good. Passing over anything newer is said.

use parhelia_store::name::step::Step;
use std::collections::HashSet;

use parhelia_ledger::{Approval, ApprovalStatus, LedgerView as _, Session};
use parhelia_store::{
    Store,
    id::Ulid,
    record::{Checkpoint, Trigger},
};

use parhelia_host::{DecisionRefusal, Refusal, Result, intent, policy::Prefer, rule::RuleKind, run};
use parhelia_oversight::approval::rejections::{Rejections, Taint};

/// A checkpoint to go on from.
#[derive(Clone, Debug)]
pub struct Choice {
    /// The checkpoint; none if the session has none.
    pub checkpoint: Option<Checkpoint>,
    /// Newer ones that were passed over, and why.
    pub skipped: Vec<(Ulid, String)>,
    /// True if one of those waits for a person, so that it goes on from older work than there is.
    pub leaves_newer_work: bool,
}

impl Choice {
    /// One checkpoint, or none, with nothing passed over.
    pub(super) fn of(checkpoint: Option<Checkpoint>) -> Self {
        Choice { checkpoint, skipped: Vec::new(), leaves_newer_work: false }
    }
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
        let taint = Rejections::of(store)?.taint(&found)?.filter(|taint| taint.is_rejection() && !override_rejection);
        if let Some(taint) = taint {
            return Err(DecisionRefusal::Rejected { checkpoint: id, why: taint.text() }.into());
        }
        return Ok(Choice::of(Some(found)));
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
    /// Nobody decided about it: an earlier release made it, or its maker died.
    Undecided,
    /// It waits for a person.
    Pending,
}

/// The best checkpoint that may be resumed, of one and those that it came from; of equally good ones the newest.
fn best_from(store: &Store, mut next: Option<Checkpoint>, chosen: &HashSet<Ulid>, prefer: Prefer) -> Result<Choice> {
    let (view, rejections) = (store.view(), Rejections::of(store)?);
    let mut passed: Vec<(Ulid, String)> = Vec::new();
    let mut best: Option<(Rank, Checkpoint, usize)> = None;
    let mut leaves_newer_work = false;
    // Finished work is not lost for want of a look at it, unless something was found in what led to it.
    let mut finished: Option<(Checkpoint, usize, bool)> = None;
    let mut is_suspect = prefer != Prefer::AutoApproved;
    while let Some(checkpoint) = next {
        let id = checkpoint.record.id;
        next = view.ancestor(&checkpoint)?;
        let taint = rejections.taint(&checkpoint)?;
        if let Some(why) = passed_over(&checkpoint, taint.as_ref(), chosen) {
            passed.push((id, why));
            continue;
        }
        let (approval, is_tainted) = (view.marks(id)?.approval, taint.is_some());
        let (rank, why) = match taint {
            // A person who has gone to one by naming it has said enough.
            _ if chosen.contains(&id) => (Rank::Best, String::new()),
            Some(taint) if prefer != Prefer::Newest => (Rank::Pending, named(&taint.text())),
            _ => ranked(approval.as_ref(), prefer),
        };
        if rank == Rank::Pending {
            is_suspect |= is_tainted || is_escalated(approval.as_ref());
            if checkpoint.record.trigger == Trigger::Complete && finished.is_none() {
                finished = Some((checkpoint.clone(), passed.len(), best.is_some()));
            }
        }
        if best.as_ref().is_none_or(|(other, ..)| rank < *other) {
            leaves_newer_work = best.is_some();
            best = Some((rank, checkpoint, passed.len()));
        }
        if rank == Rank::Best {
            break;
        }
        passed.push((id, why));
    }
    let is_good_older = best.as_ref().is_some_and(|(rank, ..)| *rank != Rank::Pending);
    if let Some((checkpoint, newer, leaves_newer_work)) = finished.filter(|_| is_good_older && !is_suspect) {
        passed.truncate(newer);
        return Ok(Choice { checkpoint: Some(checkpoint), skipped: passed, leaves_newer_work });
    }
    let Some((_, checkpoint, newer)) = best else { return Ok(Choice { skipped: passed, ..Choice::of(None) }) };
    passed.truncate(newer);
    Ok(Choice { checkpoint: Some(checkpoint), skipped: passed, leaves_newer_work })
}

/// The rank by a decision, and the reason for which something better is preferred, as a predicate.
fn ranked(approval: Option<&Approval>, prefer: Prefer) -> (Rank, String) {
    match approval.map(|approval| approval.status) {
        // Newer work is not left behind because nobody has looked at it yet; that is said.
        _ if prefer == Prefer::Newest => (Rank::Best, String::new()),
        Some(ApprovalStatus::Pending) => (Rank::Pending, named(&waits(approval))),
        Some(ApprovalStatus::Approved) => (Rank::Best, String::new()),
        Some(_) if prefer == Prefer::Approved => (Rank::ByPolicy, named("was not approved by a person")),
        Some(_) => (Rank::Best, String::new()),
        None => (Rank::Undecided, named("was not judged by any policy")),
    }
}

/// True if a checkpoint waits for a person for something that was found in its work, and not for its trigger alone.
fn is_escalated(approval: Option<&Approval>) -> bool {
    approval.and_then(|approval| approval.rule.as_deref()).is_none_or(|rule| RuleKind::of_text(rule).is_escalation())
}

/// The reason for which something better is preferred, and the way around that.
fn named(why: &str) -> String {
    format!("{why}; name it with {} to go on from it", Step::From)
}

/// A checkpoint that waits for a person, as a predicate.
pub(super) fn waits(approval: Option<&Approval>) -> String {
    let rule = approval.and_then(|approval| approval.rule.as_ref()).map(|rule| format!(" ({rule})")).unwrap_or_default();
    format!("waits for a review{rule}")
}

/// The newest `count` checkpoints from which a session may go on, the newest first.
pub fn candidates(store: &Store, session: &Session, count: usize) -> Result<Vec<Checkpoint>> {
    let (view, chosen, rejections) = (store.view(), gone_to(store, session)?, Rejections::of(store)?);
    let (mut found, mut next) = (Vec::new(), view.head(&session.id)?);
    while let Some(checkpoint) = next.filter(|_| found.len() < count) {
        next = view.ancestor(&checkpoint)?;
        if passed_over(&checkpoint, rejections.taint(&checkpoint)?.as_ref(), &chosen).is_none() {
            found.push(checkpoint);
        }
    }
    Ok(found)
}

/// Checkpoints that a person has gone to by naming them: with the last rollback or undo, or to resume from. A safety checkpoint among them
/// is the session's own state, and no longer only a way back. An agent that goes to one says nothing of whether it is good.
fn gone_to(store: &Store, session: &Session) -> Result<HashSet<Ulid>> {
    let view = store.view();
    let mut found: HashSet<Ulid> =
        intent::last(session).filter(|last| !last.by_agent).map(|last| last.target).into_iter().collect();
    for id in &session.runs {
        let run = view.run(id)?.filter(|run| !run::is_resumed_by_agent(run));
        found.extend(run.and_then(|run| run.resumed_from?.parse::<Ulid>().ok()));
    }
    Ok(found)
}

/// The reason why a checkpoint is passed over; none if it is not.
fn passed_over(checkpoint: &Checkpoint, taint: Option<&Taint>, gone_to: &HashSet<Ulid>) -> Option<String> {
    match () {
        () if checkpoint.record.fenced => Some("was made by a run that another one had taken over from".to_owned()),
        () if checkpoint.record.is_safety() && !gone_to.contains(&checkpoint.record.id) => {
            Some("was made before something was overwritten".to_owned())
        }
        () if checkpoint.record.is_of_another_folder() && !gone_to.contains(&checkpoint.record.id) => {
            Some("was made of another folder, which was in the place of the session's".to_owned())
        }
        () => taint.filter(|taint| taint.is_rejection()).map(Taint::text),
    }
}

/// Fails where a session's workspace, which a resume keeps as it is, has the work of a checkpoint that was rejected and of none after it.
pub(super) fn ensure_not_rejected(store: &Store, session: &Session) -> Result<()> {
    let Some(head) = store.view().head(&session.id)? else { return Ok(()) };
    let taint = Rejections::of(store)?.taint(&head)?.filter(Taint::is_rejection);
    match taint.map(|taint| taint.text()) {
        Some(why) => {
            let (session, checkpoint) = (session.id.clone(), head.record.id);
            Err(DecisionRefusal::StandsOnRejected { session, checkpoint, why }.into())
        }
        None => Ok(()),
    }
}
