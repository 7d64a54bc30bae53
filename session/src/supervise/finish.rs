//! The last checkpoint of a run, and its end.

use std::{os::unix::process::ExitStatusExt, process::ExitStatus, sync::atomic::Ordering, time::Instant};

use parhelia_agent::process;
use parhelia_store::{
    Store,
    projection::{By, End, EndKind, Goal, Status},
    record::{Cause, Trigger},
};
use rustix::process::Signal;

use super::{
    NO_END, Supervised, TURN_LIMIT,
    captures::{Asked, captured, is_open},
    note,
    quiet::Quiet,
};
use crate::{host::Observer, notice::Notice, run};

/// The last checkpoint, and the run's end.
pub(super) fn finish(store: &Store, wanted: &Supervised<'_>, status: ExitStatus, asked: Option<Signal>, observer: &dyn Observer) {
    let process = ending(status);
    // Whoever ends this process has not asked the agent to be done: that may be a machine that shuts down, or a terminal that dies.
    let by = asked.map(|_| By::Shutdown).or_else(|| stopping(store, wanted));
    let end = End { by, ..process };
    let (trigger, session, goal) = match by {
        Some(_) => (Trigger::Shutdown, Status::Paused, None),
        None if end.has_finished() && wanted.is_headless => (Trigger::Complete, Status::Paused, Some(Goal::Paused)),
        None if end.has_finished() => (Trigger::Shutdown, Status::Paused, Some(Goal::Paused)),
        None => (Trigger::Error, Status::Error, None),
    };
    let cause = match (by, end.was_killed()) {
        (Some(by), _) => by.cause(),
        (None, true) => Cause::Killed,
        (None, false) => Cause::Exited,
    };
    let (has_failed, reason) = (trigger == Trigger::Error, end.reason());
    // What the agent's hooks have handed over comes before the last checkpoint, not behind it.
    let until = Instant::now() + TURN_LIMIT;
    for work in processes(wanted).filter(process::Found::is_hook_work) {
        work.ends_within(until.saturating_duration_since(Instant::now()));
    }
    captured(store, wanted, Asked { trigger, cause, detail: &reason, skip_if_unchanged: false }, &Quiet(observer));
    if is_open(store, wanted) {
        note(observer, run::end(store, wanted.current, (end, &reason), (session, goal), wanted.host.actor()), NO_END);
    }
    let removed = wanted.removed.load(Ordering::Relaxed);
    if removed > 0 && !wanted.is_quiet {
        observer.warn(&Notice::ThinnedMeanwhile { checkpoints: removed });
    }
    let session = store.refresh().and_then(|view| view.session(&wanted.current.session)).ok().flatten();
    let has_ended = session.as_ref().is_some_and(|session| session.status == Status::Ended);
    if has_ended {
        observer.warn(&Notice::EndedAfterSession { session: wanted.current.session.clone(), reason });
    } else if !wanted.is_quiet || has_failed {
        observer.warn(&Notice::AgentEnded { session: wanted.current.session.clone(), reason });
    }
    if let Some(conversation) = session
        .filter(|_| !has_ended)
        .and_then(|session| run::conversation_of(&session, &wanted.current.run).filter(|_| wanted.request.is_none()))
    {
        observer.warn(&Notice::AgentInside { conversation });
    }
    for left in processes(wanted).filter(|found| !found.is_hook_work()) {
        observer.warn(&Notice::LeftBehind { process: left.text() });
    }
}

/// The wish at which somebody ends the agent.
fn stopping(store: &Store, wanted: &Supervised<'_>) -> Option<By> {
    run::stopping(&store.refresh().ok()?.run(&wanted.current.run).ok()??)
}

/// Live processes that carry the run's marker.
fn processes(wanted: &Supervised<'_>) -> impl Iterator<Item = process::Found> {
    let current = wanted.current;
    let found = process::found(&current.run, &process::Roots::default(), &current.workspace).unwrap_or_default();
    found.into_iter().filter(|found| matches!(found.owner, process::Owner::Run | process::Owner::Marked))
}

/// The end of the program.
fn ending(status: ExitStatus) -> End {
    match (status.code(), status.signal()) {
        (Some(code), _) => End::exited(code),
        (None, Some(signal)) => End::signalled(signal),
        (None, None) => End::of(EndKind::Unknown),
    }
}
