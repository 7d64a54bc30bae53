//! Readahead: programs that go through a tree find what comes next decoded, or in the kernel's page cache.
//!
//! Each request that tells where a program is is noted in one place, the [`tracker`]; for long files, whose order is that of their blocks,
//! in [`blocks`]. Two paces of work follow from it, each with threads of its own: [`decode`] and [`page_cache`].

pub mod blocks;
pub mod decode;
pub mod page_cache;
#[cfg(test)]
mod tests;
pub mod tracker;

use std::{
    os::fd::OwnedFd,
    sync::{Arc, Weak, mpsc::SyncSender},
    thread::JoinHandle,
};

use parhelia_store::{
    Store,
    pack::{Location, Reuse},
};

use crate::{
    counts::Counters,
    fault::Fault,
    readahead::{
        blocks::BlockReaders,
        decode::{Decoder, Job, Jobs},
        page_cache::{PageCache, PushQueue, Pushes},
        tracker::{AccessHint, Tracker},
    },
};

/// The place where requests are noted. Its threads end with the last of those who have it.
pub struct Readahead {
    tracker: Arc<Tracker>,
    blocks: Arc<BlockReaders>,
    decoding: SyncSender<Job>,
    pushing: PushQueue,
}

/// The work of a [`Readahead`] whose threads are not started yet.
pub struct Work {
    tracker: Arc<Tracker>,
    blocks: Arc<BlockReaders>,
    jobs: Jobs,
    pushes: Pushes,
}

impl Readahead {
    /// Notes requests from now on; the work waits for its threads.
    pub fn new() -> (Arc<Self>, Work) {
        let (tracker, blocks) = (Arc::new(Tracker::default()), Arc::new(BlockReaders::default()));
        let (decoding, jobs) = decode::queue();
        let (pushing, pushes) = page_cache::queue();
        let work = Work { tracker: tracker.clone(), blocks: blocks.clone(), jobs, pushes };
        (Arc::new(Readahead { tracker, blocks, decoding, pushing }), work)
    }

    /// Notes a request. Never waits: where too much is waiting already, the work would come too late.
    pub fn note(&self, hint: AccessHint) {
        let due = self.tracker.note(hint);
        if let Some(reader) = due.decode
            && self.decoding.try_send(Job::Entries(reader)).is_err()
        {
            self.tracker.decode_later(reader);
        }
        if let Some(push) = due.push
            && !self.pushing.send(push)
        {
            self.tracker.end_push(push.reader);
        }
    }

    /// Notes that a block of a long file is about to be read, and returns whether it will be needed again.
    pub fn note_block(&self, block: Location) -> Reuse {
        let (reuse, due) = self.blocks.note(block);
        if let Some(reader) = due {
            let _ = self.decoding.try_send(Job::Blocks(reader));
        }
        reuse
    }
}

impl Work {
    /// Starts the threads. `device` is the mount's own connection to the kernel; without one, nothing is pushed.
    pub fn start(
        self,
        store: &Arc<Store>,
        source: Weak<dyn Source>,
        device: Option<OwnedFd>,
        counters: &Arc<Counters>,
    ) -> Vec<JoinHandle<()>> {
        let Work { tracker, blocks, jobs, pushes } = self;
        let decoder = Decoder {
            tracker: tracker.clone(),
            blocks,
            store: Arc::downgrade(store),
            source: source.clone(),
            counters: counters.clone(),
        };
        let mut threads = decoder.start(&jobs);
        if let Some(device) = device {
            threads.extend(PageCache::new(tracker, source, device, counters.clone()).start(pushes));
        }
        threads
    }
}

/// An entry of a tree, as readahead sees it.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Its place in the order of lists: its inode number, if it is no hard link.
    pub at: u64,
    /// Its inode number.
    pub ino: u64,
    /// Its length; 0 for anything but a file.
    pub bytes: u64,
}

/// A set of entries, as seen from an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Those directly in this folder.
    Inside,
    /// Those behind this file, directly in the same folder.
    Beside,
    /// All those behind this entry, in whatever folder; of a folder, those inside come first.
    Behind,
}

/// The way on after an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// With the next one.
    On,
    /// Behind the folder that it is in.
    SkipFolder,
    /// Not at all.
    Stop,
}

/// The files that readahead is for.
pub trait Source: Send + Sync + 'static {
    /// Calls `visit` with each entry of a scope, in order.
    fn entries(&self, ino: u64, scope: Scope, visit: &mut dyn FnMut(Entry) -> Next) -> Result<(), Fault>;
    /// Decodes the block that holds a small file.
    fn prefetch(&self, ino: u64) -> Result<(), Fault>;
    /// Calls `take` at most once, with the content of a file at `offset`, at most `bytes` long.
    fn read(&self, ino: u64, offset: u64, bytes: u64, take: &mut dyn FnMut(&[u8])) -> Result<(), Fault>;
    /// Bytes of decoded blocks that the cache keeps at present.
    fn cache_bytes(&self) -> u64 {
        u64::MAX
    }
}
