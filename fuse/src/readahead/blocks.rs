//! Reading ahead in long files: where a reader goes through a pack block by block, the next blocks are decoded by threads of their
//! own, so that the reader finds them in the cache. Small files lie in another order than they are read in; [`super::page_cache`] is for them.

use std::{
    collections::VecDeque,
    io,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread,
};

use parhelia_store::{
    Store,
    format::LARGE_BLOCK_BYTES,
    pack::{Location, Reuse},
};

/// How far ahead of a reader blocks are decoded, in bytes of the pack.
const WINDOW_BYTES: u64 = 4 << 20;
/// ... and, of what compresses well, in blocks that fill one in so many bytes of the cache's share for long files: those ahead of the
/// reader, those behind him, and as much for another one.
const AHEAD_PART: u64 = 3;
/// How many readers are told apart.
const READERS_MAX: usize = 16;
/// How many requests may wait; more are dropped, as they would come too late.
const QUEUE_MAX: usize = 8;
/// How many threads decode. One is slower than a reader of what compresses well.
const DECODERS: usize = 2;
/// So many blocks in a row make a sequential reader.
const BLOCKS_IN_A_ROW: u32 = 2;

/// Where one reader is.
struct Reader {
    last: Location,
    in_a_row: u32,
}

impl Reader {
    fn end(&self) -> u64 {
        self.last.offset + u64::from(self.last.block_bytes)
    }

    fn reuse(&self) -> Reuse {
        if self.in_a_row >= BLOCKS_IN_A_ROW { Reuse::Unlikely } else { Reuse::Likely }
    }
}

/// Watches which blocks are read, and has the next ones decoded.
pub struct BlockReadahead {
    /// Most recently used first.
    readers: Mutex<Vec<Reader>>,
    queue: Option<SyncSender<Location>>,
}

impl BlockReadahead {
    /// Starts the threads. Where they cannot be had, nothing is read ahead.
    pub fn new(store: &Arc<Store>) -> Self {
        let queue = start(store).ok();
        BlockReadahead { readers: Mutex::default(), queue }
    }

    /// A block of a long file is about to be read. Who has come here block by block is unlikely to come back.
    pub fn note(&self, location: Location) -> Reuse {
        let mut readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        // Who reads a folder goes to and fro between a few blocks. Only one that nobody was at is a step forward.
        if let Some(at) = readers.iter().position(|reader| reader.last == location) {
            readers[..=at].rotate_right(1);
            return readers[0].reuse();
        }
        let known = readers.iter().position(|reader| reader.last.pack == location.pack && reader.end() == location.offset);
        let mut reader = match known {
            Some(at) => readers.remove(at),
            None => {
                readers.truncate(READERS_MAX - 1);
                Reader { last: location, in_a_row: 0 }
            }
        };
        if reader.last != location {
            reader.last = location;
            reader.in_a_row = reader.in_a_row.saturating_add(1);
        }
        let reuse = reader.reuse();
        if let (Reuse::Unlikely, Some(queue)) = (reuse, &self.queue) {
            let _ = queue.try_send(location);
        }
        readers.insert(0, reader);
        reuse
    }
}

/// How many blocks are decoded ahead of a reader where long files have so many bytes of the cache.
fn blocks_ahead(passing_bytes: u64) -> usize {
    usize::try_from(passing_bytes / AHEAD_PART / LARGE_BLOCK_BYTES as u64).unwrap_or(usize::MAX).max(1)
}

/// Starts one thread that finds out what lies ahead, and those that decode it. Each ends with the sender of what it waits for.
fn start(store: &Arc<Store>) -> io::Result<SyncSender<Location>> {
    let (queue, requests) = sync_channel(QUEUE_MAX);
    let (found, blocks) = sync_channel(DECODERS);
    let blocks = Arc::new(Mutex::new(blocks));
    for _ in 0..DECODERS {
        let (store, blocks) = (Arc::downgrade(store), blocks.clone());
        thread::Builder::new().name("decode-ahead".into()).spawn(move || decode(&store, &blocks))?;
    }
    let store = Arc::downgrade(store);
    thread::Builder::new().name("look-ahead".into()).spawn(move || look(&store, &requests, &found))?;
    Ok(queue)
}

/// The block that each of the last few readers is at, and those that it was served behind it.
struct Served {
    readers: Vec<VecDeque<Location>>,
    /// How many blocks a reader has decoded ahead of it at most.
    blocks_max: usize,
}

impl Served {
    fn new(blocks_max: usize) -> Self {
        Served { readers: Vec::new(), blocks_max }
    }

