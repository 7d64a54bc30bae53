//! Retention, the freeing of space, and a look at a share of the data, while nothing else is to be done.

use std::{
    path::Path,
    sync::Arc,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use parhelia_host::{Result, config::Config};
use parhelia_life::{
    checked,
    collect::{GcOutcome, collect},
    retention::{self, Policy},
};
use parhelia_store::{clock, event::Actor};

use crate::{app::App, log::say};

/// The first time is so long after the start, or sooner where that is configured: a service that starts has other things to do.
const FIRST: Duration = Duration::from_secs(3600);

/// The upkeep of a store.
pub struct Upkeep {
    /// The time between two; none for never.
    every: Option<Duration>,
    next: Instant,
    under_way: Arc<AtomicBool>,
}

impl Upkeep {
    /// One that is due so many hours after the last; never for 0.
    pub fn new(hours: f64) -> Self {
        let every = Duration::try_from_secs_f64(hours * 3600.0).ok().filter(|every| !every.is_zero());
        Upkeep { every, next: Instant::now() + every.unwrap_or(FIRST).min(FIRST), under_way: Arc::default() }
    }

    /// Begins it on a thread, once it is due and nothing else is under way.
    pub fn go_on(&mut self, app: &App) {
        let Some(every) = self.every.filter(|_| self.next <= Instant::now() && app.is_idle()) else { return };
        self.next = Instant::now() + every;
        if self.under_way.swap(true, Ordering::Relaxed) {
            return;
        }
        let (app, under_way) = (app.clone(), self.under_way.clone());
        let work = move || {
            if let Err(e) = keep_up(&app) {
                say(&format!("the store was not kept up: {e}"));
            }
            under_way.store(false, Ordering::Relaxed);
        };
        if let Err(e) = thread::Builder::new().name("upkeep".into()).spawn(work) {
            say(&format!("the store was not kept up: {e}"));
            self.under_way.store(false, Ordering::Relaxed);
        }
    }
}

/// Checks first: retention and gc refuse to work in a store that has lost something, and the check says what.
fn keep_up(app: &App) -> Result<()> {
    let config: Config = app.host.config(Path::new("/"))?;
    let actor = Actor::program("service");
    let mut found = said("checked", checked::share(&app.store, config.service.check_percent, &actor, &()));
    if config.retention.automatic {
        let (policy, actor) = (Policy::from(&config.retention), Actor::program("retention"));
        let pruned = retention::prune(&app.store, &policy, None, &actor, clock::timestamp(), &());
        if let Some(pruned) = said("thinned by retention", pruned.map(Some)) {
            say(&format!("retention has removed {} checkpoints", pruned.removed.len()));
        }
    }
    app.store.note_unreadable();
    let GcOutcome { freed: collected, forgotten } = collect(&app.store, &*app.host, &());
    let is_damage = |e: &parhelia_store::Error| e.is_damage() || e.kind() == parhelia_store::ErrorKind::Corrupt;
    if found.is_none() && collected.as_ref().is_err_and(is_damage) {
        found = said("checked", checked::of_damage(&app.store, &actor, &()));
    }
    if let Some(report) = said("cleaned by gc", collected.map(Some)) {
        say(&format!("gc has freed {} bytes", report.freed_bytes));
    }
    if let Some(report) = found {
        let found = report.findings_count();
        say(&format!("the check of the store has read {} bytes of data and found {found} problems", report.bytes_read));
        report.findings.iter().take(10).for_each(|finding| say(&finding.message));
    }
    forgotten
}

/// The result of one part of the upkeep. That one fails keeps no other from being done.
fn said<T, E: std::fmt::Display>(what: &str, done: Result<Option<T>, E>) -> Option<T> {
    done.unwrap_or_else(|e| {
        say(&format!("the store was not {what}: {e}"));
        None
    })
}
