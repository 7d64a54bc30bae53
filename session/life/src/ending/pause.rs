//! Setting a session aside.

use std::time::Duration;

use parhelia_ledger::{By, Goal, LedgerView as _, Run, Session, Status, kind};
use parhelia_store::{
    Store,
    event::NewEvent,
    record::{Cause, Trigger},
};

use super::last::of_session;
use crate::checkpoint::CheckpointReport;
use parhelia_host::{
    Host, Observer, Refusal, Result,
    run::{self, Life, RunHooks},
};

/// The time that an agent may take to end, before and after it is killed.
const PATIENCE: Duration = Duration::from_secs(5);

/// A session that was set aside.
#[derive(Debug)]
pub struct PauseOutcome {
    /// The checkpoint; none where the session was set aside before.
    pub made: Option<CheckpointReport>,
    /// True if its agent was ended with it.
    pub has_ended_agent: bool,
    /// True if its agent is alive, and was left alone.
    pub is_alive: bool,
    /// True if an event of its hooks has come, so that a prompt in that agent takes the session up again.
    pub has_hooks: bool,
}

/// Makes a checkpoint and sets the session aside. With `end_agent`, a live agent is ended; else it stays.
pub fn pause(
    store: &Store,
    host: &dyn Host,
    session: &Session,
    end_agent: bool,
    observer: &dyn Observer,
) -> Result<PauseOutcome> {
    if session.status == Status::Ended {
        return Err(Refusal::HasEnded { session: session.id.clone() }.into());
    }
    let newest = store.view().newest_run(session)?;
    let alive = newest.as_ref().is_some_and(|run| run::life(run).is_alive());
    let ends = newest.as_ref().filter(|_| alive && end_agent);
    if let Some(run) = ends {
        ensure_within_reach(host, session, run)?;
    }
    let has_hooks = newest.as_ref().map(|run| run::hooks_of(store, session, run)).transpose()? == Some(RunHooks::Heard);
    // One whose agent has died may be wanted running: setting it aside keeps it from being recovered.
    if session.goal() == Goal::Paused && !alive {
        return Ok(PauseOutcome { made: None, has_ended_agent: false, is_alive: false, has_hooks });
    }
    let capture = || of_session(store, host, session, newest.as_ref(), (Trigger::Periodic, Cause::Pause, "pause"), observer);
    // An agent that cannot be captured is not ended.
    let mut made = capture()?;
    match ends {
        // What it did until it ended.
        Some(run) => made = run::end_agent(store, host, session, run, PATIENCE, (By::Pause, Some(Goal::Paused)), capture)?,
        None => {
            let paused = NewEvent::new(kind::SESSION_STATUS, &session.id, host.actor()).with("status", Status::Paused.name());
            store.append_events(&[paused.with("reason", "paused")], &())?;
        }
    }
    Ok(PauseOutcome { made: Some(made), has_ended_agent: ends.is_some(), is_alive: alive && ends.is_none(), has_hooks })
}

/// Fails where the agent of a run cannot be ended from here: on another machine, and by itself.
fn ensure_within_reach(host: &dyn Host, session: &Session, run: &Run) -> Result<()> {
    let why = match run::life(run) {
        Life::Elsewhere { host, .. } => format!("its agent may be alive on {host}"),
        _ if run::is_inside(run, host) => "this command is its agent's own".to_owned(),
        _ => return Ok(()),
    };
    Err(Refusal::OutOfReach { action: "pause", session: session.id.clone(), why }.into())
}
