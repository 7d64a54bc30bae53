//! Everything that an event asks for and the agent need not wait for: a checkpoint, the permission mode, the first prompt, the run's end.

use std::time::{Duration, Instant};

use jiff::SignedDuration;
use parhelia_agent::{
    hooks::{Event, Kind},
    transcript::has_answer,
};
use parhelia_ledger::{By, End, EndKind, Goal, LedgerView as _, Status, kind};
use parhelia_store::{
    Store,
    event::NewEvent,
    record::{Cause, Trigger},
};

use super::attention::attend;
use crate::{
    checkpoint::{self, CheckpointReport, CheckpointRequest, Conversation},
    environment, rollback,
    workspace::beside,
};
use parhelia_host::{
    Host, Observer, Result,
    notice::Notice,
    run::{self, Current, EventCheckpoint, Sender, hook_actor, meaning},
};
use parhelia_knowledge::phase::{Home, KEPT_DAYS};

/// Another checkpoint of the same session is waited for, but not longer.
const TURN_LIMIT: Duration = Duration::from_secs(300);
/// The time that an agent may take to write down its last message, once it has told its hooks.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// The result of an event.
#[derive(Debug)]
pub enum EventOutcome {
    /// It belongs to no session.
    OfNoSession,
    /// Another process captures the session for too long, or rolls it back.
    Busy,
    /// The run was stopped for a rollback meanwhile.
    StoppedForRollback,
    /// It asked for no checkpoint.
    Noted,
    /// The checkpoint that it asked for.
    Made(Box<CheckpointReport>),
}

/// Takes an event in, from the process that `sender` describes.
pub fn work(store: &Store, host: &dyn Host, event: &Event, sender: &Sender, observer: &dyn Observer) -> Result<EventOutcome> {
    let (taken, current) = of_session(store, host, event, sender, observer)?;
    // Behind the session's own checkpoint, and when others may have its turn: the trees may be large.
    let asked = meaning(event, false).checkpoint;
    if let (EventOutcome::Made(_), Some(current), Some(EventCheckpoint { cause, .. })) = (&taken, current, asked)
        && let Err(e) = beside::keep(store, host, &current, cause, observer)
    {
        observer.warn(&Notice::NotRecorded { what: "working trees elsewhere were not captured", why: e.to_string() });
    }
    Ok(taken)
}

