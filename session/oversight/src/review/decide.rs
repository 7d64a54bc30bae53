//! Decisions of persons about checkpoints: approved, or rejected.
//!
//! The first decision of a person holds. Another one is recorded and refused, unless it says that it changes the first. Whoever acts from
//! inside the agent that made the checkpoint does not decide, which is recorded as well.

use parhelia_ledger::{
    Approval, ApprovalStatus, LedgerView as _, Marks, REJECTED, RejectedContent,
    kind::{self, SELF_APPROVAL},
};
use parhelia_store::{
    Error as StoreError, Store,
    event::{Actor, NewEvent},
    id::Ulid,
};
use serde_json::{Value, json};

use super::{
    annotation::Text,
    mark,
    signature::{self, Statement},
};
use crate::{
    approval::rejections::{Rejections, Taint},
    who::{hidden_by, runs_around, stranger},
};
use parhelia_host::{
    Host, Observer, Result, policy,
    refusal::{Attempt, DecisionRefusal},
    run::{is_hidden, one_of},
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
    /// Id of the checkpoint to decide about.
    pub checkpoint: Ulid,
    /// The decision.
    pub verdict: Verdict,
    /// The reason that the person gave; none without one.
    pub reason: Option<&'a Text>,
    /// True if it takes the place of a decision that somebody made before.
    pub changes: bool,
    /// The options in force.
    pub options: &'a policy::Approval,
}

/// The outcome of a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecisionOutcome {
    /// The decision that holds.
    pub approval: Approval,
    /// The one before it.
    pub before: Option<Approval>,
    /// True if somebody had decided the same, so that nothing was recorded.
    pub had: bool,
}

/// Records a decision. Faces call `parhelia_knowledge::decide`, by which the project learns of it as well.
pub fn record(store: &Store, host: &dyn Host, request: &DecisionRequest<'_>, observer: &dyn Observer) -> Result<DecisionOutcome> {
    let id = request.checkpoint;
    let mut caller = Caller::of(store, host, request)?;
    caller.signature = caller.signed(store, host, request)?;
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
    /// True if it is an agent, or was started by one.
    is_agent: bool,
    /// Digest of the checkpoint's record; none where it does not exist.
    record: Option<String>,
    /// Its signature of the decision.
    signature: Option<Value>,
    /// What it rejects; none where it approves, or may not decide.
    rejected: Option<RejectedContent>,
}

impl Caller {
    fn of(store: &Store, host: &dyn Host, request: &DecisionRequest<'_>) -> Result<Self> {
        let (view, mut actor) = (store.refresh()?, host.actor());
        let Some(checkpoint) = view.checkpoint(request.checkpoint)? else {
            // It is reported as deleted, or as unknown, where the marks are read.
            return Ok(Caller {
                actor,
                epoch: None,
                barred: None,
                is_agent: false,
                record: None,
                signature: None,
                rejected: None,
            });
        };
        let session = &checkpoint.record.session;
        let runs = runs_around(&view, host, std::slice::from_ref(session))?;
        let own = one_of(store, host, &runs)?;
        if own.is_some() || host.call().is_below {
            actor.via = "agent".into();
        }
        let barred = match &own {
            _ if checkpoint.record.fenced => {
                Some("a newer run had taken over the session when it was made, so that nothing goes on from it".into())
            }
            _ if request.options.self_approval => None,
            Some(own) if own.session == *session => Some("the caller is the agent whose work it is, or was started by it".into()),
            Some(own) => Some(format!("the caller is an agent, that of session {}, or was started by it", own.session)),
            None if host.call().is_below => Some(stranger(host)),
            None if host.call().is_unseen => Some("nothing shows who has started the caller, as /proc cannot be read".into()),
            None if runs.values().any(is_hidden) => Some(hidden_by(&runs, is_hidden)),
            None if actor.user.is_none() => Some("no person asked for it".into()),
            None => None,
        };
        let epoch = own.as_ref().filter(|own| own.session == *session).map(|run| run.epoch);
        let record = Some(checkpoint.digest.to_string());
        let rejects = request.verdict == Verdict::Reject && barred.is_none();
        let rejected = rejects.then(|| RejectedContent::of(store, &view, &checkpoint)).transpose()?;
        Ok(Caller { actor, epoch, barred, is_agent: own.is_some(), record, signature: None, rejected })
    }

    /// The signature of the decision, if there is a key for that. Nobody is asked for a passphrase where the answer is known to be no.
    fn signed(&self, store: &Store, host: &dyn Host, request: &DecisionRequest<'_>) -> Result<Option<Value>> {
        let (Some(key), Some(record), None) = (&request.options.signing_key, &self.record, &self.barred) else { return Ok(None) };
        let marks = store.view().marks(request.checkpoint)?;
        if marks.approval.is_some_and(|approval| approval.is_by_person() && !request.changes) {
            return Ok(None);
        }
        let statement = Statement {
            store: &store.config().id.to_string(),
            checkpoint: request.checkpoint,
            record,
            status: request.verdict.status().name(),
            user: self.actor.user.as_deref(),
            reason: request.reason.map(Text::as_str),
            at: host.now(),
        };
        Ok(Some(statement.sign(key, request.options.allowed_signers.as_deref())?))
    }
}

