//! Which run something belongs to.

use std::{ffi::OsString, fs, os::unix::ffi::OsStringExt, path::PathBuf};

use parhelia_store::{
    Store,
    fold::{Place, Run, Session},
    name,
};

use super::life::{LAUNCHER, Life, life};
use crate::{
    agent::Agent,
    error::Result,
    process::{Identity, RUN_MARKER, parent},
};

/// A run that is under way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Current {
    /// Its session.
    pub session: String,
    /// Its id.
    pub run: String,
    /// Its epoch.
    pub epoch: u64,
    /// The session's workspace.
    pub workspace: PathBuf,
}

impl Current {
    /// From what the store has of it.
    pub fn of(run: &Run, session: Option<&Session>) -> Self {
        let place = session.and_then(|session| session.workspace.as_ref()).map(Place::folder);
        let cwd = || run.cwd.as_ref().map(|path| name::as_path(&name::parse(path)).to_owned());
        let workspace = place.or_else(cwd).unwrap_or_default();
        Current { session: run.session.clone(), run: run.id.clone(), epoch: run.epoch, workspace }
    }
}

/// The run whose marker this process carries.
pub fn current(store: &Store, variable: &dyn Fn(&str) -> Option<OsString>) -> Result<Option<Current>> {
    let Some(id) = variable(RUN_MARKER).and_then(|id| id.into_string().ok()) else { return Ok(None) };
    let view = store.view();
    let Some(run) = view.run(&id)? else { return Ok(None) };
    Ok(Some(Current::of(&run, view.session(&run.session)?.as_ref())))
}

/// The session that a conversation belongs to, and its newest run where that lives.
pub fn of_conversation(store: &Store, conversation: &str) -> Result<Option<(Session, Option<Run>)>> {
    let view = store.view();
    let knows = |session: &Session| session.conversations.iter().any(|found| found.id == conversation);
    let mut sessions: Vec<Session> = view.sessions()?.into_iter().filter(knows).collect();
    sessions.sort_by_key(|session| session.changed_sequence);
    let Some(session) = sessions.pop() else { return Ok(None) };
    let run = session.run.as_deref().map(|id| view.run(id)).transpose()?.flatten();
    // Of a run whose process nobody knows it is not known that it is dead; another machine's is not the one that is asked about here.
    let may_live = |run: &Run| match life(run) {
        Life::Agent(_) | Life::Starting(_) => true,
        Life::Elsewhere { .. } => false,
        Life::Over => run.is_open() && run.pid.is_none() && !run.extra.contains_key(LAUNCHER),
    };
    Ok(Some((session, run.filter(may_live))))
}

/// The conversation that the agent of a run is in: the one of the session that was seen last, as long as no other run has taken over; else
/// the last that was seen in it.
pub fn conversation_of(session: &Session, run: &str) -> Option<String> {
    let is_newest = session.run.as_deref() == Some(run);
    let found = session.conversations.iter().rev().find(|found| is_newest || found.run.as_deref() == Some(run));
    found.map(|found| found.id.clone())
}

/// The variable that an agent gives to its tools.
const IN_A_TOOL: &[u8] = b"CLAUDECODE=";

/// Whether the agent that started this process was itself started by another one, in one of its tools. What it says of its conversation is
/// not said of that one's.
pub fn is_nested() -> bool {
    let own = fs::read_link("/proc/self/exe").ok();
    let Some((agent, _)) = agent_above() else { return false };
    let variables = fs::read(format!("/proc/{}/environ", agent.process)).unwrap_or_default();
    // Without it, what stands above an agent is what started it, such as `npx`.
    if !variables.split(|byte| *byte == 0).any(|variable| variable.starts_with(IN_A_TOOL)) {
        return false;
    }
    let mut process = agent.process;
    for _ in 0..32 {
        let Some(next) = parent(process).filter(|parent| *parent > 1) else { return false };
        process = next;
        // Whoever starts a session by hand, from wherever, means it.
        if own.is_some() && fs::read_link(format!("/proc/{process}/exe")).ok() == own {
            return false;
        }
        if agent_at(process).is_some() {
            return true;
        }
    }
    false
}

/// The agent's process above this one, with its command line.
pub fn agent_above() -> Option<(Identity, Vec<OsString>)> {
    let mut process = std::process::id() as i32;
    for _ in 0..32 {
        process = parent(process).filter(|parent| *parent > 1)?;
        if let Some(argv) = agent_at(process) {
            return Some((Identity::of(process).ok()?, argv));
        }
    }
    None
}

/// The command line of a process that is an agent.
fn agent_at(process: i32) -> Option<Vec<OsString>> {
    let line = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    let line = line.strip_suffix(b"\0").unwrap_or(&line);
    let argv: Vec<OsString> = line.split(|b| *b == 0).map(|word| OsString::from_vec(word.to_vec())).collect();
    // A process that names itself anew has the name alone; what runs it is told by the file.
    let program = fs::read_link(format!("/proc/{process}/exe")).map(|path| vec![path.into_os_string()]).unwrap_or_default();
    (Agent::of(&argv).is_some() || Agent::of(&program).is_some()).then_some(argv)
}
