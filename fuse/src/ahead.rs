//! Reading ahead: where a reader goes through a pack block by block, the next blocks are decoded by a thread of their own, so that the
//! reader finds them in the cache. That holds for one long file and for a walk over many small ones alike.

use std::{
    sync::{
        Arc, Mutex, PoisonError, Weak,
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread,
};

use parhelia_store::{Store, pack::Location};

/// How far ahead of a reader blocks are decoded, in bytes of the pack.
const WINDOW_BYTES: u64 = 1 << 20;
/// How many readers are told apart.
const READERS_MAX: usize = 16;
/// How many requests may wait; more are dropped, as they would come too late.
const QUEUE_MAX: usize = 8;
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
}

/// Watches which blocks are read, and has the next ones decoded.
pub struct ReadAhead {
    /// Most recently used first.
    readers: Mutex<Vec<Reader>>,
    queue: Option<SyncSender<Location>>,
}

impl ReadAhead {
    /// Starts the thread. Where it cannot be had, nothing is read ahead.
    pub fn new(store: &Arc<Store>) -> Self {
        let (queue, requests) = sync_channel(QUEUE_MAX);
        let store = Arc::downgrade(store);
        let started = thread::Builder::new().name("read-ahead".into()).spawn(move || work(&store, &requests));
        ReadAhead { readers: Mutex::default(), queue: started.is_ok().then_some(queue) }
    }

    /// A block was read.
    pub fn note(&self, location: Location) {
        let Some(queue) = &self.queue else { return };
        let mut readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        // Who reads a folder goes to and fro between a few blocks. Only one that nobody was at is a step forward.
        if let Some(at) = readers.iter().position(|reader| reader.last == location) {
            readers[..=at].rotate_right(1);
            return;
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
        if reader.in_a_row >= BLOCKS_IN_A_ROW {
            let _ = queue.try_send(location);
        }
        readers.insert(0, reader);
    }
}

/// Decodes what lies behind each requested block. Ends with the last sender.
fn work(store: &Weak<Store>, requests: &Receiver<Location>) {
    // The block up to which each of the last few readers was served.
    let mut tips: Vec<Location> = Vec::new();
    while let Ok(from) = requests.recv() {
        let Some(store) = store.upgrade() else { return };
        let until = from.offset + u64::from(from.block_bytes) + WINDOW_BYTES;
        let served = tips.iter().position(|tip| tip.pack == from.pack && (from.offset..until).contains(&tip.offset));
        let mut tip = served.map_or(from, |at| tips.remove(at));
        while tip.offset < until {
            let Some(next) = store.block_after(tip).filter(|next| next.offset < until) else { break };
            tip = next;
            if store.block(next).is_err() {
                break;
            }
        }
        tips.insert(0, tip);
        tips.truncate(READERS_MAX);
    }
}
