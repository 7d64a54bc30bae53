//! Bringing sessions back whose agents died though they are wanted running: after a delay, in which a sign of life calls it off, and not again
//! and again.

use std::{
    collections::HashMap,
    process::{Child, Stdio},
    time::{Duration, Instant},
};

use jiff::SignedDuration;
use parhelia_session::{
    Result,
    host::Host,
    overview::{self, Missing},
    resume::{SET_ASIDE_AFTER, Unasked, set_aside, unasked},
};
use parhelia_store::{
    Store,
    event::{Actor, NewEvent, kind},
    projection::{Run, Session},
    view::View,
};

use crate::{
    app::{App, Shared},
    log::say,
    metrics::Metrics,
    start::{self, Start},
};

/// The time from a death to the resume.
const DELAY: Duration = Duration::from_secs(5);
/// The time after which a death is one that nobody wanted.
const MOMENT: Duration = Duration::from_secs(1);
/// So many runs of a session may begin within [`CRASH_WINDOW`] before it is left to a person.
const RUNS_MAX: usize = 3;
/// The time within which runs are counted.
const CRASH_WINDOW: SignedDuration = SignedDuration::from_mins(10);
/// A resume that failed is tried again after this time, and then after twice as long each time.
const RETRY: Duration = Duration::from_secs(10);
/// ... but not less often than this.
const RETRY_MAX: Duration = Duration::from_secs(600);

/// Sessions that are to be brought back.
#[derive(Default)]
pub struct Recovery {
    dead: HashMap<String, Dead>,
}

/// A session whose agent has died.
struct Dead {
    /// The time at which it is resumed.
    due: Instant,
    /// The process that resumes it.
    process: Option<Child>,
    /// Resumes that have failed.
    failed: u32,
    /// True if it is left alone, which was said.
    is_left: bool,
    /// True if its death was said.
    is_told: bool,
}

impl Recovery {
    /// Takes note of who is dead, and who is not any more.
    pub fn note(&mut self, missing: &Missing) {
        self.dead.retain(|id, dead| {
            let is_dead = missing.dead.iter().any(|session| session.id == *id);
            if !is_dead && dead.process.is_none() && !dead.is_left && dead.is_told {
                say(&format!("session {id} lives again; it is not resumed"));
            }
            is_dead || dead.process.is_some()
        });
        for session in &missing.dead {
            if self.dead.contains_key(&session.id) {
                continue;
            }
            let dead = Dead { due: Instant::now() + DELAY, process: None, failed: 0, is_left: false, is_told: false };
            self.dead.insert(session.id.clone(), dead);
        }
    }

    /// Tells of those that are still dead after a moment. Whoever ends an agent on purpose says so in the store right behind it.
    fn tell(&mut self, store: &Store) -> Result<()> {
        let before = Instant::now() + DELAY - MOMENT;
        let is_new = |dead: &Dead| !dead.is_told && dead.due <= before;
        if !self.dead.values().any(is_new) {
            return Ok(());
        }
        self.note(&overview::missing(store)?);
        for (id, dead) in self.dead.iter_mut().filter(|(_, dead)| is_new(dead)) {
            dead.is_told = true;
            say(&format!("session {id} is dead; in {} s it is resumed, if it may be", (DELAY - MOMENT).as_secs()));
            let session = store.view().session(id)?;
            if let Some(session) = session.filter(|session| session.head.is_none()) {
                say(&format!("session {id} has no checkpoint: nothing of it is saved but what its folder holds"));
                if let Err(e) = record_loss(store, &session) {
                    say(&format!("that session {id} is lost was not recorded: {e}"));
                }
            }
        }
        Ok(())
    }

