//! The view: everything that can be derived from packs and journal, in RocksDB up to some place in the journal, and in memory from
//! there to its end. Opening a store reads both; a commit appends to the journal alone, and now and then moves the rest into RocksDB.

mod absorb;
mod bases;
mod checkpoints;
mod events;
mod folded;
mod packs;
mod stored;
mod tail;

use parhelia_name::step::Step;
use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{Arc, OnceLock},
};

pub(crate) use absorb::{absorb, derive};
pub(crate) use events::Events;
use tail::Changes;

pub use self::packs::PackState;
use self::packs::{scan_directories, unless_damaged};
pub use crate::db::{Batch, Db, Family, write_table};
use crate::{
    error::{Error, Result},
    fold::{Fold, Unfit},
    id::{ObjectId, ObjectKey, PackId},
    journal::{self, Gap, Journal, Position, Tail},
    keys::Ids,
    layout::Layout,
    name::NameExt as _,
    pack::Location,
    record::Checkpoint,
};

/// A commit moves the journal's tail into RocksDB when it has at least this many records.
const TAIL_RECORDS: usize = 64;
/// ... or when the tail's packs have at least this many bytes.
const TAIL_BYTES: u64 = 16 << 20;
/// Version of RocksDB's shape; another one is derived anew. It also changes where a release reads records that one before it
/// could not: those lie under keys of their own.
const VERSION: &str = "11";

/// A consistent state of the store, as of one place in the journal.
#[derive(Debug)]
pub struct View {
    layout: Layout,
    db: Option<Arc<Db>>,
    end: Position,
    /// Bytes behind the journal's end that are no whole record.
    torn_bytes: u64,
    lacks_records: bool,
    /// Number of committed records that are missing behind the end, as far as that is known.
    missing: u64,
    /// Damaged records of the tail, which were passed over.
    gaps: Vec<Gap>,
    tail_records: usize,
    /// RocksDB could not be read, or has the shape of another release, and should be made anew.
    index_failed: bool,
    changes: Changes,
    events: Events,
    fold: Box<dyn Fold>,
    tail_objects: OnceLock<HashMap<ObjectKey, Location>>,
    all_checkpoints: OnceLock<Vec<Checkpoint>>,
}

/// Reason for which a RocksDB is refused that took in what was taken back in the journal, or lost there.
const UNCONFIRMED: &str = "it goes up to a record that the journal does not have";
/// The same, where the loss is noted.
const GONE_ON_WITHOUT: &str = "it goes up to a record that the journal has lost, and has gone on without";
/// Fails because the journal does not have what RocksDB took in. All of that had been synced: the journal is told, so that it is known as
/// lost when RocksDB is derived anew.
fn unconfirmed(layout: &Layout, base: &Position) -> Error {
    let journal = Journal::of(layout);
    // Whoever appended where those records had been has begun a segment there, and noted the loss.
    let has_begun = |segments: Vec<u64>| segments.iter().any(|first| (base.segment + 1..=base.sequence).contains(first));
    let reason = match journal.segments().is_ok_and(has_begun) {
        true => GONE_ON_WITHOUT,
        false => {
            journal.raise_hint(base.sequence);
            UNCONFIRMED
        }
    };
    Error::Index { path: layout.view(), reason: reason.into() }
}

fn position_of(db: &Db) -> Result<Position> {
    let Some(bytes) = db.get(Family::Meta, b"position")? else { return Ok(Position::start()) };
    serde_json::from_slice(&bytes)
        .map_err(|e| Error::Index { path: PathBuf::from("view"), reason: format!("its position does not decode: {e}") })
}

/// The last record that RocksDB took in; `None` where it tells nothing.
pub(crate) fn index_position(layout: &Layout) -> Option<Position> {
    let db = Db::open_reader(layout).ok().flatten()?;
    position_of(&db).ok().filter(|position| position.sequence > 0)
}

/// The version of RocksDB's shape with a store's fold in it.
fn version(layout: &Layout) -> Vec<u8> {
    match (layout.fold)().shape() {
        "" => VERSION.into(),
        fold => format!("{VERSION} {fold}").into_bytes(),
    }
}

