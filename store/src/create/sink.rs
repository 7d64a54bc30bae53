//! Destination of captured objects: what the store has already is dropped, the rest is gathered in blocks and written to packs.

use std::{
    borrow::Borrow,
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use super::{
    later::{Instead, Later, LaterVersions},
    packs::PackSink,
};
use crate::{
    error::{Error, IoContext, Result},
    format::{BLOCK_BYTES_MAX, DATA_BLOCK_BYTES, LARGE_BLOCK_BYTES, META_BLOCK_BYTES},
    id::{BlobId, ObjectId, RecipeId, TreeId},
    keys::Ids,
    name,
    pack::{BlockBuilder, Location, ObjectKind},
    pin::Pin,
    recipe::{self, ChunkRun, Encoded},
    store::Store,
    tree::{self, Node, Totals, TreeNode, Trees},
};

/// Small chunks are gathered up to this many bytes, ordered by kind, and then cut into blocks.
const WINDOW_BYTES: usize = 8 << 20;

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

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
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

    /// True if it took something that the store had and that is damaged there.
    pub fn heals(&self) -> bool {
        matches!(self, Sink::Store(packs) if packs.heals())
    }
}

/// A folder that was only looked at: its trees in memory, and behind them a store's.
pub struct Looked<'a> {
    /// Encoded trees and recipes.
    pub objects: HashMap<ObjectId, Vec<u8>>,
    /// The table of hard links; empty where there are none.
    pub links: Vec<u8>,
    /// The store, which has all other trees.
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

/// Order of small files, from the name of the file.
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
                let made = zstd::bulk::Compressor::new(packs.level());
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

    /// True if content is kept, and not only hashed.
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
