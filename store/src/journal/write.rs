//! Writing a whole journal anew, in a folder where there is none.

use super::{
    Journal, Position,
    frames::{SegmentHeader, encode_frame},
};
use crate::{
    error::{Error, Result},
    format::{JOURNAL_RECORD_BYTES_MAX, JOURNAL_SEGMENT_BYTES},
    id::{hex, unhex},
    keys::Part,
};

/// A journal that is being written, record by record.
pub(crate) struct Writer<'a> {
    journal: &'a Journal,
    sequence: u64,
    hash: [u8; 32],
    first: u64,
    bytes: Vec<u8>,
}

impl<'a> Writer<'a> {
    /// At the beginning of a journal. There are no segments yet.
    pub(crate) fn new(journal: &'a Journal) -> Self {
        let mut writer = Writer { journal, sequence: 0, hash: [0; 32], first: 1, bytes: Vec::new() };
        writer.begin(0);
        writer
    }

    fn begin(&mut self, previous_end: u64) {
        self.first = self.sequence + 1;
        let header = SegmentHeader { first: self.first, previous_end, previous_hash: self.hash, is_behind_gap: false };
        self.bytes = header.encode().to_vec();
    }

    /// At a place where records are lost for good, from the next sequence on. What is written stands there in their stead.
    pub(crate) fn in_gap(journal: &'a Journal, at: &Position) -> Self {
        let hash = unhex(&at.hash).unwrap_or_default();
        let mut writer = Writer { journal, sequence: at.sequence, hash, first: 1, bytes: Vec::new() };
        writer.begin(at.offset);
        writer
    }

    /// Chain hash of the last record so far.
    pub(crate) fn hash(&self) -> String {
        hex(&self.hash)
    }

    /// Writes a segment in a gap.
    pub(crate) fn finish_in_gap(self) -> Result<()> {
        self.put()
    }

    /// Adds a record. Its body is taken as it is.
    pub(crate) fn add(&mut self, body: Vec<u8>) -> Result<()> {
        if self.bytes.len() as u64 >= JOURNAL_SEGMENT_BYTES {
            self.put()?;
            self.begin(self.bytes.len() as u64);
        }
        let body = self.journal.keys.seal.seal(Part::Journal, body);
        if body.len() > JOURNAL_RECORD_BYTES_MAX {
            return Err(Error::Invalid(format!("a journal record of {} bytes is too long", body.len())));
        }
        self.sequence += 1;
        let (frame, next) = encode_frame(self.sequence, &self.hash, &body);
        self.bytes.extend_from_slice(&frame);
        self.hash = next;
        Ok(())
    }

    /// Writes what is left, and the hint. Returns the end.
    pub(crate) fn finish(self) -> Result<Position> {
        self.put()?;
        self.journal.write_hint(self.sequence);
        let (segment, offset) = (self.first, self.bytes.len() as u64);
        Ok(Position { segment, offset, sequence: self.sequence, hash: hex(&self.hash) })
    }

    fn put(&self) -> Result<()> {
        self.journal.begin_segment(self.first, &self.bytes)
    }
}
