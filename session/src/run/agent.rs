//! The agent of a session: its kind, its own folder, its hooks, and who else is in its conversation.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
};

use parhelia_agent::{
    command::Agent,
    folder::ConfigFolder,
    hooks::{self, HookCommand},
    kind::{KINDS, Kind},
    process::{RUN_MARKER, SESSION_MARKER},
};
use parhelia_store::{
    Store, name,
    projection::{Place, Run, Session},
};
use serde_json::Value;

use super::{Current, Sender, config_of_session, sessions_in, strangers_in};
use crate::{
    error::{Error, Refusal, Result},
    host::{Host, Observer},
    notice::Notice,
};

/// The kind of agent of a session: that of its newest run's program.
pub fn kind_of(store: &Store, session: &Session) -> Result<Kind> {
    let run = store.view().newest_run(session)?;
    Ok(run.and_then(|run| agent_in(&run)).map_or(KINDS[0], |agent| agent.kind()))
}

/// The field of a run that says whether its agent uses a terminal.
pub(super) const AT_TERMINAL: &str = "at_terminal";

/// The agent that a run's command line starts, as it was started; none for a program that is no agent.
pub fn agent_in(run: &Run) -> Option<Agent> {
    Some(Agent::of(&run.command())?.at_terminal(is_at_terminal(run)))
}

/// True unless it is recorded that a run's agent has no terminal.
fn is_at_terminal(run: &Run) -> bool {
    run.extra.get(AT_TERMINAL).and_then(Value::as_bool).unwrap_or(true)
}

/// The agent that the caller is about to start by a command line.
pub fn agent_to_start(host: &dyn Host, argv: &[OsString]) -> Option<Agent> {
    Agent::of(argv).map(|agent| here(host, agent))
}

/// An agent as the caller starts it: one that was started without a terminal stays so.
pub fn here(host: &dyn Host, agent: Agent) -> Agent {
    let at_terminal = agent.is_at_terminal() && terminal_of(agent.kind(), host.gives_terminal(), &|name| host.variable(name));
    agent.at_terminal(at_terminal)
}

/// True if an agent with this environment uses its terminal, where it has one.
pub(super) fn terminal_of(kind: Kind, has_terminal: bool, variable: &dyn Fn(&str) -> Option<OsString>) -> bool {
    has_terminal && !kind.ignores_terminal(variable)
}

/// The agent that an event of a run comes from: by its process's command line, or by the recorded one where that process is gone.
pub fn agent_of_event(store: &Store, current: &Current, sender: &Sender) -> Result<Option<Agent>> {
    let run = store.view().run(&current.run)?;
    Ok(match sender.above() {
        Some((_, argv)) => Agent::of(&argv).map(|agent| agent.at_terminal(run.as_ref().is_none_or(is_at_terminal))),
        None => run.as_ref().and_then(agent_in),
    })
}

/// The folder in which the agent of a session keeps its conversations: the recorded one, else that of the caller's environment.
pub fn config_for(store: &Store, host: &dyn Host, session: &Session) -> Result<Option<ConfigFolder>> {
    if let Some(found) = config_of_session(store, session)? {
        return Ok(Some(found));
    }
    Ok(host.config_folder(kind_of(store, session)?))
}

/// True of a session that some program was started or seen in. Others are folders of which checkpoints are made.
pub fn has_agent(session: &Session) -> bool {
    !session.runs.is_empty() || !session.conversations.is_empty()
}

/// A notice where the agent's own folder is not the one that it would find in the caller's environment.
pub fn other_folder(host: &dyn Host, config: &ConfigFolder) -> Option<Notice> {
    let here = host.config_folder(config.kind());
    if here.as_ref().is_some_and(|here| here.is_same(config)) {
        return None;
    }
    Some(Notice::OtherConfigFolder { theirs: config.clone(), here })
}