    /// Finds the blocks that are to be decoded for a reader that is at `from`, and hands each on; ends early where that fails.
    fn advance(
        &mut self,
        from: Location,
        block_after: impl Fn(Location) -> Option<Location>,
        mut hand_on: impl FnMut(Location) -> bool,
    ) -> bool {
        let until = from.offset + u64::from(from.block_bytes) + WINDOW_BYTES;
        let is_between =
            |first: &Location, last: &Location| first.pack == from.pack && (first.offset..=last.offset).contains(&from.offset);
        let is_of = |blocks: &VecDeque<Location>| matches!((blocks.front(), blocks.back()), (Some(first), Some(last)) if is_between(first, last));
        let known = self.readers.iter().position(is_of);
        let mut blocks = known.map_or_else(VecDeque::new, |at| self.readers.remove(at));
        blocks.retain(|block| block.offset > from.offset);
        blocks.push_front(from);
        let mut is_wanted = true;
        while is_wanted
            && blocks.len() <= self.blocks_max
            && let Some(next) = blocks.back().and_then(|tip| block_after(*tip)).filter(|next| next.offset < until)
        {
            blocks.push_back(next);
            is_wanted = hand_on(next);
        }
        self.readers.insert(0, blocks);
        self.readers.truncate(READERS_MAX);
        is_wanted
    }
}

/// Finds the blocks that lie behind each requested one, and were not found for this reader before.
fn look(store: &Weak<Store>, requests: &Receiver<Location>, found: &SyncSender<Location>) {
    let mut served = Served::new(1);
    // Nothing may hold the store while it waits: the mount ends with its last owner.
    let block_after = |at| store.upgrade().and_then(|store| store.block_after(at));
    while let Ok(from) = requests.recv() {
        served.blocks_max = store.upgrade().map_or(1, |store| blocks_ahead(store.passing_bytes()));
        if !served.advance(from, block_after, |next| found.send(next).is_ok()) {
            return;
        }
    }
}

/// Has blocks decoded. One that is damaged is named to whoever reads it.
fn decode(store: &Weak<Store>, blocks: &Mutex<Receiver<Location>>) {
    loop {
        let next = blocks.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(location) = next else { return };
        let Some(store) = store.upgrade() else { return };
        let _ = store.block_for(location, Reuse::Unlikely);
    }
}

#[cfg(test)]
mod tests {
    use parhelia_store::id::PackId;

    use super::*;

    /// What is said of the blocks at these places, each of 10 bytes.
    fn noted(offsets: impl IntoIterator<Item = u64>) -> Vec<Reuse> {
        let ahead = BlockReadahead { readers: Mutex::default(), queue: None };
        let block = |offset| Location { pack: PackId([0; 16]), offset, block_bytes: 10 };
        offsets.into_iter().map(|offset| ahead.note(block(offset))).collect()
    }

    #[test]
    fn who_goes_from_block_to_block_is_unlikely_to_come_back() {
        // Each block is asked for some times, and another reader is somewhere else.
        let said = noted((0..10).flat_map(|i| [10 * i, 10 * i, 5000 + 10 * i, 10 * i]));
        assert!(said[..2 * 4].iter().all(|reuse| *reuse == Reuse::Likely));
        assert!(said[2 * 4..].iter().all(|reuse| *reuse == Reuse::Unlikely));
    }

    #[test]
    fn who_goes_to_and_fro_is_likely_to_come_back() {
        let said = noted((0..200).map(|i| (i * 7919 % 100) * 10));
        assert!(said.iter().all(|reuse| *reuse == Reuse::Likely));
    }

    #[test]
    fn no_more_is_decoded_ahead_than_stays_until_it_is_used() {
        assert_eq!([0, 3 << 20, 32 << 20].map(blocks_ahead), [1, 1, 10]);
        // Blocks that compress to a hundredth: hundreds lie within the window.
        let bytes = 10_000;
        let block = |n: u64| Location { pack: PackId([0; 16]), offset: n * u64::from(bytes), block_bytes: bytes };
        let after = |at: Location| Some(block(at.offset / u64::from(bytes) + 1)).filter(|next| *next != block(50));
        let (mut served, mut decoded) = (Served::new(8), Vec::new());
        for at in 0..50 {
            served.advance(block(at), after, |next| {
                decoded.push(next);
                true
            });
            let ahead = (at + 9).min(50) - 1;
            assert_eq!(decoded, (1..=ahead).map(block).collect::<Vec<_>>(), "each once, and none too early");
        }
        // Another reader of the same, who is far behind, is served anew.
        decoded.clear();
        served.advance(block(0), after, |next| {
            decoded.push(next);
            true
        });
        assert_eq!(decoded, (1..=8).map(block).collect::<Vec<_>>());
    }

    #[test]
    fn blocks_that_do_not_compress_are_decoded_as_far_as_the_window_goes() {
        let block = |n: u64| Location { pack: PackId([0; 16]), offset: n << 20, block_bytes: 1 << 20 };
        let (mut served, mut decoded) = (Served::new(100), Vec::new());
        for at in 0..20 {
            served.advance(
                block(at),
                |at| Some(block((at.offset >> 20) + 1)),
                |next| {
                    decoded.push(next);
                    true
                },
            );
            assert_eq!(decoded.len() as u64, at + 4);
        }
    }
}
