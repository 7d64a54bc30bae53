//! Sums of the journal: sessions, their runs, and the marks of each checkpoint. All of it can be derived again from the
//! journal's commits and events, in their order; RocksDB keeps it up to its own place in the journal, and the rest is in memory.

mod apply;
mod bearers;
mod marks;
mod merge;
mod run;
mod session;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

pub(crate) use apply::Unfit;
pub(crate) use bearers::Mark;
pub use marks::{
    Annotation, Approval, ApprovalStatus, Deletion, Issue, Marks, PossibleSecret, Scan, TAG_BYTES_MAX, Unscanned, Verification,
    VerifyLevel,
};
pub use run::{Lease, NOT_STARTED, Run, Tmux};
use serde::{Serialize, de::DeserializeOwned};
pub use session::{BY_PRICES, Conversation, Goal, PRINTED, Place, Session, Status, Totals};
use ulid::Ulid;

pub use crate::record::{By, End, EndKind};
use crate::{
    db::{Batch, Db, Family},
    error::{Error, Result},
    event::Event,
};

/// The base of the projections: their state before the tail, in RocksDB, where there is one.
pub(crate) type Base<'a> = Option<&'a Db>;

/// The projected state that differs from its base.
#[derive(Clone, Debug, Default)]
pub(crate) struct Projections {
    sessions: BTreeMap<String, Session>,
    runs: BTreeMap<String, Run>,
    marks: BTreeMap<Ulid, Marks>,
    keys: BTreeMap<String, Event>,
    last_event: Option<String>,
    /// Journal sequence of the entry that is being taken in; 0 for one that has none yet.
    sequence: u64,
}

fn session_key(db: &Db, id: &str) -> String {
    format!("s/{}", db.name(id))
}

/// The beginning of the keys of a name's sessions.
fn names_key(db: &Db, name: &str) -> String {
    format!("n/{}\0", db.name(name))
}

/// The key that says that a session has a name.
fn name_key(db: &Db, name: &str, id: &str) -> String {
    names_key(db, name) + &db.name(id)
}

fn run_key(id: &str) -> String {
    format!("r/{id}")
}

fn marks_key(id: Ulid) -> String {
    format!("m/{id}")
}

fn idempotency_key(db: &Db, key: &str) -> String {
    format!("k/{}", db.name(key))
}

const LAST_EVENT: &str = "e";

fn decode<T: DeserializeOwned>(key: &[u8], bytes: &[u8]) -> Result<T> {
    serde_json::from_slice(bytes).map_err(|e| Error::Index {
        path: "view".into(),
        reason: format!("{} does not decode: {e}", String::from_utf8_lossy(key)),
    })
}

fn load<T: DeserializeOwned>(base: Base<'_>, key: impl FnOnce(&Db) -> String) -> Result<Option<T>> {
    let Some(db) = base else { return Ok(None) };
    let key = key(db);
    db.get(Family::Projections, key.as_bytes())?.map(|bytes| decode(key.as_bytes(), &bytes)).transpose()
}

/// All values under a prefix, by key behind it.
fn load_all<T: DeserializeOwned>(base: Base<'_>, prefix: &str) -> Result<BTreeMap<String, T>> {
    let mut found = BTreeMap::new();
    let Some(db) = base else { return Ok(found) };
    for entry in db.scan_prefix(Family::Projections, prefix.as_bytes())? {
        let (key, value) = entry?;
        found.insert(String::from_utf8_lossy(&key[prefix.len()..]).into_owned(), decode(&key, &value)?);
    }
    Ok(found)
}

impl Projections {
    pub(crate) fn session(&self, base: Base<'_>, id: &str) -> Result<Option<Session>> {
        match self.sessions.get(id) {
            Some(session) => Ok(Some(session.clone())),
            None => load(base, |db| session_key(db, id)),
        }
    }

