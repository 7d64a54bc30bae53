//! The agent of a session: its kind, its own folder, and who else is in its conversation.

use std::{ffi::OsString, fs, path::Path};

use parhelia_agent::{
    command::Agent,
    folder::ConfigFolder,
    kind::Kind,
    kinds::KINDS,
    process::{RUN_MARKER, SESSION_MARKER},
    transcript::TranscriptLocation,
};
use parhelia_ledger::{LedgerView as _, Run, Session};
use parhelia_store::{Store, name};
use serde_json::Value;

use super::{Current, Sender, config_of_session, sessions_in, strangers_in};
use crate::{Host, Refusal, Result, notice::Notice};

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
