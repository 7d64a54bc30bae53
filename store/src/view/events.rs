//! The chain of events, as far as appending to it needs: the hash of the last one, and those that are appended once.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;

use super::broken_view;
use crate::{
    db::{Batch, Db, Family},
    error::Result,
    event::Event,
    journal::{Entry, JournalRecord},
};

/// Key of the last event's hash.
const LAST_EVENT: &str = "e";

/// Key of the event that was appended under an idempotency key.
fn once_key(db: &Db, key: &str) -> String {
    format!("k/{}", db.name(key))
}

fn load<T: DeserializeOwned>(db: &Db, key: &str) -> Result<Option<T>> {
    let decode = |bytes: Vec<u8>| serde_json::from_slice(&bytes).map_err(|e| broken_view(format!("{key} does not decode: {e}")));
    db.get(Family::Projections, key.as_bytes())?.map(decode).transpose()
}

/// What the tail has of the chain. What is before it is in RocksDB.
#[derive(Clone, Debug, Default)]
pub(crate) struct Events {
    last: Option<String>,
    once: BTreeMap<String, Event>,
}

impl Events {
    pub(super) fn apply(&mut self, logged: &JournalRecord) {
        if let Entry::Event(event) = &logged.entry {
            self.note(event);
        }
        if let Some(hash) = &logged.event_hash {
            self.last = Some(hash.clone());
        }
    }

    /// Takes in an event that is about to be appended.
    pub(crate) fn add(&mut self, event: &Event, hash: String) {
        self.note(event);
        self.last = Some(hash);
    }

    fn note(&mut self, event: &Event) {
        if let Some(key) = &event.idempotency_key {
            self.once.insert(key.clone(), event.clone());
        }
    }

    /// Hash of the last event.
    pub(crate) fn last(&self, db: Option<&Db>) -> Result<Option<String>> {
        match (&self.last, db) {
            (Some(hash), _) => Ok(Some(hash.clone())),
            (None, Some(db)) => load(db, LAST_EVENT),
            (None, None) => Ok(None),
        }
    }

    /// The event that was appended under an idempotency key.
    pub(crate) fn of_key(&self, db: Option<&Db>, key: &str) -> Result<Option<Event>> {
        match (self.once.get(key), db) {
            (Some(event), _) => Ok(Some(event.clone())),
            (None, Some(db)) => load(db, &once_key(db, key)),
            (None, None) => Ok(None),
        }
    }

    pub(super) fn store(&self, db: &Db, batch: &mut Batch) {
        for (key, event) in &self.once {
            batch.put(Family::Projections, once_key(db, key), serde_json::to_vec(event).unwrap_or_default());
        }
        if let Some(hash) = &self.last {
            batch.put(Family::Projections, LAST_EVENT, serde_json::to_vec(hash).unwrap_or_default());
        }
    }
}
