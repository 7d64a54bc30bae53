//! Reading around damage: what is whole before a damaged record and, where another whole one follows, behind it.
//!
//! A record names the chain hash of the one before it, and has a checksum of its own. So one flipped bit can be found and set right, and what
//! follows a longer damage can be told from noise; only the records in between are lost.

use std::{io, ops::Range};

use super::{
    Journal, NO_SEGMENTS, Position, Raw, RecordError,
    frames::{FRAME_BYTES, SEGMENT_HEADER_BYTES, SegmentHeader, decode_frame, read_around, whole_frame},
    heal::heal,
    rest::{SEARCH_END, SEQUENCES_LOST_MAX, joined},
};
use crate::{
    error::{Error, IoContext, Result},
    files::{self, How},
    id::{hex, unhex},
    keys::Part,
};

/// Records that cannot be read, or only with a flipped bit set right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Gap {
    /// Sequence of the first of them.
    pub(crate) first: u64,
    /// Sequence of the whole record behind them; equal to `first` if only a segment's header is damaged. `None` if none follows.
    pub(crate) next: Option<u64>,
    /// The place behind the last whole record before them.
    pub(super) segment: u64,
    pub(super) offset: u64,
    /// That record's chain hash.
    pub(super) hash: [u8; 32],
    /// The place of that next record, and the hash that it names.
    pub(super) resumes: Option<Resume>,
    /// The flipped bit, where that is all: nothing is lost then.
    pub(super) bit: Option<Bit>,
}

/// The place of a whole record behind damage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Resume {
    pub(super) segment: u64,
    pub(super) offset: u64,
    pub(super) previous: [u8; 32],
}

/// A byte of a segment in which one bit is flipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bit {
    pub(super) segment: u64,
    pub(super) offset: u64,
    /// The byte as it should be.
    pub(super) byte: u8,
}

/// A segment, as far as records may stand in it and the disk can read.
pub(super) struct Segment {
    /// Its bytes, with zeros where the disk could not read.
    pub(super) bytes: Vec<u8>,
    /// Length of the file, in bytes.
    pub(super) length: u64,
    /// The places of these zeros.
    pub(super) unread: Vec<Range<usize>>,
}

/// What a reading around damage came upon.
#[derive(Clone, Debug)]
pub(crate) struct Around {
    /// The place behind the last record that was read.
    pub(crate) end: Position,
    /// Bytes behind that.
    pub(crate) left: u64,
    /// The damage, in order.
    pub(crate) gaps: Vec<Gap>,
    /// The first segment of which the disk could not read all.
    pub(super) unread: Option<u64>,
}

/// A reading: the last record that was taken in, and the place behind it.
struct Reader<'a> {
    journal: &'a Journal,
    sequence: u64,
    hash: [u8; 32],
    /// Where the next record should begin, as long as nothing was passed over.
    segment: u64,
    offset: u64,
    /// True if bytes were passed over since the last record.
    has_skipped: bool,
    /// The next segment names another end than this one has.
    was_moved: bool,
    gaps: Vec<Gap>,
}

impl Gap {
    /// The damage in words.
    pub(crate) fn said(&self) -> String {
        match (self.bit, self.next) {
            (Some(_), _) => format!("record {} has a flipped bit, which can be set right", self.first),
            (None, Some(next)) if self.is_of_header() => {
                format!("the segment that begins with record {next} has a damaged header")
            }
            (None, Some(next)) if next == self.first => format!("something else stands before record {next}"),
            (None, Some(next)) if next == self.first + 1 => format!("record {} is damaged or missing", self.first),
            (None, Some(next)) => format!("records {} to {} are damaged or missing", self.first, next - 1),
            (None, None) => format!("what was recorded from record {} on is damaged or missing", self.first),
        }
    }

    /// True if nothing but the header of the segment with the next record is damaged.
    pub(super) fn is_of_header(&self) -> bool {
        let is_first = |resumes: &Resume| resumes.offset == SEGMENT_HEADER_BYTES as u64 && resumes.segment != self.segment;
        self.bit.is_none() && !self.loses_records() && self.resumes.as_ref().is_some_and(is_first)
    }

    /// The first and the last record that are lost, the chain hash before them, and that of the last; `None` where nobody knows the last.
    pub(crate) fn between(&self) -> Option<(u64, u64, String, String)> {
        let (next, resumes) = (self.next?, self.resumes.as_ref()?);
        let lost = (self.first, next - 1, hex(&self.hash), hex(&resumes.previous));
        (self.loses_records() && next > self.first).then_some(lost)
    }

    /// The first record that is lost, and the chain hash before it, where nothing whole follows.
    pub(crate) fn open_end(&self) -> Option<(u64, String)> {
        (self.next.is_none() && self.loses_records()).then(|| (self.first, hex(&self.hash)))
    }

