//! Looking after sessions: new entries of the journal are told to listeners, the agents of sessions are watched, and those that died are
//! brought back.
//!
//! One thread does it, which blocks in `poll`. What takes long it gives to others: checkpoints to threads, of a bounded number
//! that requests take no part of, and resumes to threads that have tmux start the agents, which outlive the service.

mod agents;
mod attention;
mod capture;
mod lifetime;
mod recovery;
mod upkeep;

use std::{
    io,
    path::Path,
    sync::atomic::Ordering,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use parhelia_host::Result;
use parhelia_life::overview::{self, Shortfall};
use parhelia_store::clock;
use tokio::sync::watch;

use self::{agents::Agents, attention::Attentions, capture::Captures, lifetime::Lifetime, recovery::Recovery, upkeep::Upkeep};
use crate::{
    app::App,
    feed,
    log::{TroubleLog, say},
    systemd,
};

/// So often it is looked whether the journal has grown, and whether the service ends.
const TICK: Duration = Duration::from_millis(200);
/// So often sessions are looked at though nothing has happened that was heard of: leases run out, and other namespaces tell nothing.
const LOOK: Duration = Duration::from_secs(10);

/// So often systemd is told that sessions are looked after.
const BEAT: Duration = Duration::from_secs(10);

/// Starts the thread, which ends soon after `stopped` is true.
pub fn start(app: App, resumes: bool, stopped: watch::Receiver<bool>) -> io::Result<JoinHandle<()>> {
    let watching = thread::Builder::new().name("watch".into());
    watching.spawn(move || {
        let mut watcher = Watcher::new(app.clone(), resumes);
        let (mut beat, mut trouble) = (Instant::now(), TroubleLog::default());
        while !*stopped.borrow() {
            let turned = watcher.turn();
            if beat.elapsed() > BEAT {
                beat = Instant::now();
                systemd::tell(&*app.host, "WATCHDOG=1");
            }
            app.verdicts.turned(turned.as_ref().err().map(ToString::to_string));
            let wrong = turned.err().map(|e| format!("sessions could not be looked at: {e}"));
            let has_failed = wrong.is_some();
            trouble.say(wrong, "sessions are looked at again");
            if has_failed {
                thread::sleep(LOOK / 10);
            }
        }
        app.feed.close();
    })
}

/// The time until sessions are looked at next: where a lease runs out before that, then.
fn until_next(missing: &Shortfall) -> Duration {
    let now = clock::timestamp();
    let ends = missing.elsewhere.iter().map(|(_, _, until)| Duration::try_from(until.duration_since(now)).unwrap_or_default());
    ends.min().map_or(LOOK, |end| end.clamp(TICK, LOOK))
}

struct Watcher {
    app: App,
    /// Sequence of the last entry that listeners were told of.
    told: u64,
    /// The thread that brings the store's index up to date, and whether it could.
    absorbing: Option<JoinHandle<bool>>,
    agents: Agents,
    attentions: Attentions,
    /// The reason for which what they have seen is not recorded.
    unrecorded: TroubleLog,
    captures: Captures,
    recovery: Option<Recovery>,
    lifetime: Lifetime,
    upkeep: Upkeep,
    /// Number of reloads of the configuration that it has.
    reloads: u64,
    /// The time at which sessions are looked at next.
    next: Instant,
    /// The time at which packs were counted last.
    counted: Option<Instant>,
}

impl Watcher {
    fn new(app: App, resumes: bool) -> Self {
        let told = app.store.view().end().sequence;
        let recovery = resumes.then(Recovery::default);
        // A configuration that cannot be used is told of where it is needed.
        let options = app.host.config(Path::new("/")).map(|config| config.service).unwrap_or_default();
        let (lifetime, upkeep) = (Lifetime::new(options.max_lifetime_hours), Upkeep::new(options.upkeep_hours));
        let (agents, attentions, captures) = (Agents::default(), Attentions::default(), Captures::default());
        Watcher {
            app,
            told,
            absorbing: None,
            agents,
            attentions,
            unrecorded: TroubleLog::default(),
            captures,
            recovery,
            lifetime,
            upkeep,
            reloads: 0,
            next: Instant::now(),
            counted: None,
        }
    }

    /// Waits until something happens, but not long, and does what is to be done.
    fn turn(&mut self) -> Result<()> {
        let has_ended = self.agents.wait(TICK);
        if let Some(gone) = self.app.store.absence() {
            return Err(gone.into());
        }
        let has_grown = self.tell()?;
        self.count_packs()?;
        if self.app.store.is_read_only() {
            return Ok(());
        }
        self.captures.note_room(&self.app.store, &self.agents.alive());
        self.reload();
        let is_due = self.next <= Instant::now();
        if has_ended || has_grown || is_due {
            self.absorb();
            let missing = overview::missing(&self.app.store)?;
            self.next = Instant::now() + until_next(&missing);
            self.agents.watch(&self.app.store)?;
            self.captures.note(&self.app.store, &missing)?;
            // Whoever asks first does not wait until all sessions were read. Where that fails, they hear of it.
            let _ = self.app.listing.renew(&self.app.store, &self.app.store.view());
            if let Some(recovery) = self.recovery.as_mut().filter(|_| !self.lifetime.is_over()) {
                recovery.note(&missing);
            }
        }
        match self.attentions.go_on(&self.app, &self.agents.alive()) {
            Ok(false) => {}
            looked => {
                let wrong = looked.err().map(|e| format!("what agents say of themselves could not be recorded: {e}"));
                self.unrecorded.say(wrong, "what agents say of themselves is recorded again");
            }
        }
        self.captures.go_on(&self.app);
        self.upkeep.go_on(&self.app);
        self.lifetime.go_on(&self.app)?;
        match self.recovery.as_mut().filter(|_| !self.lifetime.is_over()) {
            Some(recovery) => recovery.go_on(&self.app, |session| !self.captures.has(session)),
            None => Ok(()),
        }
    }

    /// Counts the packs that have no file, now and then.
    fn count_packs(&mut self) -> Result<()> {
        if self.counted.is_none_or(|at| at.elapsed() >= LOOK) {
            self.counted = Some(Instant::now());
            let (absent, present) = self.app.store.absent_packs()?;
            self.app.verdicts.has_packs(absent.len(), present);
        }
        Ok(())
    }

    /// Takes the options of the service from the configuration again, where that was asked for.
    fn reload(&mut self) {
        let reloads = self.app.reloads.load(Ordering::Relaxed);
        if reloads == self.reloads {
            return;
        }
        self.reloads = reloads;
        if let Ok(config) = self.app.host.config(Path::new("/")) {
            let options = config.service;
            (self.lifetime, self.upkeep) = (Lifetime::new(options.max_lifetime_hours), Upkeep::new(options.upkeep_hours));
        }
    }

    /// Brings the store's index up to date, which its requests leave to this: in a thread of its own, as a damaged one is derived anew. That it
    /// cannot be done is said once.
    fn absorb(&mut self) {
        let is_running = self.absorbing.as_ref().is_some_and(|thread| !thread.is_finished());
        if is_running || !self.app.store.view().wants_absorbing() {
            return;
        }
        let has_failed = self.absorbing.take().is_some_and(|thread| !thread.join().unwrap_or(false));
        let app = self.app.clone();
        let work = move || match app.store.absorb_if_due() {
            Ok(()) => true,
            Err(e) => {
                if !has_failed {
                    say(&format!("the index of the store was not brought up to date: {e}"));
                }
                false
            }
        };
        self.absorbing = thread::Builder::new().name("absorb".into()).spawn(work).ok();
    }

    /// Tells listeners of new entries; true if there were some.
    fn tell(&mut self) -> Result<bool> {
        if !self.app.store.view().is_stale()? && self.app.store.view().end().sequence == self.told {
            return Ok(false);
        }
        let end = self.app.store.refresh()?.end().sequence;
        let events = feed::behind(&self.app.store, self.told)?;
        self.told = events.last().map_or(end, |last| last.sequence).max(self.told);
        self.app.feed.tell(events);
        Ok(true)
    }
}
