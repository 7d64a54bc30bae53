//! The view and its store's fold.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::{Events, View};
use crate::{
    db::{Batch, Db, Family},
    error::Result,
    event::{Event, NewEvent},
    fold::{Changes, Checkpoints, Contents, Fold, Index, Projection, SessionHead, Visit},
    id::Ulid,
    layout::Layout,
    maker::Maker,
    record::{Checkpoint, Record},
};

/// The beginning of the keys of a fold in the index, where others are the store's.
const PREFIX: &str = "f/";

impl Index for Db {
    fn value(&self, key: &str) -> Result<Option<Vec<u8>>> {
        self.get(Family::Projections, format!("{PREFIX}{key}").as_bytes())
    }

    fn each(&self, begins: &str, visit: Visit<'_>) -> Result<()> {
        for entry in self.scan_prefix(Family::Projections, format!("{PREFIX}{begins}").as_bytes())? {
            let (key, value) = entry?;
            visit(&key[PREFIX.len()..], &value)?;
        }
        Ok(())
    }

    /// In a store with keys of its own it cannot be read there.
    fn name<'n>(&self, name: &'n str) -> Cow<'n, str> {
        Db::name(self, name)
    }
}

impl Changes for Batch {
    fn set(&mut self, key: &str, value: Vec<u8>) {
        self.put(Family::Projections, format!("{PREFIX}{key}"), value);
    }

    fn remove(&mut self, key: &str) {
        self.delete(Family::Projections, format!("{PREFIX}{key}"));
    }
}

impl Checkpoints for View {
    fn checkpoint(&self, id: Ulid) -> Result<Option<Checkpoint>> {
        View::checkpoint(self, id)
    }

    fn origin(&self, id: Ulid) -> Result<Option<Ulid>> {
        View::origin(self, id)
    }
}

/// The keys and values that an index has of a fold.
pub(super) fn kept(db: Option<&Db>) -> Projection<'_> {
    Projection(db.map(|db| db as &dyn Index))
}

impl View {
    /// The fold up to this view's place in the journal, and what the index has of it.
    pub fn fold(&self) -> (&dyn Fold, Projection<'_>) {
        (&*self.fold, self.kept())
    }

    pub(super) fn kept(&self) -> Projection<'_> {
        kept(self.db.as_deref())
    }

    /// The paths of its store.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Hash of the last event; `None` before the first.
    pub fn last_event(&self) -> Result<Option<String>> {
        self.events.last(self.db.as_deref())
    }

    pub(crate) fn events(&self) -> &Events {
        &self.events
    }

    /// The event of an idempotency key, among these and those of the index.
    pub(crate) fn event_of_key(&self, events: &Events, key: &str) -> Result<Option<Event>> {
        events.of_key(self.db.as_deref(), key)
    }

    pub(crate) fn standing(&self, session: &str) -> Result<SessionHead> {
        self.fold.standing(self.kept(), session)
    }

    pub(crate) fn check_maker(&self, session: &str, maker: &Maker) -> Result<()> {
        self.fold.check_maker(self.kept(), session, maker)
    }

    pub(crate) fn events_of(&self, record: &Record, maker: &Maker) -> Result<Vec<NewEvent>> {
        self.fold.events_of(self.kept(), record, maker)
    }

    pub(crate) fn facts_of(&self, contents: Contents<'_>, checkpoint: &Checkpoint) -> Map<String, Value> {
        self.fold.facts_of(self.kept(), contents, self, checkpoint)
    }

    pub(crate) fn import_session(&self, asked: Option<&str>, exported: &str) -> Result<String> {
        self.fold.import_session(self.kept(), asked, exported)
    }

    pub(crate) fn sweep_fold(&self) -> Result<()> {
        self.fold.sweep(self.kept(), &self.layout.root)
    }

    /// True if the fold of another view of the same journal tells the same.
    pub(crate) fn has_same_fold(&self, other: &View) -> Result<bool> {
        self.fold.is_same(self.kept(), other.fold())
    }
}
