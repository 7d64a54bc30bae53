//! Readahead in long files: where a reader goes through a pack block by block, the next blocks are decoded before it comes to them. Small
//! files lie in another order than they are read in; for them there is the [`super::tracker`].

use std::{
    collections::VecDeque,
    mem,
    sync::{Mutex, MutexGuard, PoisonError},
};

use parhelia_store::{
    format::LARGE_BLOCK_BYTES,
    pack::{Location, Reuse},
};

/// Bytes of the pack ahead of a reader whose blocks are decoded.
const WINDOW_BYTES: u64 = 4 << 20;
/// The part of the cache's share for long files that blocks ahead of a reader may fill: those ahead of it, those behind it, and as much
/// for another one.
const AHEAD_PART: u64 = 3;
/// Readers that are told apart.
const READERS_MAX: usize = 16;
/// The number of blocks in a row that make a sequential reader.
const BLOCKS_IN_A_ROW: u32 = 2;

/// One reader of a long file.
#[derive(Debug)]
struct Reader {
    id: u64,
    /// The block that it is at.
    at: Location,
    in_a_row: u32,
    /// The blocks ahead of it that are decoded, or will be.
    ahead: VecDeque<Location>,
}

fn end(block: Location) -> u64 {
    block.offset + u64::from(block.block_bytes)
}

impl Reader {
    fn new(id: u64, at: Location) -> Self {
        Reader { id, at, in_a_row: 0, ahead: VecDeque::new() }
    }

    fn reuse(&self) -> Reuse {
        if self.in_a_row >= BLOCKS_IN_A_ROW { Reuse::Unlikely } else { Reuse::Likely }
    }

    /// True for a block that this reader is at, or that is decoded ahead of it.
    fn has_ahead(&self, block: Location) -> bool {
        let is_between = |last: &Location| (self.at.offset..=last.offset).contains(&block.offset);
        self.at.pack == block.pack && self.ahead.back().is_some_and(is_between)
    }

    /// The last block ahead of it, if another one may be decoded.
    fn tip(&self, blocks_max: usize) -> Option<Location> {
        (self.ahead.len() < blocks_max).then(|| self.ahead.back().copied().unwrap_or(self.at))
    }
}

#[derive(Debug, Default)]
struct Readers {
    /// Most recently seen first.
    known: Vec<Reader>,
    ids: u64,
}

/// The readers of long files, by the blocks that they come to.
#[derive(Debug, Default)]
pub struct BlockReaders(Mutex<Readers>);

impl BlockReaders {
    fn readers(&self) -> MutexGuard<'_, Readers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a block of a long file is about to be read. A sequential reader is unlikely to come back to it; when it has gone on to the
    /// block, blocks ahead of it are due, and it is returned.
    pub fn note(&self, block: Location) -> (Reuse, Option<u64>) {
        let readers = &mut *self.readers();
        // A reader of a folder goes to and fro between a few blocks. Only a block that no reader was at is a step forward.
        if let Some(at) = readers.known.iter().position(|reader| reader.at == block) {
            readers.known[..=at].rotate_right(1);
            return (readers.known[0].reuse(), None);
        }
        let is_before = |reader: &Reader| reader.at.pack == block.pack && end(reader.at) == block.offset;
        let Some(at) = readers.known.iter().position(is_before) else {
            readers.known.truncate(READERS_MAX - 1);
            readers.ids += 1;
            let reader = Reader::new(readers.ids, block);
            readers.known.insert(0, reader);
            return (Reuse::Likely, None);
        };
        readers.known[..=at].rotate_right(1);
        if let [reader, others @ ..] = &mut readers.known[..] {
            reader.at = block;
            reader.in_a_row = reader.in_a_row.saturating_add(1);
            if reader.reuse() == Reuse::Unlikely
                && reader.ahead.is_empty()
                && let Some(other) = others.iter_mut().find(|other| other.has_ahead(block))
            {
                // Requests for two pieces of a file are answered at the same time, so that one reader can look like two in turn.
                mem::swap(&mut reader.ahead, &mut other.ahead);
                mem::swap(&mut reader.id, &mut other.id);
            }
            reader.ahead.retain(|ahead| ahead.offset > block.offset);
        }
        let reader = &readers.known[0];
        (reader.reuse(), (reader.reuse() == Reuse::Unlikely).then_some(reader.id))
    }

