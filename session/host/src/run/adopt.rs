//! The run that an event of the agent belongs to; one is begun where the agent was started by hand.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use jiff::Timestamp;
use parhelia_ledger::{Goal, LedgerView as _, Place, Session, Status, kind};
use parhelia_store::{Store, event::NewEvent};

use serde_json::json;

use super::{
    agent::terminal_of,
    begin::{Begin, begin, new_session_id},
    current::Current,
    find::{Agents, Sender, current, of_conversation},
    life::{HOOKED_AGENT, agent_of, hooked_agent_of, life},
    meaning::{hook_actor, meaning},
    settings::settings_of_agent,
};
use crate::{Error, Result};
use crate::{conversation::seen, run::is_hidden, tmux_of};
use parhelia_agent::{
    command::Agent,
    folder::ConfigFolder,
    hooks::{Event, Kind},
    kinds::KINDS,
    process::{canonical, folder_of, is_at_terminal},
};

/// True of a mode in which an agent asks nobody before it acts.
pub fn bypasses(mode: &str) -> bool {
    mode == "bypassPermissions"
}

/// A mode's place among those of all agents, the strictest first. One that only a later release knows may let an agent do anything.
fn laxity(mode: &str) -> u8 {
    match mode {
        "plan" => 0,
        "default" | "manual" | "dontAsk" => 1,
        "acceptEdits" => 2,
        "auto" => 3,
        mode if bypasses(mode) => 5,
        _ => 4,
    }
}

/// The mode that a run was in last, as far as a resume has it: none that is laxer than that of the launch, as anybody can write an event.
pub fn mode_within(last: Option<String>, launched: Option<&Agent>) -> Option<String> {
    let launch = launched.and_then(Agent::permission_mode);
    let most = launch.as_deref().map_or_else(|| laxity("default"), laxity);
    last.filter(|mode| laxity(mode) <= most)
}

/// The run that an event belongs to. `may_begin`: whether one is begun where there is none.
///
/// A conversation that is known belongs to its session, whoever started it; of one that is not, and that no run was launched with, a new
/// session is made in the agent's folder. What is late, and of an agent that is dead, belongs to the last run.
pub fn run_of(
    store: &Store,
    event: &Event,
    may_begin: bool,
    sender: &Sender,
    variable: &dyn Fn(&str) -> Option<OsString>,
) -> Result<Option<Current>> {
    let above = sender.above();
    if is_hidden_among_others(store, event, sender)? {
        return Ok(None);
    }
    if let Some(current) = current(store, sender, event.cwd.as_deref())? {
        let view = store.view();
        note_conversation(store, view.session(&current.session)?.as_ref(), &current, event)?;
        note_agent(store, &current, event, sender)?;
        return Ok(Some(current));
    }
    if event.session_id.is_empty() {
        return Ok(None);
    }
    let known = of_conversation(store, &event.session_id)?;
    if let Some((session, _)) = &known
        && is_of_another(store, sender, session)?
    {
        return Ok(None);
    }
    if let Some((session, Some(run))) = &known {
        // An end event closes the run of its own agent, not a newer one.
        if meaning(event, false).ends && sender.is_stranger_to(run) {
            return earlier(store, session, sender);
        }
        let current = Current::of(run, Some(session));
        note_conversation(store, Some(session), &current, event)?;
        return Ok(Some(current));
    }
    let view = store.view();
    if let Some((session, None)) = &known
        && event.kind() != Kind::SessionStart
        && !above.as_ref().is_some_and(|(agent, _)| agent.is_alive())
        && let Some(run) = view.newest_run(session)?
    {
        return match meaning(event, false).ends && sender.is_stranger_to(&run) {
            true => earlier(store, session, sender),
            false => Ok(Some(Current::of(&run, Some(session)))),
        };
    }
    // What ends begins nothing, and what a tool has started is that tool's work, also when the agent that had the tool is gone.
    if !may_begin || event.kind() == Kind::SessionEnd || sender.is_left_by_a_tool {
        return Ok(None);
    }
    let policy = policy_above(store, sender)?;
    adopt(store, event, known.map(|(session, _)| session), (above, policy), variable).map(Some)
}

