//! Reading a file's content: recipe, chunks, bytes.

use std::{io::Write, ops::Range, path::PathBuf, sync::Arc};

use crate::{
    codec::Malformed,
    error::{Error, Result},
    id::{BlobId, ObjectId},
    pack::{Block, ObjectKind},
    recipe::{self, ChunkRun, Node},
    store::Store,
};

/// A blob's recipe, unfolded: which chunk has which of its bytes. It borrows nothing, so it can be kept.
#[derive(Debug)]
pub struct ChunkMap {
    blob: BlobId,
    runs: Vec<ChunkRun>,
    /// First byte of each run.
    starts: Vec<u64>,
    size: u64,
}

/// A blob that can be read at any place. It holds its recipe, never its content.
#[derive(Debug)]
pub struct BlobReader<'a> {
    store: &'a Store,
    map: ChunkMap,
}

impl Store {
    /// Opens a blob of `size` bytes.
    pub fn blob(&self, blob: BlobId, size: u64) -> Result<BlobReader<'_>> {
        Ok(BlobReader { store: self, map: self.chunk_map(blob, size)? })
    }

    /// Unfolds the recipe of a blob of `size` bytes.
    pub fn chunk_map(&self, blob: BlobId, size: u64) -> Result<ChunkMap> {
        let runs = if size == 0 {
            Vec::new()
        } else if self.is_single_chunk(blob, size)? {
            vec![ChunkRun { id: blob, bytes: size as u32, repeat: 1 }]
        } else {
            self.recipe(blob)?
        };
        let mut starts = Vec::with_capacity(runs.len());
        let mut end = 0u64;
        for run in &runs {
            starts.push(end);
            end = end.saturating_add(run.run_bytes());
        }
        if end != size {
            return Err(Error::Corrupt {
                what: format!("recipe {blob}"),
                place: self.layout().packs(),
                reason: format!("it makes {end} bytes, the tree says {size}"),
            });
        }
        Ok(ChunkMap { blob, runs, starts, size })
    }

    /// The chunks of a blob that has a recipe, in order.
    pub fn recipe(&self, blob: BlobId) -> Result<Vec<ChunkRun>> {
        let root = self.read_object(ObjectKind::RecipeRoot, blob.recipe_root(), |bytes| recipe::decode_root(blob, bytes))?;
        let mut runs = Vec::new();
        self.flatten(root, 0, &mut runs)?;
        Ok(runs)
    }

    fn flatten(&self, node: Node, depth: u8, runs: &mut Vec<ChunkRun>) -> Result<()> {
        match node {
            Node::Chunks(found) => runs.extend(found),
            Node::Nodes(nodes) => {
                for (id, _) in nodes {
                    let node = self.read_object(ObjectKind::RecipeNode, id.object(), |bytes| match depth {
                        0..8 => recipe::decode_node(bytes),
                        _ => Err(Malformed("recipe depth")),
                    })?;
                    self.flatten(node, depth + 1, runs)?;
                }
            }
        }
        Ok(())
    }
}

impl ChunkMap {
    /// The blob's length in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Its chunks, in order.
    pub fn runs(&self) -> &[ChunkRun] {
        &self.runs
    }

    /// Calls `take` with the pieces of a range, in order. The range is cut to the blob's length. `fetch` gives the block that holds a
    /// chunk: [`Store::object_block`], or something that does more on the way.
    pub fn read_range(
        &self,
        range: Range<u64>,
        mut fetch: impl FnMut(ObjectId) -> Result<Arc<Block>>,
        mut take: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let end = range.end.min(self.size);
        let mut at = range.start;
        if at >= end {
            return Ok(());
        }
        let mut i = self.starts.partition_point(|start| *start <= at) - 1;
        while at < end {
            let run = &self.runs[i];
            let block = fetch(run.id.object())?;
            let bytes = block.object(run.id.object()).unwrap_or_default();
            if bytes.len() != run.bytes as usize {
                return Err(Error::Corrupt {
                    what: format!("chunk {}", run.id),
                    place: PathBuf::from("packs"),
                    reason: format!("it has {} bytes, the recipe of blob {} says {}", bytes.len(), self.blob, run.bytes),
                });
            }
            let run_end = self.starts[i] + run.run_bytes();
            while at < end && at < run_end {
                let from = ((at - self.starts[i]) % u64::from(run.bytes)) as usize;
                let until = bytes.len().min(from + usize::try_from(end - at).unwrap_or(usize::MAX));
                take(&bytes[from..until])?;
                at += (until - from) as u64;
            }
            i += 1;
        }
        Ok(())
    }
}

impl BlobReader<'_> {
    /// Its length in bytes.
    pub fn size(&self) -> u64 {
        self.map.size
    }

    /// Its chunks, in order.
    pub fn runs(&self) -> &[ChunkRun] {
        &self.map.runs
    }

    /// Calls `take` with the pieces of a range, in order. The range is cut to the blob's length.
    pub fn read_range(&self, range: Range<u64>, take: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        self.map.read_range(range, |chunk| self.store.object_block(ObjectKind::Chunk, chunk), take)
    }

    /// Fills as much of `buffer` as the blob has from `offset` on, and says how much that is.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        let mut filled = 0;
        let end = offset.saturating_add(buffer.len() as u64);
        self.read_range(offset..end, |piece| {
            buffer[filled..filled + piece.len()].copy_from_slice(piece);
            filled += piece.len();
            Ok(())
        })?;
        Ok(filled)
    }

    /// Reads all of it, checks that it hashes to its id, and calls `take` with each piece on the way.
    pub fn read_verified(&self, mut take: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let mut hasher = blake3::Hasher::new();
        self.read_range(0..self.map.size, |piece| {
            hasher.update(piece);
            take(piece)
        })?;
        if *hasher.finalize().as_bytes() == self.map.blob.0 {
            return Ok(());
        }
        Err(Error::Corrupt {
            what: format!("blob {}", self.map.blob),
            place: self.store.layout().packs(),
            reason: "its chunks do not hash to its id".into(),
        })
    }

    /// All of its bytes. For content that is known to be small.
    pub fn read_all(&self) -> Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(usize::try_from(self.map.size).unwrap_or(0).min(64 << 20));
        self.read_verified(|piece| {
            bytes.extend_from_slice(piece);
            Ok(())
        })?;
        Ok(bytes)
    }

    /// Writes all of it to `out`; the inner result is what writing said.
    pub fn copy_to(&self, out: &mut dyn Write) -> Result<std::io::Result<()>> {
        let mut written = Ok(());
        let read = self.read_verified(|piece| {
            written = out.write_all(piece);
            if written.is_err() { Err(Error::Cancelled) } else { Ok(()) }
        });
        match (written, read) {
            (Err(e), _) => Ok(Err(e)),
            (Ok(()), read) => read.map(Ok),
        }
    }
}
