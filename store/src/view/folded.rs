//! The view and its store's fold.

use serde_json::{Map, Value};

use super::{Events, View};
use crate::{
    error::Result,
    event::NewEvent,
    fold::{Fold, Kept, Standing},
    layout::Layout,
    maker::Maker,
    record::{Checkpoint, Record},
    store::Store,
};

impl View {
    /// The fold up to this view's place in the journal, and what the index has of it.
    pub fn fold(&self) -> (&dyn Fold, Kept<'_>) {
        (&*self.fold, self.kept())
    }

    pub(super) fn kept(&self) -> Kept<'_> {
        Kept(self.db.as_deref())
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

    pub(crate) fn standing(&self, session: &str) -> Result<Standing> {
        self.fold.standing(self.kept(), session)
    }

    pub(crate) fn check_maker(&self, session: &str, maker: &Maker) -> Result<()> {
        self.fold.check_maker(self.kept(), session, maker)
    }

    pub(crate) fn events_of(&self, record: &Record, maker: &Maker) -> Result<Vec<NewEvent>> {
        self.fold.events_of(self.kept(), record, maker)
    }

    pub(crate) fn facts_of(&self, store: &Store, checkpoint: &Checkpoint) -> Map<String, Value> {
        self.fold.facts_of(self.kept(), store, self, checkpoint)
    }

    pub(crate) fn import_session(&self, asked: Option<&str>, exported: &str) -> Result<String> {
        self.fold.import_session(self.kept(), asked, exported)
    }

    pub(crate) fn sweep_fold(&self) -> Result<()> {
        self.fold.sweep(self.kept(), &self.layout)
    }

    /// True if the fold of another view of the same journal tells the same.
    pub(crate) fn has_same_fold(&self, other: &View) -> Result<bool> {
        self.fold.is_same(self.kept(), other.fold())
    }
}
