//! Beginning and ending a run, as events.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use parhelia_ledger::{End, EndKind, Goal, LedgerView as _, Place, Run, Status, Tmux, kind};
use parhelia_store::{
    Store,
    event::{Actor, NewEvent},
    id::Ulid,
    name,
};
use serde_json::{Value, json};

use super::{
    agent::AT_TERMINAL,
    current::Current,
    find::CONFIG_FOLDER,
    last_seen,
    launch_variables::{LAUNCH_VARIABLES, Variables},
    lease,
    life::{self, ELSEWHERE, LAUNCHER, MACHINE, PID_NAMESPACE},
    settings::{USER_SETTINGS, UserSettings},
};
use crate::{Error, Result, conversation::seen, run::is_hidden};
use parhelia_agent::{
    folder::ConfigFolder,
    process::{Identity, boot_id, host_name, machine, pid_namespace},
};

/// The field of a session's creation that names the agent folder of which its workspace is a copy.
pub const AGENT_FOLDER: &str = "agent_folder";

/// A run that is to begin.
#[derive(Clone, Debug, Default)]
pub struct Begin {
    /// The session; one that does not exist is made.
    pub session: String,
    /// The name of a new session.
    pub name: Option<String>,
    /// The policy of approval that a new session has chosen.
    pub policy: Option<String>,
    /// Absolute path of the session's folder.
    pub workspace: PathBuf,
    /// The command line.
    pub argv: Vec<OsString>,
    /// The folder in which the command starts.
    pub folder: PathBuf,
    /// The agent's conversation, where it is known.
    pub conversation: Option<String>,
    /// Path of the conversation's transcript, where that is known.
    pub transcript: Option<PathBuf>,
    /// The agent's permission mode.
    pub permission_mode: Option<String>,
    /// The checkpoint that it goes on from.
    pub resumed_from: Option<Ulid>,
    /// True if no person has asked for that.
    pub resumed_by_agent: bool,
    /// The epoch that it was decided in: where the session has a newer one by now, nothing begins.
    pub seen_epoch: Option<u64>,
    /// Its pane of tmux; none outside of tmux.
    pub tmux: Option<Tmux>,
    /// The agent's process, where it runs already.
    pub agent: Option<Identity>,
    /// The agent's own folder, where there is one.
    pub config: Option<ConfigFolder>,
    /// True if the agent uses a terminal, false if it has none; none where that is not known, or the program is no agent.
    pub at_terminal: Option<bool>,
    /// The process that starts the agent and waits for it.
    pub launcher: Option<Identity>,
    /// The place of a run that this machine does not see; none of one that is here.
    pub elsewhere: Option<RemoteLocation>,
    /// The agent folder of which a new session's workspace is a copy.
    pub agent_folder: Option<PathBuf>,
    /// The variables that its launch has; none where that is not known.
    pub launch_variables: Option<Variables>,
    /// The user's settings that its launch has; none where that is not known.
    pub settings: Option<UserSettings>,
    /// The actor that begins it.
    pub actor: Actor,
}

/// The place of a run that this machine does not see.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemoteLocation {
    /// The machine.
    pub host: String,
    /// The container there; none outside of one.
    pub container: Option<String>,
}

impl RemoteLocation {
    /// The holder of its lease.
    fn holder(&self) -> String {
        format!("{}/{}", self.host, self.container.as_deref().unwrap_or("api"))
    }
}

