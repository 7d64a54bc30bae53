//! Decisions of persons about checkpoints: approved, or rejected.
//!
//! The first decision of a person holds. Another one is recorded and refused, unless it says that it changes the first. Whoever acts from
//! inside the agent that made the checkpoint does not decide, which is recorded as well.

use parhelia_agent::process::ancestors;
use parhelia_store::{
    Error as StoreError, Store,
    event::{Actor, NewEvent, kind},
    id::Ulid,
    projection::{Approval, ApprovalStatus, Marks, Run},
};

use super::{annotation::Text, mark};
use crate::{
    approval::policy,
    error::Result,
    host::{Host, Observer},
    refusal::DecisionRefusal,
    run,
    target::own_run,
};

/// A person's decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is good.
    Approve,
    /// Nothing shall go on from it.
    Reject,
}

impl Verdict {
    /// The status that it leads to.
    pub fn status(self) -> ApprovalStatus {
        match self {
            Verdict::Approve => ApprovalStatus::Approved,
            Verdict::Reject => ApprovalStatus::Rejected,
        }
    }
}

/// A decision that is asked for.
#[derive(Clone, Debug)]
pub struct DecisionRequest<'a> {
    /// The checkpoint.
    pub checkpoint: Ulid,
    /// The decision.
    pub verdict: Verdict,
    /// The reason.
    pub reason: Option<&'a Text>,
    /// True if it takes the place of a decision that somebody made before.
    pub changes: bool,
    /// The options in force.
    pub options: &'a policy::Approval,
}

/// The outcome of a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decided {
    /// The decision that holds.
    pub approval: Approval,
    /// The one before it.
    pub before: Option<Approval>,
    /// True if somebody had decided the same, so that nothing was recorded.
    pub had: bool,
}

/// Decides.
pub fn decide(store: &Store, host: &dyn Host, request: &DecisionRequest<'_>, observer: &dyn Observer) -> Result<Decided> {
    let id = request.checkpoint;
    let caller = Caller::of(store, host, request)?;
    let (decided, appended) = mark(store, id, observer, &|marks| Ok(made(request, &caller, marks)))?;
    let mut decided = decided?;
    if let Some(appended) = appended.last().filter(|_| !decided.had) {
        decided.approval.timestamp = appended.event.at;
    }
    Ok(decided)
}

/// The caller, as the kernel knows it.
struct Caller {
    actor: Actor,
    /// The epoch of the run that it belongs to; none outside one.
    epoch: Option<u64>,
    /// The reason for which it may not decide.
    barred: Option<String>,
}

impl Caller {
    fn of(store: &Store, host: &dyn Host, request: &DecisionRequest<'_>) -> Result<Self> {
        let view = store.refresh()?;
        let Some(checkpoint) = view.checkpoint(request.checkpoint)? else {
            // It is reported as deleted, or as unknown, where the marks are read.
            return Ok(Caller { actor: host.actor(), epoch: None, barred: None });
        };
        let mut actor = host.actor();
        let mut own = own_run(store, host)?;
        let session = view.session(&checkpoint.record.session)?;
        let newest = session.as_ref().and_then(|session| session.run.as_deref()).map(|id| view.run(id)).transpose()?.flatten();
        // A process that drops the marker from its environment still descends from the agent.
        let line = ancestors();
        let descends = |run: &Run| run::roots_of(run).all().any(|root| line.iter().any(|known| known.is_same(root)));
        own = newest
            .filter(|run| run.is_open() && descends(run))
            .or(own.filter(|run| run::is_inside(run, &|name| host.variable(name))));
        let is_own = own.as_ref().is_some_and(|run| run.session == checkpoint.record.session);
        if own.is_some() {
            actor.via = "agent".into();
        }
        let barred = match () {
            () if checkpoint.record.fenced => {
                Some("a newer run had taken over the session when it was made, so that nothing goes on from it".into())
            }
            () if request.options.self_approval => None,
            () if is_own => Some("the caller is the agent whose work it is, or was started by it".into()),
            () if actor.user.is_none() => Some("no person asked for it".into()),
            () => None,
        };
        Ok(Caller { actor, epoch: own.filter(|_| is_own).map(|run| run.epoch), barred })
    }
}

/// The events of a decision, and its outcome.
fn made(request: &DecisionRequest<'_>, caller: &Caller, marks: &Marks) -> (Vec<NewEvent>, Result<Decided>) {
    let id = request.checkpoint;
    let status = request.verdict.status();
    let event = |kind: &str| {
        let event = NewEvent::new(kind, id.to_string(), caller.actor.clone()).with("status", status.name());
        request.reason.into_iter().fold(event, |event, reason| event.with("reason", reason.as_str()))
    };
    let refused = |why: String, refusal: DecisionRefusal| {
        (vec![event(kind::CHECKPOINT_DECISION_REFUSED).with("why", why)], Err(refusal.into()))
    };
    if let Some(why) = caller.barred.clone() {
        return refused(why.clone(), DecisionRefusal::MayNotDecide { checkpoint: id, why });
    }
    let before = marks.approval.clone();
    if let Some(first) = before.as_ref().filter(|before| before.is_by_person() && !request.changes) {
        if first.status == status {
            return (Vec::new(), Ok(Decided { approval: first.clone(), before: None, had: true }));
        }
        let user = first.user.clone().unwrap_or_default();
        let why = format!("{user} had decided before: {}", first.status.name());
        let at = first.timestamp;
        return refused(why, DecisionRefusal::AlreadyDecided { checkpoint: id, status: first.status.name(), user, at });
    }
    let (policy, definition) =
        before.as_ref().map(|before| (before.policy.clone(), before.definition.clone())).unwrap_or_default();
    let named =
        [("policy", &policy), ("definition", &definition)].into_iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
    let mut decided = named.fold(event(kind::CHECKPOINT_DECIDED), |event, (name, value)| event.with(name, value.as_str()));
    decided.epoch = caller.epoch;
    let approval = Approval {
        status,
        user: caller.actor.user.clone(),
        timestamp: jiff::Timestamp::UNIX_EPOCH,
        reason: request.reason.map(|reason| reason.as_str().to_owned()),
        policy,
        rule: None,
        definition,
    };
    (vec![decided], Ok(Decided { approval, before, had: false }))
}

/// The newest ancestor of a checkpoint that a person approved, else the newest that a policy did: where a session goes on after a rejection.
pub fn approved_before(store: &Store, checkpoint: Ulid) -> Result<Option<(Ulid, ApprovalStatus)>> {
    let view = store.view();
    let Some(start) = view.checkpoint(checkpoint)? else {
        return Err(StoreError::NoCheckpoint { selector: checkpoint.to_string() }.into());
    };
    let (mut next, mut by_policy) = (start.record.parent, None);
    while let Some(found) = next.map(|id| view.checkpoint(id)).transpose()?.flatten() {
        next = found.record.parent;
        match view.marks(found.record.id)?.approval.map(|approval| approval.status) {
            Some(ApprovalStatus::Approved) => return Ok(Some((found.record.id, ApprovalStatus::Approved))),
            Some(ApprovalStatus::AutoApproved) if !found.record.is_safety() => {
                by_policy = by_policy.or(Some((found.record.id, ApprovalStatus::AutoApproved)));
            }
            _ => {}
        }
    }
    Ok(by_policy)
}
