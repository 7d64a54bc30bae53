//! Checkpoints of agents that nobody else watches over: now and then, and when they die.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::Instant,
};

use parhelia_host::{Result, run};
use parhelia_ledger::{LedgerView as _, Run, Session};
use parhelia_life::{
    ending::of_session,
    overview::{SERVICE_INTERVAL, Shortfall},
};
use parhelia_store::{
    ROOM_AGAIN, Store,
    record::{Cause, Trigger},
};

use crate::{app::App, log::say};

/// Sessions whose agents have no supervisor.
#[derive(Default)]
pub struct Captures {
    /// When each is captured next.
    next: HashMap<String, Instant>,
    /// Those that are being captured.
    under_way: Arc<Mutex<HashSet<String>>>,
    /// Those whose agent has died since, and that wait for the checkpoint of that; and true if it died alone, which is an error of its own.
    died: Vec<(Session, bool)>,
    /// The runs of which that was noted.
    noted: HashSet<String>,
    /// Those whose checkpoints may have failed while the disk was full.
    behind: Vec<String>,
    /// True while the disk is full.
    is_full: bool,
}

/// The words for an agent that is gone together with its supervisor: nothing of its work has failed.
const GONE: &str = "its agent and its supervisor are gone, as when a machine or a terminal ends";

/// True if a session's agent died together with its supervisor, which was to make the last checkpoint.
fn ended_unseen(store: &Store, session: &Session) -> Result<bool> {
    let newest = store.view().newest_run(session)?;
    Ok(newest.is_some_and(|run| run.pid.is_some() && run::is_orphaned(&run)))
}

impl Captures {
    /// Takes note of who lives without a supervisor, and who has died so.
    pub fn note(&mut self, store: &Store, missing: &Shortfall) -> Result<()> {
        for session in &missing.dead {
            let was_alone = self.next.remove(&session.id).is_some();
            if (was_alone || ended_unseen(store, session)?) && self.noted.insert(session.run.clone().unwrap_or_default()) {
                self.died.push((session.clone(), was_alone));
            }
        }
        let first = Instant::now() + SERVICE_INTERVAL;
        let alive = |id: &String| missing.unsupervised.iter().any(|(session, _)| session.id == *id);
        self.next.retain(|id, _| alive(id));
        for (session, _) in &missing.unsupervised {
            self.next.entry(session.id.clone()).or_insert(first);
        }
        Ok(())
    }

    /// Takes note of a full disk, and once there is room again queues a checkpoint of each live session: those that failed could not be recorded.
    pub fn note_room(&mut self, store: &Store, alive: &[String]) {
        match store.free_when_full() {
            Some(_) => self.is_full = true,
            None if self.is_full && store.free_bytes().is_some_and(|free| free >= ROOM_AGAIN) => {
                self.is_full = false;
                self.behind = alive.to_vec();
            }
            None => {}
        }
    }

    /// Starts the checkpoints that are due, as far as there are places for them.
    pub fn go_on(&mut self, app: &App) {
        while let Some((session, was_alone)) = self.died.pop() {
            let (trigger, cause, detail) = match was_alone {
                true => (Trigger::Error, Cause::Died, "its agent died"),
                false => (Trigger::Shutdown, Cause::Shutdown, GONE),
            };
            if !self.start(app, &session.id, trigger, cause, detail) {
                self.died.push((session, was_alone));
                break;
            }
        }
        while let Some(id) = self.behind.pop() {
            if !self.start(app, &id, Trigger::Periodic, Cause::Interval, "there is room again") {
                self.behind.push(id);
                break;
            }
        }
        let now = Instant::now();
        let due: Vec<String> = self.next.iter().filter(|(_, at)| **at <= now).map(|(id, _)| id.clone()).collect();
        for id in due {
            if !self.start(app, &id, Trigger::Periodic, Cause::Interval, "interval") {
                break;
            }
            self.next.insert(id, now + SERVICE_INTERVAL);
        }
    }

    /// True if a session is being captured, or waits for it.
    pub fn has(&self, session: &str) -> bool {
        self.died.iter().any(|(died, _)| died.id == session) || self.lock().contains(session)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashSet<String>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a checkpoint on a thread; false where there is no place for it now.
    fn start(&self, app: &App, session: &str, trigger: Trigger, cause: Cause, detail: &'static str) -> bool {
        let Some(place) = app.try_capture() else { return false };
        if !self.lock().insert(session.to_owned()) {
            return true;
        }
        let (app, under_way, id) = (app.clone(), self.under_way.clone(), session.to_owned());
        let work = move || {
            let captured = capture(&app, &id, trigger, cause, detail);
            app.metrics.captured(captured.is_ok());
            if let Err(e) = captured {
                say(&format!("no checkpoint of session {id} was made: {e}"));
            }
            under_way.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
            drop(place);
        };
        if let Err(e) = thread::Builder::new().name("checkpoint".into()).spawn(work) {
            say(&format!("no checkpoint of session {session} was made: {e}"));
            self.lock().remove(session);
        }
        true
    }
}

/// True if somebody has ended a run's agent through the product, or is about to.
fn was_ended_on_purpose(run: &Run) -> bool {
    run::stopping(run).is_some() || run.ending().is_some_and(|end| end.by.is_some())
}

fn capture(app: &App, id: &str, trigger: Trigger, cause: Cause, detail: &str) -> Result<()> {
    let view = app.store.refresh()?;
    let Some(session) = view.session(id)? else { return Ok(()) };
    let newest = view.newest_run(&session)?;
    // Whoever ends an agent on purpose makes the last checkpoint, and that is no error.
    if matches!(cause, Cause::Died | Cause::Shutdown) && newest.as_ref().is_some_and(was_ended_on_purpose) {
        return Ok(());
    }
    let run = newest.filter(Run::is_open);
    of_session(&app.store, &*app.host, &session, run.as_ref(), (trigger, cause, detail), &())?;
    Ok(())
}