    /// True if records are lost with it.
    pub(crate) fn loses_records(&self) -> bool {
        let follows = self.resumes.as_ref().is_some_and(|resumes| resumes.previous == self.hash);
        self.bit.is_none() && !(self.next == Some(self.first) && follows)
    }
}

impl Journal {
    /// Shows every whole record from `from` on, in order, and says what was passed over. A record that is whole and makes no sense is an error
    /// all the same, as damage does not make one; so is a journal of which nothing is left.
    pub(crate) fn look_around(
        &self,
        from: &Position,
        look: &mut dyn FnMut(&Raw<'_>) -> Result<(), RecordError>,
    ) -> Result<Around> {
        let hint = self.hint();
        let segments = self.segments()?;
        let hash = unhex::<32>(&from.hash).ok_or_else(|| self.corrupt(from.segment, from.offset, "its position"))?;
        let (sequence, segment, offset) = (from.sequence, from.segment, from.offset);
        let (has_skipped, was_moved, gaps) = Default::default();
        let mut reader = Reader { journal: self, sequence, hash, segment, offset, has_skipped, was_moved, gaps };
        if segments.is_empty() && hint.is_some() {
            return Err(self.gone(NO_SEGMENTS));
        }
        let (mut left, mut last_end, mut first_unread) = (0, from.offset, None);
        let later: Vec<u64> = segments.into_iter().filter(|first| *first >= from.segment).collect();
        for (i, &first) in later.iter().enumerate() {
            let Segment { bytes, length, unread } = self.segment_around(first)?;
            let at = if first == from.segment { from.offset as usize } else { SEGMENT_HEADER_BYTES };
            let next = later.get(i + 1).map(|next| self.header_of(*next)).transpose()?;
            if first != from.segment {
                reader.enter(first, &bytes, at);
            }
            let end = reader.segment(first, &bytes, at, next.as_ref().map(Option::as_ref), look)?;
            reader.has_skipped |= !unread.is_empty() && end < length;
            first_unread = first_unread.or((!unread.is_empty()).then_some(first));
            (left, last_end) = (length.saturating_sub(end), end);
        }
        if reader.has_skipped || hint.is_some_and(|hint| hint > reader.sequence) {
            reader.note(None, None);
        }
        let end = Position {
            segment: later.last().copied().unwrap_or(from.segment),
            offset: last_end,
            sequence: reader.sequence,
            hash: hex(&reader.hash),
        };
        Ok(Around { end, left, gaps: reader.gaps, unread: first_unread })
    }

    /// The bytes of a segment, as far as records may stand in it, and its length. What the disk cannot read is zeros.
    pub(super) fn segment_bytes(&self, first: u64) -> Result<(Vec<u8>, u64)> {
        self.segment_around(first).map(|segment| (segment.bytes, segment.length))
    }

    /// The same, and what of it the disk could not read.
    pub(super) fn segment_around(&self, first: u64) -> Result<Segment> {
        let path = self.segment_path(first);
        let read = || -> io::Result<Segment> {
            let file = files::open(&path, How::Read)?;
            let length = file.metadata()?.len();
            let mut bytes = vec![0; usize::try_from(length.min(SEARCH_END)).unwrap_or_default()];
            let (filled, unread) = read_around(&file, &mut bytes, 0)?;
            bytes.truncate(filled);
            Ok(Segment { bytes, length, unread })
        };
        read().at("read journal", &path)
    }

    fn header_of(&self, first: u64) -> Result<Option<SegmentHeader>> {
        Ok(SegmentHeader::decode(&self.segment_bytes(first)?.0).filter(|header| header.first == first))
    }
}

impl Reader<'_> {
    /// Begins a segment. Where its header is not what it should be, and no record is lost, the header alone is damaged.
    fn enter(&mut self, first: u64, bytes: &[u8], at: usize) {
        let resumes = |previous| Resume { segment: first, offset: at as u64, previous };
        let header = SegmentHeader::decode(bytes).filter(|header| header.first == first);
        let was_moved = std::mem::replace(&mut self.was_moved, header.as_ref().is_some_and(|header| header.is_behind_gap));
        match header {
            // Damage that is known for good: the records before it are lost.
            Some(header) if header.is_behind_gap && first > self.sequence => {
                if self.has_skipped {
                    // What stands before it is damaged as well.
                    self.note(Some((first, resumes(header.previous_hash))), None);
                }
                (self.sequence, self.hash) = (first - 1, header.previous_hash);
            }
            header if first == self.sequence + 1 => {
                let has_end = |header: &SegmentHeader| was_moved || header.previous_end == self.offset;
                if !header.is_some_and(|header| header.previous_hash == self.hash && has_end(&header)) {
                    self.note(Some((first, resumes(self.hash))), None);
                }
            }
            // Records before it are lost, or it is one too many.
            _ => return,
        }
        (self.segment, self.offset, self.has_skipped) = (first, at as u64, false);
    }

