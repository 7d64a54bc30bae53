//! New entries of the journal, for everybody who listens. The journal is read once for all of them; who falls behind reads it again.

use std::sync::{Arc, Mutex, PoisonError};

use parhelia_session::{Result, events::Sessions};
use parhelia_store::{
    Store,
    journal::{Entry, Journal},
    record::Checkpoint,
};
use parhelia_wire::event::Event;
use tokio::sync::broadcast;

/// So many entries wait for a listener before it has fallen behind.
const WAITING_MAX: usize = 4096;

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

    /// Tells everybody.
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

/// The entries behind a sequence, as other programs see them.
pub fn behind(store: &Store, after: u64) -> Result<Vec<Event>> {
    let view = store.view();
    let mut sessions = Sessions::new(store, &view, after);
    let mut events = Vec::new();
    for logged in Journal::of(store.layout()).read_after(after)? {
        match logged.entry {
            Entry::Commit { record, .. } => {
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
    Ok(events)
}
