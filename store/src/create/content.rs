//! Reading one file: its bytes, in chunks, into the sink.

mod cut;
mod input;

use std::{
    fs::File,
    io::{Seek, Write},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use rustix::{
    fs::{MemfdFlags, SeekFrom},
    io::Errno,
};

use self::{
    cut::{Cutter, Zeros},
    input::{Input, read_full},
};
use super::{running::Digest, sink::Batch};
use crate::{
    config::Chunking,
    error::Result,
    format::{BLOCK_BYTES_MAX, SINGLE_CHUNK_BYTES},
    id::BlobId,
    keys::Ids,
    progress::Progress,
    recipe::ChunkRun,
    store::Store,
    sys::{self, Stat},
    tree::Hole,
};

/// Bytes read from a large file at a time. A little more than a round number, so that a file of that length is seen to end.
const READ_BYTES: usize = (1 << 20) + 4096;
/// A file that changes while it is read is read this often.
const TRIES: u32 = 4;

/// The reason for which a file's content was not captured.
pub enum Failure {
    /// The system refused; the file is named in the checkpoint.
    Unreadable(Errno),
    /// The store failed; the whole run ends.
    Store(crate::Error),
}

impl From<Errno> for Failure {
    fn from(errno: Errno) -> Self {
        Failure::Unreadable(errno)
    }
}

impl From<crate::Error> for Failure {
    fn from(error: crate::Error) -> Self {
        Failure::Store(error)
    }
}

/// A file as it was read.
pub struct FileContent {
    /// Its content.
    pub blob: BlobId,
    /// Its `stat` when it was read.
    pub stat: Stat,
    /// Holes of the file, in rising order.
    pub holes: Vec<Hole>,
    /// It changed during each try.
    pub changing: bool,
}

/// Content of a file when it was last captured: its new content is likely a later version of that.
#[derive(Clone, Copy)]
pub struct Earlier<'s> {
    store: &'s Store,
    content: Option<(BlobId, u64)>,
}

impl<'s> Earlier<'s> {
    /// So many bytes of a blob, or nothing.
    pub fn new(store: &'s Store, content: Option<(BlobId, u64)>) -> Self {
        Earlier { store, content: content.filter(|(_, size)| *size > 0) }
    }

    /// The content's id; none where there was none, or it was empty.
    pub fn blob(&self) -> Option<BlobId> {
        self.content.map(|(blob, _)| blob)
    }

    /// The blob, if it is one chunk by its length alone.
    pub fn small(&self) -> Option<BlobId> {
        self.content.filter(|(_, size)| *size <= SINGLE_CHUNK_BYTES as u64).map(|(blob, _)| blob)
    }

    /// Its chunks; none where they cannot be read.
    fn runs(&self) -> Vec<ChunkRun> {
        let Some((blob, size)) = self.content else { return Vec::new() };
        self.store.blob(blob, size).map(|reader| reader.runs().to_vec()).unwrap_or_default()
    }
}

/// Is given content that was read, and its id.
pub type Look<'l> = Option<&'l dyn Fn(BlobId, &[u8])>;

/// Reads files; one per worker, because it keeps its buffer.
pub struct Reader<'p> {
    chunking: Chunking,
    ids: Ids,
    /// Asked now and then whether to stop: a file may be long, and a hole longer.
    progress: &'p dyn Progress,
    buffer: Vec<u8>,
    /// So many bytes at the beginning of the buffer are all of what was read last; none where they are not.
    whole: Option<usize>,
    /// None until there is a hole.
    zeros: Option<Zeros>,
    /// Bytes of the current file that were reported; none where the caller reports them.
    reported: Option<u64>,
}

impl<'p> Reader<'p> {
    /// A reader of what is to be stored in a store.
    pub fn new(store: &Store, progress: &'p dyn Progress) -> Self {
        let (chunking, ids) = (store.config().chunking, store.ids().clone());
        Reader { chunking, ids, progress, buffer: Vec::new(), whole: None, zeros: None, reported: None }
    }

    /// The ids that it gives to content.
    pub fn ids(&self) -> &Ids {
        &self.ids
    }

