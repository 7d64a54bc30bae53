//! The briefing of a conversation that begins or goes on.

#![expect(clippy::disallowed_methods, reason = "appends to the agent's own file of variables")]

use parhelia_store::name::step::Step;
use std::{io::Write, path::PathBuf};

use jiff::SignedDuration;
use parhelia_agent::{briefing::BRIEFED, command::Agent, hooks::Event, process::RUN_MARKER};
use parhelia_ledger::{LedgerView as _, Session};
use parhelia_store::{Store, id::Ulid, record::Checkpoint};
use serde_json::json;

use parhelia_host::{
    Host, Result, intent,
    run::{self, Current, Sender},
};
use parhelia_knowledge::{
    briefing::{BriefingRequest, Input, Why, earlier, gather, render_with},
    budget::{Budget, tokens},
    memory::{self, Project},
    phase::Home,
};

/// A new conversation is told of work that ended so many days ago at most.
const EARLIER_DAYS: i64 = 14;
/// The share of the budget for background, in percent.
const BACKGROUND_PERCENT: usize = 50;

/// The words for an agent.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The agent's JSON.
    pub text: String,
    /// Its share of the budget, for the log.
    pub measured: String,
}

/// Notes that a conversation begins, and says what it should know. Nothing where there is nothing to say.
pub fn answer(store: &Store, host: &dyn Host, event: &Event, sender: &Sender, budget: Budget) -> Result<Option<Answer>> {
    let before = store.view();
    let Some(current) = run::run_of(store, event, true, sender, &|name| host.variable(name))? else { return Ok(None) };
    mark(host, &current, sender);
    // Not to have it recorded is no reason to say nothing.
    let _ = run::note_hooks(store, host, &current, &event.hook_event_name);
    let is_new = before.run(&current.run)?.is_none();
    let begins = matches!(event.source.as_deref(), None | Some("startup" | "resume"));
    if begins && host.variable(BRIEFED).is_some_and(|run| *run == *current.run) {
        return Ok(None);
    }
    if begins && run::agent_of_event(store, &current, sender)?.is_some_and(|agent| forgets_when_told(&agent)) {
        return Ok(None);
    }
    let input = input(store, host, &current, is_new, event)?;
    let known = known_of_project(store, host, &current, event, input.as_ref(), budget.share_of_memory());
    let phase = if begins { unfinished_phase(host) } else { None };
    // What else is told comes off the rest.
    let left = known.iter().chain(&phase).fold(budget, |left, told| left.minus(told).minus("\n\n"));
    let said = input.map(|input| {
        let window_tokens = host.config(&current.workspace).map_or(0, |config| config.context.window_tokens);
        let left = if input.why.is_background() { left.part(BACKGROUND_PERCENT) } else { left };
        let pieces = earlier(store, &input, event.transcript_path.as_deref(), window_tokens);
        render_with(&input, pieces.as_deref(), left)
    });
    let measured = match (&said, &phase, &known) {
        (None, None, None) => return Ok(None),
        (None, _, Some(known)) => format!("told {} tokens of the project's memory", tokens(known)),
        (None, Some(_), None) => "told of a phase checkpoint".to_owned(),
        (Some((said, kept)), ..) => format!(
            "told {} tokens of {}, {kept} of them of the earlier conversation, {} characters of {}, {} files; {} not included",
            said.tokens,
            budget.tokens_max,
            said.characters,
            budget.characters_max,
            said.files,
            said.left_out.len()
        ),
    };
    let words: Vec<String> = said.map(|(said, _)| said.text).into_iter().chain(known).chain(phase).collect();
    let output = json!({ "hookEventName": event.hook_event_name, "additionalContext": words.join("\n\n") });
    Ok(Some(Answer { text: json!({ "hookSpecificOutput": output }).to_string(), measured }))
}

/// Knowledge of the project, where the agent has not been told yet: a conversation that goes on has it.
fn known_of_project(
    store: &Store,
    host: &dyn Host,
    current: &Current,
    event: &Event,
    input: Option<&Input>,
    budget: Budget,
) -> Option<String> {
    if event.source.as_deref() == Some("resume") {
        return None;
    }
    let session = store.view().session(&current.session).ok().flatten();
    let project = Project::of(&store.layout().root, &current.workspace, session.as_ref());
    // Not to know it is no reason to say nothing else.
    let memory = memory::read(&store.layout().root, &project, host.now()).ok()?;
    let of_input = |input: &Input| {
        let files = input.files.iter().map(|file| file.path.as_str()).chain(input.uncommitted.iter().map(String::as_str));
        let about = [input.task.as_deref(), input.branch.as_deref()].into_iter().flatten().chain(files);
        about.collect::<Vec<_>>().join(" ")
    };
    let about = input.map(of_input).unwrap_or_default();
    let name = session.and_then(|session| session.first_prompt).unwrap_or_default();
    let known = memory::relevant(&memory, &format!("{name} {about}"), budget);
    let unconfirmed = project.unconfirmed.map(|claimed| {
        let claimed = parhelia_store::name::display(claimed.as_bytes());
        format!(
            "[This folder says that it is of {claimed}, of which more is known from other folders. None of it is told until your user has confirmed that: {}.]",
            Step::ConfirmProject
        )
    });
    let all: Vec<String> = known.into_iter().chain(unconfirmed).collect();
    (!all.is_empty()).then(|| all.join("\n"))
}

/// The question whether to go on with a phase checkpoint that is not completed. Not to learn of it is no reason to say nothing else.
fn unfinished_phase(host: &dyn Host) -> Option<String> {
    let saved = Home::of(host)?.incomplete().ok().flatten()?;
    Some(format!("[{}]", parhelia_store::name::display(saved.phase.question().as_bytes())))
}

