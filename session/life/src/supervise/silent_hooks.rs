//! Listening for the agent's hooks: what is installed may not run. An agent that works, and of which no event comes, is said to be without.

use std::time::{Duration, Instant};

use parhelia_agent::{
    command::Agent,
    transcript::{TranscriptLocation, has_any_answer},
};
use parhelia_ledger::LedgerView as _;
use parhelia_store::Store;

use super::Supervision;
use parhelia_host::{notice::Notice, run};

/// An agent that works has told of its start by then.
const FIRST: Duration = Duration::from_secs(15);
/// The time until it is looked again, where the agent does not work yet: it may wait for an answer at its start.
pub(super) const AGAIN: Duration = Duration::from_secs(10);
/// The interval between checkpoints of an agent without hooks.
pub(super) const INTERVAL: Duration = Duration::from_secs(60);

/// The result of a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HookStatus {
    /// An event has come.
    Event,
    /// None has come, and the agent works.
    Nothing,
    /// None has come, and nothing says that the agent works.
    NotYet,
}

/// The time of the first look; none where no hooks are expected.
pub(super) fn begin(wanted: &Supervision<'_>) -> Option<Instant> {
    expects(wanted).then(|| Instant::now() + FIRST)
}

fn expects(wanted: &Supervision<'_>) -> bool {
    Agent::of(wanted.argv).is_some_and(|agent| agent.has_hooks())
}

/// Looks whether an event has come, and whether the agent has answered.
pub(super) fn look(store: &Store, wanted: &Supervision<'_>) -> HookStatus {
    let Ok(Some(run)) = store.refresh().and_then(|view| view.run(&wanted.current.run)) else { return HookStatus::NotYet };
    if run::heard_hooks(&run).is_some() {
        return HookStatus::Event;
    }
    if has_answered(store, wanted) || is_ready(wanted, run.pid.and_then(|pid| i32::try_from(pid).ok())) {
        HookStatus::Nothing
    } else {
        HookStatus::NotYet
    }
}

/// True if the model has answered in the run's conversation since this run began.
fn has_answered(store: &Store, wanted: &Supervision<'_>) -> bool {
    let Some(config) = &wanted.config_folder else { return false };
    let session = store.view().session(&wanted.current.session).ok().flatten();
    let known = session.as_ref().and_then(|session| run::conversation_of(session, &wanted.current.run));
    let Some(id) = known.or_else(|| wanted.conversation.clone()) else { return false };
    // A conversation that goes on has earlier answers.
    let is_new = wanted.resumes.is_none();
    is_new
        && TranscriptLocation::by_session(&config.path, &id)
            .is_ok_and(|located| has_any_answer(&located.transcript).unwrap_or_default())
}

/// True if the agent's process has left word that it has its conversation open.
fn is_ready(wanted: &Supervision<'_>, process: Option<i32>) -> bool {
    let (Some(config), Some(kind), Some(process)) = (&wanted.config_folder, wanted.kind, process) else { return false };
    kind.said_by(&config.path, process).is_some_and(|said| said.status.is_some())
}

/// What is said of an agent without hooks.
pub(super) fn silent(wanted: &Supervision<'_>) -> Notice {
    let config = wanted.config_folder.as_ref().map(|config| config.path.as_path());
    let why = wanted.kind.and_then(|kind| run::dead_hooks(wanted.host, kind, config, &wanted.folder));
    Notice::HooksSilent { why: why.map(|why| why.to_string()) }
}
