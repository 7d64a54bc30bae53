//! Where captured objects go: what the store has already is dropped, the rest is gathered in blocks and written to packs.

use std::{
    collections::{HashMap, HashSet},
    fs::{self, File},
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread::JoinHandle,
};

use super::orphans::AdoptedContent;
use crate::{
    error::{Error, IoContext, Result},
    format::{BLOCK_BYTES_MAX, DATA_BLOCK_BYTES, LARGE_BLOCK_BYTES, META_BLOCK_BYTES, PACK_BYTES},
    id::{BlobId, ObjectId, ObjectKey, OpId, PackId, TreeId},
    layout::Layout,
    name,
    pack::{BlockBuilder, Location, ObjectKind, PackInfo, PackWriter},
    pin::Pin,
    recipe::{self, ChunkRun, Encoded},
    store::Store,
    threads,
    tree::{self, TreeNode, Trees},
    view::View,
};

/// Small chunks are gathered up to this many bytes, ordered by kind, and then cut into blocks.
const WINDOW_BYTES: usize = 8 << 20;
const SHARDS: usize = 16;

/// Why an object is not stored that no reader would take.
fn too_long(encoded: &Encoded) -> Error {
    let (what, hint) = match encoded.kind {
        ObjectKind::Tree => (
            "what is kept of the entries in this folder (names, extended attributes, holes, link targets)",
            "take extended attributes away, copy files with very many holes to ones without, or exclude what has them",
        ),
        ObjectKind::Table => ("the table of hard links", "exclude a folder that has many of them"),
        ObjectKind::Record => ("the checkpoint's record, with its message, git and environment", "leave some of that out"),
        _ => ("the list of a file's chunks", "exclude the file"),
    };
    Error::TooLong { what, bytes: encoded.bytes.len(), hint }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes captured objects.
pub enum Sink<'a> {
    /// Keeps the new ones in packs.
    Store(Box<PackSink<'a>>),
    /// Keeps trees and recipes in memory and drops content: for looking at a folder without storing it.
    Look(Mutex<HashMap<ObjectId, Vec<u8>>>),
}

/// Writes new objects into packs.
pub struct PackSink<'a> {
    store: &'a Store,
    layout: &'a Layout,
    view: Arc<View>,
    op: OpId,
    level: i32,
    claimed: [Mutex<HashSet<ObjectKey>>; SHARDS],
    adopted: HashMap<ObjectKey, Location>,
    has_adopted: bool,
    /// Packs in which dedup found something.
    reused: Mutex<HashSet<PackId>>,
    packs: Mutex<Packs>,
    placed: Mutex<Vec<(ObjectKey, Location)>>,
    new_bytes: AtomicU64,
}

#[derive(Default)]
struct Packs {
    current: Option<PackWriter>,
    number: u32,
    finished: Vec<Finished>,
}

/// A whole pack, on its way to the disk. One that does not get there is removed: what can still be read of it may be gone later, and the
/// next run would take it up.
pub struct Finished {
    info: PackInfo,
    path: PathBuf,
    syncing: Option<Syncing>,
}

/// A sync that is under way, or is over.
enum Syncing {
    Beside(JoinHandle<std::io::Result<()>>),
    Over(std::io::Result<()>),
}

impl Finished {
    /// Begins to sync a pack, while others are still being written. Where there is no thread to be had, it is synced here.
    fn new(layout: &Layout, (info, file): (PackInfo, File)) -> Self {
        let path = layout.pack(info.id);
        let file = Arc::new(file);
        let beside = file.clone();
        let syncing = match threads::apart(move || beside.sync_data()) {
            Some(thread) => Syncing::Beside(thread),
            None => Syncing::Over(file.sync_data()),
        };
        Finished { info, path, syncing: Some(syncing) }
    }

    /// Waits until the pack is synced.
    pub fn synced(mut self) -> Result<PackInfo> {
        self.wait()?;
        Ok(self.info.clone())
    }

    fn wait(&mut self) -> Result<()> {
        let Some(syncing) = self.syncing.take() else { return Ok(()) };
        let synced = match syncing {
            Syncing::Beside(thread) => thread.join().unwrap_or_else(|_| Err(std::io::Error::other("the syncing thread failed"))),
            Syncing::Over(synced) => synced,
        };
        if synced.is_err() {
            let _ = fs::remove_file(&self.path);
        }
        synced.at("sync pack", &self.path)
    }
}

