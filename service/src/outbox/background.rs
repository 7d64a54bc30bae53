//! The outbox within the service: a thread that delivers as events come.

use std::{
    io,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use parhelia_store::clock;
use tokio::sync::watch;

use super::{Backlog, Lock, Outbox, Result, full_disk::Room};
use crate::{
    app::App,
    log::{TroubleLog, say},
};

/// So often it is looked whether there is something to do.
const TICK: Duration = Duration::from_millis(300);
/// So often it is looked at what waits though nothing was recorded: somebody may have asked for another try.
const LOOK: Duration = Duration::from_secs(5);
/// After a failure that is no channel's it is tried again.
const PAUSE: Duration = Duration::from_secs(10);

/// Starts the thread. It ends with the process, as a channel may keep it waiting.
pub fn start(app: App, program: String, stopped: watch::Receiver<bool>) -> io::Result<JoinHandle<()>> {
    let background = thread::Builder::new().name("outbox".into());
    background.spawn(move || {
        let mut deliverer = Deliverer {
            app,
            program,
            stopped: stopped.clone(),
            lock: None,
            seen: None,
            next: Instant::now(),
            room: Room::default(),
        };
        let mut trouble = TroubleLog::default();
        while !*stopped.borrow() {
            thread::sleep(TICK);
            // Whoever watches over sessions says so.
            if deliverer.app.store.absence().is_some() {
                continue;
            }
            let turned = deliverer.turn();
            deliverer.app.verdicts.delivered(turned.as_ref().err().map(ToString::to_string));
            let wrong = turned.err().map(|e| format!("the outbox is not delivered: {e}"));
            let has_failed = wrong.is_some();
            trouble.say(wrong, "the outbox is delivered again");
            if has_failed {
                thread::sleep(PAUSE);
            }
        }
    })
}

struct Deliverer {
    app: App,
    program: String,
    stopped: watch::Receiver<bool>,
    lock: Option<Lock>,
    /// Sequence of the last event that was looked at.
    seen: Option<u64>,
    /// The time at which it is looked again.
    next: Instant,
    room: Room,
}

impl Deliverer {
    fn turn(&mut self) -> Result<()> {
        // Whoever watches over sessions keeps the view up to date.
        let end = self.app.store.view().end().sequence;
        if self.seen == Some(end) && self.next > Instant::now() {
            return Ok(());
        }
        self.next = Instant::now() + LOOK;
        let outbox = Outbox::of(&self.app.store, &*self.app.host, self.program.clone())?;
        if !outbox.is_on() {
            self.seen = Some(end);
            return Ok(());
        }
        self.room.look(&outbox);
        if self.lock.is_none() {
            self.lock = outbox.lock()?;
            match &self.lock {
                Some(_) => outbox.is_had(),
                // A process of a verb delivers, with the environment that it had then.
                None => outbox.want()?,
            }
        }
        let Some(lock) = &self.lock else { return Ok(()) };
        let round = outbox.round(lock, &|| *self.stopped.borrow())?;
        self.app.verdicts.has_backlog(Backlog::of(&outbox.list()?));
        for (place, why) in &round.troubles {
            say(&format!("deliveries are tried again ({place}): {why}"));
        }
        self.seen = Some(end);
        let until = round.next.map(|next| Duration::try_from(next.duration_since(clock::timestamp())).unwrap_or_default());
        self.next = Instant::now() + until.unwrap_or(LOOK).min(LOOK);
        Ok(())
    }
}
