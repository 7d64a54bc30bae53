//! What `session run` and `session resume` have in common: hooks for one start, and the environment of a run.

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
    process::{Ended, Found, Owner, RUN_MARKER, SESSION_MARKER, Stopped},
};
use parhelia_session::run::{self, Current};
use parhelia_store::{Store, event::Actor, fold::Session};

use crate::exit::{Failure, Result};

/// A look-up of this process's environment.
pub fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

/// Who uses the command line.
pub fn actor() -> Actor {
    let user = std::env::var("USER").ok().filter(|user| !user.is_empty());
    Actor { user, via: "cli".into() }
}

/// The agent's own folder, by this process's environment.
pub fn config_folder(kind: Kind) -> Option<PathBuf> {
    ConfigFolder::of(kind, variable).map(|found| found.path)
}

/// The kind of agent of a session: that of its newest run's program.
pub fn kind_of(store: &Store, session: &Session) -> Result<Kind> {
    let run = session.run.as_deref().map(|id| store.view().run(id)).transpose()?.flatten();
    Ok(run.and_then(|run| Agent::of(&run.command())).map_or(KINDS[0], |agent| agent.kind()))
}

/// The folder in which the agent of a session keeps its conversations: the recorded one, else that of this process's environment.
pub fn config_of(store: &Store, session: &Session) -> Result<Option<ConfigFolder>> {
    if let Some(found) = run::config_of_session(store, session)? {
        return Ok(Some(found));
    }
    Ok(ConfigFolder::of(kind_of(store, session)?, variable))
}

/// True of a session that some program was started or seen in. Others are folders of which checkpoints are made.
pub fn has_agent(session: &Session) -> bool {
    !session.runs.is_empty() || !session.conversations.is_empty()
}

/// Says so where the agent's own folder is not the one that it would find here.
pub fn other_folder(config: &ConfigFolder) -> Option<String> {
    let here = ConfigFolder::of(config.kind(), variable);
    if here.as_ref().is_some_and(|here| here.is_same(config)) {
        return None;
    }
    let theirs = config.path.display();
    let here = here.map_or_else(|| "has none".to_owned(), |here| format!("has {} ({})", here.path.display(), here.variable));
    Some(format!("the agent's own folder is {theirs} ({}), as it was; this shell {here}", config.variable))
}

/// Fails where somebody else has the conversation open. Other sessions that were in it are said.
pub fn others_in(store: &Store, session: &Session, config: &Path, conversation: &str) -> Result<Vec<String>> {
    let mut said = Vec::new();
    for (other, is_alive) in run::sessions_in(store, conversation, &session.id)? {
        let place = other.workspace.as_ref().map(|place| place.path.clone()).unwrap_or_default();
        let named =
            format!("conversation {conversation} is also session {}'s, in {}", other.id, crate::human::path(place.as_bytes()));
        if is_alive {
            return Err(Failure::Refused(format!("{named}, whose agent is alive; end that first")));
        }
        said.push(format!("{named}; whichever goes on, both have it"));
    }
    match stranger_in(store, session, config, conversation)? {
        None => Ok(said),
        Some(open) => Err(Failure::Refused(format!(
            "{open}; end that first, or go on there: two agents in one conversation would spoil it"
        ))),
    }
}

/// The words for a conversation that is open in a process which is not the session's own.
pub fn stranger_in(store: &Store, session: &Session, config: &Path, conversation: &str) -> Result<Option<String>> {
    let holders = run::strangers_in(store, session, config, conversation)?;
    Ok(holders.first().map(|holder| format!("conversation {conversation} is open in {}", holder.text())))
}

/// The same for the newest conversation of a session.
pub fn stranger_in_newest(store: &Store, session: &Session) -> Result<Option<String>> {
    let Some(newest) = session.conversations.last() else { return Ok(None) };
    let config = config_of(store, session)?.map(|config| config.path).unwrap_or_default();
    stranger_in(store, session, &config, &newest.id)
}

/// The environment of everything that a run starts.
pub fn environment(store: &Store, current: &Current) -> Vec<(String, OsString)> {
    let path = fs::canonicalize(store.path()).unwrap_or_else(|_| store.path().to_owned());
    vec![
        (RUN_MARKER.into(), current.run.clone().into()),
        (SESSION_MARKER.into(), current.session.clone().into()),
        ("PARHELIA_STORE".into(), path.into_os_string()),
    ]
}

/// Tells what became of processes that dead runs have left behind.
pub fn leftovers(stopped: &Stopped) -> Vec<String> {
    let ended = stopped.ended.iter().map(|(found, how)| match how {
        Ended::Not => format!("process {} of an earlier run could not be stopped", found.text()),
        _ => format!("process {} of an earlier run was stopped", found.text()),
    });
    // A shell is where its user works.
    let is_named = |found: &&Found| found.owner == Owner::Marked || !found.is_shell();
    let others = stopped.others.iter().filter(is_named).map(|found| match found.owner {
        Owner::Marked => format!(
            "process {} has {RUN_MARKER} of an earlier run, but neither descends from its agent nor works in the workspace on its own; it \
             was left alone",
            found.text()
        ),
        _ => format!("process {} works in the workspace, and was left alone", found.text()),
    });
    ended.chain(others).collect()
}

/// Arguments with our hooks, for one start: none where they are installed already, or the agent runs none.
pub fn hooks_for(agent: &Agent, config: Option<&ConfigFolder>, workspace: &Path, store: &Store) -> Result<Vec<OsString>> {
    if !agent.has_hooks() {
        tell!("parhelia: the agent is started without hooks, so that checkpoints are made every few minutes only");
        return Ok(Vec::new());
    }
    let kind = agent.kind();
    let places = [config.map(|config| config.path.clone()), Some(workspace.join(kind.folder_names().in_home))];
    let own = fs::canonicalize(store.path()).ok();
    // Hooks that name another store keep what they capture there.
    // What only a shell can tell is taken for this one: two sets of hooks would do everything twice.
    let needs_shell = |path: &Path| path.starts_with("~") || path.to_string_lossy().contains('$');
    let is_of_store = |command: &String| {
        hooks::store_of(command).is_none_or(|named| needs_shell(&named) || own.is_some() && fs::canonicalize(named).ok() == own)
    };
    let is_installed = |folder: PathBuf| {
        let status = hooks::status(&kind.hook_file(&folder), kind.events());
        status.is_ok_and(|status| status.missing.is_empty() && !status.disabled && status.commands.iter().all(is_of_store))
    };
    if places.into_iter().flatten().any(is_installed) {
        return Ok(Vec::new());
    }
    let program =
        std::env::current_exe().map_err(|source| Failure::File { action: "find", path: "the program itself".into(), source })?;
    Ok(agent.hook_arguments(&HookCommand { program, store: None })?)
}

/// The variables by which the agent finds its own folder, where this process's name another one.
pub fn own_folder(config: Option<&ConfigFolder>) -> Vec<(String, Option<OsString>)> {
    config.map(|config| config.environment(ConfigFolder::of(config.kind(), variable).as_ref())).unwrap_or_default()
}

/// These variables, as an agent has them that works with its own folder.
pub fn with_own_folder(mut variables: Vec<(OsString, OsString)>, config: Option<&ConfigFolder>) -> Vec<(OsString, OsString)> {
    for (name, value) in own_folder(config) {
        variables.retain(|(known, _)| *known != *name);
        variables.extend(value.map(|value| (name.into(), value)));
    }
    variables
}