    /// The next block to decode for a reader, wherever it is by now; `None` where enough is decoded. `block_after` finds the block behind
    /// another one.
    pub fn next_ahead(&self, id: u64, blocks_max: usize, block_after: impl Fn(Location) -> Option<Location>) -> Option<Location> {
        let tip = || self.readers().known.iter().find(|reader| reader.id == id)?.tip(blocks_max);
        let mut from = tip()?;
        loop {
            // It is looked for without the lock, as it may have to come from the disk.
            let next = block_after(from)?;
            let mut readers = self.readers();
            let reader = readers.known.iter_mut().find(|reader| reader.id == id)?;
            let now = reader.tip(blocks_max)?;
            if now == from {
                if next.offset >= end(reader.at) + WINDOW_BYTES {
                    return None;
                }
                reader.ahead.push_back(next);
                return Some(next);
            }
            from = now;
        }
    }
}

/// Blocks ahead of a reader that are decoded at most where long files have so many bytes of the cache.
pub fn blocks_ahead(passing_bytes: u64) -> usize {
    usize::try_from(passing_bytes / AHEAD_PART / LARGE_BLOCK_BYTES as u64).unwrap_or(usize::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use parhelia_store::id::PackId;

    use super::*;

    fn block(offset: u64, block_bytes: u32) -> Location {
        Location { pack: PackId([0; 16]), offset, block_bytes }
    }

    /// The answers about the blocks at these places, each of 10 bytes.
    fn noted(offsets: impl IntoIterator<Item = u64>) -> Vec<Reuse> {
        let readers = BlockReaders::default();
        offsets.into_iter().map(|offset| readers.note(block(offset, 10)).0).collect()
    }

    /// Notes a block, and returns those that are decoded for its reader then.
    fn decoded(readers: &BlockReaders, at: Location, blocks_max: usize, last: u64) -> Vec<Location> {
        let after = |block: Location| Some(Location { offset: end(block), ..block }).filter(|next| next.offset <= last);
        let (_, due) = readers.note(at);
        std::iter::from_fn(|| readers.next_ahead(due?, blocks_max, after)).collect()
    }

    #[test]
    fn a_reader_that_goes_from_block_to_block_is_unlikely_to_come_back() {
        // Each block is asked for some times, and another reader is somewhere else.
        let said = noted((0..10).flat_map(|i| [10 * i, 10 * i, 5000 + 10 * i, 10 * i]));
        assert!(said[..2 * 4].iter().all(|reuse| *reuse == Reuse::Likely));
        assert!(said[2 * 4..].iter().all(|reuse| *reuse == Reuse::Unlikely));
    }

    #[test]
    fn a_reader_that_looks_like_two_has_each_block_decoded_once() {
        let readers = BlockReaders::default();
        let nth = |n: u64| block(n * 10, 10);
        let decoded: Vec<_> = [0, 1, 2, 4, 3, 5, 6, 7].into_iter().flat_map(|n| decoded(&readers, nth(n), 8, 300)).collect();
        assert_eq!(decoded, (3..=15).map(nth).collect::<Vec<_>>());
    }

    #[test]
    fn a_reader_that_goes_to_and_fro_is_likely_to_come_back() {
        let said = noted((0..200).map(|i| (i * 7919 % 100) * 10));
        assert!(said.iter().all(|reuse| *reuse == Reuse::Likely));
    }

    #[test]
    fn no_more_is_decoded_ahead_than_stays_until_it_is_used() {
        assert_eq!([0, 3 << 20, 32 << 20].map(blocks_ahead), [1, 1, 10]);
        // Blocks that compress to a hundredth: hundreds lie within the window.
        let nth = |n: u64| block(n * 10_000, 10_000);
        let readers = BlockReaders::default();
        let mut all = Vec::new();
        for at in 0..50 {
            all.extend(decoded(&readers, nth(at), 8, 49 * 10_000));
            let expected = if at < 2 { Vec::new() } else { (3..=(at + 8).min(49)).map(nth).collect() };
            assert_eq!(all, expected, "each once, and none too early");
        }
        // Another reader of the same, far behind, is served anew.
        let anew: Vec<_> = (0..3).flat_map(|at| decoded(&readers, nth(at), 8, 49 * 10_000)).collect();
        assert_eq!(anew, (3..=10).map(nth).collect::<Vec<_>>());
    }

    #[test]
    fn blocks_that_do_not_compress_are_decoded_as_far_as_the_window_goes() {
        let readers = BlockReaders::default();
        let nth = |n: u64| block(n << 20, 1 << 20);
        let mut count = 0;
        for at in 0..20 {
            count += decoded(&readers, nth(at), 100, u64::MAX).len() as u64;
            assert_eq!(count, if at < 2 { 0 } else { at + 2 });
        }
    }
}
