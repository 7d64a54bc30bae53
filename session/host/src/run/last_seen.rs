//! The last sign of life of a run, the time that was worked in it, and the cause of its death.

use std::{os::unix::net::UnixStream, time::Duration};

use jiff::Timestamp;
use parhelia_agent::process::{Identity, boot_id};
use parhelia_ledger::{LedgerView as _, Run, Session};
use parhelia_store::{record::Cause, view::View};

use super::life::{launcher_of, life, why_unheard, why_unknown};
use crate::Result;

/// So many checkpoints of a session are looked through for the last one of a run.
const CHECKPOINTS_MAX: usize = 100;

/// The time at which a run was last seen alive: its lease was renewed then, or a checkpoint made that only a live agent causes. It is what counts of
/// a dead run of which nobody has recorded the end: that is found later, after days where the machine was off.
pub fn last_seen(view: &View, run: &Run) -> Result<Timestamp> {
    let renewed = run.lease.as_ref().and_then(|lease| lease.renewed);
    let mut seen = renewed.unwrap_or(run.started_at).max(run.started_at);
    for checkpoint in view.newest_first_of(&run.session)?.take(CHECKPOINTS_MAX) {
        let record = checkpoint?.record;
        if record.run.as_deref() == Some(&*run.id) && record.cause().is_some_and(is_of_life) {
            seen = seen.max(record.created_at);
            break;
        }
    }
    Ok(seen)
}

/// True of a cause that a run has while its agent lives. What is captured at its end, or of what it has left, is none.
fn is_of_life(cause: Cause) -> bool {
    is_of_agent(cause) || matches!(cause, Cause::Start | Cause::Interval | Cause::SessionEnd | Cause::Detach)
}

/// True of a cause that an agent gives which goes on with its work.
pub fn is_of_agent(cause: Cause) -> bool {
    use Cause::{ApiError, Clear, PreCompact, Prompt, Question, Subagent, TurnEnd};
    matches!(cause, Prompt | TurnEnd | PreCompact | Subagent | Question | ApiError | Clear)
}

/// The time that had been worked in a session by then: in each of its runs, from its beginning to its end. A run of which no end is recorded has been
/// worked in until now, if it lives, or else until it was [last seen](last_seen).
pub fn worked(view: &View, session: &Session, until: Timestamp) -> Result<Duration> {
    let mut all = Duration::ZERO;
    for id in &session.runs {
        let Some(run) = view.run(id)? else { continue };
        let end = match run.ended_at {
            Some(ended) => ended,
            None if life(&run).is_alive() => until,
            None => last_seen(view, &run)?,
        };
        let time = end.min(until).duration_since(run.started_at);
        // One that began later, or by another clock, adds nothing.
        all = all.saturating_add(Duration::try_from(time).unwrap_or_default());
    }
    Ok(all)
}

/// The cause of the death of an open run, as far as it can be told.
pub fn why_dead(run: &Run) -> String {
    if let Some(why) = why_unheard(run).or_else(|| why_unknown(run)) {
        return why;
    }
    let is_this_boot = boot_id().is_ok_and(|own| run.boot_id.as_ref() == Some(&own));
    let is_server_gone = run.tmux.as_ref().is_some_and(|tmux| !has_run_since(&tmux.socket, run));
    match () {
        () if is_finishing(run) => "its process is gone, and its last checkpoint is being made".to_owned(),
        () if !is_this_boot => "its machine was started anew".to_owned(),
        () if is_server_gone => "its process and its tmux server are gone".to_owned(),
        () => "its process is gone, and nothing says why".to_owned(),
    }
}

/// True while the supervisor of a dead agent makes its last checkpoint, after which it records the run's end.
pub fn is_finishing(run: &Run) -> bool {
    run.is_open() && launcher_of(run).is_some_and(|launcher| launcher.is_alive())
}

