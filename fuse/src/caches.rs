//! Caches of decoded objects, within a bound of bytes.

use std::hash::Hash;

use quick_cache::{OptionsBuilder, Weighter, sync::Cache};

/// Locks, each over its share of the bytes: few, so that no share is too small for a burst.
const SHARDS: usize = 4;
/// The share of the bytes that is for what was used again. Trees are mostly read from one end to the other: what was decoded just now
/// is needed a few times more in the next moments and then never again. With the usual share (0.97) it would be dropped in between, in
/// favour of what was read first.
const HOT_SHARE: f64 = 0.5;

/// The smallest share of a cache is one in so many of its bytes, so that large items still fit.
const SHARES_MAX: u64 = 4;

/// One of so many equal shares of a cache's bytes.
pub fn share_of(bytes: u64, shares: u64) -> u64 {
    bytes / shares.clamp(1, SHARES_MAX)
}

/// A cache of about `items` things that weigh at most `bytes` together.
pub fn by_bytes<K: Eq + Hash, V: Clone, W: Weighter<K, V> + Clone>(items: usize, bytes: u64, weighter: W) -> Cache<K, V, W> {
    let options = OptionsBuilder::new()
        .estimated_items_capacity(items)
        .weight_capacity(bytes)
        .shards(SHARDS)
        .hot_allocation(HOT_SHARE)
        .build();
    match options {
        Ok(options) => Cache::with_options(options, weighter, Default::default(), Default::default()),
        Err(_) => Cache::with_weighter(items, bytes, weighter),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone)]
    struct One;

    impl Weighter<u64, u64> for One {
        fn weight(&self, _: &u64, _: &u64) -> u64 {
            1
        }
    }

    #[test]
    fn what_was_read_just_now_is_still_there_while_the_reader_moves_on() {
        let cache = by_bytes(256, 256, One);
        let mut decoded = 0;
        // A reader that goes through 4,000 things, coming back to each of the last ten again and again.
        for at in 0..4000u64 {
            for back in 0..10 {
                let read: Result<u64, ()> = cache.get_or_insert_with(&at.saturating_sub(back), || {
                    decoded += 1;
                    Ok(at)
                });
                assert!(read.is_ok());
            }
        }
        assert!(decoded < 4400, "{decoded}");
    }
}