    pub(crate) fn sessions(&self, base: Base<'_>) -> Result<Vec<Session>> {
        let stored: BTreeMap<String, Session> = load_all(base, "s/")?;
        let mut all: BTreeMap<String, Session> = stored.into_values().map(|session| (session.id.clone(), session)).collect();
        all.extend(self.sessions.clone());
        Ok(all.into_values().collect())
    }

    /// The sessions of this name, by id.
    pub(crate) fn sessions_named(&self, base: Base<'_>, name: &str) -> Result<Vec<Session>> {
        let mut ids: BTreeSet<String> = self.sessions.keys().cloned().collect();
        if let Some(db) = base {
            for entry in db.scan_prefix(Family::Projections, names_key(db, name).as_bytes())? {
                ids.insert(String::from_utf8_lossy(&entry?.1).into_owned());
            }
        }
        let found = ids.iter().map(|id| self.session(base, id)).collect::<Result<Vec<_>>>()?;
        Ok(found.into_iter().flatten().filter(|session| session.name == name).collect())
    }

    pub(crate) fn run(&self, base: Base<'_>, id: &str) -> Result<Option<Run>> {
        match self.runs.get(id) {
            Some(run) => Ok(Some(run.clone())),
            None => load(base, |_| run_key(id)),
        }
    }

    pub(crate) fn runs(&self, base: Base<'_>) -> Result<BTreeMap<String, Run>> {
        let mut all = load_all(base, "r/")?;
        all.extend(self.runs.clone());
        Ok(all)
    }

    pub(crate) fn marks(&self, base: Base<'_>, id: Ulid) -> Result<Marks> {
        match self.marks.get(&id) {
            Some(marks) => Ok(marks.clone()),
            None => Ok(load(base, |_| marks_key(id))?.unwrap_or_default()),
        }
    }

    pub(crate) fn all_marks(&self, base: Base<'_>) -> Result<BTreeMap<Ulid, Marks>> {
        let stored: BTreeMap<String, Marks> = load_all(base, "m/")?;
        let mut all: BTreeMap<Ulid, Marks> =
            stored.into_iter().filter_map(|(id, marks)| Some((id.parse().ok()?, marks))).collect();
        all.extend(self.marks.clone());
        Ok(all)
    }

    /// The event that was appended under an idempotency key.
    pub(crate) fn event_of_key(&self, base: Base<'_>, key: &str) -> Result<Option<Event>> {
        match self.keys.get(key) {
            Some(event) => Ok(Some(event.clone())),
            None => load(base, |db| idempotency_key(db, key)),
        }
    }

    /// Hash of the last event.
    pub(crate) fn last_event(&self, base: Base<'_>) -> Result<Option<String>> {
        match &self.last_event {
            Some(hash) => Ok(Some(hash.clone())),
            None => load(base, |_| LAST_EVENT.to_owned()),
        }
    }

    /// Puts everything that differs from the base into a batch.
    pub(crate) fn store(&self, base: &Db, batch: &mut Batch) -> Result<()> {
        fn put(batch: &mut Batch, key: String, value: &impl Serialize) {
            batch.put(Family::Projections, key, serde_json::to_vec(value).unwrap_or_default());
        }
        for (id, session) in &self.sessions {
            let before: Option<Session> = load(Some(base), |db| session_key(db, id))?;
            if let Some(before) = before.filter(|before| before.name != session.name) {
                batch.delete(Family::Projections, name_key(base, &before.name, id));
            }
            batch.put(Family::Projections, name_key(base, &session.name, id), id.as_bytes());
            put(batch, session_key(base, id), session);
        }
        self.runs.iter().for_each(|(id, run)| put(batch, run_key(id), run));
        for (id, marks) in &self.marks {
            let before: Marks = load(Some(base), |_| marks_key(*id))?.unwrap_or_default();
            bearers::store(base, batch, *id, &before, marks);
            put(batch, marks_key(*id), marks);
        }
        self.keys.iter().for_each(|(key, event)| put(batch, idempotency_key(base, key), event));
        if let Some(hash) = &self.last_event {
            put(batch, LAST_EVENT.to_owned(), hash);
        }
        Ok(())
    }
}
