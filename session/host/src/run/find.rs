//! Finds the run of an event or a process.

use std::{ffi::OsString, fs, path::Path};

use parhelia_ledger::{EndKind, LedgerView as _, Run, Session};
use parhelia_store::{Store, name};
use serde::{Deserialize, Serialize};

use super::{
    current::Current,
    life::{LAUNCHER, Life, life, roots_of},
};
use crate::Result;
use parhelia_agent::{
    command::Agent,
    folder::ConfigFolder,
    kinds::KINDS,
    process::{Identity, RUN_MARKER, ancestors, canonical, command_of, has_terminal, parent, pid_namespace},
};

/// An agent's process, and its command line.
pub type Agents = (Identity, Vec<OsString>);

/// The process that an event comes from: what tells whose it is, also after it has ended.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Sender {
    /// The run whose marker is in its environment.
    pub marker: Option<String>,
    /// The sending process and its ancestors.
    pub line: Vec<Identity>,
    /// The agent among them that is nearest.
    pub agent: Option<Identity>,
    /// The command line of this agent, its words as shown.
    pub argv: Vec<String>,
    /// True if that agent is the work of a tool of another one that is gone.
    #[serde(default)]
    pub is_left_by_a_tool: bool,
}

impl Sender {
    /// This process.
    pub fn here(variable: &dyn Fn(&str) -> Option<OsString>) -> Self {
        let (agent, argv) = agent_above().unzip();
        let argv = argv.unwrap_or_default().iter().map(|word| name::display(word.as_encoded_bytes())).collect();
        let marker = variable(RUN_MARKER).and_then(|id| id.into_string().ok()).filter(|id| !id.is_empty());
        let is_left_by_a_tool = agent.as_ref().is_some_and(is_left_by_a_tool);
        Sender { marker, line: ancestors(), agent, argv, is_left_by_a_tool }
    }

    /// True if all of its processes have numbers of the namespace that this one is in, so that it can have been this one's parent.
    pub fn is_from_here(&self) -> bool {
        let is_here = |known: &Identity| known.pid_namespace.is_some() && known.is_visible();
        pid_namespace().is_some() && self.line.iter().chain(&self.agent).all(is_here)
    }

    /// The agent, and its command line.
    pub fn above(&self) -> Option<Agents> {
        Some((self.agent.clone()?, self.argv.iter().map(|word| OsString::from(name::as_path(&name::parse(word)))).collect()))
    }

    /// True if this is a process of a run, or descends from one.
    pub(super) fn descends_from(&self, run: &Run) -> bool {
        roots_of(run).all().any(|root| self.line.iter().any(|known| known.is_same(root)))
    }

    /// True if the agent that this comes from certainly does not belong to a run: that run's processes would be seen among those above it.
    pub(super) fn is_stranger_to(&self, run: &Run) -> bool {
        let roots = roots_of(run);
        let are_known = roots.all().next().is_some() && roots.all().all(Identity::is_visible);
        self.agent.is_some() && are_known && !self.descends_from(run)
    }

    /// Checks whether this is a process of a run whose marker it carries. The marker is inherited by processes that are no tools of the
    /// run, such as the panes of a tmux server that a tool started: another agent in there is not the run's.
    fn is_of(&self, run: &Run, workspace: &Path, folder: Option<&Path>) -> bool {
        if self.descends_from(run) {
            return true;
        }
        let is_another = roots_of(run).agent.is_some_and(|known| self.agent.as_ref().is_some_and(|agent| !agent.is_same(&known)));
        !is_another && folder.is_some_and(|folder| canonical(folder).starts_with(canonical(workspace)))
    }
}

/// The run that an event belongs to by the marker of the process that it comes from, and by where that process stands or works.
pub fn current(store: &Store, sender: &Sender, folder: Option<&Path>) -> Result<Option<Current>> {
    let Some(id) = &sender.marker else { return Ok(None) };
    let view = store.view();
    let Some(run) = view.run(id)? else { return Ok(None) };
    let is_below = |other: &Run| other.is_open() && other.id != run.id && sender.descends_from(other);
    if !sender.descends_from(&run) && view.runs()?.values().any(is_below) {
        // It is another run's, whatever its marker says.
        return Ok(None);
    }
    let current = Current::of(&run, view.session(&run.session)?.as_ref());
    Ok(sender.is_of(&run, &current.workspace, folder).then_some(current))
}

/// The open run whose agent has started this process, whatever the environment says: an agent that was started by hand gives its programs no
/// marker.
pub fn above(store: &Store) -> Result<Option<Run>> {
    let (here, view) = (Sender::here(&|_| None), store.view());
    for session in view.sessions()? {
        if let Some(run) = view.newest_run(&session)?.filter(|run| run.is_open() && here.descends_from(run)) {
            return Ok(Some(run));
        }
    }
    Ok(None)
}

