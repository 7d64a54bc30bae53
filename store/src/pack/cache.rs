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
pub enum Got {
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
    pub fn get(&self, location: Location, reuse: Reuse, read: impl FnOnce() -> Result<Read>) -> Result<Got> {
        let slot = lock(&self.state).slot(location, reuse);
        let mut held = lock(&slot);
        if let Some(block) = &*held {
            return Ok(Got::Block(block.clone()));
        }
        let got = read().map(|read| match read {
            Read::Block(block) => Got::Block(Arc::new(block)),
            Read::OnBases(block) => Got::OnBases(block),
        });
        let mut state = lock(&self.state);
        state.decoded += u64::from(!matches!(got, Ok(Got::OnBases(_))));
        let slots = state.slots_of(location);
        match &got {
            Ok(Got::Block(block)) => {
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
mod tests {
    use std::{
        ops::Range,
        sync::atomic::{AtomicU64, Ordering},
        thread,
    };

    use proptest::prelude::*;

    use super::*;
    use crate::{error::Error, id::PackId};

    const BLOCK_BYTES: usize = 1000;

    fn at(offset: u64) -> Location {
        Location { pack: PackId([0; 16]), offset, block_bytes: 7 }
    }

    fn block(offset: u64, bytes: usize) -> Block {
        Block::plain(Vec::new(), vec![offset as u8; bytes])
    }

    /// The block at a place, which needs no others.
    fn get(cache: &BlockCache, location: Location, reuse: Reuse, decode: impl FnOnce() -> Result<Block>) -> Result<Arc<Block>> {
        match cache.get(location, reuse, || decode().map(Read::Block))? {
            Got::Block(block) => Ok(block),
            Got::OnBases(_) => unreachable!(),
        }
    }

    fn room_for(blocks: u64) -> BlockCache {
        BlockCache::new(blocks * (BLOCK_BYTES as u64 + 128))
    }

    /// Uses a block, and says whether it had to be decoded.
    fn misses(cache: &BlockCache, offset: u64) -> bool {
        misses_of(cache, offset, Reuse::Likely)
    }

    fn misses_of(cache: &BlockCache, offset: u64, reuse: Reuse) -> bool {
        let before = cache.decoded();
        let got = get(cache, at(offset), reuse, || Ok(block(offset, BLOCK_BYTES))).unwrap();
        assert!(got.bytes.iter().all(|byte| *byte == offset as u8));
        cache.decoded() > before
    }

    fn read(cache: &BlockCache, offsets: Range<u64>) {
        offsets.into_iter().for_each(|offset| _ = misses(cache, offset));
    }

    #[test]
    fn what_was_not_used_for_longest_goes() {
        let cache = room_for(3);
        for offset in [1, 2, 3, 1, 4] {
            misses(&cache, offset);
        }
        let missed: Vec<_> = [1, 3, 4, 2].map(|offset| misses(&cache, offset)).into();
        assert_eq!(missed, [false, false, false, true]);
    }

    #[test]
    fn what_was_come_back_to_outlives_what_was_used_often_at_a_time() {
        let cache = room_for(40);
        read(&cache, 0..20);
        assert!(!misses(&cache, 0), "come back to");
        (0..50).for_each(|_| read(&cache, 19..20));
        read(&cache, 100..140);
        assert!(misses(&cache, 19) && !misses(&cache, 0));
        // Whoever is not used any more goes in the end.
        read(&cache, 200..400);
        assert!(misses(&cache, 0));
    }

    #[test]
    fn a_long_file_takes_a_share_and_no_more() {
        let cache = room_for(50);
        read(&cache, 0..40);
        (1000..1500).for_each(|offset| assert!(misses_of(&cache, offset, Reuse::Unlikely)));
        assert!((0..40).all(|offset| !misses(&cache, offset)), "what others use stays");
        assert!((1490..1500).all(|offset| !misses_of(&cache, offset, Reuse::Unlikely)), "who is a little behind finds it");
        assert!(misses_of(&cache, 1489, Reuse::Unlikely));
        // One that holds something else as well is kept like any other from then on.
        assert!(!misses(&cache, 1499));
        (1500..1600).for_each(|offset| _ = misses_of(&cache, offset, Reuse::Unlikely));
        assert!(!misses_of(&cache, 1499, Reuse::Unlikely) && !misses(&cache, 1499));
    }

    #[test]
    fn many_who_want_the_same_have_it_decoded_once() {
        let (cache, decoded) = (room_for(100), AtomicU64::new(0));
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for offset in 0..50 {
                        let decode = || {
                            decoded.fetch_add(1, Ordering::Relaxed);
                            thread::yield_now();
                            Ok(block(offset, BLOCK_BYTES))
                        };
                        assert_eq!(get(&cache, at(offset), Reuse::Likely, decode).unwrap().bytes[0], offset as u8);
                    }
                });
            }
        });
        assert_eq!(decoded.into_inner(), 50);
    }

    #[test]
    fn an_error_is_not_kept() {
        let cache = room_for(2);
        assert!(get(&cache, at(1), Reuse::Likely, || Err(Error::Cancelled)).is_err());
        assert!(misses(&cache, 1) && !misses(&cache, 1));
    }

    #[test]
    fn a_share_is_kept_within_and_given_back() {
        let cache = BlockCache::new(64 << 20);
        let big = |offset| get(&cache, at(offset), Reuse::Likely, || Ok(block(offset, 1 << 20))).unwrap();
        let kept = || {
            let state = lock(&cache.state);
            assert!(state.kept.bytes + state.passing.bytes <= state.bytes_max);
            state.kept.by_use.len()
        };
        (0..100).for_each(|offset| _ = big(offset));
        assert_eq!(kept(), 63);
        cache.share(4);
        assert_eq!((kept(), cache.passing_bytes()), (15, (16 << 20) / PASSING_PART));
        (100..200).for_each(|offset| _ = big(offset));
        assert_eq!(kept(), 15);
        cache.share(1000);
        assert_eq!(kept(), 3, "no share is too small to work with");
        cache.share(1);
        (200..300).for_each(|offset| _ = big(offset));
        assert_eq!(kept(), 63);
        let small = room_for(2);
        small.share(7);
        assert!(misses(&small, 1) && misses(&small, 2) && !misses(&small, 1), "nor is a small cache made smaller");
    }

    proptest! {
        #[test]
        fn it_keeps_within_its_bound(uses in proptest::collection::vec((0u64..30, 1usize..4000, any::<bool>()), 1..400), bytes_max in 1u64..40_000) {
            let cache = BlockCache::new(bytes_max);
            for (offset, bytes, is_passing) in uses {
                let reuse = if is_passing { Reuse::Unlikely } else { Reuse::Likely };
                let _ = get(&cache, at(offset), reuse, || match bytes % 7 {
                    0 => Err(Error::Cancelled),
                    _ => Ok(block(offset, bytes)),
                });
                let State { kept, passing, .. } = &*lock(&cache.state);
                prop_assert!(kept.bytes + passing.bytes <= bytes_max);
                prop_assert!(passing.bytes <= bytes_max / PASSING_PART);
                for slots in [kept, passing] {
                    prop_assert_eq!(slots.bytes, slots.by_use.iter().map(|(_, slot)| slot.bytes).sum::<u64>());
                }
                prop_assert!(kept.by_use.iter().all(|(location, _)| !passing.by_use.contains(location)));
            }
        }
    }
}
