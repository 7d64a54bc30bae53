//! Ending a session for good.

use parhelia_store::{
    Store,
    event::{NewEvent, kind},
    projection::{By, End, Goal, Session, Status},
    record::{Cause, Trigger},
};

use super::last::of_session;
use crate::{
    checkpoint::Made,
    error::{Refusal, Result},
    host::{Host, Observer},
    intent,
    notice::Notice,
    run::{self, Current, Life},
};

/// A session that has ended.
#[derive(Debug)]
pub struct Over {
    /// The last checkpoint, or why none was made; none where no agent was alive.
    pub made: Option<Result<Made>>,
    /// True if its agent is alive, and was left alone.
    pub is_alive: bool,
}

/// Ends a session. A live agent is refused, unless it is left alone, and captured once more.
pub fn end(store: &Store, host: &dyn Host, session: &Session, leave_agent: bool, observer: &dyn Observer) -> Result<Over> {
    // Whoever brings it back to life or rolls it back is done before it is over.
    let turn = intent::shared(store, &session.id, observer)?;
    let session = store.refresh()?.session(&session.id)?.unwrap_or_else(|| session.clone());
    let newest = store.view().newest_run(&session)?;
    let life = newest.as_ref().map_or(Life::Over, run::life);
    // A checkpoint takes the turn itself.
    let _turn = Some(turn).filter(|_| !life.is_alive());
    if life.is_alive() && !leave_agent {
        return Err(Refusal::AgentAlive { session: session.id }.into());
    }
    let is_here = matches!(life, Life::Agent(_) | Life::Starting(_));
    let made =
        is_here.then(|| of_session(store, host, &session, newest.as_ref(), (Trigger::Shutdown, Cause::End, "end"), observer));
    if let Some(run) = newest.as_ref().filter(|run| run.is_open()) {
        let over = (Status::Ended, Some(Goal::Ended));
        let end = (End::asked(By::End), By::End.reason());
        run::end(store, &Current::of(run, Some(&session)), end, over, host.actor())?;
    } else {
        let ended = NewEvent::new(kind::SESSION_STATUS, &session.id, host.actor()).with("status", Status::Ended.name());
        store.append_events(&[ended.with("reason", "ended")], &())?;
    }
    if let Some(intent) = intent::open(&session) {
        observer.warn(&Notice::RollbackInterrupted { session: session.id, target: intent.target });
    }
    Ok(Over { made, is_alive: life.is_alive() })
}