/// Does what the event asks for in its session, and says which that is.
fn of_session(
    store: &Store,
    host: &dyn Host,
    event: &Event,
    sender: &Sender,
    observer: &dyn Observer,
) -> Result<(EventOutcome, Option<Current>)> {
    tidy_phases(host, event, observer);
    let launched = run::current(store, sender, event.cwd.as_deref())?;
    let launched = launched.map(|current| store.view().run(&current.run)).transpose()?.flatten();
    // Where whoever waited for the agent is gone, nobody else makes the last checkpoint and records the run's end.
    let is_launched = launched.is_some_and(|run| !run::is_orphaned(&run));
    let meaning = meaning(event, is_launched);
    let variable = |name: &str| host.variable(name);
    let Some(current) = run::run_of(store, event, meaning.checkpoint.is_some(), sender, &variable)? else {
        return Ok((EventOutcome::OfNoSession, None));
    };
    if let Some(says) = meaning.says
        && let Err(e) = attend(store, &current, event, says)
    {
        observer.warn(&Notice::NotRecorded { what: "whether the agent waits was not recorded", why: e.to_string() });
    }
    if let Err(e) = beside::note(store, &current, event) {
        observer.warn(&Notice::NotRecorded { what: "the folder in which the agent works was not recorded", why: e.to_string() });
    }
    if meaning.checkpoint.is_none() && !meaning.ends {
        // A question waits for nobody's turn.
        note_hooks(store, host, &current, event, observer);
        return Ok((EventOutcome::Noted, Some(current)));
    }
    // Read before anything is waited for: it may change meanwhile.
    let is_set_aside = store.view().session(&current.session)?.is_some_and(|session| session.goal() == Goal::Paused);
    if meaning.checkpoint.is_some() && !is_answered(event) {
        observer.warn(&Notice::NoLastMessage);
    }
    let turn = rollback::take_turn(store, host, &current.session, TURN_LIMIT, observer)?;
    if turn.is_none() {
        return Ok((EventOutcome::Busy, None));
    }
    // Its late hooks do nothing.
    if store.view().run(&current.run)?.is_some_and(|run| run.ending().is_some_and(|end| end.by == Some(By::Rollback))) {
        return Ok((EventOutcome::StoppedForRollback, None));
    }
    note_permission_mode(store, &current, event)?;
    note_hooks(store, host, &current, event, observer);
    if let Err(e) = run::note_launch(store, host, &current) {
        observer.warn(&Notice::NotRecorded { what: "the variables of the agent's launch were not recorded", why: e.to_string() });
    }
    if event.kind() == Kind::Prompt {
        first_prompt(store, &current, event)?;
        if let Some(prompt) = &event.prompt {
            run::note_given_prompt(store, &current, prompt)?;
        }
        if is_set_aside {
            take_up(store, &current)?;
        }
    }
    let taken = match meaning.checkpoint {
        None => EventOutcome::Noted,
        Some(asked) => {
            let cause = asked.cause;
            let made = make(store, host, &current, event, (asked, sender), observer);
            noted(store, &current, made.as_ref().err(), observer);
            if let Ok(CheckpointReport { outcome, .. }) = &made
                && cause == Cause::TurnEnd
                && outcome.skipped
            {
                run::note_turn_end(store, &current, &outcome.checkpoint.id())?;
            }
            EventOutcome::Made(Box::new(made?))
        }
    };
    if is_launched {
        return Ok((taken, Some(current)));
    }
    if meaning.ends {
        let reason = event.reason.as_deref().unwrap_or("other");
        // The agent says `other` of a signal, and one that answers a single prompt says so of every end.
        let is_headless = run::agent_of_event(store, &current, sender)?.is_some_and(|agent| agent.is_headless());
        let goal = if reason == "other" && !is_headless { None } else { Some(Goal::Paused) };
        let (end, told) = (End::of(EndKind::SessionEnd), format!("session end: {reason}"));
        run::end(store, &current, (end, &told), (Status::Paused, goal), hook_actor())?;
    } else if let Err(e) = run::renew(store, &current, run::HOOKED) {
        observer.warn(&Notice::NotRecorded { what: "the run's lease was not renewed", why: e.to_string() });
    }
    Ok((taken, Some(current)))
}

/// Notes that the agent's hooks run.
fn note_hooks(store: &Store, host: &dyn Host, current: &Current, event: &Event, observer: &dyn Observer) {
    if let Err(e) = run::note_hooks(store, host, current, &event.hook_event_name) {
        observer.warn(&Notice::NotRecorded { what: "that the agent's hooks run was not recorded", why: e.to_string() });
    }
}

/// Removes phase checkpoints that are older than they are kept, where a conversation ends or is compacted.
fn tidy_phases(host: &dyn Host, event: &Event, observer: &dyn Observer) {
    let Some(home) = Home::of(host).filter(|_| matches!(event.kind(), Kind::PreCompact | Kind::SessionEnd)) else { return };
    let kept = SignedDuration::from_hours(24 * i64::from(KEPT_DAYS));
    let troubles = home.clean_up(kept, host.now()).map_or_else(|e| vec![e.to_string()], |done| done.troubles);
    for why in troubles {
        observer.warn(&Notice::NotRecorded { what: "old phase checkpoints were not all removed", why });
    }
}

