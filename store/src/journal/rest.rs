//! Bytes behind the last record of the journal: an append that was cut off, or damage?
//!
//! One append is one write of one or more records, and whoever appends has synced all earlier ones. After a power cut any part of that one write may be
//! missing, so that a record of it may be whole behind one that is not. A whole record of a *later* append proves that everything before it
//! had been synced: then a committed record is damaged. Each record tells how many records of its own append stand before it (`joined`).

use std::{fs::File, path::Path};

use serde::Deserialize;

use super::frames::{FRAME_BYTES, Frames, PIECE_BYTES, checked_frame, read_up_to, unreadable, whole_frame};
use crate::{
    error::Result,
    format::{JOURNAL_RECORD_BYTES_MAX, JOURNAL_SEGMENT_BYTES},
    keys::{Part, Seal},
};

/// Records are looked for up to this offset: no append begins behind [`JOURNAL_SEGMENT_BYTES`].
pub(super) const SEARCH_END: u64 = JOURNAL_SEGMENT_BYTES + JOURNAL_RECORD_BYTES_MAX as u64;
/// Bytes that are hashed in search of records. A journal cannot come near it by chance: bodies are JSON and have no zero bytes.
const HASHED_BYTES_MAX: u64 = 1 << 30;
/// So many records may have been taken out between two that are there.
pub(super) const SEQUENCES_LOST_MAX: u64 = 1 << 20;
/// So many zero bytes in a row stand in no record's body: a piece of it never reached the disk.
const ZEROS: [u8; 16] = [0; 16];

/// Bytes behind the last record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    /// The file ends before the next record does.
    CutShort,
    /// Something else that is no record: a part is missing that was not synced.
    Torn,
    /// As many bytes as the next record should have, none of them missing, and they are not what was written.
    Doubtful,
    /// A record at this offset is whole and cannot be, unless one before it was damaged.
    Damaged(u64),
}

/// The place behind the last record.
pub(super) struct RestReader<'a> {
    pub file: &'a File,
    pub path: &'a Path,
    /// Length of the file, in bytes.
    pub length: u64,
    /// Offset of the first byte behind the last record.
    pub at: u64,
    /// Sequence that the next record would have.
    pub expected: u64,
    /// Chain hash of the last record.
    pub previous: &'a [u8; 32],
    /// The seal of bodies.
    pub seal: &'a Seal,
}

#[derive(Deserialize)]
struct JoinedCount {
    #[serde(default)]
    joined: u64,
}

/// Number of records of the same append that stand before one, by its body.
pub(super) fn joined(seal: &Seal, body: &[u8]) -> u64 {
    let body = seal.open(Part::Journal, body).unwrap_or_default();
    serde_json::from_slice(&body).map_or(0, |JoinedCount { joined }| joined)
}

impl Frames {
    /// The bytes behind the last frame, judged.
    pub(super) fn rest(&self, expected: u64, previous: &[u8; 32], seal: &Seal) -> Result<Rest> {
        RestReader { file: &self.file, path: &self.path, length: self.length, at: self.at, expected, previous, seal }.judge()
    }
}

impl RestReader<'_> {
    /// Judges what is there. There is at least one byte.
    pub fn judge(&self) -> Result<Rest> {
        if let Some(offset) = self.later_record()? {
            return Ok(Rest::Damaged(offset));
        }
        let head = self.read(self.at, FRAME_BYTES)?;
        let Some(length) = head.first_chunk().map(|length| u64::from(u32::from_le_bytes(*length))) else {
            return Ok(Rest::CutShort);
        };
        if head.len() < FRAME_BYTES {
            return Ok(Rest::CutShort);
        }
        let continues = head[8..16] == self.expected.to_le_bytes() && head[16..] == self.previous[..];
        if continues && self.is_whole_to_the_end()? {
            return Ok(Rest::Doubtful);
        }
        if length == 0 || length > JOURNAL_RECORD_BYTES_MAX as u64 {
            return Ok(Rest::Torn);
        }
        if self.at + FRAME_BYTES as u64 + length > self.length {
            return Ok(if continues { Rest::CutShort } else { Rest::Torn });
        }
        let body = self.read(self.at + FRAME_BYTES as u64, length as usize)?;
        // At its ends fewer zero bytes tell as much: no one bit makes a brace zero.
        let has_gap = [body.first(), body.last()].contains(&Some(&0)) || body.windows(ZEROS.len()).any(|window| window == ZEROS);
        Ok(if has_gap { Rest::Torn } else { Rest::Doubtful })
    }

    /// True if a record that reaches to the file's end has the right checksum, so that only the length that it tells is wrong.
    fn is_whole_to_the_end(&self) -> Result<bool> {
        let bytes = self.length - self.at;
        if bytes > (FRAME_BYTES + JOURNAL_RECORD_BYTES_MAX) as u64 {
            return Ok(false);
        }
        let frame = self.read(self.at, bytes as usize)?;
        if frame.len() < FRAME_BYTES {
            return Ok(false);
        }
        let length = ((frame.len() - FRAME_BYTES) as u32).to_le_bytes();
        Ok(checked_frame(&[&length, &frame[4..]].concat()).is_some())
    }

    /// Up to so many bytes from an offset.
    fn read(&self, from: u64, bytes: usize) -> Result<Vec<u8>> {
        let there = usize::try_from(self.length.saturating_sub(from)).unwrap_or(usize::MAX);
        let mut read = vec![0; bytes.min(there)];
        let filled = read_up_to(self.file, &mut read, from).map_err(|e| unreadable(e, self.path, from))?;
        // Whoever could not sync what he appended may just have taken it back.
        read.truncate(filled);
        Ok(read)
    }

    /// The offset of a whole record that shows that one before it was damaged.
    fn later_record(&self) -> Result<Option<u64>> {
        let end = self.length.min(SEARCH_END);
        let (mut from, mut hashed) = (self.at, 0);
        while from < end {
            let piece = self.read(from, PIECE_BYTES + FRAME_BYTES)?;
            for (i, head) in piece.windows(FRAME_BYTES).take(PIECE_BYTES).enumerate() {
                let offset = from + i as u64;
                if !self.may_begin(head, offset) {
                    continue;
                }
                let length = FRAME_BYTES + head.first_chunk().map_or(0, |length| u32::from_le_bytes(*length) as usize);
                hashed += length as u64;
                if hashed > HASHED_BYTES_MAX || self.is_later(&self.read(offset, length)?) {
                    return Ok(Some(offset));
                }
            }
            from += PIECE_BYTES as u64;
        }
        Ok(None)
    }

    /// True if a record may begin here, by its length and its sequence.
    fn may_begin(&self, head: &[u8], offset: u64) -> bool {
        let number = |at: usize| head[at..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        // Not many more than there is room for between, as damage may also have taken bytes out.
        let sequences = self.expected..self.expected + SEQUENCES_LOST_MAX + (offset - self.at);
        if !sequences.contains(&number(8)) {
            return false;
        }
        let length = number(0) & u64::from(u32::MAX);
        length <= JOURNAL_RECORD_BYTES_MAX as u64 && offset + FRAME_BYTES as u64 + length <= self.length
    }

    fn is_later(&self, frame: &[u8]) -> bool {
        let Some((sequence, body)) = whole_frame(frame) else { return false };
        let joined = joined(self.seal, body);
        // The expected record itself, whole and at the wrong place or behind another record, is not what was appended here.
        sequence == self.expected || sequence.saturating_sub(joined) > self.expected
    }
}
