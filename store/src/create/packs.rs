//! New objects on their way into packs: which of them the store has, and where the others lie.

mod finished;

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use zstd::zstd_safe::CCtx;

pub use self::finished::PendingPack;
use super::orphans::AdoptedContent;
use crate::{
    damaged::DamageSet,
    error::{Error, IoContext, Result},
    files,
    format::PACK_BYTES,
    id::{ObjectId, ObjectKey, OpId, PackId},
    layout::Layout,
    pack::{Block, BlockBuilder, Entry, Location, ObjectKind, PackWriter},
    recipe::ChunkRun,
    store::Store,
    view::View,
};

const SHARDS: usize = 16;

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes new objects into packs.
pub struct PackSink<'a> {
    pub(super) store: &'a Store,
    pub(super) layout: &'a Layout,
    view: Arc<View>,
    /// Objects that count as lost.
    damaged: DamageSet,
    /// Number of objects that were taken and that the store did not have, or not whole.
    lacking: AtomicU64,
    op: OpId,
    level: i32,
    claimed: [Mutex<HashSet<ObjectKey>>; SHARDS],
    adopted: HashMap<ObjectKey, Location>,
    has_adopted: bool,
    /// Packs in which dedup found something.
    reused: Mutex<HashSet<PackId>>,
    packs: Mutex<Packs>,
    placed: Mutex<Vec<ObjectLocation>>,
    new_bytes: AtomicU64,
}

#[derive(Default)]
struct Packs {
    current: Option<PackWriter>,
    number: u32,
    finished: Vec<PendingPack>,
}

/// The packs and objects that a [`PackSink`] wrote.
pub struct WrittenPacks {
    /// The packs, whole and being synced.
    pub packs: Vec<PendingPack>,
    op: OpId,
    placed: Vec<ObjectLocation>,
    /// Packs in which dedup found something.
    pub reused: HashSet<PackId>,
    /// Raw bytes of the new objects.
    pub new_bytes: u64,
    /// Number of the operation's next pack.
    pub next_pack: u32,
}

impl WrittenPacks {
    /// The number of new objects.
    pub fn objects_count(&self) -> usize {
        self.placed.len()
    }

    /// The keys of all new objects.
    pub fn keys(&self) -> impl Iterator<Item = ObjectKey> {
        self.placed.iter().map(|placed| placed.key)
    }

    /// Every new object and where it lies, ordered by key.
    pub fn objects(&self) -> impl Iterator<Item = (ObjectKey, Location)> {
        self.placed.iter().map(|placed| (placed.key, placed.location(self.op)))
    }
}

/// A new object and where it lies in one of the operation's packs. Of ten million objects, a key and a [`Location`] would take 200 MB more.
#[derive(Clone, Copy)]
struct ObjectLocation {
    key: ObjectKey,
    pack: u32,
    offset: u32,
    block_bytes: u32,
}

impl ObjectLocation {
    /// In an operation's pack of this number. No pack is 4 GiB long: it ends with the block that takes it to [`PACK_BYTES`].
    fn new(key: ObjectKey, pack: u32, at: Location) -> Self {
        ObjectLocation { key, pack, offset: at.offset as u32, block_bytes: at.block_bytes }
    }

    fn location(&self, op: OpId) -> Location {
        Location { pack: PackId::new(op, self.pack), offset: self.offset.into(), block_bytes: self.block_bytes }
    }
}

impl<'a> PackSink<'a> {
    /// A sink for the operation `op`, which may have taken up packs of an interrupted run.
    pub fn new(store: &'a Store, view: Arc<View>, op: OpId, adopted: AdoptedContent) -> Self {
        let AdoptedContent { objects, leans_on, next_pack } = adopted;
        PackSink {
            has_adopted: !objects.is_empty(),
            store,
            layout: store.layout(),
            view,
            damaged: DamageSet::read(store.layout()),
            lacking: AtomicU64::new(0),
            op,
            level: store.config().compression_level,
            claimed: Default::default(),
            adopted: objects,
            reused: Mutex::new(leans_on),
            packs: Mutex::new(Packs { number: next_pack, ..Packs::default() }),
            placed: Mutex::default(),
            new_bytes: AtomicU64::new(0),
        }
    }

    /// The place of an object that can be reused.
    pub(super) fn find(&self, id: ObjectId) -> Result<Option<Location>> {
        Ok(self.view.locate(id)?.filter(|at| !self.damaged.has(id, *at)))
    }

    /// True if the caller must store this object: nobody has, and nobody else was told to.
    pub(super) fn claim(&self, id: ObjectId) -> Result<bool> {
        let key = id.key();
        if !lock(&self.claimed[usize::from(key[0]) % SHARDS]).insert(key) {
            return Ok(false);
        }
        if self.adopted.contains_key(&key) {
            self.lacking.fetch_add(1, Ordering::Relaxed);
            return Ok(false);
        }
        match self.view.locate(id)? {
            Some(location) if !self.damaged.has(id, location) => {
                lock(&self.reused).insert(location.pack);
                Ok(false)
            }
            _ => {
                self.lacking.fetch_add(1, Ordering::Relaxed);
                Ok(true)
            }
        }
    }