    /// Reads an open file into the sink. Reports the file, and its bytes as they are read. `look` is given content that is short enough to be
    /// at hand as a whole.
    pub fn read(
        &mut self,
        fd: &OwnedFd,
        name: &[u8],
        earlier: &Earlier<'_>,
        batch: &mut Batch<'_>,
        look: Look<'_>,
    ) -> Result<FileContent, Failure> {
        self.reported = Some(0);
        let content = self.read_until_still(fd, name, earlier, batch);
        let reported = self.reported.take().unwrap_or_default();
        if let (Ok(content), Some(bytes), Some(look)) = (&content, self.whole.and_then(|whole| self.buffer.get(..whole)), look) {
            look(content.blob, bytes);
        }
        if let Ok(content) = &content {
            self.progress.advance(1, content.stat.size.saturating_sub(reported));
        }
        content
    }

    /// Keeps a file's content that was read already. Of `content`, the blob is for this to fill in.
    pub fn keep(
        &mut self,
        bytes: &[u8],
        name: &[u8],
        content: FileContent,
        earlier: &Earlier<'_>,
        batch: &mut Batch<'_>,
    ) -> Result<FileContent, Failure> {
        let blob = if bytes.len() <= SINGLE_CHUNK_BYTES {
            let blob = self.ids.blob(bytes);
            if !bytes.is_empty() {
                batch.small_chunk(blob.object(), bytes, name, earlier.small())?;
            }
            blob
        } else {
            let mut file = File::from(rustix::fs::memfd_create("content", MemfdFlags::CLOEXEC)?);
            file.write_all(bytes).and_then(|()| file.rewind()).map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::IO))?;
            self.read_large(file.as_fd(), &content.holes, earlier, batch)?.0
        };
        self.progress.advance(1, bytes.len() as u64);
        Ok(FileContent { blob, ..content })
    }

    fn read_until_still(
        &mut self,
        fd: &OwnedFd,
        name: &[u8],
        earlier: &Earlier<'_>,
        batch: &mut Batch<'_>,
    ) -> Result<FileContent, Failure> {
        let mut stat = sys::stat_fd(fd)?;
        // The content and length at the try before, of a file that has another length than it says, as those of `/proc` have.
        let mut before = None;
        for attempt in 1.. {
            let holes = if stat.blocks * 512 < stat.size { sys::holes(fd.as_fd(), stat.size)? } else { Vec::new() };
            let (blob, size) = self.read_once(fd.as_fd(), name, stat.size, &holes, earlier, batch)?;
            let after = sys::stat_fd(fd)?;
            let is_still = after.is_unchanged(&stat);
            let same = is_still && (size == stat.size || before == Some((blob, size)));
            before = is_still.then_some((blob, size));
            if same || attempt == TRIES {
                let holes = if size == stat.size { holes } else { Vec::new() };
                return Ok(FileContent { blob, stat: Stat { size, ..after }, holes, changing: !same });
            }
            stat = after;
            rustix::fs::seek(fd, SeekFrom::Start(0))?;
        }
        Err(Failure::Unreadable(Errno::AGAIN))
    }

    /// Reads a file of `size` bytes from its beginning; says what it holds and how long it was.
    pub fn read_once(
        &mut self,
        fd: BorrowedFd<'_>,
        name: &[u8],
        size: u64,
        holes: &[Hole],
        earlier: &Earlier<'_>,
        batch: &mut Batch<'_>,
    ) -> Result<(BlobId, u64), Failure> {
        if size as usize <= SINGLE_CHUNK_BYTES {
            if let Some(read) = self.read_small(fd, size as usize, name, earlier, batch)? {
                return Ok(read);
            }
            rustix::fs::seek(fd, SeekFrom::Start(0))?;
            return self.read_large(fd, &[], earlier, batch);
        }
        let (blob, total) = self.read_large(fd, holes, earlier, batch)?;
        if total as usize > SINGLE_CHUNK_BYTES {
            return Ok((blob, total));
        }
        // It is shorter than it says. One content has one form, and so short a one is a chunk of its own.
        rustix::fs::seek(fd, SeekFrom::Start(0))?;
        match self.read_small(fd, total as usize, name, earlier, batch)? {
            Some(read) => Ok(read),
            None => Ok((blob, total)),
        }
    }

    /// Reads a file to its end, if it is short enough for one chunk.
    fn read_small(
        &mut self,
        fd: BorrowedFd<'_>,
        size: usize,
        name: &[u8],
        earlier: &Earlier<'_>,
        batch: &mut Batch<'_>,
    ) -> Result<Option<(BlobId, u64)>, Failure> {
        self.whole = None;
        // One byte more than expected, to notice that it is longer than it says. One that says it is empty may give its content to the first
        // read alone, as those of `/proc/sys` do.
        let first = if size == 0 { SINGLE_CHUNK_BYTES } else { size };
        let mut filled = 0;
        for want in [first + 1, SINGLE_CHUNK_BYTES + 1] {
            if self.buffer.len() < want {
                self.buffer.resize(want, 0);
            }
            filled += read_full(fd, &mut self.buffer[filled..want.max(filled)])?;
            if filled < want {
                break;
            }
        }
        if filled > SINGLE_CHUNK_BYTES {
            return Ok(None);
        }
        self.whole = Some(filled);
        let bytes = &self.buffer[..filled];
        let blob = self.ids.blob(bytes);
        if !bytes.is_empty() {
            batch.small_chunk(blob.object(), bytes, name, earlier.small())?;
        }
        Ok(Some((blob, filled as u64)))
    }

    fn read_large(
        &mut self,
        fd: BorrowedFd<'_>,
        holes: &[Hole],
        earlier: &Earlier<'_>,
        batch: &mut Batch<'_>,
    ) -> Result<(BlobId, u64), Failure> {
        let before = if batch.keeps_content() { earlier.runs() } else { Vec::new() };
        let mut input = Input { fd, holes, at: 0, left: u64::MAX };
        let mut out = Cutter::new(self.ids.blob_hasher(), before, batch);
        self.cut(&mut input, &mut out)?;
        let Cutter { hasher, runs, total, batch, .. } = out;
        let blob = hasher.finish();
        debug_assert!(!matches!(runs.as_slice(), [only] if only.repeat == 1 && only.id != blob));
        batch.recipe(blob, &runs, earlier.blob())?;
        Ok((blob, total))
    }

    /// Stores chunks that the store has lost, from where the file should have them. False where it holds something else there.
    pub fn put_back(&mut self, fd: BorrowedFd<'_>, lost: &[(u64, ChunkRun)], batch: &mut Batch<'_>) -> Result<bool, Failure> {
        for (at, run) in lost {
            let bytes = run.bytes as usize;
            if bytes > BLOCK_BYTES_MAX {
                return Ok(false);
            }
            if self.buffer.len() < bytes {
                self.buffer.resize(bytes, 0);
            }
            rustix::fs::seek(fd, SeekFrom::Start(*at))?;
            let piece = &mut self.buffer[..bytes];
            if read_full(fd, piece)? < bytes || self.ids.blob(piece) != run.id {
                return Ok(false);
            }
            batch.large_chunk(run.id.object(), piece, None)?;
        }
        Ok(true)
    }

    /// Reads at most `limit` bytes from `at` on, cuts them, and hands each to `hash`. Says what they are, and how many there were.
    /// `before` are the chunks that the file had from there on; its last one is cut anew.
    pub fn read_cut<H: Digest>(
        &mut self,
        fd: BorrowedFd<'_>,
        (at, limit): (u64, u64),
        before: Vec<ChunkRun>,
        hash: H,
        batch: &mut Batch<'_>,
    ) -> Result<(H, Vec<ChunkRun>, u64), Failure> {
        rustix::fs::seek(fd, SeekFrom::Start(at))?;
        let mut input = Input { fd, holes: &[], at, left: limit };
        let mut out = Cutter::new(hash, before, batch);
        self.cut(&mut input, &mut out)?;
        Ok((out.hasher, out.runs, out.total))
    }

    /// Reports that so many bytes of the file were read. One that is read again is reported as far as it is longer.
    fn report(&mut self, total: u64) {
        if let Some(reported) = self.reported.as_mut().filter(|reported| **reported < total) {
            self.progress.advance(0, total - *reported);
            *reported = total;
        }
    }
}