/// Fails where somebody else has the conversation open. Other sessions that were in it are told.
pub fn others_in(store: &Store, session: &Session, config: &Path, conversation: &str) -> Result<Vec<Notice>> {
    let mut notices = Vec::new();
    for (other, is_alive) in sessions_in(store, conversation, &session.id)? {
        let place = other.workspace.as_ref().map(|place| place.path.clone()).unwrap_or_default();
        let (conversation, session) = (conversation.to_owned(), other.id);
        let place = name::printable(&place).into_owned();
        match is_alive {
            true => return Err(Refusal::ConversationShared { conversation, session, place }.into()),
            false => notices.push(Notice::ConversationShared { conversation, session, place }),
        }
    }
    match strangers_in(store, session, config, conversation)?.first() {
        None => Ok(notices),
        Some(holder) => Err(Refusal::ConversationOpen { conversation: conversation.to_owned(), holder: holder.text() }.into()),
    }
}

/// A sentence about the newest conversation of a session, where it is open in a process that is not the session's own.
pub fn stranger_in_newest(store: &Store, host: &dyn Host, session: &Session) -> Result<Option<String>> {
    let Some(newest) = session.conversations.last() else { return Ok(None) };
    let config = config_for(store, host, session)?.map(|config| config.path).unwrap_or_default();
    let holders = strangers_in(store, session, &config, &newest.id)?;
    Ok(holders.first().map(|holder| format!("conversation {} is open in {}", newest.id, holder.text())))
}

/// The environment of everything that a run starts.
pub fn environment_of(store: &Store, current: &Current) -> Vec<(String, OsString)> {
    let path = fs::canonicalize(store.path()).unwrap_or_else(|_| store.path().to_owned());
    vec![
        (RUN_MARKER.into(), current.run.clone().into()),
        (SESSION_MARKER.into(), current.session.clone().into()),
        ("PARHELIA_STORE".into(), path.into_os_string()),
    ]
}

/// True if our hooks for this store are in the settings of an agent's own folder, or of its folder of the workspace, and are on.
fn hooks_are_installed(store: &Store, kind: Kind, config: Option<&ConfigFolder>, workspace: &Path) -> bool {
    let places = [config.map(|config| config.path.clone()), Some(workspace.join(kind.folder_names().in_home))];
    let own = fs::canonicalize(store.path()).ok();
    // Hooks that name another store keep what they capture there.
    // What only a shell can tell is taken for this one: two sets of hooks would do everything twice.
    let needs_shell = |path: &Path| path.starts_with("~") || path.to_string_lossy().contains('$');
    let is_of_store = |command: &String| {
        hooks::store_of(command).is_none_or(|named| needs_shell(&named) || own.is_some() && fs::canonicalize(named).ok() == own)
    };
    let is_installed = |folder: PathBuf| {
        let status = hooks::status(&kind.hook_file(&folder), kind);
        status
            .is_ok_and(|status| status.missing.is_empty() && status.disabled.is_none() && status.commands.iter().all(is_of_store))
    };
    places.into_iter().flatten().any(is_installed)
}

/// True if the agent of a session's run calls our hooks: they are installed, or were brought for its start.
pub(crate) fn calls_hooks(store: &Store, session: &Session, run: &Run) -> Result<bool> {
    let Some(agent) = agent_in(run).filter(Agent::has_hooks) else { return Ok(false) };
    if agent.kind().abilities().brings_hooks {
        return Ok(true);
    }
    let Some(place) = session.workspace.as_ref().map(Place::folder) else { return Ok(false) };
    Ok(hooks_are_installed(store, agent.kind(), config_of_session(store, session)?.as_ref(), &place))
}

/// Arguments with our hooks, for one start: none where they are installed already, or the agent runs none or takes none.
pub fn hooks_for(
    store: &Store,
    host: &dyn Host,
    agent: &Agent,
    config: Option<&ConfigFolder>,
    workspace: &Path,
    observer: &dyn Observer,
) -> Result<Vec<OsString>> {
    if !agent.has_hooks() {
        observer.warn(&Notice::WithoutHooks);
        return Ok(Vec::new());
    }
    let kind = agent.kind();
    if hooks_are_installed(store, kind, config, workspace) {
        return Ok(Vec::new());
    }
    if !kind.abilities().brings_hooks {
        observer.warn(&Notice::HooksNotInstalled { agent: kind.name() });
        return Ok(Vec::new());
    }
    let failed = |source| Error::Io { action: "find", path: "the program itself".into(), source };
    Ok(agent.hook_arguments(&HookCommand { program: host.program().map_err(failed)?, store: None })?)
}