/// Makes the checkpoint that an event asks for.
fn make(
    store: &Store,
    host: &dyn Host,
    current: &Current,
    event: &Event,
    (asked, sender): (EventCheckpoint, &Sender),
    observer: &dyn Observer,
) -> Result<CheckpointReport> {
    let config = host.config(&current.workspace)?;
    let argv = match sender.above() {
        Some((_, argv)) => argv,
        None => environment::argv(store.view().run(&current.run)?.as_ref()),
    };
    let is_headless = || run::agent_of_event(store, current, sender).map(|agent| agent.is_some_and(|agent| agent.is_headless()));
    let trigger = match asked.trigger {
        // A headless agent ends when its prompt is answered, or after an error, which had an event of its own.
        Trigger::Shutdown if is_headless()? => {
            let head = store.view().head(&current.session)?;
            let has_failed = head.is_some_and(|head| head.record.trigger == Trigger::Error);
            if has_failed { Trigger::Shutdown } else { Trigger::Complete }
        }
        // The user has left it, and its last turn is done.
        Trigger::Shutdown if event.is_left() && run::has_ended_turn(store, &current.session, &current.run) => Trigger::Complete,
        trigger => trigger,
    };
    let request = CheckpointRequest {
        run: Some((&current.run, current.epoch)),
        trigger,
        cause: asked.cause,
        detail: Some(asked.detail),
        skip_if_unchanged: asked.skip_if_unchanged,
        conversation: event.transcript_path.clone().map_or(Conversation::None, Conversation::Transcript),
        tmux: host.tmux(),
        environment: Some(environment::request(host, &current.workspace, &argv)?),
        ..CheckpointRequest::new(&current.session, &current.workspace, &config)
    };
    checkpoint::make(store, host, &request, observer)
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

/// Keeps with the session whether a checkpoint failed: nobody reads what a hook has to say.
fn noted(store: &Store, current: &Current, failed: Option<&parhelia_host::Error>, observer: &dyn Observer) {
    let failed = failed.map(|e| observer.explain(e));
    if let Err(e) = run::note_checkpoint(store, &current.session, failed.as_deref(), hook_actor()) {
        observer.warn(&Notice::NotRecorded { what: "whether checkpoints fail was not recorded", why: e.to_string() });
    }
}

/// The agent is resumed in the mode that it was in last.
fn note_permission_mode(store: &Store, current: &Current, event: &Event) -> Result<()> {
    let known = store.view().run(&current.run)?.and_then(|run| run.permission_mode);
    if let Some(mode) = event.permission_mode.as_ref().filter(|mode| Some(*mode) != known.as_ref() && !run::bypasses(mode)) {
        let changed = NewEvent::new(kind::RUN_CHANGED, &current.run, hook_actor()).in_epoch(current.epoch);
        store.append_events(&[changed.with("permission_mode", mode.clone())], &())?;
    }
    Ok(())
}

/// A session that was set aside while its agent lived is wanted running again by whoever tells that something.
fn take_up(store: &Store, current: &Current) -> Result<()> {
    let view = store.refresh()?;
    let is_open = view.run(&current.run)?.is_some_and(|run| run.is_open());
    if is_open && view.session(&current.session)?.is_some_and(|session| session.goal() == Goal::Paused) {
        let active = NewEvent::new(kind::SESSION_STATUS, &current.session, hook_actor()).in_epoch(current.epoch);
        store.append_events(&[active.with("status", Status::Active.name()).with("reason", "a prompt")], &())?;
    }
    Ok(())
}

/// Records the subject of the session, as its user put it first.
fn first_prompt(store: &Store, current: &Current, event: &Event) -> Result<()> {
    let known = store.view().session(&current.session)?;
    if let Some(prompt) = &event.prompt
        && known.is_some_and(|session| session.first_prompt.is_none())
    {
        let changed = NewEvent::new(kind::SESSION_CHANGED, &current.session, hook_actor()).with("first_prompt", prompt.clone());
        store.append_events(&[changed.once(format!("{}/first_prompt", current.session))], &())?;
    }
    Ok(())
}