/// True if a database is of the shape that this release writes, or empty.
fn has_our_shape(layout: &Layout, db: &Db) -> Result<bool> {
    let found = db.get(Family::Meta, b"version")?;
    Ok(found == Some(version(layout)) || db.get(Family::Meta, b"position")?.is_none())
}

impl View {
    /// The store as it is now.
    pub fn open(layout: &Layout) -> Result<Self> {
        match Db::open_reader(layout)? {
            Some(db) if !has_our_shape(layout, &db)? => Ok(Self::load(layout, None)?.in_place_of_index()),
            db => Self::load(layout, db.map(Arc::new)),
        }
    }

    /// The ids of its objects.
    pub(crate) fn ids(&self) -> &Ids {
        &self.layout.keys.ids
    }

    fn load(layout: &Layout, db: Option<Arc<Db>>) -> Result<Self> {
        let base = db.as_deref().map_or_else(|| Ok(Position::start()), position_of)?;
        let journal = Journal::of(layout);
        let tail = journal.read(&base);
        // A whole record that follows names the hash of all before it. Where none does, what RocksDB has taken in may not be there any more, or be
        // of another copy of the store.
        let follows = tail.as_ref().is_ok_and(|tail| !tail.records.is_empty());
        match if follows { Ok(true) } else { journal.confirms_quickly(&base) } {
            Ok(true) => {}
            Ok(false) => return Err(unconfirmed(layout, &base)),
            // The disk cannot read it. What RocksDB has taken in was there.
            Err(e @ Error::Corrupt { .. }) if db.is_some() => return Self::beside(layout, db, &base, e),
            Err(e) => return Err(e),
        }
        match tail {
            Err(e @ Error::Corrupt { .. }) => match Self::around(layout, db.clone(), &base, e) {
                Err(e @ Error::Corrupt { .. }) if db.is_some() => Self::beside(layout, db, &base, e),
                around => around,
            },
            tail => Self::with_tail(layout, db, &tail?),
        }
    }

    /// The same, where what is damaged stands before that place. RocksDB has taken it in.
    fn beside(layout: &Layout, db: Option<Arc<Db>>, base: &Position, error: Error) -> Result<Self> {
        let (journal, mut records) = (Journal::of(layout), Vec::new());
        let before = journal.look_around(&Position::start(), &mut |_| Ok(()));
        let behind = journal.look_around(base, &mut |raw| {
            records.push(raw.decode()?);
            Ok(())
        });
        match (before, behind) {
            (Ok(before), Ok(behind)) if !before.gaps.is_empty() => {
                let view = Self::with_tail(layout, db, &Tail::around(&behind, records))?;
                Ok(View { lacks_records: true, gaps: before.gaps, ..view })
            }
            _ => Err(error),
        }
    }

    /// The store as far as the journal can be read from a place on, because of an error. It is for reading alone.
    fn around(layout: &Layout, db: Option<Arc<Db>>, base: &Position, error: Error) -> Result<Self> {
        let mut records = Vec::new();
        let found = Journal::of(layout).look_around(base, &mut |raw| {
            records.push(raw.decode()?);
            Ok(())
        });
        match found {
            Ok(found) if !found.gaps.is_empty() => {
                let view = Self::with_tail(layout, db, &Tail::around(&found, records))?;
                Ok(View { lacks_records: true, gaps: found.gaps, ..view })
            }
            _ => Err(error),
        }
    }