/// True of an agent that loses its prompt if it is told something at its start.
fn forgets_when_told(agent: &Agent) -> bool {
    agent.is_headless() && !agent.kind().abilities().keeps_told_prompt
}

/// Lets commands of an agent that was started by hand carry the run's marker, so that they are known when the agent is dead.
fn mark(host: &dyn Host, current: &Current, sender: &Sender) {
    let is_marked = sender.marker.as_ref() == Some(&current.run);
    let Some(path) = host.variable("CLAUDE_ENV_FILE").filter(|_| !is_marked) else { return };
    if let Ok(mut file) = std::fs::File::options().append(true).create(true).open(PathBuf::from(path)) {
        let _ = writeln!(file, "export {RUN_MARKER}={}", current.run);
    }
}

/// The words for a conversation that begins or goes on. `is_new` is true if the run begins with it, as one does that is started by hand.
fn input(store: &Store, host: &dyn Host, current: &Current, is_new: bool, event: &Event) -> Result<Option<Input>> {
    let view = store.view();
    let Some(session) = view.session(&current.session)? else { return Ok(None) };
    let source = event.source.as_deref().unwrap_or("startup");
    let run = view.run(&current.run)?;
    let from = run.as_ref().and_then(|run| run.resumed_from.clone()).and_then(|id| id.parse::<Ulid>().ok());
    // An agent that was resumed and begins a conversation does not know the old one.
    let why = match source {
        "resume" => Some(Why::Resumed),
        "startup" => Some(Why::Replaced),
        _ => None,
    };
    if let (Some(from), Some(why)) = (from, why) {
        let but = (why == Why::Replaced).then_some(event.session_id.as_str());
        let mut input = input_for(store, host, &session, view.checkpoint(from)?.as_ref(), current, (why, but))?;
        let notices = run.and_then(|run| run.extra.get("notices").cloned());
        input.notices.extend(notices.and_then(|list| serde_json::from_value::<Vec<String>>(list).ok()).unwrap_or_default());
        return Ok(Some(input));
    }
    match source {
        "resume" if is_new => by_hand(store, host, &session, current),
        "startup" => match unfinished(store, host, current)? {
            None if is_told(host, current)? => done_before(store, host, current),
            found => Ok(found),
        },
        "compact" => {
            Ok(Some(input_for(store, host, &session, view.head(&session.id)?.as_ref(), current, (Why::Forgotten, None))?))
        }
        "clear" if is_told(host, current)? && session.conversations.iter().any(|known| known.id != event.session_id) => {
            let but = Some(event.session_id.as_str());
            Ok(Some(input_for(store, host, &session, view.head(&session.id)?.as_ref(), current, (Why::Cleared, but))?))
        }
        _ => Ok(None),
    }
}

/// True if a conversation that begins is told of those before it.
fn is_told(host: &dyn Host, current: &Current) -> Result<bool> {
    Ok(host.config(&current.workspace)?.briefing.after_clear)
}

/// The newest work in this folder that has ended, where that is not long ago.
fn done_before(store: &Store, host: &dyn Host, current: &Current) -> Result<Option<Input>> {
    let since = host.now() - SignedDuration::from_hours(24 * EARLIER_DAYS);
    let Some(session) = run::left(store, &current.workspace, &current.session, since)?.into_iter().next() else {
        return Ok(None);
    };
    let head = store.view().head(&session.id)?;
    Ok(Some(input_for(store, host, &session, head.as_ref(), current, (Why::Earlier, None))?))
}

fn input_for(
    store: &Store,
    host: &dyn Host,
    session: &Session,
    checkpoint: Option<&Checkpoint>,
    current: &Current,
    (why, but): (Why, Option<&str>),
) -> Result<Input> {
    let run = (session.id == current.session).then_some(current.run.as_str());
    let config = run::config_for(store, host, session)?.map(|config| config.path);
    let (workspace, config) = (current.workspace.as_path(), config.as_deref());
    let request = BriefingRequest { session, checkpoint, workspace, why, run, but, config, host };
    let mut input = gather(store, &request)?;
    input.mount = checkpoint.and_then(|checkpoint| host.mounted_at(store, checkpoint));
    Ok(input)
}

/// The words for a session that somebody goes on with without us; none where it was left as it is.
fn by_hand(store: &Store, host: &dyn Host, session: &Session, current: &Current) -> Result<Option<Input>> {
    let head = store.view().head(&session.id)?;
    let killed = run::last_of(store, session, Some(&current.run))?.filter(run::was_killed);
    let is_back = intent::last(session).is_some_and(|last| head.as_ref().is_some_and(|head| head.record.id == last.target));
    if killed.is_none() && !is_back {
        return Ok(None);
    }
    let mut input = input_for(store, host, session, head.as_ref(), current, (Why::Resumed, None))?;
    for found in killed.map(|run| run::left_behind(store, &run, &current.workspace)).transpose()?.unwrap_or_default() {
        input.notices.push(format!("process {} of the run before is still alive, and may be at work here", found.text()));
    }
    Ok(Some(input))
}

/// Earlier work in this folder that was not finished: named, with the command that goes on with it; the user decides.
fn unfinished(store: &Store, host: &dyn Host, current: &Current) -> Result<Option<Input>> {
    let Some(session) = run::incomplete(store, &current.workspace, &current.session)?.into_iter().next() else { return Ok(None) };
    let head = store.view().head(&session.id)?;
    let mut input = input_for(store, host, &session, head.as_ref(), current, (Why::Incomplete, None))?;
    let command = Step::Resume(session.id.clone());
    input
        .notices
        .insert(0, format!("Ask the user whether to go on with that work; if so, it is resumed in a terminal with {command}."));
    Ok(Some(input))
}
