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
    kind::Kind,
    kinds::KINDS,
    process::{RUN_MARKER, SESSION_MARKER, command_of},
    transcript::TranscriptLocation,
};
use parhelia_ledger::{LedgerView as _, Place, Run, Session};
use parhelia_store::{Store, name};
use serde_json::Value;

use super::{
    Current, Sender, agent_of, config_of_session, heard_hooks, hooked_agent_of, launcher_of, private, sessions_in, strangers_in,
    variables_of,
};
use crate::{Error, Host, Observer, Refusal, Result, notice::Notice};

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

/// The folder in which the agent of a session keeps its conversations: the recorded one, else that of the caller's environment. A recorded one
/// that is gone yields to that of the caller where this has the conversation: it was moved, and a second copy of it would go another way.
pub fn config_for(store: &Store, host: &dyn Host, session: &Session) -> Result<Option<ConfigFolder>> {
    let Some(recorded) = config_of_session(store, session)? else { return Ok(host.config_folder(kind_of(store, session)?)) };
    Ok(Some(moved_to(host, session, &recorded).unwrap_or(recorded)))
}

/// The folder to which the agent's own was moved; none where it is where it was, or nothing tells. An agent that lived while it was moved may have made
/// the old one again, with no more than the rest of its conversation.
fn moved_to(host: &dyn Host, session: &Session, recorded: &ConfigFolder) -> Option<ConfigFolder> {
    let here = host.config_folder(recorded.kind()).filter(|here| !here.is_same(recorded))?;
    let newest = session.conversations.last()?;
    if !recorded.kind().keeps_files() {
        // Only the agent itself can tell what is in its folder.
        return (!recorded.path.exists() && here.path.exists()).then_some(here);
    }
    match (bytes_of(recorded, &newest.id), bytes_of(&here, &newest.id)) {
        (then, Some(now)) => then.is_none_or(|then| then < now).then_some(here),
        // One that is gone is not made again where the caller has another one: that has the agent's login.
        (_, None) => (!recorded.path.exists() && here.path.exists()).then_some(here),
    }
}

/// Bytes of a conversation's transcript in an agent's own folder; none where it has none.
fn bytes_of(folder: &ConfigFolder, conversation: &str) -> Option<u64> {
    let found = TranscriptLocation::by_session(&folder.path, conversation).ok()?;
    Some(found.transcript.metadata().ok()?.len())
}

/// A notice where the agent's own folder was moved.
pub fn moved_folder(store: &Store, session: &Session, now: &ConfigFolder) -> Result<Option<Notice>> {
    let Some(from) = config_of_session(store, session)?.filter(|recorded| !recorded.is_same(now)) else { return Ok(None) };
    let has = |folder: &ConfigFolder| session.conversations.last().is_some_and(|newest| bytes_of(folder, &newest.id).is_some());
    let (is_gone, has_rest, has_it) = (!from.path.exists(), has(&from), has(now) || !now.kind().keeps_files());
    Ok(Some(Notice::ConfigFolderMoved { from, to: now.clone(), is_gone, has_rest, has_it }))
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

/// The command of hooks that are installed for this store, and whose program is there.
fn installed(store: &Store, host: &dyn Host, kind: Kind, config: Option<&ConfigFolder>, workspace: &Path) -> Option<HookCommand> {
    let own = fs::canonicalize(store.path()).ok();
    let path = host.variable("PATH");
    let is_ours = |command: &HookCommand| {
        let is_of_store = command.store.as_ref().is_none_or(|named| own.is_some() && fs::canonicalize(named).ok() == own);
        is_of_store && hooks::is_there(&command.program, path.as_deref())
    };
    let release = kind.release(path.as_deref());
    let layers = hooks::layers(kind, config.map(|config| config.path.as_path()), workspace, release);
    let mut commands = layers.iter().rev().flat_map(|layer| &layer.commands).filter_map(|command| HookCommand::of_text(command));
    commands.find(is_ours)
}

/// The reason why our hooks do not run in an agent, as far as its settings tell.
pub fn dead_hooks(host: &dyn Host, kind: Kind, config: Option<&Path>, workspace: &Path) -> Option<hooks::Dead> {
    let path = host.variable("PATH");
    hooks::dead(&hooks::layers(kind, config, workspace, kind.release(path.as_deref())), path.as_deref())
}

/// True if our hooks for this store are in the settings of an agent's own folder, or of its folder of the workspace, and are on.
fn hooks_are_installed(store: &Store, kind: Kind, config: Option<&ConfigFolder>, workspace: &Path) -> bool {
    if kind.declaration().is_some() {
        return kind.plugin().is_some_and(Path::exists);
    }
    let places = [config.map(|config| config.path.clone()), Some(workspace.join(kind.folder_names().in_home))];
    let own = fs::canonicalize(store.path()).ok();
    // Hooks that name another store keep what they capture there.
    // What only a shell can tell is taken for this one: two sets of hooks would do everything twice.
    let needs_shell = |path: &Path| path.starts_with("~") || path.to_string_lossy().contains('$');
    let is_of_store = |command: &String| {
        hooks::store_of(command).is_none_or(|named| needs_shell(&named) || own.is_some() && fs::canonicalize(named).ok() == own)
    };
    let is_installed = |folder: PathBuf| {
        let status = hooks::status(&kind.hook_file(&folder), kind, None);
        status
            .is_ok_and(|status| status.missing.is_empty() && status.disabled.is_none() && status.commands.iter().all(is_of_store))
    };
    places.into_iter().flatten().any(is_installed)
}

/// The hooks of a run's agent, by what has come of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunHooks {
    /// An event has come of one.
    Heard,
    /// None has come, though they are installed, or were brought for its start.
    Silent {
        /// The reason, where its settings tell one.
        why: Option<String>,
    },
    /// Events have come, and by now none can.
    Over {
        /// The reason, as its settings tell.
        why: String,
    },
    /// The agent has no hooks, or none of them call this store.
    None,
}