impl Drop for Finished {
    fn drop(&mut self) {
        let _ = self.wait();
    }
}

/// What a [`PackSink`] wrote.
pub struct Written {
    /// The packs, whole and being synced.
    pub packs: Vec<Finished>,
    /// Every new object and where it lies, ordered by key.
    pub objects: Vec<(ObjectKey, Location)>,
    /// Packs in which dedup found something.
    pub reused: HashSet<PackId>,
    /// Raw bytes of the new objects.
    pub new_bytes: u64,
    /// Number of the operation's next pack.
    pub next_pack: u32,
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

    /// Whether the caller must store this object: nobody has, and nobody else was told to.
    fn claim(&self, id: ObjectId) -> Result<bool> {
        let key = id.key();
        if !lock(&self.claimed[usize::from(key[0]) % SHARDS]).insert(key) || self.adopted.contains_key(&key) {
            return Ok(false);
        }
        match self.view.locate(id)? {
            Some(location) => {
                lock(&self.reused).insert(location.pack);
                Ok(false)
            }
            None => Ok(true),
        }
    }

    /// Those of a file's chunks that the store does not have, and where in the file they begin.
    fn missing(&self, runs: &[ChunkRun]) -> Result<Vec<(u64, ChunkRun)>> {
        let view = self.store.view();
        let (mut missing, mut at) = (Vec::new(), 0u64);
        for run in runs {
            if view.locate(run.id.object())?.is_none() {
                missing.push((at, *run));
            }
            at = at.saturating_add(run.run_bytes());
        }
        Ok(missing)
    }

    fn write_block(&self, builder: &mut BlockBuilder, compressor: &mut zstd::bulk::Compressor<'_>) -> Result<()> {
        if builder.is_empty() {
            return Ok(());
        }
        let raw_bytes = builder.raw_bytes() as u64;
        let (entries, block) = builder.encode(compressor).at("compress for", &self.layout.root)?;
        let mut packs = lock(&self.packs);
        if packs.current.is_none() {
            let id = PackId::new(self.op, packs.number);
            packs.number += 1;
            packs.current = Some(PackWriter::create(self.layout.pack(id), id)?);
        }
        let Some(pack) = packs.current.as_mut() else { return Ok(()) };
        let location = pack.append(&block, &entries)?;
        if pack.bytes() >= PACK_BYTES
            && let Some(pack) = packs.current.take()
        {
            let finished = pack.finish()?;
            packs.finished.push(Finished::new(self.layout, finished));
        }
        drop(packs);
        self.new_bytes.fetch_add(raw_bytes, Ordering::Relaxed);
        lock(&self.placed).extend(entries.iter().map(|e| (e.id.key(), location)));
        Ok(())
    }

    /// Drops the unfinished pack and keeps the whole ones; says whether there are any.
    pub fn give_up(self) -> bool {
        let mut packs = self.packs.into_inner().unwrap_or_else(PoisonError::into_inner);
        if packs.current.take().is_some() {
            let _ = fs::remove_file(self.layout.pack(PackId::new(self.op, packs.number - 1)));
        }
        !packs.finished.is_empty() || self.has_adopted
    }

    /// Removes all packs that were written.
    pub fn discard(self, layout: &Layout) {
        let packs = self.packs.into_inner().unwrap_or_else(PoisonError::into_inner);
        for number in 0..packs.number {
            let _ = fs::remove_file(layout.pack(PackId::new(self.op, number)));
        }
    }

    /// Completes the last pack and gives up everything.
    pub fn finish(self) -> Result<Written> {
        let mut packs = self.packs.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Some(pack) = packs.current.take() {
            packs.finished.push(Finished::new(self.layout, pack.finish()?));
        }
        let mut objects = self.placed.into_inner().unwrap_or_else(PoisonError::into_inner);
        objects.sort_unstable_by_key(|(key, _)| *key);
        objects.dedup_by_key(|(key, _)| *key);
        let reused = self.reused.into_inner().unwrap_or_else(PoisonError::into_inner);
        let new_bytes = self.new_bytes.into_inner();
        Ok(Written { packs: packs.finished, objects, reused, new_bytes, next_pack: packs.number })
    }
}

impl Sink<'_> {
    /// Whether content must be kept, or only hashed.
    pub fn keeps_content(&self) -> bool {
        matches!(self, Sink::Store(_))
    }
}

