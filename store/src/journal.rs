//! The journal: the append-only log of commits and events. A record that is synced here is what makes a checkpoint exist.
//!
//! Segments are named by the sequence of their first record. Each record carries a checksum, its sequence and the hash of the one
//! before it. A torn end is never overwritten: the next append starts a segment of its own, which says where the one before ends.

mod append;
mod around;
mod entry;
mod frames;
mod heal;
mod hint;
mod last;
mod mend;
mod rest;
mod unread;
mod write;

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

pub use self::entry::{Entry, Head, JournalRecord, Raw};
pub(crate) use self::{
    around::{Around, Gap, damaged},
    entry::{encode_entry, read_event},
    write::Writer,
};
use self::{
    frames::{Frames, SEGMENT_HEADER_BYTES, SegmentHeader},
    rest::Rest,
};
use crate::{
    disk,
    error::{Error, IoContext, Result},
    files::{self, Folder, How},
    id::{hex, unhex},
    keys::{Keys, Part},
    layout::Layout,
};

/// The fault of a journal that is wholly gone.
const NO_SEGMENTS: &str = "all its segments are missing";

/// A place in the journal: behind a record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// Sequence of the segment's first record; 0 before the first segment.
    pub segment: u64,
    /// Offset in the segment, in bytes.
    pub offset: u64,
    /// Sequence of the last record before this place.
    pub sequence: u64,
    /// Chain hash of that record, in hex.
    pub hash: String,
}

impl Position {
    /// Before the first record.
    pub fn start() -> Self {
        Position { segment: 0, offset: 0, sequence: 0, hash: hex(&[0; 32]) }
    }
}

/// Everything from a position to the end.
#[derive(Clone, Debug)]
pub struct Tail {
    /// The records behind the position, in order.
    pub records: Vec<JournalRecord>,
    /// The place behind the last of them.
    pub end: Position,
    /// Bytes behind the end that are no whole record: an append that was cut off.
    pub torn_bytes: u64,
    /// Those bytes look like a record that was damaged, because none of its bytes is missing.
    pub is_doubtful: bool,
    /// Number of records behind the end that `journal/synced` tells of: the log was cut short, or copied before they were appended.
    pub missing: u64,
    /// A segment that was read has bytes behind its last record: the journal was cut there, now or once.
    pub was_cut: bool,
    /// The places where it was: the sequence that comes first behind each.
    pub cuts: BTreeSet<u64>,
    /// Records that are lost for good: the first and the last of each stretch.
    pub lost: Vec<(u64, u64)>,
}

impl Tail {
    /// One that ends at a place, with nothing behind it.
    fn to(end: &Position, was_cut: bool) -> Self {
        let (records, torn_bytes, is_doubtful, missing, cuts, lost) = Default::default();
        Tail { records, end: end.clone(), torn_bytes, is_doubtful, missing, was_cut, cuts, lost }
    }

    /// What was read around damage.
    pub(crate) fn around(found: &Around, records: Vec<JournalRecord>) -> Self {
        Tail { records, torn_bytes: found.left, ..Tail::to(&found.end, true) }
    }

    /// The same, up to a position that is settled: nothing behind it, as whoever appends that may still take it back.
    pub(crate) fn until(mut self, settled: &Position) -> Self {
        if self.end.sequence > settled.sequence {
            self.records.retain(|logged| logged.sequence <= settled.sequence);
            (self.end, self.torn_bytes) = (settled.clone(), 0);
        }
        self
    }
}

/// A reading of the journal: the place behind the last record that was taken in, and that record's chain hash.
struct JournalCursor {
    at: Position,
    hash: [u8; 32],
    was_cut: bool,
    cuts: BTreeSet<u64>,
    /// True if the segment was moved when records before it were lost: the next one names another end.
    was_moved: bool,
    /// The end of the segment before this one, as this one names it.
    began_behind: u64,
    lost: Vec<(u64, u64)>,
}

/// The fault of a record's content.
type RecordError = serde_json::Error;

/// The journal's folder.
#[derive(Clone, Debug)]
pub struct Journal {
    folder: PathBuf,
    keys: Keys,
}

impl Journal {
    /// The journal of a store.
    pub fn of(layout: &Layout) -> Self {
        Journal { folder: layout.journal(), keys: layout.keys.clone() }
    }

    fn segment_path(&self, first: u64) -> PathBuf {
        self.folder.join(Self::segment_name(first))
    }

