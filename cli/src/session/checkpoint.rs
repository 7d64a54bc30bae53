//! A checkpoint of a session from outside its run.

use parhelia_agent::command::Agent;
use parhelia_session::{
    retention, rollback,
    run::{self, Conversation, Current, Made, Wanted},
};
use parhelia_store::{
    Store,
    fold::{Place, Run, Session},
    progress::Progress,
    record::Trigger,
};

use super::{
    agent::{actor, config_of, variable},
    prune::removed_text,
};
use crate::{
    checkpoint::rollback::told,
    context::Context,
    env,
    exit::{Failure, Result},
};

/// Captures a session's workspace and conversation as they are now.
pub fn of_session(
    context: &Context,
    store: &Store,
    session: &Session,
    run: Option<&Run>,
    detail: &str,
    progress: &dyn Progress,
) -> Result<Made> {
    let place = session.workspace.as_ref().map(Place::folder);
    let workspace = place.ok_or_else(|| Failure::Refused(format!("session {} has no workspace", session.id)))?;
    let turn = rollback::settle(store, &session.id, store.lock_timeout(), &actor(), &told, progress)?;
    if turn.is_none() {
        return Err(rollback::busy(&session.id).into());
    }
    let mut session = store.view().session(&session.id)?.unwrap_or_else(|| session.clone());
    if let Some(run) = run.filter(|run| run::conversation_of(&session, &run.id).is_none())
        && let (Some(agent), Some(config)) = (Agent::of(&run.command()), config_of(store, &session)?)
        && run::learn(store, &Current::of(run, Some(&session)), agent.kind(), &config.path, actor())?.is_some()
    {
        session = store.refresh()?.session(&session.id)?.unwrap_or(session);
    }
    let session = &session;
    let conversation = Conversation::of(Some(session), None, config_of(store, session)?.map(|config| config.path));
    let config = context.config(&workspace)?;
    let wanted = Wanted {
        session: &session.id,
        run: run.map(|run| (run.id.as_str(), run.epoch)),
        workspace: &workspace,
        trigger: Trigger::Periodic,
        detail: Some(detail.to_owned()),
        message: None,
        skip_if_unchanged: true,
        rules: None,
        conversation,
        tmux: run::tmux_of(store, session)?,
        environment: Some(env::request_for(context, store, &workspace, &session.id)?),
        config: &config,
        actor: actor(),
        variable: &variable,
    };
    let made = run::make(store, &wanted, progress)?;
    if made.is_sound() {
        let pruned = retention::after(store, &made.outcome, &config.retention, &actor(), progress);
        if let Some(text) = pruned.as_ref().and_then(removed_text) {
            progress.notice(&text);
        }
    }
    Ok(made)
}
