//! Decisions of persons about checkpoints: approved, or rejected.
//!
//! The first decision of a person holds. Another one is recorded and refused, unless it says that it changes the first. Whoever acts from
//! inside the agent that made the checkpoint does not decide, which is recorded as well.

use std::collections::{BTreeMap, BTreeSet};

use parhelia_ledger::{
    Approval, ApprovalStatus, LedgerView as _, Marks, REJECTED, Rejected, Run,
    kind::{self, SELF_APPROVAL},
};
use parhelia_store::{
    Error as StoreError, Store,
    event::{Actor, NewEvent},
    id::Ulid,
    view::View,
};
use serde_json::{Value, json};

use super::{
    annotation::Text,
    mark,
    signature::{self, Statement},
};
use crate::approval::rejections::{Rejections, Taint};
use parhelia_host::{
    Host, Observer, Refusal, Result, policy,
    refusal::{Attempt, DecisionRefusal},
    run::{self, is_hidden, one_of},
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

/// Records a decision. Faces call `parhelia_knowledge::decide`, by which the project learns of it as well.
pub fn record(store: &Store, host: &dyn Host, request: &DecisionRequest<'_>, observer: &dyn Observer) -> Result<Decided> {
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
    rejected: Option<Rejected>,
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
        let rejected = rejects.then(|| Rejected::of(store, &view, &checkpoint)).transpose()?;
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

/// Open runs, and those of some sessions also if they are over: an agent may have been left alone.
fn runs_around(view: &View, host: &dyn Host, sessions: &[String]) -> Result<BTreeMap<String, Run>> {
    let (mut runs, line) = (view.runs()?, host.line());
    // An agent is one also where it has ended its own session.
    runs.retain(|_, run| run.is_open() || sessions.contains(&run.session) || run::has_recorded(run, &line));
    Ok(runs)
}

/// The reason against the caller where this store has no run of the agent that started it.
fn stranger(host: &dyn Host) -> String {
    let named = run::agent_among(&host.line()).map(|(process, program)| format!(" ({program}, process {process})"));
    format!("an agent{}, of which this store knows no run, has started the caller", named.unwrap_or_default())
}

/// The reason against a caller that the agent of one of some runs may have started.
fn hidden_by(runs: &BTreeMap<String, Run>, is_it: impl Fn(&Run) -> bool) -> String {
    let Some(run) = runs.values().rfind(|run| is_it(run)) else { return String::new() };
    let heard = run.lease.as_ref().and_then(|lease| lease.renewed);
    let heard = heard.map(|at| format!(", last heard of at {}", at.strftime("%Y-%m-%d %H:%M:%S UTC"))).unwrap_or_default();
    format!(
        "run {} of session {} is recorded as open{heard}, and its agent may have started the caller, which cannot be seen from in here: do it from \
         outside, or when that run has ended",
        run.id, run.session
    )
}

/// The caller, as far as agents go.
#[derive(Clone, Debug)]
pub enum Who {
    /// No agent that is known has started it.
    Person,
    /// It is the agent of a run, or was started by it.
    Agent(Box<Run>),
    /// It was started by an agent of which this store has no run: the reason against it.
    Stranger(String),
    /// It cannot be seen who started it, as from inside a container.
    Unseen {
        /// The sessions of agents at work that may have done so.
        near: BTreeSet<String>,
        /// The reason against the caller; empty where none is at work.
        why: String,
    },
}

/// The caller of something that concerns some sessions.
pub fn who(store: &Store, host: &dyn Host, sessions: &[String]) -> Result<Who> {
    let runs = runs_around(&store.view(), host, sessions)?;
    Ok(match one_of(store, host, &runs)? {
        Some(run) => Who::Agent(Box::new(run)),
        None if host.call().is_below => Who::Stranger(stranger(host)),
        None if host.call().is_unseen => Who::Unseen { near: near(&runs, Run::is_open), why: hidden_by(&runs, Run::is_open) },
        None if runs.values().any(is_hidden) => Who::Unseen { near: near(&runs, is_hidden), why: hidden_by(&runs, is_hidden) },
        None => Who::Person,
    })
}

fn near(runs: &BTreeMap<String, Run>, is_it: impl Fn(&Run) -> bool) -> BTreeSet<String> {
    runs.values().filter(|run| is_it(run)).map(|run| run.session.clone()).collect()
}

impl Who {
    /// The reason against an agent; none for anybody else.
    pub(crate) fn why_agent(&self) -> Option<String> {
        match self {
            Who::Stranger(why) => Some(why.clone()),
            who => {
                who.session().map(|session| format!("the caller is an agent, that of session {session}, or was started by it"))
            }
        }
    }

    /// The reason against an agent, and whoever may have been started by one.
    pub fn why_not_person(&self) -> Option<String> {
        match self {
            Who::Unseen { near, why } if !near.is_empty() => Some(why.clone()),
            who => who.why_agent(),
        }
    }

    /// The refusal where an agent would take off a mark that no agent has made, by which a checkpoint may lose its protection. The caller has
    /// [`Who::unmarking_refused`] appended before it returns that.
    pub(crate) fn may_not_unmark(&self, checkpoint: Ulid, marks: &Marks, mark: &str) -> Option<Refusal> {
        let why = self.why_not_person().filter(|_| !marks.by_agents.contains(mark) && !marks.asked.contains(mark))?;
        Some(DecisionRefusal::MayNotUnmark { checkpoint, mark: mark.to_owned(), why, attempt: Attempt::Recorded }.into())
    }

    /// The event of an attempt to take a mark off a checkpoint, given as the field that names its kind and its text.
    pub(crate) fn unmarking_refused(&self, host: &dyn Host, checkpoint: Ulid, (kind_of_mark, mark): (&str, &str)) -> NewEvent {
        let event = NewEvent::new(kind::UNMARKING_REFUSED, checkpoint.to_string(), self.actor(host)).with(kind_of_mark, mark);
        let event = event.with("why", self.why_not_person());
        self.session().into_iter().fold(event, |event, session| event.with("session", session))
    }

    /// The agent's session.
    pub(crate) fn session(&self) -> Option<&str> {
        match self {
            Who::Agent(run) => Some(&run.session),
            Who::Person | Who::Stranger(_) | Who::Unseen { .. } => None,
        }
    }

    /// The agent's session, or those that may be.
    pub fn sessions(&self) -> Vec<&str> {
        match self {
            Who::Unseen { near, .. } => near.iter().map(String::as_str).collect(),
            who => who.session().into_iter().collect(),
        }
    }

    /// The actor, as events name it.
    pub fn actor(&self, host: &dyn Host) -> Actor {
        match self {
            Who::Agent(_) | Who::Stranger(_) => Actor { via: "agent".into(), ..host.actor() },
            Who::Person | Who::Unseen { .. } => host.actor(),
        }
    }
}

/// True if somebody's choice about a session is a person's, as far as it can be seen: no agent's, and nobody's whom one may have started.
pub fn is_persons_word(store: &Store, host: &dyn Host, session: &str) -> Result<bool> {
    Ok(who(store, host, &[session.to_owned()])?.why_not_person().is_none())
}

/// True if a person acts on a session: no agent, nothing that one started, and nobody who may be either.
pub(crate) fn is_persons(store: &Store, host: &dyn Host, session: &str) -> Result<bool> {
    let mut runs = store.refresh()?.runs()?;
    runs.retain(|_, run| run.is_open() || run.session == session);
    let is_agents = host.call().is_below
        || one_of(store, host, &runs)?.is_some()
        || runs.values().any(|run| run.session == session && is_hidden(run));
    Ok(!is_agents && host.actor().user.is_some())
}

/// The field of a decision that was refused which is set where the caller may decide, but had to say that something is changed.
pub const MAY_DECIDE: &str = "may_decide";

/// The events of a decision, and its outcome.
fn made(request: &DecisionRequest<'_>, caller: &Caller, marks: &Marks) -> (Vec<NewEvent>, Result<Decided>) {
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
            return (Vec::new(), Ok(Decided { approval: first.clone(), before: None, had: true }));
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
    (vec![decided], Ok(Decided { approval, before, had: false }))
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