    /// The file name of the segment that begins with a record.
    pub(crate) fn segment_name(first: u64) -> String {
        format!("{first:020}.log")
    }

    /// The segments' first sequences, in order.
    pub fn segments(&self) -> Result<Vec<u64>> {
        let names = match Folder::below(&self.folder).and_then(|folder| folder.names()) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                return Err(self.gone("the folder is missing"));
            }
            names => names.at("read folder", &self.folder)?,
        };
        // Another spelling of a number would name another file.
        let digits = |name: &str| (name.len() == 20 && name.bytes().all(|digit| digit.is_ascii_digit())).then(|| name.parse());
        let first = |name: &Vec<u8>| digits(std::str::from_utf8(name).ok()?.strip_suffix(".log")?)?.ok();
        let mut found: Vec<u64> = names.iter().filter_map(first).collect();
        found.sort_unstable();
        Ok(found)
    }

    /// True if nothing was appended since `position`: a cheap test, by file names and lengths.
    pub fn ends_at(&self, position: &Position) -> Result<bool> {
        let last = self.segments()?.last().copied().unwrap_or(0);
        if last != position.segment {
            return Ok(false);
        }
        if last == 0 {
            return Ok(true);
        }
        let path = self.segment_path(last);
        Ok(fs::symlink_metadata(&path).at("read journal", &path)?.len() == position.offset)
    }

    /// Reads every record from `from` to the end, and checks the chain.
    pub fn read(&self, from: &Position) -> Result<Tail> {
        let mut records = Vec::new();
        let tail = self.look_through(from, |raw| {
            records.push(raw.decode()?);
            Ok(())
        })?;
        Ok(Tail { records, ..tail })
    }

    /// Reads at most so many records from `from` on, and checks the chain. Nothing is said of what stands behind the last of them.
    pub fn read_page(&self, from: &Position, records_max: u64) -> Result<Tail> {
        let mut records = Vec::new();
        let tail = self.look_up_to(from, from.sequence.saturating_add(records_max), |raw| {
            records.push(raw.decode()?);
            Ok(())
        })?;
        Ok(Tail { records, ..tail })
    }

    /// Shows every record from `from` to the end, in order, and checks the chain. What is returned has no records.
    pub fn look_through(&self, from: &Position, look: impl FnMut(&Raw<'_>) -> Result<(), RecordError>) -> Result<Tail> {
        self.look_up_to(from, u64::MAX, look)
    }

    /// Shows every record from `from` up to a sequence, or to the end.
    pub fn look_up_to(
        &self,
        from: &Position,
        last: u64,
        mut look: impl FnMut(&Raw<'_>) -> Result<(), RecordError>,
    ) -> Result<Tail> {
        let hash = unhex::<32>(&from.hash).ok_or_else(|| self.corrupt(from.segment, from.offset, "its position"))?;
        let mut reading = JournalCursor {
            at: from.clone(),
            hash,
            was_cut: false,
            cuts: BTreeSet::new(),
            was_moved: false,
            began_behind: 0,
            lost: Vec::new(),
        };
        match self.go_on(&mut reading, last, &mut look) {
            // On a network filesystem, an append may just be arriving in pieces.
            Err(Error::Corrupt { .. }) => self.go_on(&mut reading, last, &mut look),
            other => other,
        }
    }

    /// The place behind a record, or behind the last one, where there is none of this sequence yet.
    pub fn place_behind(&self, sequence: u64) -> Result<Position> {
        Ok(self.look_up_to(&self.before_segment_of(sequence)?, sequence, |_| Ok(()))?.end)
    }

    /// The records behind a sequence, in order. Segments that end before it are not read.
    pub fn read_after(&self, sequence: u64) -> Result<Vec<JournalRecord>> {
        let mut records = Vec::new();
        self.look_after(sequence, |raw| {
            records.push(raw.decode()?);
            Ok(())
        })?;
        Ok(records)
    }

    /// Shows every record behind a sequence, in order. Segments that end before it are not read.
    pub fn look_after(&self, sequence: u64, mut look: impl FnMut(&Raw<'_>) -> Result<(), RecordError>) -> Result<()> {
        let from = self.before_segment_of(sequence)?;
        self.look_through(&from, |raw| if raw.sequence > sequence { look(raw) } else { Ok(()) }).map(drop)
    }

    /// The place before the segment that the record behind a sequence stands in, or will.
    fn before_segment_of(&self, sequence: u64) -> Result<Position> {
        match self.segments()?.into_iter().rfind(|first| *first <= sequence.saturating_add(1)) {
            Some(first) if first > 1 => self.beginning_of(first),
            _ => Ok(Position::start()),
        }
    }

    /// The place before a segment's first record.
    pub(crate) fn beginning_of(&self, first: u64) -> Result<Position> {
        let (header, _) = Frames::open(&self.segment_path(first), 0)?;
        let header =
            header.filter(|header| header.first == first).ok_or_else(|| self.corrupt(first, 0, "the segment's header"))?;
        let offset = SEGMENT_HEADER_BYTES as u64;
        Ok(Position { segment: first, offset, sequence: first - 1, hash: hex(&header.previous_hash) })
    }

    /// Fails where a segment does not go on from where a reading is. Behind a gap, it goes on from there.
    fn check_continues(&self, is_oldest: bool, header: &SegmentHeader, reading: &mut JournalCursor) -> Result<()> {
        let first = header.first;
        let JournalCursor { at, hash, .. } = reading;
        let has_end = reading.was_moved || header.previous_end == at.offset;
        let begins = is_oldest && (header.previous_hash, header.previous_end) == ([0; 32], 0);
        if first == at.segment {
            // The header was checked when what stands before the position was read.
        } else if header.is_behind_gap && first > at.sequence && (has_end || header.previous_end == reading.began_behind) {
            if first > at.sequence + 1 {
                reading.lost.push((at.sequence + 1, first - 1));
            }
            (at.sequence, *hash, reading.was_cut) = (first - 1, header.previous_hash, true);
            reading.cuts.insert(first);
        } else if begins && first > 1 {
            let needs = format!("a journal that begins with record {first}, behind a snapshot");
            return Err(Error::FormatNewer { path: self.folder.clone(), needs });
        } else if first != at.sequence + 1 || header.previous_hash != *hash || !has_end {
            return Err(self.corrupt(at.segment, at.offset, "a record is damaged or missing"));
        }
        (reading.was_moved, reading.began_behind) = (header.is_behind_gap, header.previous_end);
        Ok(())
    }

    /// Goes on from where a reading is up to a sequence, or to the end.
    fn go_on(
        &self,
        reading: &mut JournalCursor,
        last: u64,
        look: &mut dyn FnMut(&Raw<'_>) -> Result<(), RecordError>,
    ) -> Result<Tail> {
        // Before the segments, so that an append between the two reads is not taken for a loss.
        let hint = self.hint();
        let segments = self.segments()?;
        let (mut torn_bytes, mut rest) = (0, None);
        // Bytes behind the last record of the segment before.
        let mut left = 0;
        let begun = reading.at.segment;
        if begun != 0 && !segments.contains(&begun) {
            return Err(self.corrupt(begun, 0, "the segment is missing"));
        }
        for (i, &first) in segments.iter().enumerate().filter(|(_, first)| **first >= begun) {
            let path = self.segment_path(first);
            let from = if first == reading.at.segment { reading.at.offset } else { SEGMENT_HEADER_BYTES as u64 };
            let (header, frames) = Frames::open(&path, from)?;
            let Some(header) = header.filter(|h| h.first == first) else {
                return Err(self.corrupt(first, 0, "the segment's header"));
            };
            let Some(mut frames) = frames else {
                return Err(self.corrupt(first, reading.at.offset, "the segment is shorter than it was"));
            };
            self.check_continues(i == 0, &header, reading)?;
            let JournalCursor { at, hash, was_cut, cuts, lost, .. } = &mut *reading;
            *was_cut |= left > 0;
            cuts.extend((left > 0).then_some(first));
            (at.segment, at.offset) = (first, frames.at);
            while at.sequence < last
                && let Some((length, body, next)) = frames.next(at.sequence + 1, hash)?
            {
                let body = self.keys.seal.open(Part::Journal, body);
                let body = body.map_err(|e| self.corrupt(first, at.offset, &e.to_string()))?;
                let raw = Raw { sequence: at.sequence + 1, body: &body, ids: &self.keys.ids };
                look(&raw).map_err(|e| self.corrupt(first, at.offset, &e.to_string()))?;
                at.sequence += 1;
                *hash = next;
                frames.take(length);
                at.offset = frames.at;
            }
            if at.sequence >= last {
                at.hash = hex(hash);
                return Ok(Tail { cuts: cuts.clone(), lost: lost.clone(), ..Tail::to(at, *was_cut) });
            }
            left = frames.left();
            if i + 1 == segments.len() && left > 0 {
                torn_bytes = left;
                rest = Some(frames.rest(at.sequence + 1, hash, &self.keys.seal)?);
            }
        }
        let JournalCursor { at, hash, was_cut, cuts, lost, .. } = reading;
        at.hash = hex(hash);
        let missing = hint.map_or(0, |hint| hint.saturating_sub(at.sequence));
        let reason = match rest {
            Some(Rest::Damaged(later)) => &*format!("a committed record is damaged: the one at {later}, behind it, is whole"),
            // As many bytes as were appended, or what nobody appends.
            Some(Rest::Torn | Rest::Doubtful) if missing > 0 => "a committed record is damaged or missing",
            _ if missing > 0 && segments.is_empty() => return Err(self.gone(NO_SEGMENTS)),
            _ => {
                let is_doubtful = rest == Some(Rest::Doubtful);
                cuts.extend((left > 0).then_some(at.sequence + 1));
                let (cuts, lost) = (cuts.clone(), lost.clone());
                return Ok(Tail { torn_bytes, is_doubtful, missing, cuts, lost, ..Tail::to(at, *was_cut || left > 0) });
            }
        };
        Err(self.corrupt(at.segment, at.offset, reason))
    }

    /// True if the journal has what was read up to a position. What somebody appended and could not sync is taken back, and something else may
    /// stand there by now.
    pub(crate) fn confirms(&self, position: &Position) -> Result<bool> {
        if position.segment == 0 {
            return Ok(true);
        }
        let path = self.segment_path(position.segment);
        if !path.exists() {
            return Ok(false);
        }
        let (Some(header), Some(mut frames)) = Frames::open(&path, SEGMENT_HEADER_BYTES as u64)? else { return Ok(false) };
        let (mut sequence, mut hash) = (header.first.saturating_sub(1), header.previous_hash);
        while frames.at < position.offset
            && let Some((length, _, next)) = frames.next(sequence + 1, &hash)?
        {
            (sequence, hash) = (sequence + 1, next);
            frames.take(length);
        }
        Ok((frames.at, sequence, hex(&hash)) == (position.offset, position.sequence, position.hash.clone()))
    }

    /// True if anything that was there at a position may have gone since: by garbage collection, or as what was read there was taken back. A
    /// commit or a deletion alone takes nothing away.
    pub(crate) fn has_collected_since(&self, position: &Position) -> Result<bool> {
        if !self.confirms(position)? {
            return Ok(true);
        }
        let since = self.read(position)?.records;
        Ok(since.iter().any(|logged| matches!(logged.entry, Entry::Condemn { .. } | Entry::Dropped { .. })))
    }

    /// Has everything in the last segment on the medium, whoever wrote it. What lies in earlier ones is, since another was begun.
    pub(crate) fn sync(&self) -> Result<()> {
        let Some(last) = self.segments()?.last().copied() else { return Ok(()) };
        self.sync_segment(last)
    }

    /// The same, up to a record, and with the segments' names: whoever wrote it may have died before its segment had one on the medium.
    pub(crate) fn sync_up_to(&self, sequence: u64) -> Result<()> {
        self.sync()?;
        if self.hint().is_some_and(|hint| hint >= sequence) { Ok(()) } else { disk::sync_folder(&self.folder) }
    }

    fn sync_segment(&self, first: u64) -> Result<()> {
        let path = self.segment_path(first);
        let file = files::open(&path, How::Write).at("open journal", &path)?;
        disk::sync_file(&file, "sync journal", &path)
    }

    fn raced(&self) -> Error {
        Error::Raced { path: self.folder.clone() }
    }

    /// The error of a journal of which nothing is left.
    fn gone(&self, reason: &str) -> Error {
        Error::Corrupt { what: "journal".into(), place: self.folder.clone(), reason: reason.into() }
    }

    fn corrupt(&self, segment: u64, offset: u64, reason: &str) -> Error {
        Error::Corrupt {
            what: format!("journal record at {offset}"),
            place: self.segment_path(segment),
            reason: reason.to_owned(),
        }
    }

    /// The folder that holds the segments.
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

#[cfg(test)]
mod tests;
