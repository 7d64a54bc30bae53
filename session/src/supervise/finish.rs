//! The last checkpoint of a run, and its end.

use std::{os::unix::process::ExitStatusExt, process::ExitStatus, sync::atomic::Ordering, time::Instant};

use parhelia_agent::process;
use parhelia_store::{
    Store,
    projection::{Goal, Status},
    record::{ENDED_BY_SIGNAL, Trigger},
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
    let how = how(status);
    // Whoever ends this process has not asked the agent to be done: that may be a machine that shuts down, or a terminal that dies.
    let (trigger, session, goal, reason) = match (asked, stopping(store, wanted), status.code()) {
        (Some(_), ..) => (Trigger::Shutdown, Status::Paused, None, format!("asked to end; {how}")),
        (None, Some(why), _) => (Trigger::Shutdown, Status::Paused, None, format!("{why}; {how}")),
        (None, None, Some(0)) if wanted.is_headless => (Trigger::Complete, Status::Paused, Some(Goal::Paused), how),
        (None, None, Some(0)) => (Trigger::Shutdown, Status::Paused, Some(Goal::Paused), how),
        _ => (Trigger::Error, Status::Error, None, how),
    };
    let has_failed = trigger == Trigger::Error;
    let is_killed = has_failed && status.signal().is_some();
    // What the agent's hooks have handed over comes before the last checkpoint, not behind it.
    let until = Instant::now() + TURN_LIMIT;
    for work in processes(wanted).filter(process::Found::is_hook_work) {
        work.ends_within(until.saturating_duration_since(Instant::now()));
    }
    captured(store, wanted, Asked { trigger, detail: &reason, is_killed, skip_if_unchanged: false }, &Quiet(observer));
    if is_open(store, wanted) {
        note(observer, run::end(store, wanted.current, &reason, (session, goal), wanted.host.actor()), NO_END);
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

/// The reason for which somebody ends the agent.
fn stopping(store: &Store, wanted: &Supervised<'_>) -> Option<String> {
    let run = store.refresh().ok()?.run(&wanted.current.run).ok()??;
    run.extra.get(run::STOPPING)?.as_str().map(str::to_owned)
}

/// Live processes that carry the run's marker.
fn processes(wanted: &Supervised<'_>) -> impl Iterator<Item = process::Found> {
    let current = wanted.current;
    let found = process::found(&current.run, &process::Roots::default(), &current.workspace).unwrap_or_default();
    found.into_iter().filter(|found| matches!(found.owner, process::Owner::Run | process::Owner::Marked))
}

fn how(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("{}{code}", run::BY_ITSELF),
        (None, Some(signal)) => format!("{ENDED_BY_SIGNAL} {signal}"),
        (None, None) => "ended".into(),
    }
}
