//! Ending the agent of a session, which may go on later.

use std::time::Duration;

use parhelia_ledger::{By, Goal, LedgerView as _, Run, Session, Status, kind};
use parhelia_store::{
    Store,
    event::NewEvent,
    record::{Cause, Trigger},
};

use super::last::of_session;
use crate::checkpoint::CheckpointReport;
use parhelia_host::{Error, Host, Observer, Refusal, Result, run};

/// A session whose agent was stopped.
#[derive(Debug)]
pub struct StopOutcome {
    /// The last checkpoint; none where the agent was not alive, or the session had ended before.
    pub made: Option<CheckpointReport>,
    /// The reason why there is no last checkpoint though an agent was ended.
    pub failed: Option<Error>,
    /// True if an agent was alive.
    pub was_alive: bool,
    /// The reason why it is not known whether one was.
    pub unknown: Option<String>,
    /// The goal of the session from here on.
    pub goal: Goal,
}

/// Ends the agent of a session, and makes a last checkpoint. With `keep_wanted` the session is still one that is to be resumed.
pub fn stop(
    store: &Store,
    host: &dyn Host,
    session: &Session,
    keep_wanted: bool,
    patience: Duration,
    observer: &dyn Observer,
) -> Result<StopOutcome> {
    let newest = store.view().newest_run(session)?;
    let is_alive = |run: &&Run| run::left_alive(run).is_some() || run::life(run).is_alive();
    let alive = newest.as_ref().filter(is_alive);
    if session.status == Status::Ended {
        // An agent that was left alone when its session ended.
        let run = alive.ok_or_else(|| Refusal::EndedWithoutAgent { session: session.id.clone() })?;
        run::end_agent(store, host, session, run, patience, (By::Stop, None), || Ok(()))?;
        return Ok(StopOutcome { made: None, failed: None, was_alive: true, unknown: None, goal: Goal::Ended });
    }
    if !run::has_agent(session) {
        return Err(Refusal::NoAgent { action: "stop", session: session.id.clone() }.into());
    }
    let goal = if keep_wanted { Goal::Running } else { Goal::Paused };
    let last = match alive {
        Some(run) => {
            // It has ended by then, whatever becomes of the checkpoint.
            let last = || Ok(of_session(store, host, session, Some(run), (Trigger::Shutdown, Cause::Stop, "stop"), observer));
            Some(run::end_agent(store, host, session, run, patience, (By::Stop, Some(goal)), last)?)
        }
        None => {
            if session.goal() != goal {
                let status = if goal == Goal::Paused { Status::Paused } else { session.status };
                let changed = NewEvent::new(kind::SESSION_STATUS, &session.id, host.actor()).with("status", status.name());
                store.append_events(&[changed.with("wanted", goal.name()).with("reason", "stopped")], &())?;
            }
            None
        }
    };
    let (was_alive, last) = (last.is_some(), last.transpose());
    let (made, failed) = match last {
        Ok(made) => (made, None),
        Err(e) => (None, Some(e)),
    };
    let unknown = newest.as_ref().filter(|_| !was_alive).and_then(run::why_unknown);
    Ok(StopOutcome { was_alive, unknown, made, failed, goal })
}
