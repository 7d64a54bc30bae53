//! Decoded blocks that are kept, within a bound of bytes.
//!
//! A reader of a whole tree needs a block some times in a row, as its objects lie in neighbouring folders, and perhaps
//! once more far behind, where the same content occurs again. What was not used for longest goes first; but a block that was come back to
//! is passed over as often (GCLOCK: Smith, "Sequentiality and Prefetching in Database Systems", ACM TODS 3, 1978). What only counts uses
//! takes the many at a time for many times.
//!
//! A reader of a long file needs each of its blocks once. These have a small share, and take nothing from the others.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lru::LruCache;

use super::{Block, Location, OnBases, Read};
use crate::error::Result;

/// A block that is used after so many others were decoded counts as come back to.
const AWAY_BLOCKS: u64 = 16;
/// A block is passed over at most so many times without being used.
const RETURNS_MAX: u8 = 2;
/// Blocks that are likely used once have one in so many of the bytes.
const PASSING_PART: u64 = 5;
/// The least share of a cache, unless the whole is smaller: with less, blocks that are decoded ahead are gone before they are used.
const SHARE_BYTES_MIN: u64 = 4 << 20;

/// Likelihood that a block is wanted again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reuse {
    /// It holds small objects, or its reader goes to and fro.
    Likely,
    /// Its reader goes through a long file, from block to block.
    Unlikely,
}

/// A block from the cache.
#[derive(Debug)]
pub enum CachedBlock {
    /// It is decoded.
    Block(Arc<Block>),
    /// It is not, and needs its bases first.
    OnBases(OnBases),
}

/// Decoded blocks. One thread decodes a block, the others that want it wait for that.
#[derive(Debug)]
pub struct BlockCache {
    /// Bytes that all processes that share the budget may keep together.
    budget_bytes: u64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Bytes that may be kept here.
    bytes_max: u64,
    /// Blocks that are likely used again.
    kept: Slots,
    /// Blocks that are likely not, each in one of both.
    passing: Slots,
    /// Number of blocks that were decoded so far.
    decoded: u64,
}

#[derive(Debug)]
struct Slots {
    by_use: LruCache<Location, Slot>,
    /// Sum over the slots.
    bytes: u64,
}

#[derive(Debug)]
struct Slot {
    /// Locked while the block is being decoded.
    block: Arc<Mutex<Option<Arc<Block>>>>,
    /// Bytes that it takes in memory; 0 until it is decoded.
    bytes: u64,
    /// Number of blocks that had been decoded when it was last used.
    used_at: u64,
    /// Number of times that it was come back to.
    returns: u8,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl BlockCache {
    /// A cache of at most `bytes_max`.
    pub fn new(bytes_max: u64) -> Self {
        let state = State { bytes_max, kept: Slots::new(), passing: Slots::new(), decoded: 0 };
        BlockCache { budget_bytes: bytes_max, state: Mutex::new(state) }
    }

    /// Keeps within one of so many equal shares of the bytes from now on: other processes have the others.
    pub fn share(&self, shares: u64) {
        let least = SHARE_BYTES_MIN.min(self.budget_bytes);
        let mut state = lock(&self.state);
        state.bytes_max = (self.budget_bytes / shares.max(1)).max(least);
        state.shrink();
    }

    /// The block at a place, read by `read` if it is not here. An error is not kept, and neither is a block that waits for its bases: these
    /// are decoded while no slot is locked, so that blocks that wait for each other are no deadlock.
    pub fn get(&self, location: Location, reuse: Reuse, read: impl FnOnce() -> Result<Read>) -> Result<CachedBlock> {
        let slot = lock(&self.state).slot(location, reuse);
        let mut held = lock(&slot);
        if let Some(block) = &*held {
            return Ok(CachedBlock::Block(block.clone()));
        }
        let got = read().map(|read| match read {
            Read::Block(block) => CachedBlock::Block(Arc::new(block)),
            Read::OnBases(block) => CachedBlock::OnBases(block),
        });
        let mut state = lock(&self.state);
        state.decoded += u64::from(!matches!(got, Ok(CachedBlock::OnBases(_))));
        let slots = state.slots_of(location);
        match &got {
            Ok(CachedBlock::Block(block)) => {
                *held = Some(block.clone());
                slots.weigh(location, block);
                state.shrink();
            }
            // Who waits for it tries, too, and may succeed.
            _ if slots.by_use.peek(&location).is_some_and(|slot| slot.bytes == 0) => drop(slots.by_use.pop(&location)),
            _ => {}
        }
        got
    }

    /// Bytes that may be kept.
    pub fn bytes_max(&self) -> u64 {
        lock(&self.state).bytes_max
    }

    /// Bytes for blocks of long files.
    pub fn passing_bytes(&self) -> u64 {
        self.bytes_max() / PASSING_PART
    }

    /// Number of blocks that were decoded so far; others were found here.
    pub fn decoded(&self) -> u64 {
        lock(&self.state).decoded
    }
}

impl State {
    /// The slot of a block that is or will be decoded; it counts as used.
    fn slot(&mut self, location: Location, reuse: Reuse) -> Arc<Mutex<Option<Arc<Block>>>> {
        if reuse == Reuse::Likely
            && let Some(mut slot) = self.passing.by_use.pop(&location)
        {
            self.passing.bytes -= slot.bytes;
            self.kept.bytes += slot.bytes;
            // Somebody else came to it.
            slot.returns = (slot.returns + 1).min(RETURNS_MAX);
            self.kept.by_use.put(location, slot);
        }
        let slots = match reuse {
            Reuse::Unlikely if !self.kept.by_use.contains(&location) => &mut self.passing,
            _ => &mut self.kept,
        };
        slots.slot(location, self.decoded)
    }

    /// The slots among which a block has its own.
    fn slots_of(&mut self, location: Location) -> &mut Slots {
        if self.passing.by_use.contains(&location) { &mut self.passing } else { &mut self.kept }
    }

    fn shrink(&mut self) {
        self.passing.shrink(self.bytes_max / PASSING_PART);
        self.kept.shrink(self.bytes_max - self.passing.bytes);
    }
}

impl Slots {
    fn new() -> Self {
        Slots { by_use: LruCache::unbounded(), bytes: 0 }
    }

    /// The slot of a block that is used after `decoded` blocks were.
    fn slot(&mut self, location: Location, decoded: u64) -> Arc<Mutex<Option<Arc<Block>>>> {
        let slot =
            self.by_use.get_or_insert_mut(location, || Slot { block: Arc::default(), bytes: 0, used_at: decoded, returns: 0 });
        if decoded - slot.used_at >= AWAY_BLOCKS {
            slot.returns = (slot.returns + 1).min(RETURNS_MAX);
        }
        slot.used_at = decoded;
        slot.block.clone()
    }

    fn weigh(&mut self, location: Location, block: &Block) {
        // Its slot is gone where another thread met with an error.
        if let Some(slot) = self.by_use.peek_mut(&location).filter(|slot| slot.bytes == 0) {
            slot.bytes = (block.bytes.capacity() + block.objects.len() * 64 + block.bases.len() * 37 + 128) as u64;
            self.bytes += slot.bytes;
        }
    }

    fn shrink(&mut self, bytes_max: u64) {
        while self.bytes > bytes_max
            && let Some((location, mut slot)) = self.by_use.pop_lru()
        {
            if slot.bytes > 0 && slot.returns == 0 {
                self.bytes -= slot.bytes;
                continue;
            }
            slot.returns = slot.returns.saturating_sub(1);
            self.by_use.put(location, slot);
        }
    }
}

#[cfg(test)]
mod tests;
