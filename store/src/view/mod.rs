//! The view: everything that can be derived from packs and journal, in RocksDB up to some place in the journal, and in memory from
//! there to its end. Opening a store reads both; a commit appends to the journal alone, and now and then moves the rest into RocksDB.

mod db;

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fs,
    path::PathBuf,
    sync::{Arc, OnceLock},
};

pub use db::{Batch, Db, Family, write_table};
use serde::{Deserialize, Serialize};

use crate::{
    error::{Error, IoContext, Result},
    id::{ObjectId, ObjectKey, OpId, PackId, Ulid},
    journal::{CHECKPOINT_DELETED, Entry, Journal, Logged, Position, Tail},
    layout::Layout,
    lock::IndexLock,
    pack::{Directory, Location, PackFile},
    record::Checkpoint,
};

/// A commit moves the journal's tail into RocksDB when it has at least this many records.
const TAIL_RECORDS: usize = 64;
/// ... or when the tail's packs have at least this many bytes.
const TAIL_BYTES: u64 = 16 << 20;
/// Tables of one family are merged when this many lie unmerged.
const UNMERGED_TABLES: u64 = 8;

/// What the view knows of a pack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PackState {
    /// Length in bytes.
    pub bytes: u64,
    /// Digest of its directories, in hex.
    pub digest: String,
    /// Set once gc condemned it: the writers that must be over before its bytes go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condemned: Option<Vec<OpId>>,
}

/// What the journal's tail changes.
#[derive(Debug, Default)]
struct Changes {
    packs: BTreeMap<PackId, PackState>,
    dropped: HashSet<PackId>,
    condemned: HashMap<PackId, Vec<OpId>>,
    checkpoints: BTreeMap<u64, Checkpoint>,
    deleted: HashSet<Ulid>,
}

impl Changes {
    fn apply(&mut self, logged: &Logged) -> Result<(), serde_json::Error> {
        match &logged.entry {
            Entry::Commit { record, packs, .. } => {
                self.add_packs(packs);
                self.checkpoints.insert(logged.sequence, Checkpoint::decode(logged.sequence, record.clone())?);
            }
            Entry::Event(event) if event.kind == CHECKPOINT_DELETED => {
                if let Ok(id) = event.subject.parse() {
                    self.deleted.insert(id);
                }
            }
            Entry::Condemn { added, condemned, waits_for, .. } => {
                self.add_packs(added);
                self.condemned.extend(condemned.iter().map(|id| (*id, waits_for.clone())));
            }
            Entry::Dropped { packs } => self.dropped.extend(packs),
            Entry::Event(_) | Entry::Unknown(_) => {}
        }
        Ok(())
    }

    fn add_packs(&mut self, packs: &[crate::pack::PackInfo]) {
        for pack in packs {
            let state = PackState { bytes: pack.bytes, digest: pack.digest.clone(), condemned: None };
            self.packs.insert(pack.id, state);
        }
    }
}

/// A consistent state of the store, as of one place in the journal.
#[derive(Debug)]
pub struct View {
    layout: Layout,
    db: Option<Arc<Db>>,
    end: Position,
    torn_bytes: u64,
    tail_records: usize,
    changes: Changes,
    tail_objects: OnceLock<HashMap<ObjectKey, Location>>,
    all_checkpoints: OnceLock<Vec<Checkpoint>>,
}

fn position_of(db: &Db) -> Result<Position> {
    let Some(bytes) = db.get(Family::Meta, b"position")? else { return Ok(Position::start()) };
    serde_json::from_slice(&bytes)
        .map_err(|e| Error::Index { path: PathBuf::from("view"), reason: format!("its position does not decode: {e}") })
}

impl View {
    /// The store as it is now.
    pub fn open(layout: &Layout) -> Result<Self> {
        Self::load(layout, Db::open_reader(&layout.view())?.map(Arc::new))
    }

    fn load(layout: &Layout, db: Option<Arc<Db>>) -> Result<Self> {
        let base = db.as_deref().map_or_else(|| Ok(Position::start()), position_of)?;
        let tail = Journal::new(layout.journal()).read(&base)?;
        Self::with_tail(layout, db, &tail)
    }

    fn with_tail(layout: &Layout, db: Option<Arc<Db>>, tail: &Tail) -> Result<Self> {
        let mut changes = Changes::default();
        for logged in &tail.records {
            changes.apply(logged).map_err(|e| Error::Corrupt {
                what: format!("commit {}", logged.sequence),
                place: layout.journal(),
                reason: e.to_string(),
            })?;
        }
        Ok(View {
            layout: layout.clone(),
            db,
            end: tail.end.clone(),
            torn_bytes: tail.torn_bytes,
            tail_records: tail.records.len(),
            changes,
            tail_objects: OnceLock::new(),
            all_checkpoints: OnceLock::new(),
        })
    }