    fn with_tail(layout: &Layout, db: Option<Arc<Db>>, tail: &Tail) -> Result<Self> {
        let (mut changes, mut events, mut fold) = (Changes::default(), Events::default(), (layout.fold)());
        let kept = folded::kept(db.as_deref());
        for logged in &tail.records {
            changes.apply(logged, &layout.keys.ids);
            if let Some(committed) = changes.checkpoints.get(&logged.sequence) {
                fold.commit(kept, logged.sequence, &committed.record, logged.entry.machine())?;
            }
            if let Some((event, machine)) = logged.entry.told_event()
                && let Err(Unfit::Store(error)) = fold.event(kept, logged.sequence, &event, machine)
            {
                return Err(error);
            }
            events.apply(logged);
        }
        Ok(View {
            layout: layout.clone(),
            db,
            end: tail.end.clone(),
            torn_bytes: tail.torn_bytes,
            lacks_records: tail.missing > 0 || tail.is_doubtful,
            missing: tail.missing,
            gaps: Vec::new(),
            tail_records: tail.records.len(),
            index_failed: false,
            changes,
            events,
            fold,
            tail_objects: OnceLock::new(),
            all_checkpoints: OnceLock::new(),
        })
    }

    /// The store as the journal and the packs alone tell it, without RocksDB. Every pack's directory is read on the first look-up.
    pub fn from_journal(layout: &Layout) -> Result<Self> {
        let start = Position::start();
        match Journal::of(layout).read(&start) {
            Err(e @ Error::Corrupt { .. }) => Self::around(layout, None, &start, e),
            whole => Self::of_journal(layout, &whole?),
        }
    }

    /// The store as the journal and the packs tell it, because RocksDB failed like this.
    pub(crate) fn without_index(layout: &Layout, failed: &str) -> Result<Self> {
        let view = Self::from_journal(layout)?;
        // Also where no hint could be written.
        Ok(View { index_failed: true, lacks_records: view.lacks_records || failed == UNCONFIRMED, ..view })
    }

    /// The same, of a journal that was read from its start.
    pub(crate) fn of_journal(layout: &Layout, whole: &Tail) -> Result<Self> {
        Self::with_tail(layout, None, whole)
    }

    /// The store as it is now, without opening RocksDB anew.
    pub fn refreshed(&self) -> Result<Self> {
        let view = Self::load(&self.layout, self.db.clone())?;
        Ok(View { index_failed: self.index_failed, ..view })
    }

    /// True if this is how the store is seen because RocksDB is of no use.
    pub(crate) fn is_in_place_of_index(&self) -> bool {
        self.index_failed
    }

    /// The same, as it is seen because RocksDB is of no use.
    pub(crate) fn in_place_of_index(self) -> Self {
        View { index_failed: true, ..self }
    }

    /// The place in the journal up to which this view goes.
    pub fn end(&self) -> &Position {
        &self.end
    }

    /// True if records were committed, by all appearances, that the journal does not have.
    pub fn lacks_records(&self) -> bool {
        self.lacks_records
    }

    /// The sentence that warns of records which the journal has lost at its end, so that checkpoints may be missing here; none where it was
    /// read around damage, which is told of by itself.
    pub fn cut_warning(&self) -> Option<String> {
        if !self.lacks_records || !self.gaps.is_empty() {
            return None;
        }
        let (last, place) = (self.end.sequence, self.layout.journal());
        let what = match self.missing {
            0 => format!("may have lost records behind record {last}"),
            1 => format!("was cut short: it ends with record {last}, and one more was committed"),
            missing => format!("was cut short: it ends with record {last}, and {missing} more were committed"),
        };
        let place = place.shown();
        Some(format!(
            "the journal in {place} {what}; checkpoints may be missing here. Run {}; {} looks for them in packs",
            Step::Check,
            Step::Repair
        ))
    }

    /// Damage of the journal, around which this was read. Nothing may be decided by what is not there, nor written.
    pub fn damage(&self) -> Option<Error> {
        journal::damaged(&Journal::of(&self.layout), &self.gaps)
    }

    /// True if the journal has grown since, or may have been mended.
    pub fn is_stale(&self) -> Result<bool> {
        if !self.gaps.is_empty() {
            return Ok(true);
        }
        #[cfg(test)]
        if tests::LENGTHS_ARE_CACHED.get() {
            return Ok(false);
        }
        let seen = Position { offset: self.end.offset + self.torn_bytes, ..self.end.clone() };
        Ok(!Journal::of(&self.layout).ends_at(&seen)?)
    }

