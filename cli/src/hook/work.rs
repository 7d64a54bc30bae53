//! What an event asks for and the agent need not wait for: a process of its own makes the checkpoint, and outlives the agent.

use std::{
    io::{self, Write},
    os::unix::process::CommandExt,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use parhelia_agent::{
    command::Agent,
    hooks::{Event, Kind},
    transcript::has_answer,
};
use parhelia_session::{
    hook::meaning,
    retention, rollback,
    run::{self, Conversation, Current, Sender, Wanted, hook_actor},
};
use parhelia_store::{
    Store,
    event::{NewEvent, kind},
    fold::{Goal, Status},
    record::Trigger,
};
use serde_json::json;

use super::log;
use crate::{
    context::Context,
    env,
    session::{agent::variable, prune::removed_text},
};

/// Another checkpoint of the same session is waited for, but not longer.
const TURN_LIMIT: Duration = Duration::from_secs(300);
/// The time that an agent may take to write down its last message, once it has told its hooks.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);
/// What this process is started with, first of all.
const WORDS: [&str; 2] = ["hook", "--work"];
/// The field of a handed-over event that tells of the process that it comes from: the one that does the work has no agent above it.
const SENDER: &str = "parhelia_sender";

/// Starts the process that does it, and gives it the event.
pub fn hand_over(context: &Context, event: &Event, sender: &Sender) -> io::Result<()> {
    let program = std::env::current_exe()?;
    let mut command = Command::new(program);
    command.args(WORDS);
    if let Some(store) = &context.global.store {
        command.arg("--store").arg(store);
    }
    let log = || log::open().map_or_else(Stdio::null, Stdio::from);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(log())
        .current_dir("/")
        // Signals that end the agent's group do not reach it.
        .process_group(0)
        .spawn()?;
    // No more than it needs: a tool's whole output may be in an event.
    let short = json!({
        "hook_event_name": event.hook_event_name,
        "session_id": event.session_id,
        "transcript_path": event.transcript_path,
        "cwd": event.cwd,
        "permission_mode": event.permission_mode,
        "source": event.source,
        "prompt": event.prompt.as_ref().map(|text| text.chars().take(4_000).collect::<String>()),
        "trigger": event.trigger,
        "reason": event.reason,
        "last_assistant_message": event.last_assistant_message.as_ref().map(|text| text.chars().take(4_000).collect::<String>()),
        "agent_id": event.agent_id,
        "error": event.error,
        SENDER: sender,
    });
    match child.stdin.take() {
        Some(mut pipe) => pipe.write_all(short.to_string().as_bytes()),
        None => Ok(()),
    }
}

/// Reads the event, and does what it asks for.
pub fn run(context: &Context) {
    let began = Instant::now();
    // Its own session: a terminal that closes does not take it along.
    let _ = rustix::process::setsid();
    let event = match Event::read(io::stdin().lock()) {
        Ok(event) => event,
        Err(e) => return log::line(&format!("the event cannot be read: {e}")),
    };
    match work(context, &event) {
        Ok(done) => log::line(&format!("{}: {done} in {} ms", event.hook_event_name, began.elapsed().as_millis())),
        Err(e) => log::line(&format!("{}: {e}", event.hook_event_name)),
    }
}

fn work(context: &Context, event: &Event) -> crate::exit::Result<String> {
    let store = context.open_with(true)?;
    let sender: Sender = event.more.get(SENDER).and_then(|value| serde_json::from_value(value.clone()).ok()).unwrap_or_default();
    let launched = run::current(&store, &sender, event.cwd.as_deref())?;
    let launched = launched.map(|current| store.view().run(&current.run)).transpose()?.flatten();
    // Where whoever waited for the agent is gone, nobody else makes the last checkpoint and records the run's end.
    let is_launched = launched.is_some_and(|run| !run::is_orphaned(&run));
    let meaning = meaning(event, is_launched);
    let Some(current) = run::run_of(&store, event, meaning.checkpoint.is_some(), &sender, &variable)? else {
        return Ok("belongs to no session".into());
    };
    // As it was before anything was waited for.
    let is_set_aside = store.view().session(&current.session)?.is_some_and(|session| session.goal() == Goal::Paused);
    if meaning.checkpoint.is_some() && !is_answered(event) {
        log::line(&format!("{}: the transcript does not have the turn's last message", event.hook_event_name));
    }
    let turn = rollback::settle(&store, &current.session, TURN_LIMIT, &hook_actor(), &log::line, &())?;
    if turn.is_none() {
        return Ok("nothing was captured: another process still captures the session, or rolls it back".into());
    }
    if store.view().run(&current.run)?.is_some_and(|run| run.exit_reason.as_deref() == Some(rollback::STOPPED)) {
        return Ok("nothing was captured: the run was stopped for a rollback meanwhile".into());
    }
    note_permission_mode(&store, &current, event)?;
    if event.kind() == Kind::Prompt {
        first_prompt(&store, &current, event)?;
        if is_set_aside {
            take_up(&store, &current)?;
        }
    }
    let mut done = "noted".to_owned();
    if let Some(wanted) = meaning.checkpoint {
        let config = context.config(&current.workspace)?;
        let argv = match sender.above() {
            Some((_, argv)) => argv,
            None => env::argv(store.view().run(&current.run)?.as_ref()),
        };
        let made = noted(
            &store,
            &current,
            run::make(
                &store,
                &Wanted {
                    session: &current.session,
                    run: Some((&current.run, current.epoch)),
                    workspace: &current.workspace,
                    trigger: match wanted.trigger {
                        // One that answers a single prompt ends when that is done, or because of an error, which was an event of its own.
                        Trigger::Shutdown if Agent::of(&argv).is_some_and(|agent| agent.is_headless()) => {
                            let head = store.view().head(&current.session)?;
                            let has_failed = head.is_some_and(|head| head.record.trigger == Trigger::Error);
                            if has_failed { Trigger::Shutdown } else { Trigger::Complete }
                        }
                        trigger => trigger,
                    },
                    detail: Some(wanted.detail),
                    message: None,
                    skip_if_unchanged: wanted.skip_if_unchanged,
                    rules: None,
                    conversation: event.transcript_path.clone().map_or(Conversation::None, Conversation::Transcript),
                    tmux: run::tmux(&variable),
                    environment: Some(env::request(context, &current.workspace, &argv)?),
                    config: &config,
                    actor: hook_actor(),
                    variable: &variable,
                },
                &(),
            ),
        )?;
        let what = match (made.outcome.skipped, made.is_damaged()) {
            (true, _) => "nothing has changed since",
            (false, true) => "made a checkpoint that is DAMAGED:",
            (false, false) => "made checkpoint",
        };
        let failed: String = made.notice.clone().into_iter().chain(made.failed()).map(|text| format!("; {text}")).collect();
        done = format!("{what} {}{failed}", made.outcome.checkpoint.id());
        if made.is_sound() {
            let pruned = retention::after(&store, &made.outcome, &config.retention, &hook_actor(), &());
            if let Some(text) = pruned.as_ref().and_then(removed_text) {
                done.push_str(&format!("; {text}"));
            }
        }
    }
    if is_launched {
        return Ok(done);
    }
    if meaning.ends {
        let reason = event.reason.as_deref().unwrap_or("other");
        // The agent says `other` of a signal, and one that answers a single prompt says so of every end.
        let is_headless = sender.above().and_then(|(_, argv)| Agent::of(&argv)).is_some_and(|agent| agent.is_headless());
        let goal = if reason == "other" && !is_headless { None } else { Some(Goal::Paused) };
        run::end(&store, &current, &format!("session end: {reason}"), (Status::Paused, goal), hook_actor())?;
    } else if let Err(e) = run::renew(&store, &current, run::HOOKED, hook_actor()) {
        log::line(&format!("{}: the run's lease was not renewed: {e}", event.hook_event_name));
    }
    Ok(done)
}

/// Waits until the transcript has what the agent said last, of which the event of a turn's end tells before that. False if it does not come.
fn is_answered(event: &Event) -> bool {
    let (Some(said), Some(transcript)) = (&event.last_assistant_message, &event.transcript_path) else { return true };
    if said.trim().is_empty() {
        return true;
    }
    let until = Instant::now() + ANSWER_LIMIT;
    loop {
        match has_answer(transcript, said) {
            Ok(true) => return true,
            _ if Instant::now() > until => return false,
            _ => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}

/// Nobody reads the log: that a checkpoint failed is kept with the session.
fn noted<T>(store: &Store, current: &Current, made: parhelia_session::Result<T>) -> parhelia_session::Result<T> {
    let failed = made.as_ref().err().map(ToString::to_string);
    if let Err(e) = run::note_checkpoint(store, &current.session, failed.as_deref(), hook_actor()) {
        log::line(&format!("whether checkpoints fail was not recorded: {e}"));
    }
    made
}

/// The agent is resumed in the mode that it was in last.
fn note_permission_mode(store: &Store, current: &Current, event: &Event) -> crate::exit::Result<()> {
    let known = store.view().run(&current.run)?.and_then(|run| run.permission_mode);
    if let Some(mode) = event.permission_mode.as_ref().filter(|mode| Some(*mode) != known.as_ref()) {
        let changed = NewEvent::new(kind::RUN_CHANGED, &current.run, hook_actor()).in_epoch(current.epoch);
        store.append_events(&[changed.with("permission_mode", mode.clone())], &())?;
    }
    Ok(())
}

/// A session that was set aside while its agent lived is wanted running again by whoever tells that something.
fn take_up(store: &Store, current: &Current) -> crate::exit::Result<()> {
    let view = store.refresh()?;
    let is_open = view.run(&current.run)?.is_some_and(|run| run.is_open());
    if is_open && view.session(&current.session)?.is_some_and(|session| session.goal() == Goal::Paused) {
        let active = NewEvent::new(kind::SESSION_STATUS, &current.session, hook_actor()).in_epoch(current.epoch);
        store.append_events(&[active.with("status", Status::Active.name()).with("reason", "a prompt")], &())?;
    }
    Ok(())
}

/// What the session is about, as its user put it first.
fn first_prompt(store: &Store, current: &Current, event: &Event) -> crate::exit::Result<()> {
    let known = store.view().session(&current.session)?;
    if let Some(prompt) = &event.prompt
        && known.is_some_and(|session| session.first_prompt.is_none())
    {
        let changed = NewEvent::new(kind::SESSION_CHANGED, &current.session, hook_actor()).with("first_prompt", prompt.clone());
        store.append_events(&[changed.once(format!("{}/first_prompt", current.session))], &())?;
    }
    Ok(())
}