    /// Those of a file's chunks that the store does not have, and where in the file they begin.
    pub(super) fn missing(&self, runs: &[ChunkRun]) -> Result<Vec<(u64, ChunkRun)>> {
        let (mut missing, mut at) = (Vec::new(), 0u64);
        for run in runs {
            if self.find(run.id.object())?.is_none() {
                missing.push((at, *run));
            }
            at = at.saturating_add(run.run_bytes());
        }
        Ok(missing)
    }

    /// The place of the object that a new one is a later version of, if it can be built upon. As anything that is reused, it has to be there
    /// still when the run commits.
    pub(super) fn base(&self, base: Option<ObjectId>) -> Result<Option<(Location, ObjectId)>> {
        let Some(base) = base else { return Ok(None) };
        let Some(location) = self.find(base)? else { return Ok(None) };
        lock(&self.reused).insert(location.pack);
        Ok(Some((location, base)))
    }

    /// The block at the place of a base.
    pub(super) fn base_block(&self, at: Location) -> Result<Arc<Block>> {
        self.store.block(at)
    }

    /// The block of a base, and its place, by the base's id.
    pub(super) fn base_object_block(&self, kind: ObjectKind, id: ObjectId) -> Result<(Location, Arc<Block>)> {
        match self.base(Some(id))? {
            Some((at, _)) => Ok((at, self.store.block(at)?)),
            None => Err(Error::Missing { kind: kind.name(), id: id.to_string() }),
        }
    }

    /// Number of objects so far that the store did not have, or not whole.
    pub(super) fn lacking(&self) -> u64 {
        self.lacking.load(Ordering::Relaxed)
    }

    pub(super) fn level(&self) -> i32 {
        self.level
    }

    /// A compression context for frames that have a prefix.
    pub(super) fn compression_context<'p>(&self) -> Result<CCtx<'p>> {
        self.compressed(CCtx::try_create().ok_or_else(|| std::io::ErrorKind::OutOfMemory.into()))
    }

    /// Names the store that something could not be compressed for.
    pub(super) fn compressed<T>(&self, compressed: std::io::Result<T>) -> Result<T> {
        compressed.at("compress for", &self.layout.root)
    }

    pub(super) fn write_block(&self, builder: &mut BlockBuilder, compressor: &mut zstd::bulk::Compressor<'_>) -> Result<()> {
        if builder.is_empty() {
            return Ok(());
        }
        let raw_bytes = builder.raw_bytes();
        let (entries, block) = self.compressed(builder.encode(compressor, &self.layout.keys.seal))?;
        self.append(&entries, &block, raw_bytes)
    }

    /// Writes a block of objects that build on others.
    pub(super) fn write_on_bases(&self, builder: &mut BlockBuilder, coded: &[u8]) -> Result<()> {
        let raw_bytes = builder.raw_bytes();
        let (entries, block) = builder.encode_on(coded, &self.layout.keys.seal);
        self.append(&entries, &block, raw_bytes)
    }

    fn append(&self, entries: &[Entry], block: &[u8], raw_bytes: usize) -> Result<()> {
        let mut packs = lock(&self.packs);
        if packs.current.is_none() {
            let id = PackId::new(self.op, packs.number);
            packs.number += 1;
            packs.current = Some(PackWriter::create(self.layout, id)?);
        }
        let number = packs.number - 1;
        let Some(pack) = packs.current.as_mut() else { return Ok(()) };
        let location = pack.append(block, entries)?;
        if pack.bytes() >= PACK_BYTES
            && let Some(pack) = packs.current.take()
        {
            packs.finished.push(PendingPack::new(self.layout, pack.end()?));
        }
        drop(packs);
        self.new_bytes.fetch_add(raw_bytes as u64, Ordering::Relaxed);
        lock(&self.placed).extend(entries.iter().map(|e| ObjectLocation::new(e.id.key(), number, location)));
        Ok(())
    }

    /// Drops the unfinished pack and keeps the whole ones; says whether there are any.
    pub fn give_up(self) -> bool {
        let mut packs = self.packs.into_inner().unwrap_or_else(PoisonError::into_inner);
        if packs.current.take().is_some() {
            let _ = files::remove(&self.layout.pack(PackId::new(self.op, packs.number - 1)));
        }
        !packs.finished.is_empty() || self.has_adopted
    }

    /// Removes all packs that were written.
    pub fn discard(self, layout: &Layout) {
        let packs = self.packs.into_inner().unwrap_or_else(PoisonError::into_inner);
        for number in 0..packs.number {
            let _ = files::remove(&layout.pack(PackId::new(self.op, number)));
        }
    }

    /// Completes the last pack and gives up everything.
    pub fn finish(self) -> Result<WrittenPacks> {
        let mut packs = self.packs.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Some(pack) = packs.current.take() {
            packs.finished.push(PendingPack::new(self.layout, pack.end()?));
        }
        let mut placed = self.placed.into_inner().unwrap_or_else(PoisonError::into_inner);
        placed.sort_unstable_by_key(|object| object.key);
        placed.dedup_by_key(|object| object.key);
        let reused = self.reused.into_inner().unwrap_or_else(PoisonError::into_inner);
        let new_bytes = self.new_bytes.into_inner();
        Ok(WrittenPacks { packs: packs.finished, op: self.op, placed, reused, new_bytes, next_pack: packs.number })
    }
}
