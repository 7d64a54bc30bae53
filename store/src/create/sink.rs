//! Destination of captured objects: what the store has already is dropped, the rest is gathered in blocks and written to packs.

mod meta;

use std::{collections::HashMap, sync::Mutex};

use super::{
    later::{Instead, Later, LaterVersions},
    packs::{PackSink, lock},
};
use crate::{
    error::{Error, IoContext, Result},
    format::{DATA_BLOCK_BYTES, LARGE_BLOCK_BYTES},
    id::{BlobId, ObjectId, TreeId},
    keys::Ids,
    name,
    pack::{BlockBuilder, Location, ObjectKind},
    pin::Pin,
    recipe::ChunkRun,
    store::Store,
    tree::{self, TreeNode, Trees},
};

/// Small chunks are gathered up to this many bytes, ordered by kind, and then cut into blocks.
const WINDOW_BYTES: usize = 8 << 20;

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

    /// Number of objects so far that the store did not have, or not whole.
    pub fn lacking(&self) -> u64 {
        match self {
            Sink::Store(packs) => packs.lacking(),
            Sink::Look(..) => 0,
        }
    }
}

/// A folder that was only looked at: its trees in memory, and behind them a store's.
pub struct LiveTree<'a> {
    /// Encoded trees and recipes.
    pub objects: HashMap<ObjectId, Vec<u8>>,
    /// The table of hard links; empty where there are none.
    pub links: Vec<u8>,
    /// The store, which has all other trees.
    pub store: &'a Store,
    /// Keeps those there.
    pub(super) _pin: Option<Pin>,
}

impl Trees for LiveTree<'_> {
    fn tree_node(&self, id: TreeId) -> Result<TreeNode> {
        match self.objects.get(&id.object()) {
            Some(bytes) => tree::decode(bytes).map_err(|e| Error::Invalid(e.to_string())),
            None => self.store.tree_node(id),
        }
    }
}

struct SmallBlob {
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
    small: Vec<SmallBlob>,
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
        self.small.push(SmallBlob { likeness, id, start: self.small_bytes.len(), bytes: bytes.len() });
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
                self.small.push(SmallBlob { start, ..pending });
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
            self.small.push(SmallBlob { start, ..pending });
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
