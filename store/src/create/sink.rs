//! Where captured objects go: what the store has already is dropped, the rest is gathered in blocks and written to packs.

use std::{
    borrow::Borrow,
    collections::{HashMap, HashSet},
    fs::{self, File},
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::JoinHandle,
};

use zstd::zstd_safe::CCtx;

use super::{
    later::{Instead, Later, LaterVersions},
    orphans::AdoptedContent,
};
use crate::{
    damaged::Damaged,
    error::{Error, IoContext, Result},
    format::{BLOCK_BYTES_MAX, DATA_BLOCK_BYTES, LARGE_BLOCK_BYTES, META_BLOCK_BYTES, PACK_BYTES},
    id::{BlobId, ObjectId, ObjectKey, OpId, PackId, RecipeId, TreeId},
    keys::Ids,
    layout::Layout,
    name,
    pack::{Block, BlockBuilder, Entry, Location, ObjectKind, PackInfo, PackWriter},
    pin::Pin,
    recipe::{self, ChunkRun, Encoded},
    store::Store,
    threads,
    tree::{self, Node, Totals, TreeNode, Trees},
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
        ObjectKind::Table => ("the table of what was left out", "exclude fewer paths, or a folder that holds many of them"),
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
    Look(&'a Store, Mutex<HashMap<ObjectId, Vec<u8>>>),
}

impl Sink<'_> {
    /// The ids that it gives to objects.
    pub fn ids(&self) -> &Ids {
        match self {
            Sink::Store(packs) => packs.store.ids(),
            Sink::Look(store, _) => store.ids(),
        }
    }

    /// Whether it took something that the store had and that is damaged there.
    pub fn heals(&self) -> bool {
        matches!(self, Sink::Store(packs) if packs.heals())
    }
}

/// Writes new objects into packs.
pub struct PackSink<'a> {
    store: &'a Store,
    layout: &'a Layout,
    view: Arc<View>,
    /// What is in these counts as lost.
    damaged: Damaged,
    /// Something was stored that is damaged elsewhere.
    heals: AtomicBool,
    op: OpId,
    level: i32,
    claimed: [Mutex<HashSet<ObjectKey>>; SHARDS],
    adopted: HashMap<ObjectKey, Location>,
    has_adopted: bool,
    /// Packs in which dedup found something.
    reused: Mutex<HashSet<PackId>>,
    packs: Mutex<Packs>,
    placed: Mutex<Vec<Placed>>,
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
    op: OpId,
    placed: Vec<Placed>,
    /// Packs in which dedup found something.
    pub reused: HashSet<PackId>,
    /// Raw bytes of the new objects.
    pub new_bytes: u64,
    /// Number of the operation's next pack.
    pub next_pack: u32,
}

impl Written {
    /// How many new objects there are.
    pub fn objects_count(&self) -> usize {
        self.placed.len()
    }

    /// Every new object and where it lies, ordered by key.
    pub fn objects(&self) -> impl Iterator<Item = (ObjectKey, Location)> {
        self.placed.iter().map(|placed| (placed.key, placed.location(self.op)))
    }
}

/// A new object and where it lies in one of the operation's packs. Of ten million objects, a key and a [`Location`] would take 200 MB more.
#[derive(Clone, Copy)]
struct Placed {
    key: ObjectKey,
    pack: u32,
    offset: u32,
    block_bytes: u32,
}

