//! The end of the container that this is in, where its platform ends containers at an age that is known: before it, sessions are handed over to
//! whoever comes next.

use std::{
    fs, thread,
    time::{Duration, Instant},
};

use parhelia_agent::process::{Identity, sees_all};
use parhelia_host::{
    Result,
    run::{self, Life},
};
use parhelia_ledger::{Goal, LedgerView as _, Session, kind};
use parhelia_life::ending::{of_session, stop};
use parhelia_store::{
    event::{Actor, NewEvent},
    record::{Cause, Trigger},
};

use crate::{app::App, log::say};

/// The time before the end at which sessions are handed over.
const MARGIN: Duration = Duration::from_secs(600);
/// An agent may take so long to end.
const PATIENCE: Duration = Duration::from_secs(20);
/// The clock ticks of a second in which the kernel tells the start of processes (`USER_HZ`).
const TICKS: f64 = 100.0;
/// The reason, for people.
const WHY: &str = "its container ends soon";

/// The lifetime of the container that this is in.
pub struct Lifetime {
    /// The time at which sessions are handed over; none where no end is known.
    at: Option<Instant>,
    is_over: bool,
}

impl Lifetime {
    /// The lifetime of a container that its platform ends at the age that is configured; without end outside of containers.
    pub fn new(hours: f64) -> Self {
        let left = age().filter(|_| !sees_all()).and_then(|age| left(age, hours));
        Lifetime { at: left.map(|left| Instant::now() + left), is_over: false }
    }

    /// True once sessions are handed over: nothing is resumed here any more.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Hands sessions over, once it is time. True if that begins now.
    pub fn go_on(&mut self, app: &App) -> Result<bool> {
        if self.is_over || self.at.is_none_or(|at| Instant::now() < at) {
            return Ok(false);
        }
        self.is_over = true;
        say("this container ends soon: sessions are handed over, and none is resumed here any more");
        let view = app.store.refresh()?;
        for session in view.sessions()?.into_iter().filter(|session| session.goal() == Goal::Running) {
            let Some(run) = view.newest_run(&session)? else { continue };
            if !matches!(run::life(&run), Life::Agent(_)) {
                continue;
            }
            let (app, id) = (app.clone(), session.id.clone());
            let work = move || match hand_over(&app, &session) {
                Ok(()) => say(&format!("session {} is handed over", session.id)),
                Err(e) => say(&format!("session {} is not handed over: {e}", session.id)),
            };
            if let Err(e) = thread::Builder::new().name("handover".into()).spawn(work) {
                say(&format!("session {id} is not handed over: {e}"));
            }
        }
        Ok(true)
    }
}

/// The age of this container: that of its first process (proc_uptime(5)).
fn age() -> Option<Duration> {
    let uptime: f64 = fs::read_to_string("/proc/uptime").ok()?.split(' ').next()?.parse().ok()?;
    Duration::try_from_secs_f64(uptime - Identity::of(1).ok()?.start_time as f64 / TICKS).ok()
}

/// The time that is left until the handover, at an age of what ends after so many hours.
fn left(age: Duration, hours: f64) -> Option<Duration> {
    let end = Duration::try_from_secs_f64(hours * 3600.0).ok().filter(|end| !end.is_zero())?;
    Some((end - MARGIN.min(end / 2)).saturating_sub(age))
}

/// A checkpoint, while the agent still lives; the notice for whoever starts the next container; and then the agent's end. The session stays wanted.
fn hand_over(app: &App, session: &Session) -> Result<()> {
    let host = &*app.host;
    let run = app.store.view().newest_run(session)?;
    of_session(&app.store, host, session, run.as_ref(), (Trigger::Shutdown, Cause::Shutdown, WHY), &())?;
    let event = NewEvent::new(kind::SESSION_HANDOVER, &session.id, Actor::program("service")).with("reason", WHY);
    app.store.append_events(&[event.once(format!("{}/handover", session.run.as_deref().unwrap_or(&session.id)))], &())?;
    stop(&app.store, host, session, true, PATIENCE, &())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_handed_over_ten_minutes_before_the_end() {
        let hour = Duration::from_secs(3600);
        assert_eq!(left(hour, 24.0), Some(Duration::from_secs(22 * 3600 + 50 * 60)));
        assert_eq!(left(Duration::ZERO, 0.1), Some(Duration::from_secs(180)), "there is time to work");
        assert_eq!(left(25 * hour, 24.0), Some(Duration::ZERO));
        assert_eq!((left(hour, 0.0), left(hour, -1.0)), (None, None));
        assert!(age().is_some());
    }
}