    /// The store as the journal and the packs alone tell it, without RocksDB. Every pack's directory is read on the first look-up.
    pub fn from_journal(layout: &Layout) -> Result<Self> {
        let tail = Journal::new(layout.journal()).read(&Position::start())?;
        Self::with_tail(layout, None, &tail)
    }

    /// The store as it is now, without opening RocksDB anew.
    pub fn refreshed(&self) -> Result<Self> {
        Self::load(&self.layout, self.db.clone())
    }

    /// The place in the journal up to which this view goes.
    pub fn end(&self) -> &Position {
        &self.end
    }

    /// Bytes behind the journal's end that are no whole record.
    pub fn torn_bytes(&self) -> u64 {
        self.torn_bytes
    }

    /// Whether the journal has grown since.
    pub fn is_stale(&self) -> Result<bool> {
        let seen = Position { offset: self.end.offset + self.torn_bytes, ..self.end.clone() };
        Ok(!Journal::new(self.layout.journal()).ends_at(&seen)?)
    }

    fn tail_objects(&self) -> Result<&HashMap<ObjectKey, Location>> {
        if let Some(objects) = self.tail_objects.get() {
            return Ok(objects);
        }
        let mut objects = HashMap::new();
        for id in self.changes.packs.keys().filter(|id| !self.is_condemned_in_tail(**id)) {
            let read = scan_directories(&self.layout, *id, |location, directory| {
                objects.extend(directory.entries.iter().map(|e| (e.id.key(), location)));
                Ok(())
            });
            match read {
                // Condemned and gone since this view was made: it has to be refreshed.
                Err(e) if e.is_not_found() && self.is_stale()? => return Err(e),
                other => skip_damaged(other)?,
            }
        }
        Ok(self.tail_objects.get_or_init(|| objects))
    }

    fn is_condemned_in_tail(&self, pack: PackId) -> bool {
        self.changes.condemned.contains_key(&pack) || self.changes.dropped.contains(&pack)
    }

    /// Where an object lies; `None` where nothing that may be referred to holds it.
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

    /// The checkpoints that exist, in order of commit.
    pub fn checkpoints(&self) -> Result<&[Checkpoint]> {
        if let Some(found) = self.all_checkpoints.get() {
            return Ok(found);
        }
        let mut found = Vec::new();
        if let Some(db) = &self.db {
            for entry in db.scan(Family::Checkpoints)? {
                let (key, sealed) = entry?;
                found.push(decode_checkpoint(&key, sealed.into_vec())?);
            }
        }
        found.extend(self.changes.checkpoints.values().cloned());
        found.retain(|c| !self.changes.deleted.contains(&c.record.id));
        Ok(self.all_checkpoints.get_or_init(|| found))
    }

    /// The newest checkpoint of a session.
    pub fn head(&self, session: &str) -> Result<Option<Checkpoint>> {
        Ok(self.checkpoints()?.iter().rev().find(|c| c.record.session == session).cloned())
    }

    /// All packs that the journal knows and that were not dropped, condemned ones included.
    pub fn packs(&self) -> Result<BTreeMap<PackId, PackState>> {
        let mut packs = BTreeMap::new();
        if let Some(db) = &self.db {
            for entry in db.scan(Family::Packs)? {
                let (key, value) = entry?;
                let id: Option<[u8; 16]> = key.as_ref().try_into().ok();
                let state = serde_json::from_slice(&value).ok();
                let (Some(id), Some(state)) = (id, state) else {
                    return Err(Error::Index { path: self.layout.view(), reason: "a pack does not decode".into() });
                };
                packs.insert(PackId(id), state);
            }
        }
        packs.extend(self.changes.packs.clone());
        for (id, waits_for) in &self.changes.condemned {
            if let Some(state) = packs.get_mut(id) {
                state.condemned = Some(waits_for.clone());
            }
        }
        packs.retain(|id, _| !self.changes.dropped.contains(id));
        Ok(packs)
    }

    /// Whether a commit should move the tail into RocksDB.
    pub fn wants_absorbing(&self) -> bool {
        let bytes: u64 = self.changes.packs.values().map(|p| p.bytes).sum();
        self.tail_records >= TAIL_RECORDS || bytes >= TAIL_BYTES
    }

    /// How many journal records RocksDB does not have yet.
    pub fn tail_records(&self) -> usize {
        self.tail_records
    }

    /// Of `packs`, those that were condemned or dropped.
    pub fn lost(&self, packs: &HashSet<PackId>) -> Result<Vec<PackId>> {
        if packs.is_empty() {
            return Ok(Vec::new());
        }
        let known = self.packs()?;
        let is_lost = |id: &&PackId| known.get(id).is_none_or(|state| state.condemned.is_some());
        Ok(packs.iter().filter(is_lost).copied().collect())
    }
}

fn decode_checkpoint(key: &[u8], sealed: Vec<u8>) -> Result<Checkpoint> {
    let broken = |reason: String| Error::Index { path: PathBuf::from("view"), reason };
    let sequence = u64::from_be_bytes(key.try_into().map_err(|_| broken("a sequence does not decode".into()))?);
    let sealed = String::from_utf8(sealed).map_err(|e| broken(e.to_string()))?;
    Checkpoint::decode(sequence, sealed).map_err(|e| broken(e.to_string()))
}