/// A folder that was only looked at: its trees in memory, and behind them a store's.
pub struct Looked<'a> {
    /// Encoded trees and recipes.
    pub objects: HashMap<ObjectId, Vec<u8>>,
    /// Where all other trees are.
    pub store: &'a Store,
    /// Keeps those there.
    pub(super) _pin: Option<Pin>,
}

impl Trees for Looked<'_> {
    fn tree_node(&self, id: TreeId) -> Result<TreeNode> {
        match self.objects.get(&id.object()) {
            Some(bytes) => tree::decode(bytes).map_err(|e| Error::Invalid(e.to_string())),
            None => self.store.tree_node(id),
        }
    }
}

struct Pending {
    /// Extension, then the beginning of the name: what the window is ordered by.
    likeness: [u8; 24],
    id: ObjectId,
    start: usize,
    bytes: usize,
}

/// One worker's objects on their way into blocks.
pub struct Batch<'a> {
    sink: &'a Sink<'a>,
    compressor: Option<zstd::bulk::Compressor<'static>>,
    small: Vec<Pending>,
    small_bytes: Vec<u8>,
    large: BlockBuilder,
    meta: BlockBuilder,
}

impl<'a> Batch<'a> {
    /// An empty batch.
    pub fn new(sink: &'a Sink<'a>) -> Result<Self> {
        let compressor = match sink {
            Sink::Store(packs) => {
                let made = zstd::bulk::Compressor::new(packs.level);
                Some(made.at("set up compression for", &packs.layout.root)?)
            }
            Sink::Look(_) => None,
        };
        Ok(Batch {
            sink,
            compressor,
            small: Vec::new(),
            small_bytes: Vec::new(),
            large: BlockBuilder::default(),
            meta: BlockBuilder::default(),
        })
    }

    fn write(&mut self, which: impl FnOnce(&mut Self) -> &mut BlockBuilder) -> Result<()> {
        let mut builder = std::mem::take(which(self));
        if let (Sink::Store(packs), Some(compressor)) = (self.sink, self.compressor.as_mut()) {
            packs.write_block(&mut builder, compressor)?;
        }
        Ok(())
    }

    /// Takes the whole content of a small file, which is called `file_name`.
    pub fn small_chunk(&mut self, id: ObjectId, bytes: &[u8], file_name: &[u8]) -> Result<()> {
        let Sink::Store(packs) = self.sink else { return Ok(()) };
        if !packs.claim(id)? {
            return Ok(());
        }
        let mut likeness = [0; 24];
        let (extension, name) = likeness.split_at_mut(8);
        for (to, from) in [(extension, name::extension(file_name)), (name, file_name)] {
            let n = from.len().min(to.len());
            to[..n].copy_from_slice(&from[..n]);
        }
        self.small.push(Pending { likeness, id, start: self.small_bytes.len(), bytes: bytes.len() });
        self.small_bytes.extend_from_slice(bytes);
        if self.small_bytes.len() >= WINDOW_BYTES {
            self.write_window(false)?;
        }
        Ok(())
    }

    /// Writes the window's small chunks, like with like. Unless `all`, what does not fill a last block stays.
    fn write_window(&mut self, all: bool) -> Result<()> {
        let mut small = std::mem::take(&mut self.small);
        let bytes = std::mem::take(&mut self.small_bytes);
        small.sort_by_key(|pending| pending.likeness);
        let (Sink::Store(packs), Some(compressor)) = (self.sink, self.compressor.as_mut()) else { return Ok(()) };
        let mut builder = BlockBuilder::default();
        let mut rest = bytes.len();
        for pending in small {
            let content = &bytes[pending.start..pending.start + pending.bytes];
            if builder.is_empty() && rest < DATA_BLOCK_BYTES && !all {
                let start = self.small_bytes.len();
                self.small_bytes.extend_from_slice(content);
                self.small.push(Pending { start, ..pending });
                continue;
            }
            rest -= pending.bytes;
            builder.push(ObjectKind::Chunk, pending.id, content, 0);
            if builder.raw_bytes() >= DATA_BLOCK_BYTES {
                packs.write_block(&mut builder, compressor)?;
            }
        }
        packs.write_block(&mut builder, compressor)
    }

