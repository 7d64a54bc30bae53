//! New entries of the journal, for everybody who listens. The journal is read once for all of them; who falls behind reads it again.

use std::{
    mem,
    sync::{Arc, Mutex, PoisonError},
};

use parhelia_host::{
    Result,
    events::{SessionMap, Sessions},
};
use parhelia_store::{
    Store,
    journal::{Entry, Journal, Position},
    record::Checkpoint,
};
use parhelia_wire::event::Event;
use tokio::sync::broadcast;

/// So many entries wait for a listener before it has fallen behind.
const WAITING_MAX: usize = 4096;
/// So many records of the journal are read at a time.
const PAGE_RECORDS: u64 = 1000;

/// The feed of new entries.
pub struct Feed {
    /// None once the service ends.
    sender: Mutex<Option<broadcast::Sender<Arc<Event>>>>,
}

impl Default for Feed {
    fn default() -> Self {
        Feed { sender: Mutex::new(Some(broadcast::Sender::new(WAITING_MAX))) }
    }
}

impl Feed {
    /// Listens from now on; none once the service ends.
    pub fn listen(&self) -> Option<broadcast::Receiver<Arc<Event>>> {
        self.sender.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(broadcast::Sender::subscribe)
    }

    /// Gives entries to everybody who listens now, in order.
    pub fn tell(&self, events: Vec<Event>) {
        if let Some(sender) = &*self.sender.lock().unwrap_or_else(PoisonError::into_inner) {
            for event in events {
                // Nobody may be listening.
                let _ = sender.send(Arc::new(event));
            }
        }
    }

    /// Ends: who listens hears that there is no more.
    pub fn close(&self) {
        self.sender.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

/// The journal's entries behind a sequence, as other programs see them, by pages: never more of them in memory than one page has.
pub struct Pages {
    at: Position,
    known: SessionMap,
}

impl Pages {
    /// Those behind a sequence.
    pub fn behind(store: &Store, sequence: u64) -> Result<Self> {
        Ok(Pages { at: Journal::of(store.layout()).place_behind(sequence)?, known: SessionMap::behind(sequence) })
    }

    /// The events of the next page; none at the journal's end. A page may have no event.
    pub fn next(&mut self, store: &Store) -> Result<Option<Vec<Event>>> {
        let page = Journal::of(store.layout()).read_page(&self.at, PAGE_RECORDS)?;
        if page.records.is_empty() {
            return Ok(None);
        }
        let view = store.view();
        let mut sessions = Sessions::with(store, &view, self.at.sequence, mem::take(&mut self.known));
        let mut events = Vec::new();
        for logged in page.records {
            match logged.entry {
                // What another machine has done is told there.
                Entry::Commit { record, machine: None, .. } => {
                    sessions.committed(logged.sequence, record.clone());
                    // What this release cannot read, it does not show.
                    if let Ok(checkpoint) = Checkpoint::decode(logged.sequence, record, store.ids()) {
                        events.push(Event::of_commit(&checkpoint));
                    }
                }
                Entry::Event(event) => {
                    let session = sessions.of(&event)?;
                    events.push(Event::of_event(logged.sequence, &event, session));
                }
                _ => {}
            }
        }
        (self.at, self.known) = (page.end, sessions.into_known());
        Ok(Some(events))
    }
}

/// All entries behind a sequence, for those who know that they are few.
pub fn behind(store: &Store, sequence: u64) -> Result<Vec<Event>> {
    let (mut pages, mut events) = (Pages::behind(store, sequence)?, Vec::new());
    while let Some(page) = pages.next(store)? {
        events.extend(page);
    }
    Ok(events)
}