/// True if an event for a session whose run is not seen above its sender may come from another session's agent, which is not seen either: neither a
/// marker nor a conversation's id tells which it is.
fn is_hidden_among_others(store: &Store, event: &Event, sender: &Sender) -> Result<bool> {
    let runs = store.view().runs()?;
    if runs.values().any(|run| run.is_open() && sender.descends_from(run)) {
        return Ok(false);
    }
    let of_marker = sender.marker.as_ref().and_then(|id| runs.get(id)).map(|run| run.session.clone());
    let of_conversation = || Ok::<_, Error>(of_conversation(store, &event.session_id)?.map(|(session, _)| session.id));
    let Some(session) = of_marker.map_or_else(of_conversation, |session| Ok(Some(session)))? else { return Ok(false) };
    Ok(runs.values().any(|run| run.is_open() && run.session != session && is_hidden(run)))
}

/// True if an event about a session's conversation comes from inside the run of another session, and not from the session's own: whatever runs
/// there can write what it likes into an event.
fn is_of_another(store: &Store, sender: &Sender, session: &Session) -> Result<bool> {
    let runs = store.view().runs()?;
    let above: Vec<_> = runs.values().filter(|run| run.is_open() && sender.descends_from(run)).collect();
    Ok(!above.is_empty() && above.iter().all(|run| run.session != session.id))
}

/// The policy of the session inside whose run an event is sent; none outside of runs, and of a session that has chosen none.
fn policy_above(store: &Store, sender: &Sender) -> Result<Option<String>> {
    let view = store.view();
    let run = view.runs()?.into_values().find(|run| run.is_open() && sender.descends_from(run));
    Ok(run.map(|run| view.session(&run.session)).transpose()?.flatten().and_then(|session| session.policy))
}

/// The run of a session that an agent was started in, by its marker, where a later one has taken over.
fn earlier(store: &Store, session: &Session, sender: &Sender) -> Result<Option<Current>> {
    let Some(id) = sender.marker.as_ref().filter(|id| session.run.as_ref() != Some(*id) && session.runs.contains(id)) else {
        return Ok(None);
    };
    Ok(store.view().run(id)?.map(|run| Current::of(&run, Some(session))))
}

fn adopt(
    store: &Store,
    event: &Event,
    known: Option<Session>,
    (above, policy): (Option<Agents>, Option<String>),
    variable: &dyn Fn(&str) -> Option<OsString>,
) -> Result<Current> {
    let folder: PathBuf = event.cwd.clone().ok_or_else(|| Error::Invalid("the event names no folder".into()))?;
    // What has ended is over; whoever takes up its conversation begins another session.
    let known = known.filter(|session| session.status != Status::Ended);
    if let (None, Some((agent, _))) = (&known, &above)
        && let Some(current) = of_process(store, agent.process, agent.start_time)?
    {
        // The same process with another conversation.
        note_conversation(store, None, &current, event)?;
        return Ok(current);
    }
    let place = known.as_ref().and_then(|session| session.workspace.as_ref()).map(Place::folder);
    let workspace = place.filter(|place| place.is_dir()).unwrap_or_else(|| folder.clone());
    // It is resumed from the workspace, wherever it was started.
    let executed = |(agent, argv): &Agents| match folder_of(agent.process) {
        Some(folder) => Agent::found_anywhere(argv.clone(), &folder),
        None => argv.clone(),
    };
    let argv = above.as_ref().map(executed).unwrap_or_default();
    let agent = Agent::of(&argv);
    let from_argv = agent.as_ref().and_then(Agent::permission_mode);
    let kind = agent.map_or(KINDS[0], |agent| agent.kind());
    let at_terminal = above.as_ref().map(|(agent, _)| terminal_of(kind, is_at_terminal(agent.process), variable));
    begin(
        store,
        &Begin {
            session: known.as_ref().map_or_else(|| new_session_id(&workspace), |session| session.id.clone()),
            name: workspace.file_name().map(|name| name.to_string_lossy().into_owned()),
            policy,
            workspace,
            argv,
            folder,
            conversation: Some(event.session_id.clone()),
            transcript: event.transcript_path.clone(),
            // Anybody can write an event: what it says is no consent to act without checks.
            permission_mode: event.permission_mode.clone().filter(|mode| !bypasses(mode)).or(from_argv),
            seen_epoch: known.as_ref().map(|session| session.epoch),
            at_terminal,
            tmux: tmux_of(variable),
            settings: above.as_ref().and_then(|(agent, _)| settings_of_agent(agent)),
            agent: above.map(|(agent, _)| agent),
            config: event
                .transcript_path
                .as_deref()
                .and_then(ConfigFolder::of_transcript)
                .or_else(|| ConfigFolder::of(kind, variable)),
            actor: hook_actor(),
            ..Begin::default()
        },
    )
}

