//! Ending a session for good.

use parhelia_ledger::{By, End, Goal, LedgerView as _, Run, Session, Status, kind};
use parhelia_store::{
    Store,
    event::NewEvent,
    record::{Cause, Trigger},
};

use super::last::of_session;
use crate::checkpoint::CheckpointReport;
use parhelia_host::{
    Host, Observer, Refusal, Result, intent,
    notice::{InterruptedRollback, Notice},
    run::{self, Current, Life, RunHooks},
};
use parhelia_oversight::review::acts;

/// A session that has ended.
#[derive(Debug)]
pub struct Over {
    /// The last checkpoint, or why none was made; none where no agent was alive.
    pub made: Option<Result<CheckpointReport>>,
    /// True if its agent is alive, and was left alone.
    pub is_alive: bool,
    /// True if an event of that agent's hooks has come, which make checkpoints of it.
    pub has_hooks: bool,
    /// The reason why it is not known whether an agent of it lives.
    pub unknown: Option<String>,
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
    if life.is_alive() {
        // An agent whose run is over looks like nobody's to whoever cannot see it.
        acts::ensure_person(store, host, "session end --leave-agent", Some(&session.id), observer)?;
    }
    let is_here = matches!(life, Life::Agent(_) | Life::Starting(_));
    let made =
        is_here.then(|| of_session(store, host, &session, newest.as_ref(), (Trigger::Shutdown, Cause::End, "end"), observer));
    let unknown = newest.as_ref().and_then(run::why_unknown);
    let hooks = newest.as_ref().filter(|_| life.is_alive()).map(|run| run::hooks_of(store, &session, run)).transpose()?;
    let is_open = newest.as_ref().is_some_and(Run::is_open);
    match newest.as_ref().filter(|run| run.is_open() && life.is_alive()) {
        Some(run) => {
            let over = (Status::Ended, Some(Goal::Ended));
            let end = (End::asked(By::End), By::End.reason());
            run::end(store, &Current::of(run, Some(&session)), end, over, host.actor())?;
        }
        None => {
            let ended = NewEvent::new(kind::SESSION_STATUS, &session.id, host.actor()).with("status", Status::Ended.name());
            let reason = if is_open { By::End.reason() } else { "ended" };
            store.append_events(&[ended.with("wanted", Goal::Ended.name()).with("reason", reason)], &())?;
        }
    }
    // Of one that died unseen, and of older ones, nobody else will tell, but for a supervisor that makes the last checkpoint.
    run::end_unheard(store, &session.id, host.actor(), |run| {
        (!run::is_finishing(run)).then(|| run::why_over(run, By::End.reason()))
    })?;
    if let Some(intent) = intent::open(&session) {
        observer
            .warn(&Notice::Unfinished(InterruptedRollback::RollbackInterrupted { session: session.id, target: intent.target }));
    }
    Ok(Over { made, is_alive: life.is_alive(), has_hooks: hooks == Some(RunHooks::Heard), unknown })
}