    fn tail_objects(&self) -> Result<&HashMap<ObjectKey, Location>> {
        if let Some(objects) = self.tail_objects.get() {
            return Ok(objects);
        }
        let mut found = bases::InMemory { objects: HashMap::new(), below: &|key| self.has_stored(key) };
        bases::index(&mut found, self.db.is_none(), |_, visit| {
            let mut are_whole = true;
            for id in self.changes.order.iter().filter(|id| !self.is_condemned_in_tail(**id)) {
                match scan_directories(&self.layout, *id, &mut *visit) {
                    // Condemned and gone since this view was made: it has to be refreshed.
                    Err(e) if e.is_not_found() && self.is_stale()? => return Err(e),
                    other => are_whole &= unless_damaged(other)?,
                }
            }
            Ok(are_whole)
        })?;
        let objects = found.objects;
        Ok(self.tail_objects.get_or_init(|| objects))
    }

    /// True if RocksDB has an object that may be referred to.
    fn has_stored(&self, key: &ObjectKey) -> Result<bool> {
        let found = self.db.as_ref().map(|db| db.location(key)).transpose()?.flatten();
        Ok(found.is_some_and(|at| !self.is_condemned_in_tail(at.pack)))
    }

    fn is_condemned_in_tail(&self, pack: PackId) -> bool {
        self.changes.condemned.contains_key(&pack) || self.changes.dropped.contains(&pack)
    }

    /// Location of an object; `None` where nothing that may be referred to holds it.
    pub fn locate(&self, id: ObjectId) -> Result<Option<Location>> {
        self.locate_key(&id.key())
    }

    /// As [`View::locate`], by the index's key. The tail's packs come first: what gc has moved is there.
    pub fn locate_key(&self, key: &ObjectKey) -> Result<Option<Location>> {
        if let Some(location) = self.tail_objects()?.get(key) {
            return Ok(Some(*location));
        }
        let Some(db) = &self.db else { return Ok(None) };
        Ok(db.location(key)?.filter(|location| !self.is_condemned_in_tail(location.pack)))
    }

    /// Calls `visit` with every object's key and location, in no order; an object may come twice.
    pub fn each_object(&self, mut visit: impl FnMut(ObjectKey, Location) -> Result<()>) -> Result<()> {
        for (key, location) in self.tail_objects()? {
            visit(*key, *location)?;
        }
        let Some(db) = &self.db else { return Ok(()) };
        for entry in db.objects()? {
            let (key, location) = entry?;
            if !self.is_condemned_in_tail(location.pack) {
                visit(key, location)?;
            }
        }
        Ok(())
    }

    /// The keys of all objects that [`View::locate`] finds, in order: for looking up many.
    pub fn object_keys(&self) -> Result<Vec<ObjectKey>> {
        let mut keys = Vec::new();
        self.each_object(|key, _| {
            keys.push(key);
            Ok(())
        })?;
        keys.sort_unstable();
        keys.dedup();
        Ok(keys)
    }

    /// About how many objects there are.
    pub fn objects_estimate(&self) -> Result<u64> {
        let stored = self.db.as_ref().map_or(Ok(0), |db| db.objects_estimate())?;
        Ok(stored + self.tail_objects()?.len() as u64)
    }

    /// True if a commit should move the tail into RocksDB.
    pub fn wants_absorbing(&self) -> bool {
        let bytes: u64 = self.changes.packs.values().map(|p| p.bytes).sum();
        self.index_failed || self.tail_records >= TAIL_RECORDS || bytes >= TAIL_BYTES
    }

    /// True if RocksDB, opened anew, would have much of the tail. Without RocksDB, everything is the tail.
    pub(crate) fn has_long_tail(&self) -> bool {
        self.tail_records >= 2 * TAIL_RECORDS && (self.db.is_some() || self.index_failed)
    }

    /// Number of journal records that RocksDB does not have yet.
    pub fn tail_records(&self) -> usize {
        self.tail_records
    }
}

fn broken_view(reason: String) -> Error {
    Error::Index { path: PathBuf::from("view"), reason }
}

#[cfg(test)]
pub(crate) mod tests;
