//! Small files go into the kernel's page cache before they are asked for. Who reads file after file, in the order in which folders
//! list them, has those that follow pushed by a thread of its own, and then needs no round trip for them.
//!
//! Only that thread may push. The kernel locks a page while it is being pushed, and while it waits for the answer to a read; a thread
//! that answers reads could wait here for an answer of its own.

use std::{
    collections::VecDeque,
    io::IoSlice,
    os::fd::OwnedFd,
    sync::{Arc, mpsc::Receiver},
    thread::{self, JoinHandle},
    time::Duration,
};

use rustix::io::Errno;

use crate::{
    counts::{Counters, count},
    readahead::{
        Entry, Next, Scope, Source,
        access_hints::{AccessHint, QUEUE_MAX, Unwanted},
    },
};

/// Larger files are not pushed: the kernel reads ahead in them by itself.
const FILE_BYTES_MAX: u64 = 256 << 10;
/// What is pushed for a reader that has just begun; each further step of it gets four times as much.
const BUDGET_BYTES_MIN: u64 = 64 << 10;
/// What is pushed at most for one step, in bytes and in files.
const BUDGET_BYTES_MAX: u64 = 4 << 20;
const BUDGET_FILES_MAX: u32 = 512;
/// ... and no more than one in so many of the bytes that the cache of blocks has.
const BUDGET_PART: u64 = 32;
/// So many files that the kernel does not know end a look beyond the folder.
const UNKNOWN_MAX: u32 = 8;
/// How many readers are told apart.
const READERS_MAX: usize = 16;
/// Who goes on at most so many entries further is still the same reader.
const STRIDE_MAX: u64 = 64;
/// How many entries ahead of a reader a folder that is listed may be, to be listed for it.
const LEAD_MAX: u64 = 4096;
/// A folder that was just listed is known to the kernel a moment later.
const KNOWN_TRIES: u32 = 4;
const KNOWN_WAIT: Duration = Duration::from_micros(50);

/// The kernel's number for "here is what an inode holds".
const NOTIFY_STORE: u32 = 4;

/// Starts the thread; `device` is the mount's own connection to the kernel. It ends with the last of the hints' senders. `None` where it
/// cannot be had; nothing is pushed then.
pub fn start(
    source: Arc<dyn Source>,
    (hints, unwanted): (Receiver<AccessHint>, Unwanted),
    device: OwnedFd,
    counters: Arc<Counters>,
) -> Option<JoinHandle<()>> {
    // Nobody who only lists folders wants what files hold.
    unwanted.set(0, u64::MAX);
    let cache = PageCache { source, device, counters, hints, unwanted, readers: Vec::new(), pending: VecDeque::new() };
    thread::Builder::new().name("push".into()).spawn(move || cache.work()).ok()
}

/// Where one reader is.
#[derive(Clone, Copy)]
struct Reader {
    /// The furthest inode that it asked for.
    at: u64,
    /// The furthest inode that was looked at for it.
    ahead: u64,
    /// How many files it read one behind the other.
    steps: u32,
}

impl Reader {
    fn is_near(&self, ino: u64) -> bool {
        self.at.saturating_sub(STRIDE_MAX) <= ino && ino <= self.ahead.saturating_add(STRIDE_MAX)
    }
}

/// What became of a push.
#[derive(PartialEq, Eq)]
enum Pushed {
    Done,
    /// The kernel does not know the inode.
    Unknown,
    Failed,
}

struct PageCache {
    source: Arc<dyn Source>,
    device: OwnedFd,
    counters: Arc<Counters>,
    hints: Receiver<AccessHint>,
    unwanted: Unwanted,
    /// Most recently seen first.
    readers: Vec<Reader>,
    /// Hints that came while something was pushed.
    pending: VecDeque<AccessHint>,
}

impl PageCache {
    fn work(mut self) {
        loop {
            let next = self.pending.pop_front().map_or_else(|| self.hints.recv().ok(), Some);
            let Some(hint) = next else { return };
            self.look(hint);
        }
    }

    fn look(&mut self, hint: AccessHint) {
        let ino = hint.ino();
        let known = self.readers.iter().position(|reader| reader.is_near(ino));
        let mut reader = match (known, hint) {
            (Some(at), _) => self.readers.remove(at),
            (None, AccessHint::Read(_)) => {
                self.unwanted.set(0, 0);
                Reader { at: ino, ahead: ino, steps: 0 }
            }
            // Who only lists folders.
            (None, AccessHint::Listed(_)) => return,
        };
        match hint {
            AccessHint::Read(_) => {
                reader.steps += u32::from(ino > reader.at);
                let is_beyond = ino >= reader.ahead;
                reader.at = reader.at.max(ino);
                reader.ahead = reader.ahead.max(ino);
                if reader.steps > 0 {
                    self.push(&mut reader, ino, Scope::Beside);
                    if is_beyond && self.pending.is_empty() {
                        let from = reader.ahead;
                        self.push(&mut reader, from, Scope::Behind);
                    }
                }
            }
            AccessHint::Listed(_) if reader.steps > 0 && ino <= reader.at.saturating_add(LEAD_MAX) => {
                reader.ahead = reader.ahead.max(ino);
                self.push(&mut reader, ino, Scope::Inside);
            }
            AccessHint::Listed(_) => {}
        }
        self.readers.insert(0, reader);
        self.readers.truncate(READERS_MAX);
    }