impl Placed {
    /// In an operation's pack of this number. No pack is 4 GiB long: it ends with the block that takes it to [`PACK_BYTES`].
    fn new(key: ObjectKey, pack: u32, at: Location) -> Self {
        Placed { key, pack, offset: at.offset as u32, block_bytes: at.block_bytes }
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
            damaged: Damaged::read(store.layout()),
            heals: AtomicBool::new(false),
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

    /// Where an object lies that can be reused.
    fn find(&self, id: ObjectId) -> Result<Option<Location>> {
        Ok(self.view.locate(id)?.filter(|at| !self.damaged.has(*at)))
    }

    /// Whether the caller must store this object: nobody has, and nobody else was told to.
    fn claim(&self, id: ObjectId) -> Result<bool> {
        let key = id.key();
        if !lock(&self.claimed[usize::from(key[0]) % SHARDS]).insert(key) || self.adopted.contains_key(&key) {
            return Ok(false);
        }
        match self.view.locate(id)? {
            Some(location) if !self.damaged.has(location) => {
                lock(&self.reused).insert(location.pack);
                Ok(false)
            }
            damaged => {
                self.heals.fetch_or(damaged.is_some(), Ordering::Relaxed);
                Ok(true)
            }
        }
    }

    /// Those of a file's chunks that the store does not have, and where in the file they begin.
    fn missing(&self, runs: &[ChunkRun]) -> Result<Vec<(u64, ChunkRun)>> {
        let (mut missing, mut at) = (Vec::new(), 0u64);
        for run in runs {
            if self.find(run.id.object())?.is_none() {
                missing.push((at, *run));
            }
            at = at.saturating_add(run.run_bytes());
        }
        Ok(missing)
    }

    /// Where the object lies that a new one is a later version of, if it can be built upon. As anything that is reused, it has to be there
    /// still when the run commits.
    fn base(&self, base: Option<ObjectId>) -> Result<Option<(Location, ObjectId)>> {
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

    /// Whether something was stored that is damaged elsewhere in the store.
    fn heals(&self) -> bool {
        self.heals.load(Ordering::Relaxed)
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

    fn write_block(&self, builder: &mut BlockBuilder, compressor: &mut zstd::bulk::Compressor<'_>) -> Result<()> {
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
            let finished = pack.finish()?;
            packs.finished.push(Finished::new(self.layout, finished));
        }
        drop(packs);
        self.new_bytes.fetch_add(raw_bytes as u64, Ordering::Relaxed);
        lock(&self.placed).extend(entries.iter().map(|e| Placed::new(e.id.key(), number, location)));
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
        let mut placed = self.placed.into_inner().unwrap_or_else(PoisonError::into_inner);
        placed.sort_unstable_by_key(|object| object.key);
        placed.dedup_by_key(|object| object.key);
        let reused = self.reused.into_inner().unwrap_or_else(PoisonError::into_inner);
        let new_bytes = self.new_bytes.into_inner();
        Ok(Written { packs: packs.finished, op: self.op, placed, reused, new_bytes, next_pack: packs.number })
    }
}

/// A folder that was only looked at: its trees in memory, and behind them a store's.
pub struct Looked<'a> {
    /// Encoded trees and recipes.
    pub objects: HashMap<ObjectId, Vec<u8>>,
    /// The table of hard links; empty where there are none.
    pub links: Vec<u8>,
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

/// What small files are ordered by, of a file that is called `file_name`.
fn likeness(file_name: &[u8]) -> [u8; 24] {
    let mut likeness = [0; 24];
    let (extension, name) = likeness.split_at_mut(8);
    for (to, from) in [(extension, name::extension(file_name)), (name, file_name)] {
        let n = from.len().min(to.len());
        to[..n].copy_from_slice(&from[..n]);
    }
    likeness
}

/// One worker's objects on their way into blocks.
pub struct Batch<'a> {
    sink: &'a Sink<'a>,
    compressor: Option<zstd::bulk::Compressor<'static>>,
    small: Vec<Pending>,
    small_bytes: Vec<u8>,
    large: BlockBuilder,
    meta: BlockBuilder,
    later: LaterVersions,
}

impl<'a> Batch<'a> {
    /// An empty batch.
    pub fn new(sink: &'a Sink<'a>) -> Result<Self> {
        let compressor = match sink {
            Sink::Store(packs) => {
                let made = zstd::bulk::Compressor::new(packs.level);
                Some(made.at("set up compression for", &packs.layout.root)?)
            }
            Sink::Look(..) => None,
        };
        Ok(Batch {
            sink,
            compressor,
            small: Vec::new(),
            small_bytes: Vec::new(),
            large: BlockBuilder::default(),
            meta: BlockBuilder::default(),
            later: LaterVersions::default(),
        })
    }

    fn write(&mut self, which: impl FnOnce(&mut Self) -> &mut BlockBuilder) -> Result<()> {
        let mut builder = std::mem::take(which(self));
        if let (Sink::Store(packs), Some(compressor)) = (self.sink, self.compressor.as_mut()) {
            packs.write_block(&mut builder, compressor)?;
        }
        Ok(())
    }

    /// Takes the whole content of a small file, which is called `file_name`. `base` is what the file held before.
    pub fn small_chunk(&mut self, id: ObjectId, bytes: &[u8], file_name: &[u8], base: Option<BlobId>) -> Result<()> {
        let Sink::Store(packs) = self.sink else { return Ok(()) };
        if !packs.claim(id)? {
            return Ok(());
        }
        let likeness = likeness(file_name);
        if let Some((at, base)) = packs.base(base.map(BlobId::object))? {
            return self.later(
                at,
                Later { kind: ObjectKind::Chunk, id, bytes: bytes.to_vec(), base, instead: Instead::Small(likeness) },
            );
        }
        self.put_small(likeness, id, bytes)
    }

