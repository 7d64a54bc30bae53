//! Decoding ahead of readers, in the order of lists and of blocks. A reader that goes through the tree finds the folders that come next
//! decoded, and one that reads its small files also the blocks that hold them; one that goes through a long file finds the next blocks. The
//! decoding threads do it while those that answer wait for the kernel, and the kernel's caller takes in what it was told;
//! [`super::page_cache`] then finds in the cache what it pushes.

use std::{
    io,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread::{self, JoinHandle},
};

use parhelia_store::{Store, pack::Reuse};

use crate::{
    counts::{Counters, count},
    readahead::{
        Next, Scope, Source,
        blocks::{BlockReaders, blocks_ahead},
        tracker::{DecodeWindow, ENTRIES_MAX, Place, Tracker},
    },
};

/// Bytes of small files that are decoded ahead of a reader ...
pub const BYTES_MAX: u64 = 8 << 20;
/// ... and no more than one in so many of those that the cache has, as their blocks hold other files, too.
const BYTES_PART: u64 = 16;
/// Larger files are read ahead block by block.
pub const FILE_BYTES_MAX: u64 = 256 << 10;
/// Requests that wait; more are dropped, as they would come too late.
const QUEUE_MAX: usize = 64;
/// Decoding threads. One is slower than a reader of what compresses well.
const DECODERS: usize = 2;

/// A request to decode.
#[derive(Debug)]
pub enum Job {
    /// Entries ahead of a reader of the tree.
    Entries(u64),
    /// Blocks ahead of a reader of a long file.
    Blocks(u64),
}

/// The requests to decode, of which each waiting thread takes one.
pub type Jobs = Arc<Mutex<Receiver<Job>>>;

/// The two ends of the queue of requests.
pub fn queue() -> (SyncSender<Job>, Jobs) {
    let (sender, jobs) = sync_channel(QUEUE_MAX);
    (sender, Arc::new(Mutex::new(jobs)))
}

/// The readers, and what is decoded for them.
#[derive(Clone)]
pub struct Decoder {
    pub tracker: Arc<Tracker>,
    pub blocks: Arc<BlockReaders>,
    /// Nothing holds the store or the filesystem while it waits: the mount ends with their last owner.
    pub store: Weak<Store>,
    pub source: Weak<dyn Source>,
    pub counters: Arc<Counters>,
}

impl Decoder {
    /// Starts the threads. They end with the last sender of requests. Where none can be had, nothing is decoded ahead.
    pub fn start(&self, jobs: &Jobs) -> Vec<JoinHandle<()>> {
        let start = |_| -> io::Result<_> {
            let (decoder, jobs) = (self.clone(), jobs.clone());
            thread::Builder::new().name("decode".into()).spawn(move || decoder.work(&jobs))
        };
        (0..DECODERS).map_while(|nth| start(nth).ok()).collect()
    }

    fn work(&self, jobs: &Mutex<Receiver<Job>>) {
        loop {
            let next = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
            match next {
                Ok(Job::Entries(reader)) => {
                    let Some(source) = self.source.upgrade() else { return };
                    decode_entries(&self.tracker, &*source, reader, &self.counters);
                }
                Ok(Job::Blocks(reader)) => self.decode_blocks(reader),
                Err(_) => return,
            }
        }
    }

    /// Decodes the blocks ahead of a reader. One that is damaged is reported when it is read.
    fn decode_blocks(&self, reader: u64) {
        let Some(store) = self.store.upgrade() else { return };
        let blocks_max = blocks_ahead(store.passing_bytes());
        while let Some(next) = self.blocks.next_ahead(reader, blocks_max, |block| store.block_after(block)) {
            let _ = store.block_for(next, Reuse::Unlikely);
        }
    }
}

/// Decodes the entries ahead of a reader, until it is far enough behind.
pub fn decode_entries(tracker: &Tracker, source: &dyn Source, reader: u64, counters: &Counters) {
    while let Some((place, mut decoded)) = tracker.begin_decoding(reader) {
        go_ahead(source, place, &mut decoded, counters);
        if !tracker.end_decoding(reader, place, decoded) {
            return;
        }
    }
}

/// Goes through the entries ahead of a place, so that the folders on the way are decoded; for a reader of files, small files as well.
fn go_ahead(source: &dyn Source, place: Place, decoded: &mut DecodeWindow, counters: &Counters) {
    while let Some((_, bytes)) = decoded.files.pop_front_if(|(passed, _)| *passed <= place.at) {
        decoded.bytes -= bytes;
    }
    let from = decoded.tip.max(place.at);
    let until = place.at.saturating_add(ENTRIES_MAX);
    let bytes_max = BYTES_MAX.min(source.cache_bytes() / BYTES_PART);
    // What cannot be read now is reported when it is asked for.
    let _ = source.entries(from, Scope::Behind, &mut |entry| {
        decoded.tip = entry.at;
        if place.reads_files && (1..=FILE_BYTES_MAX).contains(&entry.bytes) {
            decoded.files.push_back((entry.at, entry.bytes));
            decoded.bytes += entry.bytes;
            if source.prefetch(entry.at).is_ok() {
                count(&counters.prefetched);
            }
        }
        if entry.at >= until || decoded.bytes >= bytes_max { Next::Stop } else { Next::On }
    });
}