    /// Pushes small files of a scope, within the reader's budget.
    fn push(&mut self, reader: &mut Reader, from: u64, scope: Scope) {
        let bytes_max = BUDGET_BYTES_MAX.min(self.source.cache_bytes() / BUDGET_PART);
        let mut bytes_left = (BUDGET_BYTES_MIN << (2 * reader.steps.min(8))).min(bytes_max);
        let (mut entries_left, mut files_left, mut unknown_left) = (LEAD_MAX, BUDGET_FILES_MAX, UNKNOWN_MAX);
        let mut tries_left = if scope == Scope::Inside { KNOWN_TRIES } else { 0 };
        // The furthest that the reader has come meanwhile.
        let mut passed = from;
        let source = self.source.clone();
        // What cannot be read now is reported when it is asked for.
        let _ = source.entries(from, scope, &mut |Entry { ino, bytes, .. }| {
            self.hear(reader, &mut passed);
            entries_left -= 1;
            if entries_left == 0 || (scope == Scope::Behind && !self.pending.is_empty()) {
                return Next::Stop;
            }
            if bytes == 0 || bytes > FILE_BYTES_MAX || ino <= passed {
                return Next::On;
            }
            if bytes > bytes_left || files_left == 0 {
                return Next::Stop;
            }
            (bytes_left, files_left) = (bytes_left - bytes, files_left - 1);
            let mut pushed = self.push_file(ino, bytes);
            while pushed == Pushed::Unknown && tries_left > 0 {
                tries_left -= 1;
                thread::sleep(KNOWN_WAIT);
                pushed = self.push_file(ino, bytes);
            }
            tries_left = 0;
            match pushed {
                Pushed::Done => reader.ahead = reader.ahead.max(ino),
                Pushed::Failed => return Next::Stop,
                // Its folder has not been listed, or was forgotten.
                Pushed::Unknown if scope == Scope::Behind && unknown_left > 0 => {
                    unknown_left -= 1;
                    return Next::SkipFolder;
                }
                Pushed::Unknown => return Next::Stop,
            }
            Next::On
        });
    }

    /// Takes in the hints that came meanwhile: where the reader is by now, and what is to be looked at later.
    fn hear(&mut self, reader: &mut Reader, passed: &mut u64) {
        while let Ok(hint) = self.hints.try_recv() {
            match hint {
                // The reader is faster, and has been here already.
                AccessHint::Read(ino) if reader.is_near(ino) => {
                    reader.steps += u32::from(ino > reader.at);
                    reader.at = reader.at.max(ino);
                    reader.ahead = reader.ahead.max(ino);
                    *passed = ino.max(*passed);
                }
                hint if self.pending.len() < QUEUE_MAX => self.pending.push_back(hint),
                _ => {}
            }
        }
    }

    fn push_file(&self, ino: u64, bytes: u64) -> Pushed {
        let mut pushed = Pushed::Failed;
        let _ = self.source.read(ino, 0, bytes, &mut |content| pushed = self.store(ino, content));
        if pushed == Pushed::Done {
            count(&self.counters.pushed);
        }
        pushed
    }

    /// Tells the kernel what an inode holds, from its start on.
    fn store(&self, ino: u64, content: &[u8]) -> Pushed {
        // Two structures of the kernel's interface: fuse_out_header, whose error field has the notification's number and whose
        // unique field is 0, and fuse_notify_store_out. All numbers have the machine's order.
        let mut head = [0; 40];
        let Ok(bytes) = u32::try_from(content.len()) else { return Pushed::Failed };
        let Some(total) = bytes.checked_add(head.len() as u32) else { return Pushed::Failed };
        head[0..4].copy_from_slice(&total.to_ne_bytes());
        head[4..8].copy_from_slice(&NOTIFY_STORE.to_ne_bytes());
        head[16..24].copy_from_slice(&ino.to_ne_bytes());
        head[32..36].copy_from_slice(&bytes.to_ne_bytes());
        match rustix::io::writev(&self.device, &[IoSlice::new(&head), IoSlice::new(content)]) {
            Ok(_) => Pushed::Done,
            Err(Errno::NOENT) => Pushed::Unknown,
            Err(_) => Pushed::Failed,
        }
    }
}
