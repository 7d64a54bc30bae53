//! The ledger as the store's fold: sessions, their runs, and the marks of each checkpoint, as commits and events add up. All of it can be derived again from the
//! journal, in its order; the store's index has it up to a place in the journal, and the rest is in memory.

mod apply;
mod bearers;
mod merge;
#[cfg(test)]
mod tests;

use std::{
    any::Any,
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use parhelia_store::{
    Error, Result,
    create::Maker,
    event::{Event, NewEvent},
    fold::{Checkpoints, Contents, Fold, Keys, Projection, SessionHead, Unfit},
    layout::Layout,
    record::{Checkpoint, Record},
    view::View,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};
use ulid::Ulid;

pub(crate) use self::bearers::Mark;
use crate::{lease_file, marks::Marks, rejection, run::Run, session::Session};

/// Name and version of what the index keeps.
const SHAPE: &str = "ledger 1";

/// The ledger, as far as it differs from what the index keeps of it.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    sessions: BTreeMap<String, Session>,
    runs: BTreeMap<String, Run>,
    marks: BTreeMap<Ulid, Marks>,
}

fn session_key(kept: Projection<'_>, id: &str) -> String {
    format!("s/{}", kept.name(id))
}

/// The beginning of the keys of a name's sessions.
fn names_key(kept: Projection<'_>, name: &str) -> String {
    format!("n/{}\0", kept.name(name))
}

/// The key that says that a session has a name.
fn name_key(kept: Projection<'_>, name: &str, id: &str) -> String {
    names_key(kept, name) + &kept.name(id)
}

fn run_key(id: &str) -> String {
    format!("r/{id}")
}

fn marks_key(id: Ulid) -> String {
    format!("m/{id}")
}

fn decode<T: DeserializeOwned>(key: &str, bytes: &[u8]) -> Result<T> {
    serde_json::from_slice(bytes).map_err(|e| Error::Index { path: "view".into(), reason: format!("{key} does not decode: {e}") })
}

fn load<T: DeserializeOwned>(kept: Projection<'_>, key: &str) -> Result<Option<T>> {
    kept.get(key)?.map(|bytes| decode(key, &bytes)).transpose()
}

/// All values under a prefix, by key behind it.
fn load_all<T: DeserializeOwned>(kept: Projection<'_>, prefix: &str) -> Result<BTreeMap<String, T>> {
    let mut found = BTreeMap::new();
    kept.scan(prefix, |key, value| {
        let key = String::from_utf8_lossy(&key[prefix.len()..]).into_owned();
        let value = decode(&key, value)?;
        found.insert(key, value);
        Ok(())
    })?;
    Ok(found)
}

impl Ledger {
    /// The ledger of a store in which nothing has happened.
    pub fn empty() -> Box<dyn Fold> {
        Box::new(Ledger::default())
    }

    /// The ledger of a view, and what the index has of it. Fails where the store was opened without one.
    pub(crate) fn of(view: &View) -> Result<(&Self, Projection<'_>)> {
        let (fold, kept) = view.fold();
        let any: &dyn Any = fold;
        let ledger = any.downcast_ref().ok_or_else(|| Error::Invalid("the store was opened without its ledger".into()))?;
        Ok((ledger, kept))
    }

    pub(crate) fn session(&self, kept: Projection<'_>, id: &str) -> Result<Option<Session>> {
        match self.sessions.get(id) {
            Some(session) => Ok(Some(session.clone())),
            None => load(kept, &session_key(kept, id)),
        }
    }

    pub(crate) fn sessions(&self, kept: Projection<'_>) -> Result<Vec<Session>> {
        let stored: BTreeMap<String, Session> = load_all(kept, "s/")?;
        let mut all: BTreeMap<String, Session> = stored.into_values().map(|session| (session.id.clone(), session)).collect();
        all.extend(self.sessions.clone());
        Ok(all.into_values().collect())
    }

    /// The sessions of this name, by id.
    pub(crate) fn sessions_named(&self, kept: Projection<'_>, name: &str) -> Result<Vec<Session>> {
        let mut ids: BTreeSet<String> = self.sessions.keys().cloned().collect();
        kept.scan(&names_key(kept, name), |_, id| {
            ids.insert(String::from_utf8_lossy(id).into_owned());
            Ok(())
        })?;
        let found = ids.iter().map(|id| self.session(kept, id)).collect::<Result<Vec<_>>>()?;
        Ok(found.into_iter().flatten().filter(|session| session.name == name).collect())
    }

    pub(crate) fn run(&self, kept: Projection<'_>, id: &str) -> Result<Option<Run>> {
        match self.runs.get(id) {
            Some(run) => Ok(Some(run.clone())),
            None => load(kept, &run_key(id)),
        }
    }

