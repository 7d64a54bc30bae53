//! A checkpoint of a session from outside its run.

use std::path::PathBuf;

use parhelia_session::{
    retention,
    run::{self, Conversation, Made, Wanted},
};
use parhelia_store::{
    Store,
    fold::{Run, Session},
    progress::Progress,
    record::Trigger,
};

use super::agent::{actor, config_folder, variable};
use crate::{
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
    let place = session.workspace.as_ref().map(|place| PathBuf::from(&place.path));
    let workspace = place.ok_or_else(|| Failure::Usage(format!("session {} has no workspace", session.id)))?;
    let conversation = match (session.conversations.last(), config_folder()) {
        (Some(last), Some(config)) => Conversation::Of { config, id: last.id.clone() },
        _ => Conversation::None,
    };
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
        tmux: run.filter(|run| run::life(run).is_alive()).and_then(|run| run.tmux.clone()),
        environment: Some(env::request(context, &workspace)?),
        config: &config,
        actor: actor(),
        variable: &variable,
    };
    let made = run::make(store, &wanted, progress)?;
    retention::after(store, &made.outcome, &config.retention, &actor(), progress);
    Ok(made)
}