    /// Takes a chunk of a large file; those of one file stay together.
    pub fn large_chunk(&mut self, id: ObjectId, bytes: &[u8]) -> Result<()> {
        let Sink::Store(packs) = self.sink else { return Ok(()) };
        if !packs.claim(id)? {
            return Ok(());
        }
        if !self.large.has_room_for(bytes.len()) {
            self.write(|batch| &mut batch.large)?;
        }
        self.large.push(ObjectKind::Chunk, id, bytes, 0);
        if self.large.raw_bytes() >= LARGE_BLOCK_BYTES {
            self.write(|batch| &mut batch.large)?;
        }
        Ok(())
    }

    /// Those of a file's chunks that the store has lost, and where in the file they begin. `runs` are what it is known to have had.
    pub fn lost(&self, runs: &[ChunkRun]) -> Result<Vec<(u64, ChunkRun)>> {
        match self.sink {
            Sink::Store(packs) => packs.missing(runs),
            Sink::Look(_) => Ok(Vec::new()),
        }
    }

    /// Takes the recipe of a file that was read. One that is there already stays, and readers go by it, although it may have been cut
    /// otherwise: returned are the chunks that it has lost.
    pub fn recipe(&mut self, blob: BlobId, runs: &[ChunkRun]) -> Result<Vec<(u64, ChunkRun)>> {
        let mut lost = Vec::new();
        if let Sink::Store(packs) = self.sink
            && packs.view.locate(blob.recipe_root())?.is_some()
        {
            let bytes = runs.iter().map(ChunkRun::run_bytes).sum();
            // One that cannot be read is what `check` finds, and takes away.
            if let Ok(there) = packs.store.recipe(blob, bytes)
                && there != runs
            {
                lost = packs.missing(&there)?;
            }
        }
        if runs.len() > 1 || runs.iter().any(|run| run.repeat > 1) {
            for encoded in recipe::encode(blob, runs) {
                self.meta(encoded)?;
            }
        }
        Ok(lost)
    }

    /// Takes a tree, recipe, record or table. One that no reader would take is refused: a checkpoint with it could never be read.
    pub fn meta(&mut self, encoded: Encoded) -> Result<()> {
        match self.sink {
            Sink::Look(objects) => {
                lock(objects).insert(encoded.id, encoded.bytes);
                Ok(())
            }
            Sink::Store(packs) => {
                if encoded.bytes.len() > BLOCK_BYTES_MAX {
                    return Err(too_long(&encoded));
                }
                if packs.claim(encoded.id)? {
                    if !self.meta.has_room_for(encoded.bytes.len()) {
                        self.write(|batch| &mut batch.meta)?;
                    }
                    self.meta.push(encoded.kind, encoded.id, &encoded.bytes, encoded.tail_bytes);
                    if self.meta.raw_bytes() >= META_BLOCK_BYTES {
                        self.write(|batch| &mut batch.meta)?;
                    }
                }
                Ok(())
            }
        }
    }

    /// Writes what fills whole blocks, so that little is left for the one that takes over.
    pub fn write_whole_blocks(mut self) -> Result<Self> {
        if self.small_bytes.len() >= DATA_BLOCK_BYTES {
            self.write_window(false)?;
        }
        Ok(self)
    }

    /// Takes over what another worker had not written yet.
    pub fn join(&mut self, mut other: Batch<'_>) -> Result<()> {
        for pending in other.small.drain(..) {
            let start = self.small_bytes.len();
            self.small_bytes.extend_from_slice(&other.small_bytes[pending.start..pending.start + pending.bytes]);
            self.small.push(Pending { start, ..pending });
        }
        if !self.large.has_room_for(other.large.raw_bytes()) {
            self.write(|batch| &mut batch.large)?;
        }
        if !self.meta.has_room_for(other.meta.raw_bytes()) {
            self.write(|batch| &mut batch.meta)?;
        }
        self.large.join(&mut other.large);
        self.meta.join(&mut other.meta);
        if self.small_bytes.len() >= WINDOW_BYTES {
            self.write_window(false)?;
        }
        Ok(())
    }

    /// Writes everything that is left.
    pub fn finish(mut self) -> Result<()> {
        let large = std::mem::take(&mut self.large);
        self.write_window(true)?;
        self.large = large;
        self.write(|batch| &mut batch.large)?;
        self.write(|batch| &mut batch.meta)
    }
}