    /// Takes in what is whole of a segment. Returns the offset behind the last record in it.
    fn segment(
        &mut self,
        first: u64,
        bytes: &[u8],
        mut at: usize,
        next: Option<Option<&SegmentHeader>>,
        look: &mut dyn FnMut(&Raw<'_>) -> Result<(), RecordError>,
    ) -> Result<u64> {
        let is_last = next.is_none();
        let mut end = at.min(bytes.len());
        while at < bytes.len() {
            let rest = &bytes[at..];
            if let Some((length, body, hash)) = decode_frame(rest, self.sequence + 1, &self.hash) {
                self.take(first, at, length, body, hash, look)?;
                (at, end) = (at + length, at + length);
                continue;
            }
            // Bytes that the next segment says mean nothing.
            let is_end = |header: &SegmentHeader| {
                let goes_on = (header.first, header.previous_hash) == (self.sequence + 1, self.hash) || header.is_behind_gap;
                goes_on && header.previous_end == at as u64
            };
            if next.flatten().is_some_and(is_end) {
                break;
            }
            if let Some(healed) = heal(rest, self.sequence + 1, &self.hash) {
                let bit = Bit { segment: first, offset: (at + healed.byte_at) as u64, byte: healed.frame[healed.byte_at] };
                if let Some((length, body, hash)) = decode_frame(&healed.frame, self.sequence + 1, &self.hash) {
                    let resumes = Resume { segment: first, offset: at as u64, previous: self.hash };
                    self.note(Some((self.sequence + 1, resumes)), Some(bit));
                    self.take(first, at, length, body, hash, look)?;
                    (at, end) = (at + length, at + length);
                    continue;
                }
            }
            let Some((found, frame_sequence)) = self.resync(bytes, at, is_last) else {
                self.has_skipped |= !is_last || self.is_damage(bytes, at);
                break;
            };
            let previous = bytes[found + 16..found + FRAME_BYTES].first_chunk().copied().unwrap_or_default();
            let resumes = Resume { segment: first, offset: found as u64, previous };
            self.note(Some((frame_sequence, resumes)), None);
            (self.sequence, self.hash, at) = (frame_sequence - 1, previous, found);
        }
        Ok(end as u64)
    }

    fn take(
        &mut self,
        first: u64,
        at: usize,
        length: usize,
        body: &[u8],
        hash: [u8; 32],
        look: &mut dyn FnMut(&Raw<'_>) -> Result<(), RecordError>,
    ) -> Result<()> {
        let keys = &self.journal.keys;
        let corrupt = |reason: String| self.journal.corrupt(first, at as u64, &reason);
        let body = keys.seal.open(Part::Journal, body).map_err(|e| corrupt(e.to_string()))?;
        look(&Raw { sequence: self.sequence + 1, body: &body, ids: &keys.ids }).map_err(|e| corrupt(e.to_string()))?;
        (self.sequence, self.hash) = (self.sequence + 1, hash);
        (self.segment, self.offset, self.has_skipped) = (first, (at + length) as u64, false);
        Ok(())
    }

    /// Notes damage behind the last record.
    fn note(&mut self, next: Option<(u64, Resume)>, bit: Option<Bit>) {
        let (next, resumes) = next.unzip();
        let (segment, offset, hash) = (self.segment, self.offset, self.hash);
        self.gaps.push(Gap { first: self.sequence + 1, next, segment, offset, hash, resumes, bit });
        self.has_skipped = false;
    }

    /// The offset and sequence of the next whole record from an offset on. At the journal's end, one that may be part of an append that was cut
    /// off proves nothing.
    fn resync(&self, bytes: &[u8], from: usize, is_last: bool) -> Option<(usize, u64)> {
        let expected = self.sequence + 1;
        (from..bytes.len().saturating_sub(FRAME_BYTES - 1)).find_map(|at| {
            let sequence = u64::from_le_bytes(*bytes[at + 8..].first_chunk()?);
            let is_near = (expected..expected.saturating_add(SEQUENCES_LOST_MAX + (at - from) as u64)).contains(&sequence);
            let (_, body) = is_near.then(|| whole_frame(&bytes[at..])).flatten()?;
            let is_proof = sequence == expected || sequence.saturating_sub(joined(&self.journal.keys.seal, body)) > expected;
            (is_proof || !is_last).then_some((at, sequence))
        })
    }

    /// True if the bytes behind the last record are known to have been one: the hint tells of it.
    fn is_damage(&self, bytes: &[u8], at: usize) -> bool {
        at < bytes.len() && self.journal.hint().is_some_and(|hint| hint > self.sequence)
    }
}

/// The error of a journal that was read around damage, for whoever must not go on with it.
pub(crate) fn damaged(journal: &Journal, gaps: &[Gap]) -> Option<Error> {
    let gap = gaps.first()?;
    let more = if gaps.len() > 1 { format!(", and {} more places are damaged", gaps.len() - 1) } else { String::new() };
    Some(journal.corrupt(gap.segment.max(1), gap.offset, &format!("{}{more}", gap.said())))
}
