//! Small files go into the kernel's page cache before they are asked for. A reader of file after file, in the order in which folders list
//! them, has those that follow pushed by a thread of its own, and then needs no round trip for them.
//!
//! Only that thread may push. The kernel locks a page while it is being pushed, and while it waits for the answer to a read; a thread
//! that answers reads could wait here for an answer of its own.

use std::{
    io::IoSlice,
    os::fd::OwnedFd,
    sync::{
        Arc, Weak,
        atomic::{AtomicUsize, Ordering::Relaxed},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use rustix::io::Errno;

use crate::{
    counts::{Counters, count},
    readahead::{
        Entry, Next, Scope, Source,
        tracker::{AccessHint, Push, Tracker},
    },
};

/// Steps of readers that wait; more are dropped, as they would be too late.
const QUEUE_MAX: usize = 64;
/// Larger files are not pushed: the kernel reads ahead in them by itself.
const FILE_BYTES_MAX: u64 = 256 << 10;
/// Bytes that are pushed for a reader that has just begun; each further step of it gets four times as much.
const BUDGET_BYTES_MIN: u64 = 64 << 10;
/// Bytes and files that are pushed at most for one step.
const BUDGET_BYTES_MAX: u64 = 4 << 20;
const BUDGET_FILES_MAX: u32 = 512;
/// ... and no more than one in so many of the bytes that the cache of blocks has.
const BUDGET_PART: u64 = 32;
/// Files unknown to the kernel after which nothing beyond the folder is tried any more.
const UNKNOWN_MAX: u32 = 8;
/// Entries that one step goes through at most.
const ENTRIES_MAX: u64 = 4096;
/// A folder that was just listed is known to the kernel a moment later.
const KNOWN_TRIES: u32 = 4;
const KNOWN_WAIT: Duration = Duration::from_micros(50);

/// The kernel's number for "here is what an inode holds".
const NOTIFY_STORE: u32 = 4;

/// The way for steps of readers to the thread.
pub struct PushQueue {
    pushes: SyncSender<Push>,
    waiting: Arc<AtomicUsize>,
}

impl PushQueue {
    /// Hands a step over. Never waits; returns false where it was dropped.
    pub fn send(&self, push: Push) -> bool {
        self.waiting.fetch_add(1, Relaxed);
        let is_sent = self.pushes.try_send(push).is_ok();
        if !is_sent {
            self.waiting.fetch_sub(1, Relaxed);
        }
        is_sent
    }
}

/// The steps of readers as the thread gets them.
pub struct Pushes {
    pushes: Receiver<Push>,
    waiting: Arc<AtomicUsize>,
}

/// The two ends of the queue of steps.
pub fn queue() -> (PushQueue, Pushes) {
    let (sender, pushes) = sync_channel(QUEUE_MAX);
    let waiting = Arc::<AtomicUsize>::default();
    (PushQueue { pushes: sender, waiting: waiting.clone() }, Pushes { pushes, waiting })
}

impl Pushes {
    fn next(&self) -> Option<Push> {
        let push = self.pushes.recv().ok()?;
        self.waiting.fetch_sub(1, Relaxed);
        Some(push)
    }

    fn is_empty(&self) -> bool {
        self.waiting.load(Relaxed) == 0
    }
}

/// The result of a push.
#[derive(PartialEq, Eq)]
enum PushOutcome {
    Done,
    /// The kernel does not know the inode.
    Unknown,
    Failed,
}

/// The kernel's page cache of a mount.
pub struct PageCache {
    tracker: Arc<Tracker>,
    source: Weak<dyn Source>,
    device: OwnedFd,
    counters: Arc<Counters>,
}

impl PageCache {
    /// The page cache behind a mount's own connection to the kernel.
    pub fn new(tracker: Arc<Tracker>, source: Weak<dyn Source>, device: OwnedFd, counters: Arc<Counters>) -> Self {
        PageCache { tracker, source, device, counters }
    }

    /// Starts the thread. It ends with the last sender of steps. `None` where it cannot be had; nothing is pushed then.
    pub fn start(self, pushes: Pushes) -> Option<JoinHandle<()>> {
        thread::Builder::new().name("push".into()).spawn(move || self.work(&pushes)).ok()
    }

    fn work(&self, pushes: &Pushes) {
        while let Some(push) = pushes.next() {
            let Some(source) = self.source.upgrade() else { return };
            self.follow(&*source, push, pushes);
            self.tracker.end_push(push.reader);
        }
    }

    /// Pushes what a reader is likely to read after a step.
    fn follow(&self, source: &dyn Source, push: Push, pushes: &Pushes) {
        let Some(steps) = self.tracker.begin_push(push.reader) else { return };
        let bytes_max = BUDGET_BYTES_MAX.min(source.cache_bytes() / BUDGET_PART);
        let bytes = (BUDGET_BYTES_MIN << (2 * steps.min(8))).min(bytes_max);
        match push.hint {
            AccessHint::Listed(ino) => self.push(source, push.reader, (ino, Scope::Inside), bytes, pushes),
            AccessHint::Read(ino) => {
                self.push(source, push.reader, (ino, Scope::Beside), bytes, pushes);
                if push.is_beyond
                    && pushes.is_empty()
                    && let Some(from) = self.tracker.pushed(push.reader)
                {
                    self.push(source, push.reader, (from, Scope::Behind), bytes, pushes);
                }
            }
        }
    }

    /// Pushes small files of a scope, within a budget of bytes.
    fn push(&self, source: &dyn Source, reader: u64, (from, scope): (u64, Scope), mut bytes_left: u64, pushes: &Pushes) {
        let (mut entries_left, mut files_left, mut unknown_left) = (ENTRIES_MAX, BUDGET_FILES_MAX, UNKNOWN_MAX);
        let mut tries_left = if scope == Scope::Inside { KNOWN_TRIES } else { 0 };
        // What cannot be read now is reported when it is asked for.
        let _ = source.entries(from, scope, &mut |Entry { ino, bytes, .. }| {
            // The reader may be faster, and have been here already.
            let Some(read_at) = self.tracker.read_at(reader) else { return Next::Stop };
            entries_left -= 1;
            if entries_left == 0 || (scope == Scope::Behind && !pushes.is_empty()) {
                return Next::Stop;
            }
            if bytes == 0 || bytes > FILE_BYTES_MAX || ino <= read_at.max(from) {
                return Next::On;
            }
            if bytes > bytes_left || files_left == 0 {
                return Next::Stop;
            }
            (bytes_left, files_left) = (bytes_left - bytes, files_left - 1);
            let pushed = self.push_file(source, ino, bytes, tries_left);
            tries_left = 0;
            match pushed {
                PushOutcome::Done => self.tracker.note_pushed(reader, ino),
                PushOutcome::Failed => return Next::Stop,
                // Its folder has not been listed, or was forgotten.
                PushOutcome::Unknown if scope == Scope::Behind && unknown_left > 0 => {
                    unknown_left -= 1;
                    return Next::SkipFolder;
                }
                PushOutcome::Unknown => return Next::Stop,
            }
            Next::On
        });
    }

    /// Pushes a file, and tries again as often as is said if the kernel does not know it yet.
    fn push_file(&self, source: &dyn Source, ino: u64, bytes: u64, tries: u32) -> PushOutcome {
        let mut pushed = self.try_push(source, ino, bytes);
        for _ in 0..tries {
            if pushed != PushOutcome::Unknown {
                break;
            }
            thread::sleep(KNOWN_WAIT);
            pushed = self.try_push(source, ino, bytes);
        }
        pushed
    }

    fn try_push(&self, source: &dyn Source, ino: u64, bytes: u64) -> PushOutcome {
        let mut pushed = PushOutcome::Failed;
        let _ = source.read(ino, 0, bytes, &mut |content| pushed = self.store(ino, content));
        if pushed == PushOutcome::Done {
            count(&self.counters.pushed);
        }
        pushed
    }

    /// Tells the kernel what an inode holds, from its start on.
    fn store(&self, ino: u64, content: &[u8]) -> PushOutcome {
        // Two structures of the kernel's interface: fuse_out_header, whose error field has the notification's number and whose
        // unique field is 0, and fuse_notify_store_out. All numbers have the machine's order.
        let mut head = [0; 40];
        let Ok(bytes) = u32::try_from(content.len()) else { return PushOutcome::Failed };
        let Some(total) = bytes.checked_add(head.len() as u32) else { return PushOutcome::Failed };
        head[0..4].copy_from_slice(&total.to_ne_bytes());
        head[4..8].copy_from_slice(&NOTIFY_STORE.to_ne_bytes());
        head[16..24].copy_from_slice(&ino.to_ne_bytes());
        head[32..36].copy_from_slice(&bytes.to_ne_bytes());
        match rustix::io::writev(&self.device, &[IoSlice::new(&head), IoSlice::new(content)]) {
            Ok(_) => PushOutcome::Done,
            Err(Errno::NOENT) => PushOutcome::Unknown,
            Err(_) => PushOutcome::Failed,
        }
    }
}