    /// Starts the resumes that are due, and hears of those that are done. Those that are still to be captured wait.
    pub fn go_on(&mut self, app: &App, is_captured: impl Fn(&str) -> bool) -> Result<()> {
        self.dead.retain(|id, dead| !dead.is_resumed(id, &app.metrics));
        self.tell(&app.store)?;
        let now = Instant::now();
        let is_due =
            |(id, dead): &(&String, &Dead)| !dead.is_left && dead.process.is_none() && dead.due <= now && is_captured(id);
        let due: Vec<String> = self.dead.iter().filter(is_due).map(|(id, _)| id.clone()).collect();
        if due.is_empty() {
            return Ok(());
        }
        // Whoever came back meanwhile is not resumed.
        let missing = overview::missing(&app.store)?;
        self.note(&missing);
        for id in due {
            let Some(dead) = self.dead.get_mut(&id) else { continue };
            // Not before: who watched over it records its end first. And it may have died again and again while it was being resumed.
            let session = missing.dead.iter().find(|session| session.id == id);
            if let Some(why) = session.map(|session| why_left(app, session)).transpose()?.flatten() {
                say(&format!("session {id} is left alone: {why}"));
                dead.is_left = true;
                continue;
            }
            let start = Start::Resume { session: id.clone(), prompt: None };
            match start::process(app, &start, Stdio::null(), Stdio::inherit()) {
                Ok(process) => dead.process = Some(process),
                Err(e) => {
                    let pause = dead.later();
                    say(&format!("session {id} was not resumed: {e}; it is tried again in {} s", pause.as_secs()));
                }
            }
        }
        Ok(())
    }
}

impl Dead {
    /// Puts the next resume off, as one has failed. Returns the time until then.
    fn later(&mut self) -> Duration {
        let pause = RETRY.saturating_mul(1 << self.failed.min(16)).min(RETRY_MAX);
        (self.failed, self.due) = (self.failed + 1, Instant::now() + pause);
        pause
    }

    /// True if the process that resumes it has done so. One that has failed is followed by another, later.
    fn is_resumed(&mut self, id: &str, metrics: &Metrics) -> bool {
        let Some(done) = self.process.as_mut().and_then(|process| process.try_wait().ok().flatten()) else { return false };
        self.process = None;
        metrics.resumed(done.success());
        if done.success() {
            say(&format!("session {id} is resumed"));
            return true;
        }
        let pause = self.later();
        say(&format!("session {id} was not resumed ({done}); it is tried again in {} s", pause.as_secs()));
        false
    }
}

/// Records that a session died of which there is no checkpoint, once for each of its runs.
fn record_loss(store: &Store, session: &Session) -> Result<()> {
    let reason = "its agent died, and only what its folder holds is left";
    let lost = NewEvent::new(kind::SESSION_LOST, &session.id, Actor::program("service")).with("reason", reason);
    store.append_events(&[lost.once(format!("{}/lost", session.run.as_deref().unwrap_or(&session.id)))], &())?;
    Ok(())
}

/// The reason for which a dead session is not resumed. It is recorded where it is a person's turn from now on.
fn why_left(app: &Shared, session: &Session) -> Result<Option<String>> {
    let host: &dyn Host = &*app.host;
    let why = match unasked(&app.store, host, session, None)? {
        None if has_crashed_often(&app.store.view(), session)? => Unasked::CrashLoop { runs: RUNS_MAX },
        None => return Ok(None),
        Some(why) => why,
    };
    if matches!(why, Unasked::Policy { .. } | Unasked::CrashLoop { .. }) {
        set_aside(&app.store, session, &why)?;
    }
    Ok(Some(why.to_string()))
}

/// True if a run ended without being asked to: of its own accord, by a signal that nobody of us sent, or unseen.
fn has_died(run: &Run) -> bool {
    run.ending().is_none_or(|end| end.is_unasked())
}

/// True if as many runs of a session began within a short time as may.
fn has_crashed_often(view: &View, session: &Session) -> Result<bool> {
    let since = parhelia_store::clock::timestamp() - CRASH_WINDOW;
    let mut count = 0;
    let set_aside = session.extra.get(SET_ASIDE_AFTER).and_then(|run| run.as_str());
    for id in session.runs.iter().rev().take(RUNS_MAX).take_while(|id| Some(id.as_str()) != set_aside) {
        let is_crash = |run: Run| run.started_at >= since && run.resumed_from.is_some() && has_died(&run);
        count += usize::from(view.run(id)?.is_some_and(is_crash));
    }
    Ok(count >= RUNS_MAX)
}
