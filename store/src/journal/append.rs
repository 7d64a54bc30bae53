//! Appending to the journal: to its last segment, or as the first of a new one.

use std::{ffi::OsStr, fs::File, io, os::unix::fs::FileExt};

use super::{
    Journal, Position, Tail,
    entry::{Entry, encode_entry},
    frames::{SegmentHeader, encode_frame},
};
use crate::{
    disk,
    error::{Error, IoContext, Result},
    files::{self, Folder, How},
    format::{JOURNAL_RECORD_BYTES_MAX, JOURNAL_SEGMENT_BYTES},
    id::{hex, unhex},
    keys::Part,
};

impl Journal {
    /// Opens the last segment to append to it, if it ends where it was read to.
    fn open_end(&self, end: &Tail) -> Result<File> {
        let path = self.segment_path(end.end.segment);
        let file = files::open(&path, How::Write).at("open journal", &path)?;
        let length = file.metadata().at("read journal", &path)?.len();
        if length == end.end.offset + end.torn_bytes { Ok(file) } else { Err(self.raced()) }
    }

    /// Appends entries behind `end`, as read under the writer lock, and syncs them. Returns the new end. What fails is taken back while
    /// the lock is held. Fails with [`Error::Raced`] where the journal does not end there any more, and writes nothing.
    pub fn append(&self, end: &Tail, entries: &[Entry]) -> Result<Position> {
        let bodies = entries.iter().enumerate().map(|(joined, entry)| encode_entry(entry, joined));
        self.append_bodies(end, bodies.collect::<Result<_>>()?)
    }

    /// As [`Journal::append`], of records whose bodies are taken as they are.
    pub(super) fn append_bodies(&self, end: &Tail, bodies: Vec<Vec<u8>>) -> Result<Position> {
        let mut at = end.end.clone();
        let mut hash = unhex::<32>(&at.hash).unwrap_or_default();
        let mut frames = Vec::new();
        for body in bodies {
            let body = self.keys.seal.seal(Part::Journal, body);
            if body.len() > JOURNAL_RECORD_BYTES_MAX {
                return Err(Error::Invalid(format!("a journal record of {} bytes is too long", body.len())));
            }
            at.sequence += 1;
            let (frame, next) = encode_frame(at.sequence, &hash, &body);
            frames.extend_from_slice(&frame);
            hash = next;
        }
        if self.segments()?.last().copied().unwrap_or(0) != at.segment {
            return Err(self.raced());
        }
        let is_damaged = end.torn_bytes > 0 || end.missing > 0;
        if is_damaged && at.segment == end.end.sequence + 1 {
            at = self.replace_segment(end, &frames, at.sequence, &hash)?;
        } else if at.segment == 0 || end.torn_bytes > 0 || end.missing > 0 || at.offset >= JOURNAL_SEGMENT_BYTES {
            let first = end.end.sequence + 1;
            let previous_hash = unhex(&end.end.hash).unwrap_or_default();
            let header = SegmentHeader { first, previous_end: end.end.offset, previous_hash, is_behind_gap: false };
            let mut bytes = header.encode().to_vec();
            bytes.extend_from_slice(&frames);
            if at.segment != 0 {
                let path = self.segment_path(at.segment);
                let file = self.open_end(end)?;
                if end.missing > 0 && end.torn_bytes == 0 {
                    // A byte that is no record: that records were missing is seen here for good, whatever the hint says from now on.
                    file.write_all_at(&[0], at.offset).at("append to journal", &path)?;
                }
                // Whoever wrote its last record may have died before that was on the medium; the new segment is chained behind it.
                disk::sync_file(&file, "sync journal", &path)?;
            }
            self.begin_segment(first, &bytes)?;
            at = Position { segment: first, offset: bytes.len() as u64, sequence: at.sequence, hash: hex(&hash) };
        } else {
            self.append_to_end(end, &frames)?;
            at.offset += frames.len() as u64;
            at.hash = hex(&hash);
        }
        self.write_hint(at.sequence);
        Ok(at)
    }

    /// Appends where no record is left of the last segment, whose name the next record's segment would have. A segment that begins as that one did
    /// takes its place, and the damaged one is kept under another name. A byte behind the new records, and a segment behind that, show for
    /// good that records were missing here.
    fn replace_segment(&self, end: &Tail, frames: &[u8], sequence: u64, hash: &[u8; 32]) -> Result<Position> {
        let segment = end.end.segment;
        drop(self.open_end(end)?);
        let (old, _) = self.segment_bytes(segment)?;
        let header = SegmentHeader::decode(&old).filter(|header| header.first == segment);
        let header = header.ok_or_else(|| self.corrupt(segment, 0, "the segment's header"))?;
        let bytes = [&header.encode()[..], frames, &[0]].concat();
        let path = self.segment_path(segment);
        let name = path.file_name().unwrap_or(OsStr::new(""));
        let aside = self.keep_aside(segment)?;
        let written = Folder::below(&self.folder).and_then(|folder| folder.write_synced(name, &bytes, false)).at("write", &path);
        let next = SegmentHeader {
            first: sequence + 1,
            previous_end: bytes.len() as u64 - 1,
            previous_hash: *hash,
            is_behind_gap: false,
        };
        let begun = written.and_then(|()| self.begin_segment(next.first, &next.encode()));
        if begun.is_err() {
            let _ = files::rename(&aside, &path);
        }
        begun?;
        Ok(Position { segment: next.first, offset: next.encode().len() as u64, sequence, hash: hex(hash) })
    }

    /// A record as it would stand behind a place.
    pub(crate) fn frame(&self, behind: &Position, body: &[u8]) -> Vec<u8> {
        let body = self.keys.seal.seal(Part::Journal, body.to_vec());
        encode_frame(behind.sequence + 1, &unhex(&behind.hash).unwrap_or_default(), &body).0
    }

    fn append_to_end(&self, end: &Tail, frames: &[u8]) -> Result<()> {
        let offset = end.end.offset;
        let path = self.segment_path(end.end.segment);
        let file = self.open_end(end)?;
        if self.hint() != Some(end.end.sequence) {
            // Whoever wrote the last record may have died before that, or the segment's name, was on the medium. Only one append at a time
            // may be lost by a power cut: what tells a torn one from damage depends on it.
            disk::sync_file(&file, "sync journal", &path)?;
            disk::sync_folder(&self.folder)?;
        }
        let written = file.write_all_at(frames, offset).at("append to journal", &path);
        let is_visible = written.is_ok();
        written.and_then(|()| disk::sync_file(&file, "sync journal", &path)).inspect_err(|_| {
            // What could not be synced may be read now and be gone later: the next append must not be chained behind it.
            let _ = file.set_len(offset);
            if is_visible {
                // Whoever has read it must see that the journal is another, however long the next record is: a byte that is no
                // record has that one begin a segment.
                let _ = file.write_all_at(&[0], offset);
            }
            let _ = disk::sync_file(&file, "sync journal", &path);
        })
    }

    /// Makes a segment. One of which the name could not be synced goes again, so that nothing is appended to it.
    pub(super) fn begin_segment(&self, first: u64, bytes: &[u8]) -> Result<()> {
        let path = self.segment_path(first);
        let name = path.file_name().unwrap_or(OsStr::new(""));
        let made = Folder::below(&self.folder).and_then(|folder| folder.write_synced(name, bytes, true));
        match made {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Err(self.raced()),
            Err(e) => {
                let _ = files::remove(&path);
                Err(e).at("write", &path)
            }
            Ok(()) => Ok(()),
        }
    }
}