    fn put_small(&mut self, likeness: [u8; 24], id: ObjectId, bytes: &[u8]) -> Result<()> {
        self.small.push(Pending { likeness, id, start: self.small_bytes.len(), bytes: bytes.len() });
        self.small_bytes.extend_from_slice(bytes);
        if self.small_bytes.len() >= WINDOW_BYTES {
            self.write_window(false)?;
        }
        Ok(())
    }

    /// Takes a later version of an object at `at`.
    fn later(&mut self, at: Location, later: Later) -> Result<()> {
        self.later.add(at, later);
        if self.later.raw_bytes() >= WINDOW_BYTES { self.write_later() } else { Ok(()) }
    }

    /// Writes the later versions; those that are no smaller on their bases go where they would go without.
    fn write_later(&mut self) -> Result<()> {
        let later = std::mem::take(&mut self.later);
        let (Sink::Store(packs), Some(compressor)) = (self.sink, self.compressor.as_mut()) else { return Ok(()) };
        for other in later.write(packs, compressor)? {
            match other.instead {
                Instead::Small(likeness) => self.put_small(likeness, other.id, &other.bytes)?,
                Instead::Large => self.put_large(other.id, &other.bytes)?,
                Instead::Meta(tail_bytes) => self.put_meta(other.kind, other.id, &other.bytes, tail_bytes)?,
            }
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

    /// Takes a chunk of a large file; those of one file stay together. `base` is the chunk that stood there before.
    pub fn large_chunk(&mut self, id: ObjectId, bytes: &[u8], base: Option<BlobId>) -> Result<()> {
        let Sink::Store(packs) = self.sink else { return Ok(()) };
        if !packs.claim(id)? {
            return Ok(());
        }
        if let Some((at, base)) = packs.base(base.map(BlobId::object))? {
            return self.later(at, Later { kind: ObjectKind::Chunk, id, bytes: bytes.to_vec(), base, instead: Instead::Large });
        }
        self.put_large(id, bytes)
    }

    fn put_large(&mut self, id: ObjectId, bytes: &[u8]) -> Result<()> {
        if !self.large.has_room_for(bytes.len()) {
            self.write(|batch| &mut batch.large)?;
        }
        self.large.push(ObjectKind::Chunk, id, bytes, 0);
        if self.large.raw_bytes() >= LARGE_BLOCK_BYTES {
            self.write(|batch| &mut batch.large)?;
        }
        Ok(())
    }

    /// Whether content is kept, and not only hashed.
    pub fn keeps_content(&self) -> bool {
        matches!(self.sink, Sink::Store(_))
    }

    /// Those of a file's chunks that the store has lost, and where in the file they begin. `runs` are what it is known to have had.
    pub fn lost(&self, runs: &[ChunkRun]) -> Result<Vec<(u64, ChunkRun)>> {
        match self.sink {
            Sink::Store(packs) => packs.missing(runs),
            Sink::Look(..) => Ok(Vec::new()),
        }
    }

    /// Takes the recipe of a file that was read. `before` is what the file held before.
    pub fn recipe(&mut self, blob: BlobId, runs: &[ChunkRun], before: Option<BlobId>) -> Result<()> {
        if runs.len() < 2 && runs.iter().all(|run| run.repeat == 1) {
            return Ok(());
        }
        let nodes = before.map_or_else(Vec::new, |before| self.recipe_nodes(before));
        for (number, encoded) in recipe::encode(self.sink.ids(), blob, runs).into_iter().enumerate() {
            let base = match encoded.kind {
                // Who keeps a root has to keep all of its chunks, so that nothing builds on one.
                ObjectKind::RecipeRoot => None,
                _ => nodes.get(number.min(nodes.len().saturating_sub(1))).map(|id| id.object()),
            };
            self.meta(encoded, base)?;
        }
        Ok(())
    }

    /// The nodes right below the root of a recipe that is there; none where it cannot be read.
    fn recipe_nodes(&self, blob: BlobId) -> Vec<RecipeId> {
        let Sink::Store(packs) = self.sink else { return Vec::new() };
        let ids = packs.store.ids();
        let id = ids.recipe_root(blob);
        if !packs.find(id).is_ok_and(|found| found.is_some()) {
            return Vec::new();
        }
        match packs.store.read_object(ObjectKind::RecipeRoot, id, |bytes| recipe::decode_root(ids, blob, bytes)) {
            Ok(recipe::Node::Nodes(nodes)) => nodes.into_iter().map(|(id, _)| id).collect(),
            _ => Vec::new(),
        }
    }

    /// Takes a tree, recipe, record or table. `base` is the object of the same kind that it takes the place of. One that no reader would
    /// take is refused: a checkpoint with it could never be read.
    pub fn meta(&mut self, encoded: Encoded, base: Option<ObjectId>) -> Result<()> {
        let packs = match self.sink {
            Sink::Look(_, objects) => {
                lock(objects).insert(encoded.id, encoded.bytes);
                return Ok(());
            }
            Sink::Store(packs) => packs,
        };
        if encoded.bytes.len() > BLOCK_BYTES_MAX {
            return Err(too_long(&encoded));
        }
        if !packs.claim(encoded.id)? {
            return Ok(());
        }
        let Encoded { kind, id, bytes, tail_bytes } = encoded;
        if let Some((at, base)) = packs.base(base)? {
            return self.later(at, Later { kind, id, bytes, base, instead: Instead::Meta(tail_bytes) });
        }
        self.put_meta(kind, id, &bytes, tail_bytes)
    }

    fn put_meta(&mut self, kind: ObjectKind, id: ObjectId, bytes: &[u8], tail_bytes: usize) -> Result<()> {
        if !self.meta.has_room_for(bytes.len()) {
            self.write(|batch| &mut batch.meta)?;
        }
        self.meta.push(kind, id, bytes, tail_bytes);
        if self.meta.raw_bytes() >= META_BLOCK_BYTES {
            self.write(|batch| &mut batch.meta)?;
        }
        Ok(())
    }

    /// Takes the tree of a folder. `before` is the tree that the folder had.
    pub fn folder<T: Borrow<Node>>(&mut self, entries: &[T], before: Option<TreeId>) -> Result<(TreeId, Totals)> {
        let parts = before.map_or_else(|| Ok(HashMap::new()), |before| self.parts(before))?;
        tree::encode_folder_parts(self.sink.ids(), entries, |encoded, (level, first)| {
            // The root is made of another part where the folder has grown or shrunk past a level.
            let base = parts.get(&(level, first.to_vec())).copied().or(before);
            self.meta(encoded, base.map(TreeId::object))
        })
    }

    /// The nodes of a folder's tree, by their level and the first name that they cover. None of a folder that is not split.
    fn parts(&self, root: TreeId) -> Result<HashMap<(u8, Vec<u8>), TreeId>> {
        let Sink::Store(packs) = self.sink else { return Ok(HashMap::new()) };
        let (mut parts, mut pending) = (HashMap::new(), vec![root]);
        while let Some(tree) = pending.pop() {
            let read = packs.store.read_object(ObjectKind::Tree, tree.object(), |bytes| {
                Ok((bytes.first().copied().unwrap_or_default(), tree::decode(bytes)?))
            });
            match read {
                Ok((level, TreeNode::Inner(children))) => {
                    // Leaves are not read.
                    pending.extend(children.iter().filter(|_| level > 1).map(|child| child.tree));
                    let below = level.saturating_sub(1);
                    parts.extend(children.into_iter().map(|child| ((below, child.first), child.tree)));
                }
                Err(e) if !e.is_damage() => return Err(e),
                _ => {}
            }
        }
        Ok(parts)
    }

    /// Writes what fills whole blocks, so that little is left for the one that takes over.
    pub fn write_whole_blocks(mut self) -> Result<Self> {
        if self.later.raw_bytes() >= DATA_BLOCK_BYTES {
            self.write_later()?;
        }
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
        self.later.join(std::mem::take(&mut other.later));
        if self.small_bytes.len() >= WINDOW_BYTES {
            self.write_window(false)?;
        }
        Ok(())
    }

    /// Writes everything that is left.
    pub fn finish(mut self) -> Result<()> {
        self.write_later()?;
        let large = std::mem::take(&mut self.large);
        self.write_window(true)?;
        self.large = large;
        self.write(|batch| &mut batch.large)?;
        self.write(|batch| &mut batch.meta)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pack_that_cannot_be_synced_goes_whether_it_is_waited_for_or_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pack");
        let failed = || Err(std::io::Error::other("no such luck"));
        for beside in [true, false] {
            for is_waited_for in [true, false] {
                fs::write(&path, "pack").unwrap();
                let info = PackInfo { id: PackId::new(OpId::generate(), 0), bytes: 4, digest: String::new() };
                let syncing = match beside {
                    true => Syncing::Beside(std::thread::spawn(failed)),
                    false => Syncing::Over(failed()),
                };
                let finished = Finished { info, path: path.clone(), syncing: Some(syncing) };
                match is_waited_for {
                    true => assert!(finished.synced().is_err_and(|e| e.to_string().contains("sync pack"))),
                    false => drop(finished),
                }
                assert!(!path.exists(), "{beside} {is_waited_for}");
            }
        }
    }
}
