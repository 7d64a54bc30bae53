//! The last checkpoint of a session whose work is ended, from outside its run.

use parhelia_agent::command::Agent;
use parhelia_ledger::{LedgerView as _, Place, Run, Session};
use parhelia_store::{
    Store,
    record::{Cause, Trigger},
};

use crate::{
    checkpoint::{CheckpointReport, CheckpointRequest, Conversation, make},
    environment, rollback,
};
use parhelia_host::{
    Host, Observer, Refusal, Result, intent,
    run::{self, Current},
};

/// Captures a session's workspace and conversation as they are now, once nobody else captures it. A periodic one is not made where nothing has
/// changed, and another one not where the run's own last checkpoint has everything.
pub fn of_session(
    store: &Store,
    host: &dyn Host,
    session: &Session,
    run: Option<&Run>,
    (trigger, cause, detail): (Trigger, Cause, &str),
    observer: &dyn Observer,
) -> Result<CheckpointReport> {
    let place = session.workspace.as_ref().map(Place::folder);
    let workspace = place.ok_or_else(|| Refusal::NoWorkspace { session: session.id.clone() })?;
    let turn = rollback::take_turn(store, host, &session.id, store.lock_timeout(), observer)?;
    if turn.is_none() {
        let busy = intent::busy(&session.id);
        run::note_checkpoint(store, &session.id, Some(&observer.explain(&busy)), host.actor())?;
        return Err(busy);
    }
    let mut session = store.view().session(&session.id)?.unwrap_or_else(|| session.clone());
    if let Some(run) = run.filter(|run| run::conversation_of(&session, &run.id).is_none())
        && let (Some(agent), Some(config)) = (Agent::of(&run.command()), run::config_for(store, host, &session)?)
        && run::learn(store, &Current::of(run, Some(&session)), agent.kind(), &config.path, host.actor())?.is_some()
    {
        session = store.refresh()?.session(&session.id)?.unwrap_or(session);
    }
    let config = host.config(&workspace)?;
    let request = CheckpointRequest {
        run: run.map(|run| (run.id.as_str(), run.epoch)),
        trigger,
        cause,
        detail: Some(detail.to_owned()),
        skip_if_unchanged: trigger == Trigger::Periodic || has_last(store, &session, run)?,
        conversation: Conversation::of(Some(&session), None, run::config_for(store, host, &session)?.map(|config| config.path)),
        tmux: run::tmux_of(store, &session)?,
        environment: Some(environment::request_for(host, store, &workspace, &session.id)?),
        ..CheckpointRequest::new(&session.id, &workspace, &config)
    };
    let made = make(store, host, &request, observer);
    let failed = made.as_ref().err().map(|e| observer.explain(e));
    // A disk that takes no checkpoint may take no note of that either; whoever asked hears of it.
    let noted = run::note_checkpoint(store, &session.id, failed.as_deref(), host.actor());
    if let (Ok(_), Err(e)) = (&made, noted) {
        return Err(e);
    }
    made
}

/// True if a session's head is the last checkpoint of a run.
fn has_last(store: &Store, session: &Session, run: Option<&Run>) -> Result<bool> {
    let head = store.view().head(&session.id)?.map(|head| head.record);
    let is_last = |trigger| matches!(trigger, Trigger::Complete | Trigger::Error | Trigger::Shutdown);
    Ok(head.is_some_and(|head| is_last(head.trigger) && head.run.as_deref() == run.map(|run| &*run.id)))
}
