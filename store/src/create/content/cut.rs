//! Cuts content into chunks, and reuses those that an earlier version has.

use std::collections::HashMap;

use fastcdc::v2020::FastCDC;

use super::{Failure, READ_BYTES, Reader, input::Input};
use crate::{
    config::Chunking,
    create::{running::Digest, sink::Batch},
    error::Result,
    id::BlobId,
    keys::Ids,
    progress,
    recipe::ChunkRun,
};

impl<'p> Reader<'p> {
    /// Reads to the input's end, and cuts what it reads. Cuts depend on the content alone, so that one content has one recipe: holes are cut
    /// as the zeros that they read as, and a file's last chunk, which ended with the file, is cut anew once the file has grown.
    pub(super) fn cut<H: Digest>(&mut self, input: &mut Input<'_>, out: &mut Cutter<'_, '_, H>) -> Result<(), Failure> {
        let Chunking { bytes_min, bytes_avg, bytes_max } = self.chunking;
        let (bytes_min, bytes_avg, bytes_max) = (bytes_min as usize, bytes_avg as usize, bytes_max as usize);
        let room = READ_BYTES.max(4 * bytes_max);
        if self.buffer.len() < room {
            self.buffer.resize(room, 0);
        }
        let (mut start, mut end, mut at_end) = (0, 0, false);
        self.whole = None;
        // So many bytes at the end of what is at hand are of one hole.
        let mut zeros = 0;
        loop {
            // A cut is only sought where a whole chunk is at hand.
            if !at_end && end - start < bytes_max {
                progress::check(self.progress)?;
                self.report(out.total);
                if zeros >= end - start
                    && let Some(rest) = self.cut_hole((end - start) as u64, input, out)?
                {
                    self.buffer[..rest].fill(0);
                    (start, end, zeros) = (0, rest, rest);
                }
                self.buffer.copy_within(start..end, 0);
                end -= start;
                start = 0;
                let (filled, zeros_filled) = input.fill(&mut self.buffer[end..room])?;
                at_end = filled < room - end;
                self.whole = (at_end && out.total == 0 && end == 0).then_some(filled);
                zeros = if zeros_filled == filled { zeros.min(end) + filled } else { zeros_filled };
                end += filled;
            }
            if start == end {
                return Ok(());
            }
            let rest = &self.buffer[start..end];
            if let Some((id, piece)) = out.before.known(&self.ids, rest) {
                out.chunk(id, piece)?;
                start += piece.len();
                continue;
            }
            let cdc = FastCDC::new(rest, bytes_min, bytes_avg, bytes_max);
            let (_, cut) = cdc.cut(0, rest.len());
            let piece = &rest[..cut.max(1)];
            out.chunk(self.ids.blob(piece), piece)?;
            start += piece.len();
        }
    }

    /// Hashes and cuts the hole that the input is in, without reading it, where it has room for whole chunks. `at_hand` bytes of it were
    /// read. Returns how many bytes of it are left over, all of which lie behind the input then.
    fn cut_hole<H: Digest>(
        &mut self,
        at_hand: u64,
        input: &mut Input<'_>,
        out: &mut Cutter<'_, '_, H>,
    ) -> Result<Option<usize>, Failure> {
        let bytes_max = self.chunking.bytes_max;
        let (hole, whole) = (input.in_hole(), u64::from(bytes_max));
        let mut left = at_hand + hole;
        if hole == 0 || left < whole {
            return Ok(None);
        }
        let chunking = self.chunking;
        let zeros = self.zeros.get_or_insert_with(|| Zeros::new(chunking, &self.ids));
        if !zeros.are_one_chunk {
            return Ok(None);
        }
        out.before.forget();
        while left >= whole {
            progress::check(self.progress)?;
            out.chunk(zeros.id, &zeros.bytes)?;
            left -= whole;
            if let Some(reported) = self.reported.as_mut().filter(|reported| **reported < out.total) {
                self.progress.advance(0, out.total - *reported);
                *reported = out.total;
            }
        }
        input.pass(hole)?;
        Ok(Some(left as usize))
    }
}

