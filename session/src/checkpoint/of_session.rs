//! A checkpoint of a session from outside its run.

use parhelia_agent::command::Agent;
use parhelia_store::{
    Store,
    projection::{Place, Run, Session},
    record::Trigger,
};

use super::{CheckpointRequest, Conversation, Made, make};
use crate::{
    environment,
    error::{Refusal, Result},
    host::{Host, Observer},
    rollback,
    run::{self, Current},
};

/// Captures a session's workspace and conversation as they are now, once nobody else captures it. None is made where nothing has changed.
pub fn of_session(
    store: &Store,
    host: &dyn Host,
    session: &Session,
    run: Option<&Run>,
    detail: &str,
    observer: &dyn Observer,
) -> Result<Made> {
    let place = session.workspace.as_ref().map(Place::folder);
    let workspace = place.ok_or_else(|| Refusal::NoWorkspace { session: session.id.clone() })?;
    let turn = rollback::take_turn(store, host, &session.id, store.lock_timeout(), observer)?;
    if turn.is_none() {
        return Err(rollback::busy(&session.id));
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
        trigger: Trigger::Periodic,
        detail: Some(detail.to_owned()),
        skip_if_unchanged: true,
        conversation: Conversation::of(Some(&session), None, run::config_for(store, host, &session)?.map(|config| config.path)),
        tmux: run::tmux_of(store, &session)?,
        environment: Some(environment::request_for(host, store, &workspace, &session.id)?),
        ..CheckpointRequest::new(&session.id, &workspace, &config)
    };
    make(store, host, &request, observer)
}
