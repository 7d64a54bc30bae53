//! Hooks that an agent's settings have, and what becomes of them: installed, dead, heard of, or brought for one start.

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
    process::command_of,
};
use parhelia_ledger::{Place, Run, Session};
use parhelia_store::Store;

use super::heard_hooks;
use crate::{
    Error, Host, Observer, Result,
    notice::Notice,
    run::{agent_in, agent_of, config_of_session, hooked_agent_of, kind_of, launcher_of, private, variables_of},
};

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
