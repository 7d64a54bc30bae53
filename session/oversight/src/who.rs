//! The caller, as far as agents go: a person, the agent of a run, or somebody whom one may have started.

use std::collections::{BTreeMap, BTreeSet};

use parhelia_ledger::{LedgerView as _, Marks, Run, kind};
use parhelia_store::{
    Store,
    event::{Actor, NewEvent},
    id::Ulid,
    view::View,
};

use parhelia_host::{
    Host, Refusal, Result,
    refusal::{Attempt, DecisionRefusal},
    run::{self, is_hidden, one_of},
};

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

    /// Id of the agent's session; none where it is not known to be one run's agent.
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

/// Open runs, and those of some sessions also if they are over: an agent may have been left alone.
pub(crate) fn runs_around(view: &View, host: &dyn Host, sessions: &[String]) -> Result<BTreeMap<String, Run>> {
    let (mut runs, line) = (view.runs()?, host.line());
    // An agent is one also where it has ended its own session.
    runs.retain(|_, run| run.is_open() || sessions.contains(&run.session) || run::has_recorded(run, &line));
    Ok(runs)
}

/// The reason against the caller where this store has no run of the agent that started it.
pub(crate) fn stranger(host: &dyn Host) -> String {
    let named = run::agent_among(&host.line()).map(|(process, program)| format!(" ({program}, process {process})"));
    format!("an agent{}, of which this store knows no run, has started the caller", named.unwrap_or_default())
}

/// The reason against a caller that the agent of one of some runs may have started.
pub(crate) fn hidden_by(runs: &BTreeMap<String, Run>, is_it: impl Fn(&Run) -> bool) -> String {
    let Some(run) = runs.values().rfind(|run| is_it(run)) else { return String::new() };
    let heard = run.lease.as_ref().and_then(|lease| lease.renewed);
    let heard = heard.map(|at| format!(", last heard of at {}", at.strftime("%Y-%m-%d %H:%M:%S UTC"))).unwrap_or_default();
    format!(
        "run {} of session {} is recorded as open{heard}, and its agent may have started the caller, which cannot be seen from in here: do it from \
         outside, or when that run has ended",
        run.id, run.session
    )
}
