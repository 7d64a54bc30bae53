//! Ending the agent of a session.

use std::time::Duration;

use parhelia_agent::process;
use parhelia_ledger::{By, End, Goal, Place, Run, Session, Status, kind};
use parhelia_store::{Store, clock, event::NewEvent};
use serde_json::json;

use super::{self as run, Current, Life};
use crate::{Host, Refusal, Result};

/// The time from a process's end to its record, at most.
const MARGIN: Duration = Duration::from_secs(10);

/// Ends the agent of a session, and its run, at whose wish that is and what is wanted of the session from then on; `between` is done when the agent
/// has ended and its run has not. Fails where the agent does not end, or is out of reach.
pub fn end_agent<T>(
    store: &Store,
    host: &dyn Host,
    session: &Session,
    run: &Run,
    patience: Duration,
    (by, goal): (By, Option<Goal>),
    between: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let out_of_reach = |why: String| Refusal::OutOfReach { action: "end the agent of", session: session.id.clone(), why };
    if let Life::Elsewhere { host, .. } = run::life(run) {
        return Err(out_of_reach(format!("it may be alive on {host}; stop it there")).into());
    }
    if run::is_inside(run, host) {
        return Err(out_of_reach("this command is its own".into()).into());
    }
    // Whoever waits for the agent does not take its end for a failure.
    let stopping = NewEvent::new(kind::RUN_CHANGED, &run.id, host.actor()).in_epoch(run.epoch);
    // Asked for so long, and killed for as long.
    let until = clock::timestamp().checked_add(patience * 2 + MARGIN).ok();
    let stopping = stopping.with(run::STOPPING, by.reason()).with(run::STOPPING_BY, json!(by));
    let stopping = stopping.with(run::STOPPING_UNTIL, until.map(|until| until.to_string()));
    store.append_events(&[stopping], &())?;
    let workspace = session.workspace.as_ref().map(Place::folder).unwrap_or_default();
    let stopped = process::stop(&run.id, &run::roots_in(store, run)?, &workspace, patience)?;
    if !stopped.is_clean() || matches!(run::life(run), Life::Agent(_)) {
        return Err(Refusal::DoesNotEnd { session: session.id.clone() }.into());
    }
    store.refresh()?;
    let done = between();
    let end = (End::asked(by), by.reason());
    run::end(store, &Current::of(run, Some(session)), end, (Status::Paused, goal), host.actor())?;
    done
}