/// The hooks of the agent of a session's run. That they are in its settings does not say that they run: an event does.
pub fn hooks_of(store: &Store, session: &Session, run: &Run) -> Result<RunHooks> {
    if heard_hooks(run).is_some() || hooked_agent_of(run).is_some() {
        return Ok(dead_since(store, session, run)?.map_or(RunHooks::Heard, |why| RunHooks::Over { why: why.to_string() }));
    }
    let place = session.workspace.as_ref().map(Place::folder);
    let (Some(agent), Some(place)) = (agent_in(run).filter(Agent::has_hooks), place) else { return Ok(RunHooks::None) };
    let (kind, config) = (agent.kind(), config_of_session(store, session)?);
    if !kind.abilities().brings_hooks && !hooks_are_installed(store, kind, config.as_ref(), &place) {
        return Ok(RunHooks::None);
    }
    // Programs are looked for as the agent does; where its variables cannot be read, nothing is said of them.
    let path = variables_of(run).and_then(|all| all.into_iter().find(|(name, _)| name == "PATH").map(|(_, path)| path));
    let folder = config.as_ref().map(|config| config.path.as_path());
    let layers = hooks::layers(kind, folder, &place, kind.release(path.as_deref()));
    let dead = hooks::dead(&layers, path.as_deref()).filter(|dead| path.is_some() || matches!(dead, hooks::Dead::Off { .. }));
    Ok(RunHooks::Silent { why: dead.map(|dead| dead.to_string()) })
}

/// The reason why hooks of which events have come do not run any more; none where nothing tells one, or its variables cannot be read.
fn dead_since(store: &Store, session: &Session, run: &Run) -> Result<Option<hooks::Dead>> {
    let place = session.workspace.as_ref().map(Place::folder);
    let process = hooked_agent_of(run).or_else(|| agent_of(run));
    let (Some(process), Some(place)) = (process.filter(|process| process.is_alive()), place) else { return Ok(None) };
    let kind = kind_of(store, session)?;
    let Some(path) = variables_of(run).and_then(|all| all.into_iter().find(|(name, _)| name == "PATH").map(|(_, path)| path))
    else {
        return Ok(None);
    };
    let config = config_of_session(store, session)?;
    let folder = config.as_ref().map(|config| config.path.as_path());
    let mut layers = hooks::layers(kind, folder, &place, kind.release(Some(&path)));
    layers.extend(hooks::given(&command_of(process.process)));
    Ok(hooks::dead(&layers, Some(&path)))
}

/// True of a run that was started by hand and whose hooks have been switched off by a setting: an end of which nothing was heard may be its user's.
pub fn ended_unheard(store: &Store, session: &Session, run: &Run) -> Result<bool> {
    let place = session.workspace.as_ref().map(Place::folder);
    let Some(place) = place.filter(|_| launcher_of(run).is_none() && heard_hooks(run).is_some()) else { return Ok(false) };
    let (kind, config) = (kind_of(store, session)?, config_of_session(store, session)?);
    let layers = hooks::layers(kind, config.as_ref().map(|config| config.path.as_path()), &place, kind.release(None));
    Ok(matches!(hooks::dead(&layers, None), Some(hooks::Dead::Off { .. })))
}

/// A notice that nothing brings the hooks of a kind that the user has declared.
fn no_plugin(kind: Kind) -> Notice {
    Notice::NoPlugin { agent: kind.title(), plugin: kind.plugin().map(Path::to_owned) }
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
    let kind = agent.kind();
    if !agent.has_hooks() {
        observer.warn(&if kind.declaration().is_some() { no_plugin(kind) } else { Notice::WithoutHooks });
        return Ok(Vec::new());
    }
    let is_trusted = kind.abilities().trusts_given_hooks;
    // Settings do not tell whether what is installed runs; an agent that trusts what it is given gets them in any case.
    if !is_trusted && hooks_are_installed(store, kind, config, workspace) {
        return Ok(Vec::new());
    }
    if !kind.abilities().brings_hooks {
        let is_declared = kind.declaration().is_some();
        observer.warn(&if is_declared { no_plugin(kind) } else { Notice::HooksNotInstalled { agent: kind.name() } });
        return Ok(Vec::new());
    }
    let failed = |source| Error::Io { action: "find", path: "the program itself".into(), source };
    // It runs the same line once, wherever that stands.
    let installed = installed(store, host, kind, config, workspace).filter(|_| is_trusted);
    let command = match installed {
        Some(command) => command,
        None => HookCommand { program: host.program().map_err(failed)?, store: None },
    };
    let release = agent.release(host.variable("PATH").as_deref());
    Ok(agent.hook_arguments((&command, release), workspace, &|text| private::keep(store, text))?)
}
