//! The tracker: where each program is that goes through the tree, how far the files ahead of it are decoded, and how far they are in the
//! kernel's page cache. Each request that tells is noted here, by the thread that answers it; the tracker says which work is due.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Entries ahead of a reader that are decoded.
pub const ENTRIES_MAX: u64 = 2048;
/// The number of steps forward that make a sequential reader.
const STEPS_MIN: u32 = 2;
/// Two requests at most this many entries apart, the second one further on, count as one reader.
const STRIDE_MAX: u64 = 4096;
/// Two reads at most this many entries apart, either way, count as reading file after file.
const READ_STRIDE_MAX: u64 = 64;
/// Readers that are told apart.
const READERS_MAX: usize = 16;

/// A request of the kernel that says where a program is.
#[derive(Clone, Copy, Debug)]
pub enum AccessHint {
    /// A file was read from its start.
    Read(u64),
    /// A folder was listed from its start.
    Listed(u64),
}

/// The files ahead of a reader that are decoded.
#[derive(Debug, Default)]
pub struct DecodeWindow {
    /// The furthest entry that was looked at.
    pub tip: u64,
    /// The decoded files, each with its length, and the sum of these.
    pub files: VecDeque<(u64, u64)>,
    pub bytes: u64,
}

/// The position of a reader when a decoding thread looks.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// The entry that it asked for last.
    pub at: u64,
    /// It reads file after file.
    pub reads_files: bool,
}

/// A step of a reader for which files are pushed.
#[derive(Clone, Copy, Debug)]
pub struct Push {
    /// Number of the reader among those that are tracked.
    pub reader: u64,
    /// The request.
    pub hint: AccessHint,
    /// The reader has come further than files were pushed.
    pub is_beyond: bool,
}

/// The work that a request makes due.
#[derive(Debug, Default)]
pub struct Due {
    /// The reader for which entries ahead are to be decoded.
    pub decode: Option<u64>,
    /// The step for which files are to be pushed.
    pub push: Option<Push>,
}

/// One program that goes through the tree.
#[derive(Debug)]
struct Reader {
    id: u64,
    /// The entry that it asked for last.
    at: u64,
    /// The furthest entry that it asked for.
    furthest: u64,
    /// Steps forward, by lists and by reads.
    steps: u32,
    /// The furthest file that it read; `None` as long as it only lists.
    read_at: Option<u64>,
    /// Steps forward from file to file.
    read_steps: u32,
    decoded: DecodeWindow,
    is_decoding: bool,
    /// The furthest entry that was pushed for it, or listed by it.
    pushed: u64,
    /// Steps forward from file to file since it last jumped.
    push_steps: u32,
    /// The pushing thread is at work for it, or will be.
    is_pushing: bool,
}

impl Reader {
    fn new(id: u64, at: u64) -> Self {
        Reader {
            id,
            at,
            furthest: at,
            steps: 0,
            read_at: None,
            read_steps: 0,
            decoded: DecodeWindow::default(),
            is_decoding: false,
            pushed: at,
            push_steps: 0,
            is_pushing: false,
        }
    }

    /// The distance of an entry, if this reader may have come to it.
    fn distance(&self, ino: u64) -> Option<u64> {
        let is_near = self.furthest.saturating_sub(READ_STRIDE_MAX) <= ino && ino <= self.furthest.saturating_add(STRIDE_MAX);
        is_near.then(|| ino.abs_diff(self.furthest))
    }

    /// True for an entry among the files that it reads one behind the other, or just beside.
    fn is_among_files(&self, ino: u64) -> bool {
        let Some(read_at) = self.read_at else { return false };
        read_at.saturating_sub(READ_STRIDE_MAX) <= ino && ino <= self.pushed.saturating_add(READ_STRIDE_MAX)
    }

    /// True for an entry not too far beyond the last file that it read.
    fn is_close_to_reads(&self, ino: u64) -> bool {
        self.read_at.is_some_and(|read_at| ino <= read_at.saturating_add(STRIDE_MAX))
    }

    fn note_read(&mut self, ino: u64) -> Option<Push> {
        let is_among_files = self.is_among_files(ino);
        let is_forward = self.read_at.is_some_and(|read_at| ino > read_at);
        self.read_steps = self.read_steps.saturating_add(u32::from(is_forward));
        if is_forward && self.read_steps == STEPS_MIN {
            // Only folders were decoded for it so far.
            self.decoded = DecodeWindow { tip: ino, ..DecodeWindow::default() };
        }
        if is_among_files {
            self.push_steps = self.push_steps.saturating_add(u32::from(is_forward));
            self.read_at = self.read_at.max(Some(ino));
        } else {
            (self.push_steps, self.pushed, self.read_at) = (0, ino, Some(ino));
        }
        let is_beyond = ino >= self.pushed;
        self.pushed = self.pushed.max(ino);
        if self.push_steps == 0 || self.is_pushing {
            return None;
        }
        self.is_pushing = true;
        Some(Push { reader: self.id, hint: AccessHint::Read(ino), is_beyond })
    }

