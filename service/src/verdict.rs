//! The verdict on the service itself, told from memory: a full disk or a stuck thread is told of though nothing can be written down.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use parhelia_store::{Store, view::View};

use crate::outbox::Backlog;

/// The thread that looks after sessions turns several times a second; one that has not for so long is stuck.
const STUCK_AFTER: Duration = Duration::from_secs(120);

/// The state of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    /// All is well.
    Ok,
    /// It answers, and something that it is to do is not done.
    Degraded,
    /// It cannot do what it is for.
    Failing,
}

impl Status {
    /// Its name, as printed.
    pub fn name(self) -> &'static str {
        match self {
            Status::Ok => "ok",
            Status::Degraded => "degraded",
            Status::Failing => "failing",
        }
    }
}

/// Everything that is known to be wrong with the service's own threads.
#[derive(Default)]
pub struct Verdicts {
    watch: Mutex<Turns>,
    outbox: Mutex<Option<String>>,
    packs: Mutex<Packs>,
    backlog: Mutex<Backlog>,
}

/// Files of packs, as they were seen last.
#[derive(Clone, Copy, Debug, Default)]
struct Packs {
    absent: usize,
    present: usize,
}

/// The turns of the thread that looks after sessions.
#[derive(Default)]
struct Turns {
    last: Option<Instant>,
    trouble: Option<String>,
}

impl Verdicts {
    /// Notes a turn of the thread that looks after sessions, and what went wrong in it.
    pub fn turned(&self, trouble: Option<String>) {
        *self.watch.lock().unwrap_or_else(PoisonError::into_inner) = Turns { last: Some(Instant::now()), trouble };
    }

    /// Notes what keeps the outbox from being delivered.
    pub fn delivered(&self, trouble: Option<String>) {
        *self.outbox.lock().unwrap_or_else(PoisonError::into_inner) = trouble;
    }

    /// Notes how many packs have no file, and how many have one.
    pub fn has_packs(&self, absent: usize, present: usize) {
        *self.packs.lock().unwrap_or_else(PoisonError::into_inner) = Packs { absent, present };
    }

    /// Number of packs that had no file when they were looked for last.
    pub fn absent_packs(&self) -> usize {
        self.packs.lock().unwrap_or_else(PoisonError::into_inner).absent
    }

    /// Notes what waits in the outbox.
    pub fn has_backlog(&self, backlog: Backlog) {
        *self.backlog.lock().unwrap_or_else(PoisonError::into_inner) = backlog;
    }

    /// The deliveries that waited in the outbox after its last round.
    pub fn backlog(&self) -> Backlog {
        self.backlog.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// True once sessions are looked after.
    pub fn is_ready(&self) -> bool {
        self.watch.lock().unwrap_or_else(PoisonError::into_inner).last.is_some()
    }

    /// The state of the service, and the reasons.
    pub fn status(&self, store: &Store, view: Result<&View, String>) -> (Status, Vec<String>) {
        // Whatever else cannot be done follows from that.
        if let Some(gone) = store.absence() {
            return (Status::Failing, vec![gone.to_string()]);
        }
        let mut found = Vec::new();
        if let Err(why) = view {
            found.push((Status::Failing, format!("the store cannot be read: {why}")));
        }
        if let Some(why) = is_full(store) {
            found.push((Status::Failing, why));
        }
        if store.is_read_only() {
            found.push((Status::Degraded, "the store takes no writes: its filesystem is read-only".to_owned()));
        }
        let Packs { absent, present } = *self.packs.lock().unwrap_or_else(PoisonError::into_inner);
        if absent > 0 {
            let status = if present == 0 { Status::Failing } else { Status::Degraded };
            found.push((status, format!("{absent} of {} packs are missing: what they hold cannot be read", absent + present)));
        }
        let watch = self.watch.lock().unwrap_or_else(PoisonError::into_inner);
        if watch.last.is_some_and(|last| last.elapsed() > STUCK_AFTER) {
            found.push((Status::Failing, format!("sessions have not been looked after for {} s", STUCK_AFTER.as_secs())));
        }
        found.extend(watch.trouble.iter().map(|why| (Status::Degraded, format!("sessions could not be looked at: {why}"))));
        let outbox = self.outbox.lock().unwrap_or_else(PoisonError::into_inner);
        found.extend(outbox.iter().map(|why| (Status::Degraded, format!("the outbox is not delivered: {why}"))));
        let worst = found.iter().map(|(status, _)| *status).max().unwrap_or(Status::Ok);
        (worst, found.into_iter().map(|(_, why)| why).collect())
    }
}

/// A sentence about a store that has no room left; none of one that has some, or of which that cannot be told.
pub fn is_full(store: &Store) -> Option<String> {
    let free = store.free_when_full()?;
    Some(format!("the store's filesystem is full: {free} bytes are free, too few for a checkpoint that has something new"))
}
