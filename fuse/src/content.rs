//! What files hold: from a blob and a range to bytes, by way of the store's cache of decoded blocks.

use std::{
    cell::RefCell,
    sync::{Arc, Mutex, PoisonError},
};

use parhelia_store::{
    Error, Result, Store,
    blob::ChunkMap,
    format::SINGLE_CHUNK_BYTES,
    id::{BlobId, ObjectId},
    pack::{Block, ObjectKind, Reuse},
};
use quick_cache::{Weighter, sync::Cache};

use crate::{ahead::ReadAhead, cache::by_bytes};

/// Bytes of unfolded recipes that are kept.
const MAPS_BYTES: u64 = 16 << 20;

#[derive(Clone)]
struct Weight;

impl Weighter<BlobId, Arc<ChunkMap>> for Weight {
    fn weight(&self, _: &BlobId, map: &Arc<ChunkMap>) -> u64 {
        (map.runs().len() * 48 + 96) as u64
    }
}

thread_local! {
    /// Where a range of several chunks is put together. Kept, because fresh memory costs more than the copy.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Reads blobs of one store.
pub struct Content {
    store: Arc<Store>,
    maps: Cache<BlobId, Arc<ChunkMap>, Weight>,
    /// The one used last, which may be too large for the cache.
    last: Mutex<Option<(BlobId, Arc<ChunkMap>)>>,
    ahead: ReadAhead,
}

impl Content {
    /// Reads blobs of this store.
    pub fn new(store: Arc<Store>) -> Self {
        let ahead = ReadAhead::new(&store);
        Content { store, maps: by_bytes(256, MAPS_BYTES, Weight), last: Mutex::default(), ahead }
    }

    /// The block that holds a chunk; of a long file, the blocks that follow are read ahead.
    fn block(&self, chunk: ObjectId, is_long: bool) -> Result<Arc<Block>> {
        let found = self.store.locate(ObjectKind::Chunk, chunk).and_then(|at| {
            let reuse = if is_long { self.ahead.note(at) } else { Reuse::Likely };
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
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((_, map)) = last.filter(|(id, _)| *id == blob) {
            return Ok(map);
        }
        let map = self.maps.get_or_insert_with(&blob, || self.store.chunk_map(blob, size).map(Arc::new))?;
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some((blob, map.clone()));
        Ok(map)
    }

    /// Has the block decoded that holds a blob, if it is a single chunk.
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