/// Records which conversation the agent is in, where it is another one than before: it begins a new one, or takes up an old one. Only the
/// event that says so is taken in at once; others may come late, from a conversation that the agent has left.
fn note_conversation(store: &Store, session: Option<&Session>, current: &Current, event: &Event) -> Result<()> {
    let known = session.map(|session| session.conversations.as_slice()).unwrap_or_default();
    let is_last = known.last().is_some_and(|last| last.id == event.session_id);
    let is_left = event.kind() != Kind::SessionStart && known.iter().any(|known| known.id == event.session_id);
    if event.session_id.is_empty() || is_last || is_left {
        return Ok(());
    }
    let transcript = event.transcript_path.as_deref();
    let seen = seen(&event.session_id, &current.session, Some(&current.run), transcript, hook_actor()).in_epoch(current.epoch);
    match store.append_events(&[seen], &()) {
        // A run that a newer one has taken over from has no say in where the session goes on.
        Ok(_) | Err(parhelia_store::Error::Fenced { .. }) => Ok(()),
        Err(e) => Err(e.into()),
    }
}

/// Records the agent's process, where it is another one than the run's program, such as a script: what a script has started may outlive it.
fn note_agent(store: &Store, current: &Current, event: &Event, sender: &Sender) -> Result<()> {
    let is_its_work = event.kind() != Kind::SessionEnd && !sender.is_left_by_a_tool;
    let Some(agent) = sender.agent.as_ref().filter(|_| is_its_work) else { return Ok(()) };
    let Some(run) = store.view().run(&current.run)?.filter(|run| run.is_open() && sender.descends_from(run)) else {
        return Ok(());
    };
    let is_known = [agent_of(&run), hooked_agent_of(&run)].iter().flatten().any(|known| known.is_same(agent));
    if is_known {
        return Ok(());
    }
    let changed = NewEvent::new(kind::RUN_CHANGED, &current.run, hook_actor()).in_epoch(current.epoch);
    match store.append_events(&[changed.with(HOOKED_AGENT, json!(agent))], &()) {
        Ok(_) | Err(parhelia_store::Error::Fenced { .. }) => Ok(()),
        Err(e) => Err(e.into()),
    }
}

/// The live run whose agent is this process.
fn of_process(store: &Store, process: i32, start_time: u64) -> Result<Option<Current>> {
    let view = store.view();
    let is_it = |run: &parhelia_ledger::Run| run.pid == u32::try_from(process).ok() && run.start_time == Some(start_time);
    let found = view.runs()?.into_values().find(|run| is_it(run) && life(run).is_alive());
    found.map(|run| Ok(Current::of(&run, view.session(&run.session)?.as_ref()))).transpose()
}

/// Sessions of a workspace whose last run is over without the session's end, newest first: work that could be gone on with.
pub fn incomplete(store: &Store, workspace: &Path, but: &str) -> Result<Vec<Session>> {
    let view = store.view();
    let workspace = canonical(workspace);
    let is_here = |session: &Session| session.workspace.as_ref().is_some_and(|place| canonical(&place.folder()) == workspace);
    let mut found = Vec::new();
    for session in view.sessions()?.into_iter().filter(|s| s.id != but && s.head.is_some() && is_here(s)) {
        let run = view.newest_run(&session)?;
        if session.goal() == Goal::Running && run.is_some_and(|run| !life(&run).is_alive()) {
            found.push(session);
        }
    }
    found.sort_by_key(|session| std::cmp::Reverse(session.changed_sequence));
    Ok(found)
}

/// Sessions of a workspace whose agents have ended, and that were changed since, newest first: work that was done there.
pub fn left(store: &Store, workspace: &Path, but: &str, since: Timestamp) -> Result<Vec<Session>> {
    let view = store.view();
    let workspace = canonical(workspace);
    let is_here = |session: &Session| session.workspace.as_ref().is_some_and(|place| canonical(&place.folder()) == workspace);
    let mut found = Vec::new();
    for session in view.sessions()?.into_iter().filter(|s| s.id != but && s.head.is_some() && s.changed_at >= since) {
        let has_said = !session.conversations.is_empty() && is_here(&session);
        if has_said && view.newest_run(&session)?.is_some_and(|run| !life(&run).is_alive()) {
            found.push(session);
        }
    }
    found.sort_by_key(|session| std::cmp::Reverse(session.changed_sequence));
    Ok(found)
}