/// The session that a conversation belongs to, and its newest run where that lives.
pub fn of_conversation(store: &Store, conversation: &str) -> Result<Option<(Session, Option<Run>)>> {
    let view = store.view();
    let knows = |session: &Session| session.conversations.iter().any(|found| found.id == conversation);
    let mut sessions: Vec<Session> = view.sessions()?.into_iter().filter(knows).collect();
    sessions.sort_by_key(|session| session.changed_sequence);
    let Some(session) = sessions.pop() else { return Ok(None) };
    let run = view.newest_run(&session)?;
    // A run without a recorded process may be alive. One on another machine is not the one that is asked about here.
    let may_live = |run: &Run| match life(run) {
        Life::Agent(_) | Life::Starting(_) => true,
        Life::Elsewhere { .. } => false,
        Life::Over => run.is_open() && run.pid.is_none() && !run.extra.contains_key(LAUNCHER),
    };
    Ok(Some((session, run.filter(may_live))))
}

/// The field of a run that tells of the agent's own folder.
pub const CONFIG_FOLDER: &str = "config_folder";

/// The agent's own folder of a run, where it was recorded.
pub fn config_of(run: &Run) -> Option<ConfigFolder> {
    run.extra.get(CONFIG_FOLDER).and_then(|value| serde_json::from_value(value.clone()).ok())
}

/// The last run of a session but for the one that begins, and for those that have not come to life.
pub fn last_of(store: &Store, session: &Session, but: Option<&str>) -> Result<Option<Run>> {
    let view = store.view();
    for id in session.runs.iter().rev().filter(|id| Some(id.as_str()) != but) {
        if let Some(run) = view.run(id)?.filter(|run| !run.ending().is_some_and(|end| end.kind == EndKind::ConversationUnknown)) {
            return Ok(Some(run));
        }
    }
    Ok(None)
}

/// The folder in which the agent keeps a session's conversations: that of its newest run. Where none was recorded, it is the one in which
/// the last conversation was seen. None where that is not known either.
pub fn config_of_session(store: &Store, session: &Session) -> Result<Option<ConfigFolder>> {
    let view = store.view();
    for id in session.runs.iter().rev() {
        if let Some(found) = view.run(id)?.as_ref().and_then(config_of) {
            return Ok(Some(found));
        }
    }
    let seen = session.conversations.iter().rev().find_map(|conversation| conversation.seen_at());
    Ok(seen.and_then(|path| ConfigFolder::of_transcript(&path)))
}

/// The conversation that the agent of a run is in: the one of the session that was seen last, as long as no other run has taken over; else
/// the last that was seen in it.
pub fn conversation_of(session: &Session, run: &str) -> Option<String> {
    let is_newest = session.run.as_deref() == Some(run);
    let found = session.conversations.iter().rev().find(|found| is_newest || found.run.as_deref() == Some(run));
    found.map(|found| found.id.clone())
}

