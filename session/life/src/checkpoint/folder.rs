//! A checkpoint of a folder on request: who may make it, warnings about a likely mistake, and what goes with it.

use std::path::{Path, PathBuf};

use parhelia_host::{
    Host, Observer, Result,
    config::Config,
    draft::{CheckpointRequest, Conversation},
    run,
};
use parhelia_ledger::{LedgerView as _, Session, Status, selector};
use parhelia_oversight::review::acts;
use parhelia_store::{
    Store,
    name::{NameExt as _, step::Step},
    record::{Rules, Trigger},
};

use super::{CheckpointReport, make};
use crate::{
    checkpoint::{subject::Subject, target::Target},
    environment,
};

/// The conversation that goes with a checkpoint.
#[derive(Clone, Copy, Default)]
pub enum ConversationChoice<'a> {
    /// The session's last one, where one is known.
    #[default]
    OfSession,
    /// No conversation.
    None,
    /// One that the caller names. It is looked for once it is known that the caller may capture it, as it may be a stream that has no end yet.
    Given(&'a dyn Fn() -> Result<Conversation>),
}

/// Everything that can be asked for beside the folder.
#[derive(Clone, Default)]
pub struct FolderRequest<'a> {
    /// The words that named the folder; none where nobody typed any, so that none can be mistaken.
    pub subject: Option<&'a Subject>,
    /// The reason.
    pub trigger: Trigger,
    /// More about the reason, for people.
    pub detail: Option<String>,
    /// A message for whoever looks at it later.
    pub message: Option<String>,
    /// True if none is made where nothing has changed.
    pub skip_if_unchanged: bool,
    /// The rules by which entries are left out; none for the configuration's.
    pub rules: Option<Rules>,
    /// Paths from the folder; all others are left out. None for everything.
    pub listed: Option<Vec<Vec<u8>>>,
    /// True if every file is read, whatever its times say.
    pub thorough: bool,
    /// True if the new checkpoint is read back from the store.
    pub deep: bool,
    /// The conversation.
    pub conversation: ConversationChoice<'a>,
}

/// Makes a checkpoint of a folder in the session that it belongs to, with what is known of that. Fails where the caller is an agent that may not.
pub fn make_of_folder(
    store: &Store,
    host: &dyn Host,
    (workspace, config): (&Path, &Config),
    target: &Target,
    request: FolderRequest<'_>,
    observer: &dyn Observer,
) -> Result<CheckpointReport> {
    let names_conversation = matches!(request.conversation, ConversationChoice::Given(_));
    match &target.known {
        Some(known) => acts::ensure_may_capture(store, host, (known, workspace), names_conversation, observer)?,
        None => acts::ensure_may_begin(store, host, workspace, observer)?,
    }
    // Before anything is captured: whoever meant another folder can still stop it.
    for text in hints(store, target, workspace, request.subject)? {
        observer.notice(&text);
    }
    let given = match request.conversation {
        ConversationChoice::Given(find) => Some(find()?),
        ConversationChoice::None => Some(Conversation::None),
        ConversationChoice::OfSession => None,
    };
    let _turn = target.turn(store, host, observer)?;
    let known = store.view().session(&target.session)?;
    let conversation = given.map_or_else(|| of_session(store, host, known.as_ref()), Ok)?;
    let is_agents = conversation != Conversation::None || known.as_ref().is_some_and(|known| known.run.is_some());
    let environment = is_agents.then(|| environment::request_for(host, store, workspace, &target.session)).transpose()?;
    let request = CheckpointRequest {
        run: target.run.as_ref().map(|run| (run.id.as_str(), run.epoch)),
        trigger: request.trigger,
        detail: request.detail,
        message: request.message,
        skip_if_unchanged: request.skip_if_unchanged,
        rules: request.rules,
        listed: request.listed,
        thorough: request.thorough,
        deep: request.deep,
        conversation,
        tmux: known.as_ref().map(|known| run::tmux_of(store, known)).transpose()?.flatten(),
        environment,
        ..CheckpointRequest::new(&target.session, workspace, config)
    };
    let made = make(store, host, &request, observer)?;
    if target.known.is_none() {
        acts::note_begun(store, host, &target.session)?;
    }
    Ok(made)
}

fn of_session(store: &Store, host: &dyn Host, known: Option<&Session>) -> Result<Conversation> {
    let Some(session) = known else { return Ok(Conversation::None) };
    let config = run::config_for(store, host, session)?.map(|config| config.path);
    Ok(Conversation::of(Some(session), None, config))
}

/// Sentences about what may not be what was meant.
fn hints(store: &Store, target: &Target, workspace: &Path, subject: Option<&Subject>) -> Result<Vec<String>> {
    let (session, folder) = (&target.session, workspace.shown());
    let named = subject.and_then(|subject| subject.note(target.known.is_none()));
    // An agent that asks through a tool is told nothing of other sessions.
    let moved = target.moved_from.as_ref().filter(|_| subject.is_some()).map(|earlier| {
        let (id, was) = (&earlier.id, earlier.workspace.as_ref().map_or("elsewhere", |place| place.path.as_str()));
        let moves = Step::MoveSessionHere((id.clone(), workspace.to_owned()));
        format!(
            "{folder} is the folder of session {id}, which was {was}: {moves} moves that session here, and this checkpoint begins another one"
        )
    });
    let known = target.known.as_ref().filter(|known| known.status == Status::Ended);
    let ended = known.map(|_| format!("session {session} has ended: the checkpoint is kept, and nothing goes on from it"));
    // Once is enough: somebody who goes on to capture the folder means it.
    let is_new = target.known.is_none() && subject.is_some_and(|subject| !subject.is_folder_named());
    let around = if is_new { workspace_around(store, workspace)? } else { None };
    let around = around.map(|around| {
        format!("{folder} alone is captured; {} captures all of {}", Step::Workspace(around.clone()), around.shown())
    });
    Ok(named.into_iter().chain(moved).chain(ended).chain(around).collect())
}

/// The folder above this one in which sessions work, where none works in this one.
fn workspace_around(store: &Store, folder: &Path) -> Result<Option<PathBuf>> {
    let found = selector::workspace_at(&store.view(), folder)?;
    Ok(found.map(|(path, _)| path).filter(|path| path != folder))
}