/// The field of a decision that was refused which is set where the caller may decide, but had to say that something is changed.
pub const MAY_DECIDE: &str = "may_decide";

/// The events of a decision, and its outcome.
fn made(request: &DecisionRequest<'_>, caller: &Caller, marks: &Marks) -> (Vec<NewEvent>, Result<DecisionOutcome>) {
    let id = request.checkpoint;
    let status = request.verdict.status();
    let event = |kind: &str| {
        let event = NewEvent::new(kind, id.to_string(), caller.actor.clone()).with("status", status.name());
        request.reason.into_iter().fold(event, |event, reason| event.with("reason", reason.as_str()))
    };
    let refused = |why: String| event(kind::CHECKPOINT_DECISION_REFUSED).with("why", why);
    if let Some(why) = caller.barred.clone() {
        // It is returned where the event was appended, and nowhere else.
        let refusal = DecisionRefusal::MayNotDecide { checkpoint: id, why: why.clone(), attempt: Attempt::Recorded };
        return (vec![refused(why)], Err(refusal.into()));
    }
    let before = marks.approval.clone();
    if let Some(first) = before.as_ref().filter(|before| before.is_by_person() && !request.changes) {
        if first.status == status {
            return (Vec::new(), Ok(DecisionOutcome { approval: first.clone(), before: None, had: true }));
        }
        let user = first.user.clone().unwrap_or_default();
        let why = format!("{user} had decided before: {}", first.status.name());
        let at = first.timestamp;
        let refusal = DecisionRefusal::AlreadyDecided { checkpoint: id, status: first.status.name(), user, at };
        // Whoever may decide, and has not said that they change what was decided, is no danger.
        return (vec![refused(why).with(MAY_DECIDE, true)], Err(refusal.into()));
    }
    let (policy, definition) =
        before.as_ref().map(|before| (before.policy.clone(), before.definition.clone())).unwrap_or_default();
    let named =
        [("policy", &policy), ("definition", &definition)].into_iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
    let mut decided = named.fold(event(kind::CHECKPOINT_DECIDED), |event, (name, value)| event.with(name, value.as_str()));
    if let Some(signature) = &caller.signature {
        decided = decided.with(signature::FIELD, signature.clone());
    }
    if let Some(record) = &caller.record {
        decided = decided.with("record", record.as_str());
    }
    if let Some(rejected) = &caller.rejected {
        decided = decided.with(REJECTED, json!(rejected));
    }
    if caller.is_agent {
        // Only where that was allowed.
        decided = decided.with(SELF_APPROVAL, true);
    }
    decided.epoch = caller.epoch;
    let approval = Approval {
        status,
        user: caller.actor.user.clone(),
        by_agent: caller.is_agent,
        timestamp: jiff::Timestamp::UNIX_EPOCH,
        reason: request.reason.map(|reason| reason.as_str().to_owned()),
        policy,
        rule: None,
        definition,
        rejected: caller.rejected.clone(),
    };
    (vec![decided], Ok(DecisionOutcome { approval, before, had: false }))
}

/// The newest ancestor of a checkpoint that a person approved, else the newest that a policy did: where a session goes on after a rejection.
pub fn approved_before(store: &Store, checkpoint: Ulid) -> Result<Option<(Ulid, ApprovalStatus)>> {
    let view = store.view();
    let Some(start) = view.checkpoint(checkpoint)? else {
        return Err(StoreError::NoCheckpoint { selector: checkpoint.to_string() }.into());
    };
    let rejections = Rejections::of(store)?;
    let (mut next, mut by_policy) = (view.ancestor(&start)?, None);
    while let Some(found) = next {
        next = view.ancestor(&found)?;
        match view.marks(found.record.id)?.approval.map(|approval| approval.status) {
            Some(ApprovalStatus::Approved) => return Ok(Some((found.record.id, ApprovalStatus::Approved))),
            Some(ApprovalStatus::AutoApproved)
                if by_policy.is_none() && !found.record.is_safety() && rejections.taint(&found)?.is_none() =>
            {
                by_policy = Some((found.record.id, ApprovalStatus::AutoApproved));
            }
            _ => {}
        }
    }
    Ok(by_policy)
}

/// The number of checkpoints on the way from a rejected one to its session's head that no person has approved: they wait for a person by now.
pub fn built_on(store: &Store, rejected: Ulid) -> Result<u64> {
    let (view, rejections) = (store.refresh()?, Rejections::of(store)?);
    let Some(start) = view.checkpoint(rejected)? else { return Ok(0) };
    let (mut next, mut found) = (view.head(&start.record.session)?, 0);
    while let Some(checkpoint) = next.filter(|checkpoint| checkpoint.sequence > start.sequence) {
        found += u64::from(matches!(rejections.taint(&checkpoint)?, Some(Taint::BuildsOn { .. })));
        next = view.ancestor(&checkpoint)?;
    }
    Ok(found)
}
