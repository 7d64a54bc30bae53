//! Reading ahead in long files: where a reader goes through a pack block by block, the next blocks are decoded by threads of their
//! own, so that the reader finds them in the cache. Small files lie in another order than they are read in; [`crate::push`] is for them.

use std::{
    io,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread,
};

use parhelia_store::{
    Store,
    pack::{Location, Reuse},
};

/// How far ahead of a reader blocks are decoded, in bytes of the pack.
const WINDOW_BYTES: u64 = 4 << 20;
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
pub struct ReadAhead {
    /// Most recently used first.
    readers: Mutex<Vec<Reader>>,
    queue: Option<SyncSender<Location>>,
}

impl ReadAhead {
    /// Starts the threads. Where they cannot be had, nothing is read ahead.
    pub fn new(store: &Arc<Store>) -> Self {
        let queue = start(store).ok();
        ReadAhead { readers: Mutex::default(), queue }
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

/// Finds the blocks that lie behind each requested one, and were not found for this reader before.
fn look(store: &Weak<Store>, requests: &Receiver<Location>, found: &SyncSender<Location>) {
    // The block up to which each of the last few readers was served.
    let mut tips: Vec<Location> = Vec::new();
    while let Ok(from) = requests.recv() {
        let until = from.offset + u64::from(from.block_bytes) + WINDOW_BYTES;
        let served = tips.iter().position(|tip| tip.pack == from.pack && (from.offset..until).contains(&tip.offset));
        let mut tip = served.map_or(from, |at| tips.remove(at));
        while tip.offset < until {
            // Nothing may hold the store while it waits: the mount ends with its last owner.
            let Some(next) = store.upgrade().and_then(|store| store.block_after(tip)).filter(|next| next.offset < until) else {
                break;
            };
            tip = next;
            if found.send(next).is_err() {
                return;
            }
        }
        tips.insert(0, tip);
        tips.truncate(READERS_MAX);
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
        let ahead = ReadAhead { readers: Mutex::default(), queue: None };
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
}
