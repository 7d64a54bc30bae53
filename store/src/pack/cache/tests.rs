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
        CachedBlock::Block(block) => Ok(block),
        CachedBlock::OnBases(_) => unreachable!(),
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
