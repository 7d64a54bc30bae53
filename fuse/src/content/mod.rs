//! The content of files: from a blob and a range to bytes, by way of the store's cache of decoded blocks.

use std::{
    cell::RefCell,
    sync::{Arc, Mutex, PoisonError},
};

use lru::LruCache;
use parhelia_store::{
    Error, Result, Store,
    blob::ChunkMap,
    format::SINGLE_CHUNK_BYTES,
    id::{BlobId, ObjectId},
    pack::{Block, ObjectKind, Reuse},
};
use quick_cache::{Weighter, sync::Cache};

use crate::{
    caches::{by_bytes, share_of},
    readahead::Readahead,
};

/// Bytes of unfolded recipes that are kept.
const MAPS_BYTES: u64 = 16 << 20;
/// Recipes of very long files, each longer than this, are kept apart: the cache takes none that would fill most of one of its shards.
const LONG_MAP_BYTES: u64 = MAPS_BYTES / 16;
/// Bytes of those, beside the others. Some 80 GiB of files.
const LONG_MAPS_BYTES: u64 = 64 << 20;

#[derive(Clone)]
struct Weight;

impl Weighter<BlobId, Arc<ChunkMap>> for Weight {
    fn weight(&self, _: &BlobId, map: &Arc<ChunkMap>) -> u64 {
        (map.runs().len() * 48 + 96) as u64
    }
}

/// The values used last, within a bound of bytes, and the very last one whatever it weighs.
struct Recent<V> {
    by_use: LruCache<BlobId, (V, u64)>,
    bytes: u64,
    bytes_max: u64,
}

impl<V: Clone> Recent<V> {
    fn new(bytes_max: u64) -> Self {
        Recent { by_use: LruCache::unbounded(), bytes: 0, bytes_max }
    }

    fn get(&mut self, id: &BlobId) -> Option<V> {
        self.by_use.get(id).map(|(value, _)| value.clone())
    }

    fn put(&mut self, id: BlobId, value: V, bytes: u64) {
        let before = self.by_use.put(id, (value, bytes));
        self.bytes = self.bytes + bytes - before.map_or(0, |(_, bytes)| bytes);
        self.keep_within(self.bytes_max);
    }

    fn keep_within(&mut self, bytes_max: u64) {
        self.bytes_max = bytes_max;
        while self.bytes > self.bytes_max
            && self.by_use.len() > 1
            && let Some((_, (_, bytes))) = self.by_use.pop_lru()
        {
            self.bytes -= bytes;
        }
    }
}

thread_local! {
    /// The buffer in which a range of several chunks is put together. Kept, because fresh memory costs more than the copy.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Reads blobs of one store.
pub struct Content {
    store: Arc<Store>,
    maps: Cache<BlobId, Arc<ChunkMap>, Weight>,
    /// Those that are too large for the cache.
    long: Mutex<Recent<Arc<ChunkMap>>>,
    readahead: Arc<Readahead>,
}

impl Content {
    /// Reads blobs of this store.
    pub fn new(store: Arc<Store>, readahead: Arc<Readahead>) -> Self {
        let long = Mutex::new(Recent::new(LONG_MAPS_BYTES));
        Content { store, maps: by_bytes(256, MAPS_BYTES, Weight), long, readahead }
    }

    /// Keeps recipes within one of so many equal shares of their bytes from now on.
    pub fn share(&self, shares: u64) {
        self.maps.set_capacity(share_of(MAPS_BYTES, shares));
        let mut long = self.long.lock().unwrap_or_else(PoisonError::into_inner);
        long.keep_within(share_of(LONG_MAPS_BYTES, shares));
    }

    /// The block that holds a chunk; of a long file, the blocks that follow are read ahead.
    fn block(&self, chunk: ObjectId, is_long: bool) -> Result<Arc<Block>> {
        let found = self.store.locate(ObjectKind::Chunk, chunk).and_then(|at| {
            let reuse = if is_long { self.readahead.note_block(at) } else { Reuse::Likely };
            self.store.block_for(at, reuse)
        });
        match found {
            Ok(block) if block.object(chunk).is_some() => Ok(block),
            // It may have moved; this looks again, and knows what to say where it is not found.
            _ => self.store.object_block(ObjectKind::Chunk, chunk),
        }
    }

    fn map(&self, blob: BlobId, size: u64) -> Result<Arc<ChunkMap>> {
        if let Some(map) = self.maps.get(&blob) {
            return Ok(map);
        }
        let long = || self.long.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(map) = long().get(&blob) {
            return Ok(map);
        }
        let map = self.maps.get_or_insert_with(&blob, || self.store.chunk_map(blob, size).map(Arc::new))?;
        let bytes = Weight.weight(&blob, &map);
        if bytes > LONG_MAP_BYTES {
            long().put(blob, map.clone(), bytes);
        }
        Ok(map)
    }

    /// Decodes the block that holds a blob, if the blob is a single chunk.
    pub fn prefetch(&self, blob: BlobId, size: u64) -> Result<()> {
        if size <= SINGLE_CHUNK_BYTES as u64 {
            self.store.block(self.store.locate(ObjectKind::Chunk, blob.object())?)?;
        }
        Ok(())
    }

    /// Calls `take` once with the bytes that a blob of `size` bytes has from `offset` on, at most `bytes` of them.
    pub fn read(&self, blob: BlobId, size: u64, offset: u64, bytes: u64, take: &mut dyn FnMut(&[u8])) -> Result<()> {
        let end = offset.saturating_add(bytes).min(size);
        if offset >= end {
            take(&[]);
            return Ok(());
        }
        if size <= SINGLE_CHUNK_BYTES as u64 {
            let block = self.block(blob.object(), false)?;
            let content = block.object(blob.object()).unwrap_or_default();
            let Some(range) = content.get(offset as usize..end as usize).filter(|_| content.len() as u64 == size) else {
                return Err(Error::Corrupt {
                    what: format!("chunk {blob}"),
                    place: self.store.layout().packs(),
                    reason: format!("it has {} bytes, the tree says {size}", content.len()),
                });
            };
            take(range);
            return Ok(());
        }
        let map = self.map(blob, size)?;
        let whole = (end - offset) as usize;
        BUFFER.with_borrow_mut(|buffer| {
            buffer.clear();
            let mut is_taken = false;
            map.read_range(
                offset..end,
                |chunk| self.block(chunk, true),
                |piece| {
                    if piece.len() == whole {
                        take(piece);
                        is_taken = true;
                    } else {
                        buffer.extend_from_slice(piece);
                    }
                    Ok(())
                },
            )?;
            if !is_taken {
                take(buffer);
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_long_maps_are_kept_and_the_last_one_always() {
        let id = |n: u8| BlobId([n; 32]);
        let mut recent = Recent::new(100);
        (0..3).for_each(|n| recent.put(id(n), n, 40));
        assert_eq!([0, 1, 2].map(|n| recent.get(&id(n))), [None, Some(1), Some(2)]);
        recent.put(id(2), 2, 60);
        assert_eq!((recent.get(&id(1)), recent.bytes), (Some(1), 100));
        recent.put(id(3), 3, 1000);
        assert_eq!([1, 2, 3].map(|n| recent.get(&id(n))), [None, None, Some(3)]);
        recent.put(id(4), 4, 10);
        assert_eq!((recent.get(&id(3)), recent.get(&id(4)), recent.bytes), (None, Some(4), 10));
    }
}