#[cfg(test)]
mod tests {
    use parhelia_agent::process::ancestors;
    use parhelia_store::OpenOptions;

    use super::*;

    #[test]
    fn an_event_from_inside_one_run_says_nothing_of_anothers_conversation() {
        let folder = tempfile::tempdir().unwrap();
        let work = folder.path().canonicalize().unwrap();
        let store = parhelia_ledger::open(&work.join("store"), &OpenOptions { create: true, ..OpenOptions::default() }).unwrap();
        let me = super::super::find::this_process().unwrap();
        let theirs =
            Begin { session: "theirs".into(), workspace: work.clone(), conversation: Some("c".into()), ..Begin::default() };
        begin(&store, &theirs).unwrap();
        let event = json!({ "hook_event_name": "SessionEnd", "session_id": "c", "cwd": work, "reason": "logout" });
        let event = Event::parse(event.to_string().as_bytes()).unwrap();
        let sender = Sender { line: ancestors(), ..Sender::default() };
        let taken = |store: &Store| run_of(store, &event, true, &sender, &|_| None).unwrap().map(|current| current.session);
        assert_eq!(taken(&store).as_deref(), Some("theirs"), "an event of no run");
        let mine = Begin { session: "mine".into(), workspace: work.join("mine"), launcher: Some(me), ..Begin::default() };
        begin(&store, &mine).unwrap();
        store.refresh().unwrap();
        assert_eq!(taken(&store), None);
    }

    #[test]
    fn a_resume_has_no_laxer_mode_than_the_launch() {
        let launched = |line: &str| Agent::of(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
        let within = |mode: &str, line: &str| mode_within(Some(mode.into()), launched(line).as_ref()).is_some();
        for (line, may, may_not) in [
            ("claude --permission-mode plan", &["plan"][..], &["default", "acceptEdits", "bypassPermissions", "new"][..]),
            ("claude", &["plan", "default"], &["acceptEdits", "auto", "bypassPermissions", "new"]),
            ("claude --permission-mode acceptEdits", &["plan", "default", "acceptEdits"], &["auto", "bypassPermissions", "new"]),
            ("claude --dangerously-skip-permissions", &["plan", "acceptEdits", "bypassPermissions", "new"], &[]),
        ] {
            assert!(may.iter().all(|mode| within(mode, line)), "{line}");
            assert!(!may_not.iter().any(|mode| within(mode, line)), "{line}");
        }
        assert_eq!(mode_within(None, None), None);
    }

    #[test]
    fn what_comes_late_from_a_conversation_that_was_left_does_not_take_the_session_back_to_it() {
        let folder = tempfile::tempdir().unwrap();
        let work = folder.path().canonicalize().unwrap();
        let store = parhelia_ledger::open(&work.join("store"), &OpenOptions { create: true, ..OpenOptions::default() }).unwrap();
        let begun = Begin { session: "it".into(), workspace: work.clone(), conversation: Some("one".into()), ..Begin::default() };
        let sender = Sender { marker: Some(begin(&store, &begun).unwrap().run), ..Sender::default() };
        let conversations = |kind: &str, id: &str| {
            let event = json!({ "hook_event_name": kind, "session_id": id, "cwd": work, "source": "clear", "reason": "clear" });
            let event = Event::parse(event.to_string().as_bytes()).unwrap();
            run_of(&store, &event, true, &sender, &|_| None).unwrap().unwrap();
            let session = store.refresh().unwrap().session("it").unwrap().unwrap();
            session.conversations.into_iter().map(|known| known.id).collect::<Vec<_>>()
        };
        assert_eq!(conversations("SessionStart", "two"), ["one", "two"]);
        for late in ["UserPromptSubmit", "Stop", "SessionEnd"] {
            assert_eq!(conversations(late, "one"), ["one", "two"], "{late}");
        }
        assert_eq!(conversations("UserPromptSubmit", "three"), ["one", "two", "three"], "its beginning could not be recorded");
        assert_eq!(conversations("SessionStart", "one"), ["two", "three", "one"], "it was taken up again");
    }
}
