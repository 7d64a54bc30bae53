//! Reading one file: its bytes, in chunks, into the sink.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use fastcdc::v2020::FastCDC;
use rustix::io::Errno;

use super::{running::Digest, sink::Batch};
use crate::{
    error::Result,
    format::{BLOCK_BYTES_MAX, SINGLE_CHUNK_BYTES},
    id::BlobId,
    progress::{self, Progress},
    recipe::ChunkRun,
    store::Chunking,
    sys::{self, Stat},
    tree::Hole,
};

/// Bytes read from a large file at a time.
const READ_BYTES: usize = 1 << 20;
/// A file that changes while it is read is read this often.
const TRIES: u32 = 4;

/// Why a file's content was not captured.
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
pub struct Content {
    /// Its content.
    pub blob: BlobId,
    /// What `stat` said when it was read.
    pub stat: Stat,
    /// Its holes.
    pub holes: Vec<Hole>,
    /// It changed during each try.
    pub changing: bool,
}

/// Reads files; one per worker, because it keeps its buffer.
pub struct Reader<'p> {
    chunking: Chunking,
    /// Asked now and then whether to stop: a file may be long, and a hole longer.
    progress: &'p dyn Progress,
    buffer: Vec<u8>,
    /// The longest chunk of zeros and its id; empty until there is a hole.
    zeros: (Vec<u8>, BlobId),
    /// How many bytes of the current file were reported; none where the caller reports them.
    reported: Option<u64>,
}