/// The longest chunk of zeros.
pub(super) struct Zeros {
    pub(super) bytes: Vec<u8>,
    pub(super) id: BlobId,
    /// True if zeros are cut nowhere before that length.
    are_one_chunk: bool,
}

impl Zeros {
    pub(super) fn new(chunking: Chunking, ids: &Ids) -> Self {
        let Chunking { bytes_min, bytes_avg, bytes_max } = chunking;
        let bytes = vec![0; bytes_max as usize];
        let cdc = FastCDC::new(&bytes, bytes_min as usize, bytes_avg as usize, bytes_max as usize);
        let are_one_chunk = cdc.cut(0, bytes.len()).1 == bytes.len();
        Zeros { id: ids.blob(&bytes), bytes, are_one_chunk }
    }
}

/// The chunks that a file had when it was last captured.
struct PreviousChunks {
    pub(super) runs: Vec<ChunkRun>,
    by_id: HashMap<BlobId, usize>,
    /// The run that stood where the next chunk stands.
    next: usize,
    /// The run, and how many of its chunks were found, of the chunk that is tried first; none behind the first difference.
    tried: Option<(usize, u32)>,
}

impl PreviousChunks {
    pub(super) fn new(runs: Vec<ChunkRun>) -> Self {
        let by_id = runs.iter().enumerate().rev().map(|(number, run)| (run.id, number)).collect();
        PreviousChunks { runs, by_id, next: 0, tried: Some((0, 0)) }
    }

    /// The chunk that `rest` begins with, if it does so as before: no cut is sought then. That the last chunk ended where it did was not for
    /// its content, but for the file's end.
    fn known<'r>(&mut self, ids: &Ids, rest: &'r [u8]) -> Option<(BlobId, &'r [u8])> {
        let (number, count) = self.tried.take()?;
        let run = self.runs.get(number)?;
        if number + 1 == self.runs.len() && count + 1 >= run.repeat {
            return None;
        }
        let piece = rest.get(..run.bytes as usize).filter(|piece| ids.blob(piece) == run.id)?;
        self.tried = Some(if count + 1 < run.repeat { (number, count + 1) } else { (number + 1, 0) });
        Some((run.id, piece))
    }

    /// Nothing is known any more of what comes next.
    fn forget(&mut self) {
        self.tried = None;
    }

    /// The chunk that a new one takes the place of; none where the chunk is an old one.
    fn base(&mut self, id: BlobId) -> Option<BlobId> {
        if let Some(number) = self.by_id.get(&id) {
            self.next = number + 1;
            return None;
        }
        let base = self.runs.get(self.next).map(|run| run.id);
        self.next += 1;
        base
    }
}

/// Gathers the chunks of one large file.
pub(super) struct Cutter<'b, 'a, H> {
    pub(super) hasher: H,
    pub(super) runs: Vec<ChunkRun>,
    pub(super) total: u64,
    before: PreviousChunks,
    pub(super) batch: &'b mut Batch<'a>,
}

impl<'b, 'a, H: Digest> Cutter<'b, 'a, H> {
    pub(super) fn new(hasher: H, before: Vec<ChunkRun>, batch: &'b mut Batch<'a>) -> Self {
        Cutter { hasher, runs: Vec::new(), total: 0, before: PreviousChunks::new(before), batch }
    }

    fn push(&mut self, id: BlobId, bytes: u32) {
        self.total += u64::from(bytes);
        match self.runs.last_mut() {
            Some(last) if last.id == id && last.bytes == bytes && last.repeat < u32::MAX => last.repeat += 1,
            _ => self.runs.push(ChunkRun { id, bytes, repeat: 1 }),
        }
    }

    pub(super) fn chunk(&mut self, id: BlobId, piece: &[u8]) -> Result<()> {
        self.hasher.take(piece);
        self.push(id, piece.len() as u32);
        let base = self.before.base(id);
        self.batch.large_chunk(id.object(), piece, base)
    }
}