    fn note_listed(&mut self, ino: u64) -> Option<Push> {
        let is_close = self.push_steps > 0 && self.is_among_files(ino) && self.is_close_to_reads(ino);
        if !is_close {
            return None;
        }
        self.pushed = self.pushed.max(ino);
        Some(Push { reader: self.id, hint: AccessHint::Listed(ino), is_beyond: false })
    }

    fn place(&self) -> Place {
        Place { at: self.at, reads_files: self.is_close_to_reads(self.at) && self.read_steps >= STEPS_MIN }
    }

    /// True where entries ahead of it are to be decoded. Many small steps would cost more than they give.
    fn is_decoding_due(&self) -> bool {
        self.steps >= STEPS_MIN && !self.is_decoding && self.decoded.tip <= self.at.saturating_add(ENTRIES_MAX / 2)
    }
}

#[derive(Debug, Default)]
struct Readers {
    /// Most recently seen first.
    known: Vec<Reader>,
    ids: u64,
}

/// The readers of a mount.
#[derive(Debug, Default)]
pub struct Tracker(Mutex<Readers>);

impl Tracker {
    fn readers(&self) -> MutexGuard<'_, Readers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T>(&self, id: u64, f: impl FnOnce(&mut Reader) -> T) -> Option<T> {
        self.readers().known.iter_mut().find(|reader| reader.id == id).map(f)
    }

    /// Notes a request. The work that is due is marked as begun: [`Tracker::decode_later`] and [`Tracker::end_push`] take that back.
    pub fn note(&self, hint: AccessHint) -> Due {
        let (AccessHint::Read(ino) | AccessHint::Listed(ino)) = hint;
        let mut readers = self.readers();
        let near = readers.known.iter().enumerate().filter_map(|(at, reader)| Some((reader.distance(ino)?, at)));
        match near.min() {
            Some((_, at)) => readers.known[..=at].rotate_right(1),
            None => {
                readers.ids += 1;
                let reader = Reader::new(readers.ids, ino);
                readers.known.truncate(READERS_MAX - 1);
                readers.known.insert(0, reader);
            }
        }
        let reader = &mut readers.known[0];
        reader.steps = reader.steps.saturating_add(u32::from(ino > reader.furthest));
        (reader.at, reader.furthest) = (ino, reader.furthest.max(ino));
        let push = match hint {
            AccessHint::Read(ino) => reader.note_read(ino),
            AccessHint::Listed(ino) => reader.note_listed(ino),
        };
        let is_due = reader.is_decoding_due();
        reader.is_decoding |= is_due;
        Due { decode: is_due.then_some(reader.id), push }
    }

    /// Nobody decodes for a reader now.
    pub fn decode_later(&self, id: u64) {
        self.with(id, |reader| reader.is_decoding = false);
    }

    /// The place of a reader for which decoding was due, and what is decoded for it so far.
    pub fn begin_decoding(&self, id: u64) -> Option<(Place, DecodeWindow)> {
        self.with(id, |reader| (reader.place(), std::mem::take(&mut reader.decoded)))
    }

    /// Takes back what is decoded for a reader now. Returns whether it has come further meanwhile, and more is due.
    pub fn end_decoding(&self, id: u64, place: Place, decoded: DecodeWindow) -> bool {
        let is_more_due = |reader: &mut Reader| {
            // What a reader began to read meanwhile was passed over.
            if place.reads_files || reader.read_steps < STEPS_MIN {
                reader.decoded = decoded;
            }
            reader.is_decoding = false;
            reader.is_decoding = reader.at != place.at && reader.is_decoding_due();
            reader.is_decoding
        };
        self.with(id, is_more_due).unwrap_or(false)
    }

    /// The pushing thread begins to work for a reader. Returns the number of files that the reader read one behind the other.
    pub fn begin_push(&self, id: u64) -> Option<u32> {
        self.with(id, |reader| {
            reader.is_pushing = true;
            reader.push_steps
        })
    }

    /// The furthest file that a reader has read by now; `None` if it is forgotten.
    pub fn read_at(&self, id: u64) -> Option<u64> {
        self.with(id, |reader| reader.read_at).flatten()
    }

    /// The furthest entry that was pushed for a reader.
    pub fn pushed(&self, id: u64) -> Option<u64> {
        self.with(id, |reader| reader.pushed)
    }

    /// A file was pushed for a reader.
    pub fn note_pushed(&self, id: u64, ino: u64) {
        self.with(id, |reader| reader.pushed = reader.pushed.max(ino));
    }

    /// The pushing thread is done with a reader's step, or never begins.
    pub fn end_push(&self, id: u64) {
        self.with(id, |reader| reader.is_pushing = false);
    }
}