/// True if the server of a tmux socket was there when a run began. Another one may have taken its place.
fn has_run_since(socket: &str, run: &Run) -> bool {
    let Ok(connection) = UnixStream::connect(socket) else { return false };
    let server = rustix::net::sockopt::socket_peercred(&connection).ok().map(|peer| peer.pid.as_raw_nonzero().get());
    let server = server.and_then(|process| Identity::of(process).ok());
    server.zip(run.start_time).is_none_or(|(server, began)| server.start_time <= began)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use jiff::SignedDuration;
    use parhelia_ledger::kind;
    use parhelia_store::{
        OpenOptions, Store, create,
        event::{Actor, NewEvent},
    };

    use super::*;
    use crate::run::{Begin, Current, begin};

    const HOURS: i64 = 3600;

    fn store(folder: &Path) -> Store {
        parhelia_ledger::open(&folder.join("store"), &OpenOptions { create: true, ..OpenOptions::default() }).unwrap()
    }

    /// Begins a run whose supervisor is `launcher`, with a lease that was renewed so many seconds later.
    fn began(store: &Store, folder: &Path, launcher: Identity, renewed_seconds: i64) -> Current {
        let new = Begin { session: "s".into(), workspace: folder.join("work"), launcher: Some(launcher), ..Begin::default() };
        let current = begin(store, &new).unwrap();
        let at = run_of(store, &current).started_at + SignedDuration::from_secs(renewed_seconds);
        let lease = NewEvent::new(kind::RUN_LEASE, &current.run, Actor::default()).in_epoch(current.epoch);
        store.append_events(&[lease.with("holder", "h/1").with("renewed", at.to_string()).with("ttl_seconds", 90)], &()).unwrap();
        current
    }

    fn run_of(store: &Store, current: &Current) -> Run {
        store.refresh().unwrap().run(&current.run).unwrap().unwrap()
    }

    fn me() -> Identity {
        Identity::of(std::process::id() as i32).unwrap()
    }

    fn gone() -> Identity {
        Identity { process: i32::MAX, ..me() }
    }

    fn worked_seconds(store: &Store, run: &Run, hours: i64) -> i64 {
        let view = store.refresh().unwrap();
        let session = view.session("s").unwrap().unwrap();
        worked(&view, &session, run.started_at + SignedDuration::from_hours(hours)).unwrap().as_secs() as i64
    }

    #[test]
    fn a_dead_run_was_worked_in_until_it_was_seen_alive_last() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(folder.path());
        let dead = run_of(&store, &began(&store, folder.path(), gone(), 2 * HOURS));
        assert_eq!(worked_seconds(&store, &dead, 10), 2 * HOURS, "the machine may have been off since");
        assert_eq!(worked_seconds(&store, &dead, 1), HOURS, "by then");
        // A newer one adds what it is worked in, and that is as long as it lives.
        let live = run_of(&store, &began(&store, folder.path(), me(), 0));
        let both = worked_seconds(&store, &live, 10);
        // The end of the first was recorded when the second began: its lease is ahead of that.
        assert!((10 * HOURS..=10 * HOURS + 60).contains(&both), "{both}");
    }

    #[test]
    fn a_checkpoint_that_a_live_agent_causes_is_a_sign_of_life() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(folder.path());
        std::fs::create_dir(folder.path().join("work")).unwrap();
        let current = began(&store, folder.path(), gone(), 0);
        let of = |cause| create::Options {
            workspace: folder.path().join("work"),
            session: "s".into(),
            run: Some(current.run.clone()),
            epoch: current.epoch,
            cause,
            ..create::Options::default()
        };
        let made = create::run(&store, &of(Cause::TurnEnd), &()).unwrap().checkpoint;
        // What is captured of a dead one is no sign of its life.
        create::run(&store, &of(Cause::Died), &()).unwrap();
        let seen = last_seen(&store.refresh().unwrap(), &run_of(&store, &current)).unwrap();
        assert_eq!(seen, made.record.created_at);
    }

    #[test]
    fn a_run_ends_by_its_own_supervisors_word_while_that_makes_its_last_checkpoint() {
        let folder = tempfile::tempdir().unwrap();
        let store = store(folder.path());
        let begin_with = |agent: Option<Identity>| {
            let new =
                Begin { session: "s".into(), workspace: folder.path().into(), launcher: Some(me()), agent, ..Begin::default() };
            begin(&store, &new).unwrap()
        };
        let first = begin_with(Some(gone()));
        assert_eq!(life(&run_of(&store, &first)), super::super::Life::Over);
        begin_with(None);
        let first = run_of(&store, &first);
        assert!(first.is_open(), "{:?}", first.exit_reason);
        assert_eq!(why_dead(&first), "its process is gone, and its last checkpoint is being made");
    }
}