    pub(crate) fn runs(&self, kept: Projection<'_>) -> Result<BTreeMap<String, Run>> {
        let mut all = load_all(kept, "r/")?;
        all.extend(self.runs.clone());
        Ok(all)
    }

    pub(crate) fn marks(&self, kept: Projection<'_>, id: Ulid) -> Result<Marks> {
        match self.marks.get(&id) {
            Some(marks) => Ok(marks.clone()),
            None => Ok(load(kept, &marks_key(id))?.unwrap_or_default()),
        }
    }

    pub(crate) fn all_marks(&self, kept: Projection<'_>) -> Result<BTreeMap<Ulid, Marks>> {
        let stored: BTreeMap<String, Marks> = load_all(kept, "m/")?;
        let mut all: BTreeMap<Ulid, Marks> =
            stored.into_iter().filter_map(|(id, marks)| Some((id.parse().ok()?, marks))).collect();
        all.extend(self.marks.clone());
        Ok(all)
    }
}

impl Fold for Ledger {
    fn shape(&self) -> &'static str {
        SHAPE
    }

    fn copy(&self) -> Box<dyn Fold> {
        Box::new(self.clone())
    }

    fn commit(&mut self, kept: Projection<'_>, sequence: u64, record: &Record, machine: Option<&str>) -> Result<()> {
        self.take_commit(kept, sequence, record, machine)
    }

    fn event(&mut self, kept: Projection<'_>, sequence: u64, event: &Event, machine: Option<&str>) -> Result<(), Unfit> {
        self.take_event(kept, sequence, event, machine)
    }

    fn keep(&self, kept: Projection<'_>, keys: &mut Keys<'_>) -> Result<()> {
        fn put(keys: &mut Keys<'_>, key: &str, value: &impl Serialize) {
            keys.put(key, serde_json::to_vec(value).unwrap_or_default());
        }
        for (id, session) in &self.sessions {
            let before: Option<Session> = load(kept, &session_key(kept, id))?;
            if let Some(before) = before.filter(|before| before.name != session.name) {
                keys.delete(&name_key(kept, &before.name, id));
            }
            keys.put(&name_key(kept, &session.name, id), id.as_bytes());
            put(keys, &session_key(kept, id), session);
        }
        self.runs.iter().for_each(|(id, run)| put(keys, &run_key(id), run));
        for (id, marks) in &self.marks {
            let before: Marks = load(kept, &marks_key(*id))?.unwrap_or_default();
            bearers::keep(kept, keys, *id, &before, marks);
            put(keys, &marks_key(*id), marks);
        }
        Ok(())
    }

    fn is_same(&self, kept: Projection<'_>, (other, other_kept): (&dyn Fold, Projection<'_>)) -> Result<bool> {
        let any: &dyn Any = other;
        let Some(other) = any.downcast_ref::<Ledger>() else { return Ok(false) };
        Ok((self.sessions(kept)?, self.runs(kept)?, self.all_marks(kept)?)
            == (other.sessions(other_kept)?, other.runs(other_kept)?, other.all_marks(other_kept)?))
    }

    fn epoch(&self, kept: Projection<'_>, checkpoints: &dyn Checkpoints, event: &NewEvent) -> Result<u64> {
        self.admitted_epoch(kept, checkpoints, event)
    }

    fn standing(&self, kept: Projection<'_>, session: &str) -> Result<SessionHead> {
        let session = self.session(kept, session)?;
        Ok(session.map_or_else(SessionHead::default, |session| SessionHead {
            epoch: session.epoch,
            head: session.head,
            has_folder: session.workspace.is_some(),
        }))
    }

    fn check_maker(&self, kept: Projection<'_>, session: &str, maker: &Maker) -> Result<()> {
        self.check_folder(kept, session, maker)
    }

    fn events_of(&self, kept: Projection<'_>, record: &Record, maker: &Maker) -> Result<Vec<NewEvent>> {
        self.session_events(kept, record, maker)
    }

    fn facts_of(
        &self,
        kept: Projection<'_>,
        contents: Contents<'_>,
        checkpoints: &dyn Checkpoints,
        checkpoint: &Checkpoint,
    ) -> Map<String, Value> {
        // What cannot be read may be deleted all the same.
        let marks = self.marks(kept, checkpoint.record.id).unwrap_or_default();
        rejection::facts_of(contents, checkpoints, checkpoint, &marks)
    }

    fn import_session(&self, kept: Projection<'_>, asked: Option<&str>, exported: &str) -> Result<String> {
        self.session_of_import(kept, asked, exported)
    }

    fn sweep(&self, kept: Projection<'_>, root: &Path) -> Result<()> {
        lease_file::sweep(&Layout::new(root), |run| Ok(self.run(kept, run)?.is_some_and(|run| run.is_open())))
    }
}