/// Checks whether the agent that started this process was itself started by another one, in one of its tools. Its events do not concern the
/// other one's conversation.
pub fn is_nested() -> bool {
    let own = fs::read_link("/proc/self/exe").ok();
    let Some((agent, _)) = agent_above() else { return false };
    let variables = fs::read(format!("/proc/{}/environ", agent.process)).unwrap_or_default();
    // Outside of a tool call, an agent's parent is its launcher, such as `npx`.
    if !is_in_a_tool(&variables) {
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

/// Checks whether an agent was started by a tool of another one that is gone: it has the variables that an agent gives to its tools, and no
/// terminal. An agent that somebody starts in a terminal which inherits them, such as a tmux pane, does not count.
fn is_left_by_a_tool(agent: &Identity) -> bool {
    let variables = fs::read(format!("/proc/{}/environ", agent.process)).unwrap_or_default();
    is_in_a_tool(&variables) && !has_terminal(agent.process)
}

/// True if an environment, as the kernel has it, is that of an agent's tool.
fn is_in_a_tool(environment: &[u8]) -> bool {
    let names = environment.split(|byte| *byte == 0).filter_map(|variable| variable.split(|byte| *byte == b'=').next());
    let tools: Vec<&str> = KINDS.into_iter().filter_map(|kind| kind.tool_variable()).collect();
    names.into_iter().any(|name| tools.iter().any(|tool| tool.as_bytes() == name))
}

/// This process, as the launcher of a run.
pub fn this_process() -> Result<Identity> {
    Ok(Identity::of(std::process::id() as i32)?)
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

/// True if one of some processes is an agent.
pub fn has_agent_among(line: &[Identity]) -> bool {
    line.iter().any(|known| known.is_alive() && agent_at(known.process).is_some())
}

/// The agent among some processes that is nearest to the first: its number, and its program for messages.
pub fn agent_among(line: &[Identity]) -> Option<(i32, String)> {
    line.iter().filter(|known| known.is_alive()).find_map(|known| {
        let argv = agent_at(known.process)?;
        let program = argv.first().map(|word| Path::new(word).file_name().unwrap_or(word).to_string_lossy().into_owned());
        Some((known.process, name::printable(&program.unwrap_or_default()).into_owned()))
    })
}

/// The command line of a process that is an agent.
pub fn agent_at(process: i32) -> Option<Vec<OsString>> {
    let argv = command_of(process);
    // A process that names itself anew has the name alone; what runs it is told by the file.
    let program = fs::read_link(format!("/proc/{process}/exe")).map(|path| vec![path.into_os_string()]).unwrap_or_default();
    (Agent::of(&argv).is_some() || Agent::of(&program).is_some()).then_some(argv)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn identity(process: i32) -> Identity {
        Identity { process, start_time: 7, boot_id: "boot".into(), pid_namespace: None }
    }

    fn sender(line: &[i32], agent: Option<i32>) -> Sender {
        let line = line.iter().map(|process| identity(*process)).collect();
        Sender { marker: Some("r".into()), line, agent: agent.map(identity), ..Sender::default() }
    }

    #[test]
    fn a_marker_is_believed_of_who_descends_from_the_run_or_works_where_it_does() {
        let started = json!({
            "id": "r", "session": "s", "epoch": 1, "started_at": "2026-01-01T00:00:00Z", "boot_id": "boot", "pid": 10, "start_time": 7,
            "launcher": identity(9),
        });
        let run: Run = serde_json::from_value(started).unwrap();
        let is_of = |sender: &Sender, folder: Option<&str>| sender.is_of(&run, Path::new("/w"), folder.map(Path::new));
        // Wherever a tool of it works.
        for line in [[30, 10], [30, 9]] {
            assert!(is_of(&sender(&line, None), Some("/elsewhere")));
            assert!(is_of(&sender(&line, Some(30)), None));
        }
        // Its ancestors cannot be seen.
        assert!(is_of(&sender(&[30], None), Some("/w/below")));
        assert!(is_of(&sender(&[30], Some(10)), Some("/w")));
        assert!(!is_of(&sender(&[30], None), Some("/wx")));
        assert!(!is_of(&sender(&[30], None), None));
        // Another agent is itself, also in the same folder.
        assert!(!is_of(&sender(&[30, 20], Some(20)), Some("/w")));
        // A process number that was used again.
        let mut later = sender(&[30, 10], None);
        later.line[1].start_time = 8;
        assert!(!is_of(&later, Some("/elsewhere")));
    }

    #[test]
    fn a_sender_is_believed_whose_processes_can_be_seen() {
        let me = Identity::of(std::process::id() as i32).unwrap();
        let of = |known: Identity| Sender { line: vec![me.clone(), known], ..Sender::default() };
        assert!(of(me.clone()).is_from_here() && Sender::default().is_from_here());
        for namespace in [None, Some("pid:[1]".to_owned())] {
            let other = Identity { pid_namespace: namespace, ..me.clone() };
            assert!(!of(other.clone()).is_from_here());
            assert!(!Sender { agent: Some(other), ..of(me.clone()) }.is_from_here());
        }
    }

    #[test]
    fn an_agent_is_a_stranger_to_a_run_whose_processes_would_be_seen_above_it() {
        let me = Identity::of(std::process::id() as i32).unwrap();
        let later = Identity { start_time: me.start_time + 1, ..me.clone() };
        let run = |launcher: &Identity, agent: Option<&Identity>| -> Run {
            let started = json!({
                "id": "r", "session": "s", "epoch": 1, "started_at": "2026-01-01T00:00:00Z", "launcher": launcher, "hooked_agent": agent,
            });
            serde_json::from_value(started).unwrap()
        };
        let event = Sender { line: vec![me.clone()], agent: Some(me.clone()), ..Sender::default() };
        assert!(!event.is_stranger_to(&run(&me, None)));
        assert!(event.is_stranger_to(&run(&later, None)), "a run that began later");
        assert!(!event.is_stranger_to(&run(&later, Some(&me))), "the agent that a script of it has started");
        let hidden = Identity { pid_namespace: Some("pid:[1]".into()), ..later.clone() };
        assert!(!event.is_stranger_to(&run(&hidden, None)), "in a sandbox, its processes are not seen");
        assert!(!Sender::default().is_stranger_to(&run(&later, None)), "an event that comes from no agent");
    }
}