fn scan_directories(layout: &Layout, id: PackId, visit: impl FnMut(Location, &Directory) -> Result<()>) -> Result<()> {
    PackFile::open(&layout.pack(id), id)?.scan(false, visit).map(drop)
}

/// A damaged or lost pack must not make the others unreadable: what its directories still tell was taken in, and `check` names it.
fn skip_damaged(scanned: Result<()>) -> Result<()> {
    match scanned {
        Err(Error::Corrupt { .. }) => Ok(()),
        Err(e) if e.is_not_found() => Ok(()),
        other => other,
    }
}

/// Opens RocksDB for writing; one that cannot be opened is replaced by an empty one, to be derived anew.
fn open_or_replace(layout: &Layout) -> Result<Db> {
    match Db::open_writer(&layout.view()) {
        Err(Error::Index { .. }) => {
            let aside = layout.cache().join(format!("{}.view.tmp", OpId::generate()));
            fs::rename(layout.view(), &aside).at("move aside", layout.view())?;
            crate::disk::make_folder(&layout.view())?;
            let _ = fs::remove_dir_all(&aside);
            Db::open_writer(&layout.view())
        }
        other => other,
    }
}

/// Moves the journal's tail into RocksDB.
pub fn absorb(layout: &Layout, tables: &HashMap<OpId, PathBuf>) -> Result<()> {
    absorb_locked(layout, tables, &IndexLock::take(&layout.root)?)
}

/// Moves the journal's tail into RocksDB, whose lock the caller holds. `tables` are location tables ([`write_table`]) of packs
/// whose directories then need not be read.
pub(crate) fn absorb_locked(layout: &Layout, tables: &HashMap<OpId, PathBuf>, _lock: &IndexLock) -> Result<()> {
    let db = open_or_replace(layout)?;
    let base = position_of(&db)?;
    let tail = Journal::new(layout.journal()).read(&base)?;
    let view = View::with_tail(layout, None, &tail)?;
    let changes = &view.changes;
    // Locations first: they may be there without what refers to them, never the other way round.
    for (op, table) in tables {
        if changes.packs.keys().any(|id| id.op() == *op) {
            db.ingest(table)?;
        } else {
            let _ = fs::remove_file(table);
        }
    }
    for id in changes.packs.keys().filter(|id| !tables.contains_key(&id.op()) && !view.is_condemned_in_tail(**id)) {
        skip_damaged(scan_directories(layout, *id, |location, directory| {
            db.put_locations(directory.entries.iter().map(|e| (e.id.key(), location)))
        }))?;
    }
    let mut batch = Batch::default();
    // By now an object that was copied out of a condemned pack is found where it was copied to, and stays. What was dropped had been
    // condemned before.
    if !changes.condemned.is_empty() {
        for entry in db.objects()? {
            let (key, location) = entry?;
            if changes.condemned.contains_key(&location.pack) {
                batch.delete(Family::Objects, key);
            }
        }
    }
    for (id, state) in &changes.packs {
        batch.put(Family::Packs, id.0, serde_json::to_vec(state).unwrap_or_default());
    }
    for (id, waits_for) in &changes.condemned {
        let known = match changes.packs.get(id) {
            Some(state) => Some(state.clone()),
            None => db.get(Family::Packs, &id.0)?.and_then(|bytes| serde_json::from_slice(&bytes).ok()),
        };
        if let Some(mut state) = known {
            state.condemned = Some(waits_for.clone());
            batch.put(Family::Packs, id.0, serde_json::to_vec(&state).unwrap_or_default());
        }
    }
    for id in &changes.dropped {
        batch.delete(Family::Packs, id.0);
    }
    for (sequence, checkpoint) in &changes.checkpoints {
        batch.put(Family::Checkpoints, sequence.to_be_bytes(), checkpoint.sealed.as_bytes());
    }
    if !changes.deleted.is_empty() {
        for entry in db.scan(Family::Checkpoints)? {
            let (key, sealed) = entry?;
            let checkpoint = decode_checkpoint(&key, sealed.into_vec())?;
            if changes.deleted.contains(&checkpoint.record.id) {
                batch.delete(Family::Checkpoints, key.into_vec());
            }
        }
        for (sequence, _) in changes.checkpoints.iter().filter(|(_, c)| changes.deleted.contains(&c.record.id)) {
            batch.delete(Family::Checkpoints, sequence.to_be_bytes());
        }
    }
    batch.put(Family::Meta, b"position", serde_json::to_vec(&tail.end).unwrap_or_default());
    db.write(batch)?;
    db.flush()?;
    for family in [Family::Objects, Family::Packs, Family::Checkpoints, Family::Meta] {
        if db.unmerged_tables(family)? >= UNMERGED_TABLES {
            db.compact(family)?;
        }
    }
    Ok(())
}
