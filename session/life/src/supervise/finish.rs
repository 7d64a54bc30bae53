//! The last checkpoint of a run, and its end.

use std::{os::unix::process::ExitStatusExt, process::ExitStatus, sync::atomic::Ordering, time::Instant};

use parhelia_agent::process;
use parhelia_ledger::{By, End, EndKind, Goal, LedgerView as _, Status};
use parhelia_store::{
    Store,
    record::{Cause, Trigger},
};
use rustix::process::Signal;

use super::{
    NO_END, Supervision, TURN_LIMIT,
    captures::{CaptureRequest, captured, is_open},
    note,
    observers::Quiet,
    silent_hooks,
};
use parhelia_host::{Observer, config, notice::Notice, run};

/// The last checkpoint, and the run's end.
pub(super) fn finish(
    store: &Store,
    wanted: &Supervision<'_>,
    status: ExitStatus,
    asked: Option<Signal>,
    observer: &dyn Observer,
) {
    let process = ending(status);
    // Whoever ends this process has not asked the agent to be done: that may be a machine that shuts down, or a terminal that dies.
    let by = asked.map(|_| By::Shutdown).or_else(|| stopping(store, wanted));
    let end = End { by, ..process };
    let cause = match (by, end.was_killed()) {
        (Some(by), _) => by.cause(),
        (None, true) => Cause::Killed,
        (None, false) => Cause::Exited,
    };
    // What the agent's hooks have handed over comes before the last checkpoint, not behind it.
    let until = Instant::now() + TURN_LIMIT;
    for work in processes(wanted).filter(process::Process::is_hook_work) {
        work.ends_within(until.saturating_duration_since(Instant::now()));
    }
    let (trigger, session, goal) = match by {
        Some(_) => (Trigger::Shutdown, Status::Paused, None),
        None if end.has_finished() && is_done(store, wanted) => (Trigger::Complete, Status::Paused, Some(Goal::Paused)),
        None if end.has_finished() => (Trigger::Shutdown, Status::Paused, Some(Goal::Paused)),
        None => (Trigger::Error, Status::Error, None),
    };
    let (has_failed, reason) = (trigger == Trigger::Error, end.reason());
    captured(store, wanted, CaptureRequest { trigger, cause, detail: &reason, skip_if_unchanged: false }, &Quiet(observer));
    if is_open(store, wanted) {
        note(observer, run::end(store, wanted.current, (end, &reason), (session, goal), wanted.host.actor()), NO_END);
    }
    // The events of a short run may come behind its end, and were waited for.
    if silent_hooks::begin(wanted).is_some()
        && silent_hooks::look(store, wanted) == silent_hooks::HookStatus::Nothing
        && !wanted.is_silent.load(Ordering::Relaxed)
    {
        observer.warn(&silent_hooks::silent(wanted));
    }
    let removed = wanted.removed.load(Ordering::Relaxed);
    if removed > 0 && !wanted.is_quiet {
        observer.warn(&Notice::ThinnedMeanwhile { checkpoints: removed });
    }
    let session = store.refresh().and_then(|view| view.session(&wanted.current.session)).ok().flatten();
    let (budget, threshold) = (wanted.config.budget.session_usd, wanted.config.approval.escalation.cost_threshold_usd);
    let limits = [(budget, "budget.session_usd"), (threshold, "approval.escalation.cost_threshold_usd")];
    let is_known = session.as_ref().is_none_or(|session| session.totals.cost_usd.is_some() || session.conversations.is_empty());
    // Of limits that nobody has set, nobody expects anything.
    let is_set = |limit: f64, key: &str| {
        let default = config::OPTIONS.iter().find(|option| option.key == key).and_then(|option| (option.default)().as_f64());
        limit > 0.0 && default != Some(limit)
    };
    if let Some((_, limit)) = limits.into_iter().find(|(limit, key)| is_set(*limit, key) && !is_known) {
        observer.warn(&Notice::CostUnknown { limit });
    }
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
    for left in processes(wanted).filter(|found| !found.is_of_hooks()) {
        observer.warn(&Notice::LeftBehind { process: left.text() });
    }
}

/// True of an agent that has ended well, and has done what it was started for: one at a terminal has ended its last turn. Of other programs
/// nobody knows what they were for, so that their ends ask for no review.
fn is_done(store: &Store, wanted: &Supervision<'_>) -> bool {
    wanted.is_headless || run::has_ended_turn(store, &wanted.current.session, &wanted.current.run)
}

/// The wish at which somebody ends the agent.
fn stopping(store: &Store, wanted: &Supervision<'_>) -> Option<By> {
    run::stopping(&store.refresh().ok()?.run(&wanted.current.run).ok()??)
}

/// Live processes that carry the run's marker.
fn processes(wanted: &Supervision<'_>) -> impl Iterator<Item = process::Process> {
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
