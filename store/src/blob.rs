//! Reading a file's content: recipe, chunks, bytes.

use std::{io::Write, ops::Range, path::PathBuf, sync::Arc};

use crate::{
    error::{Error, Result},
    id::{BlobId, ObjectId},
    keys::BlobHasher,
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

/// A reading of a blob from its start to its end, in pieces. It borrows nothing, so it can be kept between them.
#[derive(Debug)]
pub struct Pieces {
    map: ChunkMap,
    /// None for a part of the blob, which has no id of its own.
    hasher: Option<BlobHasher>,
    /// The place up to which it was read.
    read: u64,
    /// The place up to which it is to be read.
    end: u64,
}

impl Store {
    /// Begins to read a blob of `size` bytes in pieces.
    pub fn pieces(&self, blob: BlobId, size: u64) -> Result<Pieces> {
        Ok(Pieces { map: self.chunk_map(blob, size)?, hasher: Some(self.ids().blob_hasher()), read: 0, end: size })
    }

    /// Begins to read a part of a blob of `size` bytes in pieces. The part is cut to the blob's length. Its chunks are checked, but not whether
    /// they are the blob's.
    pub fn pieces_of(&self, blob: BlobId, size: u64, part: Range<u64>) -> Result<Pieces> {
        let end = part.end.min(size);
        Ok(Pieces { map: self.chunk_map(blob, size)?, hasher: None, read: part.start.min(end), end })
    }

    fn forged(&self, blob: BlobId) -> Error {
        Error::Corrupt {
            what: format!("blob {blob}"),
            place: self.layout().packs(),
            reason: "its chunks do not hash to its id".into(),
        }
    }

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
            self.recipe(blob, size).map_err(|e| match e {
                // Of short content that is gone, nobody can tell whether it was kept as one chunk.
                Error::Missing { .. } if size <= u64::from(self.config().chunking.bytes_max) => {
                    Error::Missing { kind: "content", id: blob.to_string() }
                }
                other => other,
            })?
        };
        let mut starts = Vec::with_capacity(runs.len());
        let mut end = 0u64;
        for run in &runs {
            starts.push(end);
            end = end.saturating_add(run.run_bytes());
        }
        Ok(ChunkMap { blob, runs, starts, size })
    }

    /// The chunks of a blob of `size` bytes that has a recipe, in order.
    pub(crate) fn recipe(&self, blob: BlobId, size: u64) -> Result<Vec<ChunkRun>> {
        let (level, root) = self.read_object(ObjectKind::RecipeRoot, self.ids().recipe_root(blob), |bytes| {
            recipe::decode_top(self.ids(), blob, bytes)
        })?;
        self.check_bytes(blob, &root, size, "the tree")?;
        let mut runs = Vec::new();
        self.flatten(blob, root, level, &mut runs)?;
        Ok(runs)
    }

    /// Every node must make as many bytes as was said of it. As no line makes none, a forged recipe that has a node in it over and over
    /// has no more chunks than the file has bytes.
    fn check_bytes(&self, blob: BlobId, node: &Node, wanted: u64, by: &str) -> Result<()> {
        let made = match node {
            Node::Chunks(runs) => runs.iter().map(ChunkRun::run_bytes).try_fold(0, u64::checked_add),
            Node::Nodes(nodes) => nodes.iter().map(|(_, bytes)| *bytes).try_fold(0, u64::checked_add),
        };
        if made == Some(wanted) {
            return Ok(());
        }
        let made = made.map_or_else(|| "more than 2^64".to_owned(), |made| made.to_string());
        let reason = format!("it makes {made} bytes, {by} says {wanted}");
        Err(Error::Corrupt { what: format!("recipe {blob}"), place: self.layout().packs(), reason })
    }

    fn flatten(&self, blob: BlobId, node: Node, level: u8, runs: &mut Vec<ChunkRun>) -> Result<()> {
        match node {
            Node::Chunks(found) => runs.extend(found),
            Node::Nodes(nodes) => {
                for (id, bytes) in nodes {
                    let read = |bytes: &[u8]| recipe::decode_below(level, bytes);
                    let (lower, node) = self.read_object(ObjectKind::RecipeNode, id.object(), read)?;
                    self.check_bytes(blob, &node, bytes, "the node above")?;
                    self.flatten(blob, node, lower, runs)?;
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

impl Pieces {
    /// The blob's length in bytes.
    pub fn size(&self) -> u64 {
        self.map.size
    }

    /// The next piece, of at most so many bytes; none behind the last one. The last one comes only if all of them hash to the blob's id.
    pub fn next(&mut self, store: &Store, bytes_max: u64) -> Result<Option<Vec<u8>>> {
        if self.read == self.end {
            return Ok(None);
        }
        let end = self.end.min(self.read.saturating_add(bytes_max));
        let mut piece = Vec::with_capacity(usize::try_from(end - self.read).unwrap_or(0).min(64 << 20));
        let fetch = |chunk| store.object_block(ObjectKind::Chunk, chunk);
        self.map.read_range(self.read..end, fetch, |bytes| {
            piece.extend_from_slice(bytes);
            Ok(())
        })?;
        self.read = end;
        if let Some(hasher) = &mut self.hasher {
            hasher.update(&piece);
            if end == self.end && hasher.finish() != self.map.blob {
                return Err(store.forged(self.map.blob));
            }
        }
        Ok(Some(piece))
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
        let mut hasher = self.store.ids().blob_hasher();
        self.read_range(0..self.map.size, |piece| {
            hasher.update(piece);
            take(piece)
        })?;
        if hasher.finish() == self.map.blob {
            return Ok(());
        }
        Err(self.store.forged(self.map.blob))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        codec::put_uint,
        recipe::EncodedObject,
        testing::{self, Sink, TestStore},
        tree::{self, Kind},
    };

    /// The bytes of a node that has these lines.
    fn lines(level: u8, lines: &[(u64, [u8; 32])]) -> Vec<u8> {
        let mut bytes = vec![level];
        put_uint(&mut bytes, lines.len() as u64);
        for (length, _) in lines {
            put_uint(&mut bytes, *length);
            put_uint(&mut bytes, 1);
        }
        lines.iter().for_each(|(_, id)| bytes.extend_from_slice(id));
        bytes
    }

    /// Stores a recipe in which each level has the one below `times` times, and of which every line says that it makes `told` bytes.
    fn forge(sink: &mut Sink<'_>, blob: BlobId, levels: u8, times: usize, told: u64) {
        let mut lower = sink.chunk(b"x").0;
        for level in 0..levels {
            let bytes = lines(level, &vec![(if level == 0 { 1 } else { told }, lower); times]);
            let id = crate::testing::ids().recipe_node(&bytes);
            lower = id.0;
            sink.put(EncodedObject { kind: ObjectKind::RecipeNode, id: id.object(), bytes, tail_bytes: times * 32 }).unwrap();
        }
        let body = lines(levels, &vec![(told, lower); times]);
        let bytes = [&blob.0[..], &crate::testing::ids().recipe_seal(blob, &body), &body].concat();
        sink.put(EncodedObject {
            kind: ObjectKind::RecipeRoot,
            id: crate::testing::ids().recipe_root(blob),
            bytes,
            tail_bytes: times * 32,
        })
        .unwrap();
    }

    #[test]
    fn a_recipe_that_unfolds_beyond_the_file_is_refused() {
        let test = TestStore::new();
        let blob = crate::testing::blob_id(b"whatever it may be");
        // 200^8 chunks of one byte, where the sizes are taken at their word.
        let checkpoint = test.forge(|sink| {
            forge(sink, blob, 7, 200, 50_000);
            let kind = Kind::File { size: 10_000_000, blob, holes: Vec::new() };
            sink.nodes(&[tree::Node { name: b"f".to_vec(), meta: testing::meta(), links: 1, kind }])
        });
        let text = test.store.blob(blob, 10_000_000).unwrap_err().to_string();
        assert!(text.contains("recipe") && text.contains("it makes 10000000 bytes, the node above says 50000"), "{text}");
        for size in [1, 9_999_999, u64::MAX] {
            let text = test.store.blob(blob, size).unwrap_err().to_string();
            assert!(text.contains(&format!("the tree says {size}")), "{text}");
        }
        assert!(test.content(&checkpoint).is_err());
    }

    #[test]
    fn sizes_that_add_up_to_too_much_are_refused() {
        let test = TestStore::new();
        let blob = crate::testing::blob_id(b"whatever it may be");
        test.forge(|sink| {
            forge(sink, blob, 1, 3, u64::MAX / 2);
            sink.nodes(&[])
        });
        let text = test.store.blob(blob, u64::MAX).unwrap_err().to_string();
        assert!(text.contains("more than 2^64"), "{text}");
    }
}