/// An id for a new session: what it is about, and enough of chance to be its own.
pub fn new_session_id(workspace: &Path) -> String {
    let base = workspace.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let plain: String =
        base.chars().map(|c| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' }).take(40).collect();
    let plain = plain.trim_matches(['-', '.']);
    let tail = Ulid::generate().to_string()[18..].to_ascii_lowercase();
    format!("{}-{tail}", if plain.is_empty() { "session" } else { plain })
}

/// Begins a run. Fails with [`parhelia_store::Error::Fenced`] where another one has begun meanwhile.
pub fn begin(store: &Store, begin: &Begin) -> Result<Current> {
    let run = Ulid::generate().to_string();
    let actor = || begin.actor.clone();
    let mut events = Vec::new();
    if store.refresh()?.session(&begin.session)?.is_none() {
        let name = begin.name.clone().unwrap_or_else(|| begin.session.clone());
        let created = NewEvent::new(kind::SESSION_CREATED, &begin.session, actor()).with("name", name);
        let created = created.with("workspace", place(&begin.workspace));
        let folder = begin.agent_folder.as_ref().map(|folder| name::display(folder.as_os_str().as_encoded_bytes()));
        let created = folder.into_iter().fold(created, |created, folder| created.with(AGENT_FOLDER, folder));
        events.push(begin.policy.iter().fold(created, |created, policy| created.with("policy", policy.as_str())));
    }
    let mut started = NewEvent::new(kind::RUN_STARTED, &run, actor());
    started.data = fields(begin)?;
    started.epoch = begin.seen_epoch.map(|epoch| epoch + 1);
    events.push(started);
    if begin.agent.is_some() || begin.launcher.is_some() {
        let holds = if begin.launcher.is_some() { lease::WATCHED } else { lease::HOOKED };
        events.push(lease::taken(&run, None, holds, actor()));
    }
    if let Some(elsewhere) = &begin.elsewhere {
        events.push(lease::taken_by(&elsewhere.holder(), &run, None, lease::WATCHED, actor()));
    }
    if let Some(id) = &begin.conversation {
        events.push(seen(id, &begin.session, Some(&run), begin.transcript.as_deref(), actor()));
    }
    let appended = store.append_events(&events, &())?;
    let epoch = appended.iter().find(|a| a.event.kind == kind::RUN_STARTED).map_or(0, |a| a.event.epoch);
    // What a newer run has taken over from, and is dead, ends with that. The new one has begun, whether that can be recorded or not. A supervisor that
    // still makes the last checkpoint knows better what the end was, and records it behind that.
    let _ = end_unheard(store, &begin.session, begin.actor.clone(), |earlier| {
        let is_meant =
            earlier.id != run && !life::life(earlier).is_alive() && !is_hidden(earlier) && !last_seen::is_finishing(earlier);
        is_meant.then(|| why_over(earlier, "a newer run has taken over"))
    });
    Ok(Current { session: begin.session.clone(), run, epoch, workspace: begin.workspace.clone() })
}

/// The field of a run that no person has resumed.
const RESUMED_BY_AGENT: &str = "resumed_by_agent";

/// True if no person has chosen the checkpoint that a run goes on from.
pub fn is_resumed_by_agent(run: &Run) -> bool {
    run.extra.get(RESUMED_BY_AGENT).is_some_and(|value| value == true)
}

fn fields(begin: &Begin) -> Result<serde_json::Map<String, Value>> {
    let text = |path: &Path| name::display(path.as_os_str().as_encoded_bytes());
    let argv: Vec<String> = begin.argv.iter().map(|word| name::display(word.as_encoded_bytes())).collect();
    let fields = json!({
        "session": begin.session,
        "resumed_from": begin.resumed_from.map(|id| id.to_string()),
        "host": host_name(),
        "boot_id": boot_id()?,
        "pid": begin.agent.as_ref().map(|agent| agent.process),
        "start_time": begin.agent.as_ref().map(|agent| agent.start_time),
        "tmux": begin.tmux,
        "argv": argv,
        "cwd": text(&begin.folder),
        "permission_mode": begin.permission_mode,
        "conversation": begin.conversation,
    });
    let Value::Object(mut fields) = fields else { return Err(Error::Invalid("a run's fields are no object".into())) };
    if let Some(RemoteLocation { host, container }) = &begin.elsewhere {
        // Nothing of it is asked for here: only its lease tells whether it lives.
        fields.extend([("host", json!(host)), ("boot_id", Value::Null), (PID_NAMESPACE, json!(ELSEWHERE))].map(owned));
        fields.extend(container.iter().map(|container| ("container".to_owned(), json!(container))));
        return Ok(fields);
    }
    if begin.resumed_by_agent {
        fields.insert(RESUMED_BY_AGENT.into(), json!(true));
    }
    fields.extend(pid_namespace().map(|name| (PID_NAMESPACE.to_owned(), json!(name))));
    fields.extend(machine().map(|id| (MACHINE.to_owned(), json!(id))));
    if let Some(launcher) = &begin.launcher {
        fields.insert(LAUNCHER.into(), json!(launcher));
    }
    if let Some(variables) = &begin.launch_variables {
        fields.insert(LAUNCH_VARIABLES.into(), json!(variables));
    }
    if let Some(settings) = &begin.settings {
        fields.insert(USER_SETTINGS.into(), json!(settings));
    }
    if let Some(at_terminal) = begin.at_terminal {
        fields.insert(AT_TERMINAL.into(), json!(at_terminal));
    }
    if let Some(config) = &begin.config {
        fields.insert(CONFIG_FOLDER.into(), json!(config));
    }
    Ok(fields)
}

fn owned((name, value): (&str, Value)) -> (String, Value) {
    (name.to_owned(), value)
}

fn place(workspace: &Path) -> Value {
    let path = name::display(workspace.as_os_str().as_encoded_bytes());
    json!(Place::of(workspace).unwrap_or(Place { path, ..Place::default() }))
}

/// Records the agent's process, once there is one, and that this process watches it.
pub fn started(store: &Store, current: &Current, agent: &Identity, actor: Actor) -> Result<()> {
    let changed = NewEvent::new(kind::RUN_CHANGED, &current.run, actor.clone()).in_epoch(current.epoch);
    let changed = changed.with("pid", agent.process).with("start_time", agent.start_time);
    let lease = lease::taken(&current.run, Some(current.epoch), lease::WATCHED, actor);
    unfenced(store, changed, lease)
}

/// Records that another process than the one which began the run starts its agent, and where in tmux that is.
pub fn taken_on(store: &Store, current: &Current, launcher: &Identity, tmux: Option<&Tmux>, actor: Actor) -> Result<()> {
    let changed = NewEvent::new(kind::RUN_CHANGED, &current.run, actor).in_epoch(current.epoch);
    store.append_events(&[changed.with(LAUNCHER, json!(launcher)).with("tmux", json!(tmux))], &())?;
    Ok(())
}

/// Ends a run, with its end and the reason for people, and says what the session is now, and what is wanted of it: none where nobody has asked for anything. A run that a newer one
/// has taken over from changes nothing but itself.
pub fn end(
    store: &Store,
    current: &Current,
    (end, reason): (End, &str),
    (status, wanted): (Status, Option<Goal>),
    actor: Actor,
) -> Result<()> {
    let ended = NewEvent::new(kind::RUN_ENDED, &current.run, actor.clone()).in_epoch(current.epoch);
    let ended = ended.with("exit_reason", reason).with("end", json!(end));
    let session = store.refresh()?.session(&current.session)?;
    if session.as_ref().is_some_and(|session| session.status == Status::Ended) {
        store.append_events(&[ended], &())?;
        return Ok(());
    }
    let wanted = wanted.or(session.map(|session| session.goal())).unwrap_or(Goal::Running);
    let status = NewEvent::new(kind::SESSION_STATUS, &current.session, actor)
        .in_epoch(current.epoch)
        .with("status", status.name())
        .with("wanted", wanted.name())
        .with("reason", reason);
    unfenced(store, ended, status)
}

/// The reason of an end that nobody saw, and that is recorded now: why the run is dead. Of one that may live, the occasion.
pub fn why_over(run: &Run, occasion: &str) -> String {
    match life::life(run).is_alive() {
        true => occasion.to_owned(),
        false => match life::why_unknown(run) {
            Some(why) => format!("{occasion}; {why}"),
            None => last_seen::why_dead(run),
        },
    }
}

/// Records the end of those open runs of a session for which `why` has a reason, and of which nobody has told how they ended. They were at work until
/// they were [last seen](last_seen::last_seen).
pub fn end_unheard(store: &Store, session: &str, actor: Actor, why: impl Fn(&Run) -> Option<String>) -> Result<()> {
    let view = store.refresh()?;
    let ids = view.session(session)?.map(|session| session.runs).unwrap_or_default();
    let runs = ids.iter().filter_map(|id| view.run(id).transpose()).collect::<parhelia_store::Result<Vec<Run>>>()?;
    let mut ended = Vec::new();
    for run in runs.into_iter().filter(Run::is_open) {
        let Some(reason) = why(&run) else { continue };
        let heard = last_seen::last_seen(&view, &run)?;
        let event = NewEvent::new(kind::RUN_ENDED, &run.id, actor.clone()).in_epoch(run.epoch);
        let event = event.with("exit_reason", reason).with("end", json!(End::of(EndKind::Unknown)));
        ended.push(event.with(life::HEARD, heard.to_string()));
    }
    if !ended.is_empty() {
        store.append_events(&ended, &())?;
    }
    Ok(())
}

/// Appends what a run may always say of itself, and with it what only the newest run may, where it is that.
fn unfenced(store: &Store, of_itself: NewEvent, of_the_newest: NewEvent) -> Result<()> {
    match store.append_events(&[of_itself.clone(), of_the_newest], &()) {
        Err(parhelia_store::Error::Fenced { .. }) => store.append_events(&[of_itself], &())?,
        other => other?,
    };
    Ok(())
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use parhelia_store::OpenOptions;

    use super::*;

    #[test]
    fn a_newer_run_ends_those_before_it_that_are_dead() {
        let folder = tempfile::tempdir().unwrap();
        let store =
            parhelia_ledger::open(&folder.path().join("store"), &OpenOptions { create: true, ..OpenOptions::default() }).unwrap();
        let begin_with = |launcher: Option<Identity>| {
            let new = Begin { session: "s".into(), workspace: folder.path().into(), launcher, ..Begin::default() };
            begin(&store, &new).unwrap().run
        };
        let me = lease_holder();
        let dead = Identity { process: i32::MAX, ..me.clone() };
        let (first, second) = (begin_with(Some(dead)), begin_with(Some(me)));
        let third = begin_with(None);
        let run = |id: &str| store.refresh().unwrap().run(id).unwrap().unwrap();
        let (first, second, third) = (run(&first), run(&second), run(&third));
        assert!(!first.is_open() && second.is_open() && third.is_open(), "what is alive goes on");
        let heard: Timestamp = serde_json::from_value(first.extra["heard"].clone()).unwrap();
        assert_eq!((first.ended_at, first.ending().unwrap().kind), (Some(heard.max(first.started_at)), EndKind::Unknown));
        let session = store.view().session("s").unwrap().unwrap();
        assert_eq!((session.run.as_deref(), session.status), (Some(third.id.as_str()), Status::Active));
        assert_eq!(first.exit_reason.as_deref(), Some("its process is gone, and nothing says why"));
        end_unheard(&store, "s", Actor::default(), |run| Some(why_over(run, "ended"))).unwrap();
        assert!(!run(&second.id).is_open() && !run(&third.id).is_open());
    }

    fn lease_holder() -> Identity {
        Identity::of(std::process::id() as i32).unwrap()
    }
}