fn read_full(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<usize, Errno> {
    let mut filled = 0;
    while filled < buffer.len() {
        match rustix::io::read(fd, &mut buffer[filled..]) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(Errno::INTR) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(filled)
}

impl<'p> Reader<'p> {
    /// A reader that cuts large files like this.
    pub fn new(chunking: Chunking, progress: &'p dyn Progress) -> Self {
        Reader { chunking, progress, buffer: Vec::new(), zeros: (Vec::new(), BlobId([0; 32])), reported: None }
    }

    /// Reads an open file into the sink. `before` are the chunks of what it held when it was last captured: they are tried first, so
    /// that a file that only grew is cut where it ended, and nothing is searched for cuts twice. Reports the file, and its bytes as they
    /// are read.
    pub fn read(
        &mut self,
        fd: &OwnedFd,
        name: &[u8],
        before: &dyn Fn() -> Vec<ChunkRun>,
        batch: &mut Batch<'_>,
    ) -> Result<Content, Failure> {
        self.reported = Some(0);
        let content = self.read_until_still(fd, name, before, batch);
        let reported = self.reported.take().unwrap_or_default();
        if let Ok(content) = &content {
            self.progress.advance(1, content.stat.size.saturating_sub(reported));
        }
        content
    }

    fn read_until_still(
        &mut self,
        fd: &OwnedFd,
        name: &[u8],
        before: &dyn Fn() -> Vec<ChunkRun>,
        batch: &mut Batch<'_>,
    ) -> Result<Content, Failure> {
        let mut stat = sys::stat_fd(fd)?;
        for attempt in 1.. {
            let holes = if stat.blocks * 512 < stat.size { sys::holes(fd.as_fd(), stat.size)? } else { Vec::new() };
            let (blob, size) = self.read_once(fd.as_fd(), name, stat.size, &holes, before, batch)?;
            let after = sys::stat_fd(fd)?;
            let same = after.size == stat.size && after.mtime == stat.mtime && after.ctime == stat.ctime && size == stat.size;
            if same || attempt == TRIES {
                let holes = if size == stat.size { holes } else { Vec::new() };
                return Ok(Content { blob, stat: Stat { size, ..after }, holes, changing: !same });
            }
            stat = after;
            rustix::fs::seek(fd, rustix::fs::SeekFrom::Start(0))?;
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
        before: &dyn Fn() -> Vec<ChunkRun>,
        batch: &mut Batch<'_>,
    ) -> Result<(BlobId, u64), Failure> {
        if size as usize <= SINGLE_CHUNK_BYTES {
            self.read_small(fd, size as usize, name, batch)
        } else {
            self.read_large(fd, holes, size, before, batch)
        }
    }

    fn read_small(
        &mut self,
        fd: BorrowedFd<'_>,
        size: usize,
        name: &[u8],
        batch: &mut Batch<'_>,
    ) -> Result<(BlobId, u64), Failure> {
        // One byte more than expected, to notice growth; never more than one chunk may have.
        let want = (size + 1).min(SINGLE_CHUNK_BYTES);
        if self.buffer.len() < want {
            self.buffer.resize(want, 0);
        }
        let filled = read_full(fd, &mut self.buffer[..want])?;
        let bytes = &self.buffer[..filled];
        let blob = BlobId::of(bytes);
        if !bytes.is_empty() {
            batch.small_chunk(blob.object(), bytes, name)?;
        }
        Ok((blob, filled as u64))
    }

    fn read_large(
        &mut self,
        fd: BorrowedFd<'_>,
        holes: &[Hole],
        size: u64,
        before: &dyn Fn() -> Vec<ChunkRun>,
        batch: &mut Batch<'_>,
    ) -> Result<(BlobId, u64), Failure> {
        let mut out = Cutter { hasher: blake3::Hasher::new(), runs: Vec::new(), total: 0, batch };
        let mut at = 0;
        for hole in holes {
            self.read_range(fd, Some(hole.start - at), &[], &mut out)?;
            self.read_zeros(hole.bytes, &mut out)?;
            at = hole.start + hole.bytes;
            rustix::fs::seek(fd, rustix::fs::SeekFrom::Start(at))?;
        }
        match holes {
            [] => self.read_range(fd, None, &before(), &mut out)?,
            // What it held before was cut from its beginning on, and this is the rest behind the last hole.
            _ => self.read_range(fd, Some(size.saturating_sub(at)), &[], &mut out)?,
        }
        let Cutter { hasher, runs, total, batch } = out;
        let blob = BlobId(*hasher.finalize().as_bytes());
        debug_assert!(!matches!(runs.as_slice(), [only] if only.repeat == 1 && only.id != blob));
        let lost = batch.recipe(blob, &runs)?;
        self.put_back(fd, &lost, batch)?;
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
            rustix::fs::seek(fd, rustix::fs::SeekFrom::Start(*at))?;
            let piece = &mut self.buffer[..bytes];
            if read_full(fd, piece)? < bytes || BlobId::of(piece) != run.id {
                return Ok(false);
            }
            batch.large_chunk(run.id.object(), piece)?;
        }
        Ok(true)
    }

    /// Reads at most `limit` bytes from the file's offset on, cuts them, and hands each to `hash`. Says what they are, and how many there
    /// were. `before` are chunks that are tried first.
    pub fn read_cut<H: Digest>(
        &mut self,
        fd: BorrowedFd<'_>,
        limit: u64,
        before: &[ChunkRun],
        hash: H,
        batch: &mut Batch<'_>,
    ) -> Result<(H, Vec<ChunkRun>, u64), Failure> {
        let mut out = Cutter { hasher: hash, runs: Vec::new(), total: 0, batch };
        self.read_range(fd, Some(limit), before, &mut out)?;
        Ok((out.hasher, out.runs, out.total))
    }

    /// Reads from the file's offset to its end, or at most `limit` bytes, and cuts what it reads.
    fn read_range<H: Digest>(
        &mut self,
        fd: BorrowedFd<'_>,
        limit: Option<u64>,
        before: &[ChunkRun],
        out: &mut Cutter<'_, '_, H>,
    ) -> Result<(), Failure> {
        let bytes_max = self.chunking.bytes_max as usize;
        let room = READ_BYTES.max(4 * bytes_max);
        if self.buffer.len() < room {
            self.buffer.resize(room, 0);
        }
        let mut left = limit.unwrap_or(u64::MAX);
        // One by one: a run may stand for millions of chunks.
        let chunks = before.iter().flat_map(|run| std::iter::repeat_n((run.id, run.bytes), run.repeat as usize));
        let mut before = Some(chunks);
        let (mut start, mut end, mut at_end) = (0, 0, false);
        loop {
            // A cut is only sought where a whole chunk is at hand.
            if !at_end && end - start < bytes_max {
                progress::check(self.progress)?;
                self.report(out.total);
                self.buffer.copy_within(start..end, 0);
                end -= start;
                start = 0;
                let want = usize::try_from(left).unwrap_or(usize::MAX).min(room - end);
                let filled = read_full(fd, &mut self.buffer[end..end + want])?;
                left -= filled as u64;
                end += filled;
                at_end = filled < want || left == 0;
            }
            if start == end {
                return Ok(());
            }
            let rest = &self.buffer[start..end];
            if let Some((id, bytes)) = before.as_mut().and_then(Iterator::next) {
                let known = rest.get(..bytes as usize).filter(|piece| BlobId::of(piece) == id);
                if let Some(piece) = known {
                    out.chunk(id, piece)?;
                    start += piece.len();
                    continue;
                }
                // From the first difference on, cuts are sought again.
                before = None;
            }
            let c = self.chunking;
            let cdc = FastCDC::new(rest, c.bytes_min as usize, c.bytes_avg as usize, c.bytes_max as usize);
            let (_, cut) = cdc.cut(0, rest.len());
            let piece = &rest[..cut.max(1)];
            out.chunk(BlobId::of(piece), piece)?;
            start += piece.len();
        }
    }

    /// Hashes and cuts a hole as the zeros that it reads as, without reading them.
    fn read_zeros<H: Digest>(&mut self, mut bytes: u64, out: &mut Cutter<'_, '_, H>) -> Result<()> {
        let bytes_max = self.chunking.bytes_max as usize;
        if self.zeros.0.len() != bytes_max {
            let zeros = vec![0; bytes_max];
            let id = BlobId::of(&zeros);
            self.zeros = (zeros, id);
        }
        while bytes > 0 {
            progress::check(self.progress)?;
            let (zeros, whole) = &self.zeros;
            let piece = &zeros[..usize::try_from(bytes).unwrap_or(usize::MAX).min(bytes_max)];
            let id = if piece.len() == bytes_max { *whole } else { BlobId::of(piece) };
            out.chunk(id, piece)?;
            bytes -= piece.len() as u64;
            self.report(out.total);
        }
        Ok(())
    }

    /// Reports that so many bytes of the file were read. One that is read again is reported as far as it is longer.
    fn report(&mut self, total: u64) {
        if let Some(reported) = self.reported.as_mut().filter(|reported| **reported < total) {
            self.progress.advance(0, total - *reported);
            *reported = total;
        }
    }
}

/// Gathers the chunks of one large file.
struct Cutter<'b, 'a, H> {
    hasher: H,
    runs: Vec<ChunkRun>,
    total: u64,
    batch: &'b mut Batch<'a>,
}

impl<H: Digest> Cutter<'_, '_, H> {
    fn push(&mut self, id: BlobId, bytes: u32) {
        self.total += u64::from(bytes);
        match self.runs.last_mut() {
            Some(last) if last.id == id && last.bytes == bytes && last.repeat < u32::MAX => last.repeat += 1,
            _ => self.runs.push(ChunkRun { id, bytes, repeat: 1 }),
        }
    }

    fn chunk(&mut self, id: BlobId, piece: &[u8]) -> Result<()> {
        self.hasher.take(piece);
        self.push(id, piece.len() as u32);
        self.batch.large_chunk(id.object(), piece)
    }
}
