//! Mending a damaged journal. A flipped bit is set right in its place. Where more is damaged, what is whole behind it moves to a segment of its
//! own, which says that the records before it are lost; no record is written again or gets another number. Nothing is overwritten: the damaged
//! bytes stay where they are, behind the end of their segment.
//!
//! Each step leaves a journal that can be read as far as it could before, and the next call goes on from there.

use parhelia_name::step::Step;
use std::{ffi::OsStr, os::unix::fs::FileExt, path::PathBuf};

use super::{
    Around, Gap, Journal, Position, Tail,
    around::{Bit, Resume},
    frames::SegmentHeader,
};
use crate::{
    config::Config,
    disk,
    error::{Error, IoContext, Result},
    files::{self, Folder, How},
    format::{JOURNAL_GAPS, JOURNAL_SEGMENT_BYTES},
    id::hex,
    layout::{DAMAGED, Layout},
};

/// More damaged places than a journal is mended at in one go.
const STEPS_MAX: usize = 10_000;

impl Journal {
    /// The damage that [`Journal::mend`] would mend; `None` where the journal reads to its end.
    pub(crate) fn damage(&self) -> Result<Option<Around>> {
        let error = match self.look_through(&Position::start(), |_| Ok(())) {
            Err(e @ Error::Corrupt { .. }) => e,
            other => return other.map(|_| None),
        };
        match self.look_around(&Position::start(), &mut |_| Ok(())) {
            Ok(around) if !around.gaps.is_empty() => Ok(Some(around)),
            // What is wrong is not what damage does.
            _ => Err(error),
        }
    }

    /// Makes the journal one that reads to its end. The caller holds the writer lock. `end` gives what is appended where the last records are
    /// lost: their bodies, from wherever they still are, or an entry that says so for good.
    pub(crate) fn mend(&self, layout: &Layout, end: &dyn Fn(&Gap) -> Result<Vec<Vec<u8>>>) -> Result<Vec<Gap>> {
        self.make_readable()?;
        let mut mended = Vec::new();
        for _ in 0..STEPS_MAX {
            let Some(around) = self.damage()? else { return Ok(mended) };
            // The disk has begun to fail since: what it cannot read may be whole.
            around.unread.map_or(Ok(()), |first| Err(self.unread_for_now(first)))?;
            let Some(gap) = around.gaps.into_iter().next().filter(|gap| mended.last() != Some(gap)) else { break };
            self.mend_at(layout, &gap, end)?;
            mended.push(gap);
        }
        Err(Error::Invalid(format!(
            "the journal in {} cannot be mended; {} makes a new store of what the packs hold",
            self.folder.display(),
            Step::Salvage
        )))
    }

    fn mend_at(&self, layout: &Layout, gap: &Gap, end: &dyn Fn(&Gap) -> Result<Vec<Vec<u8>>>) -> Result<()> {
        match (gap.bit, &gap.resumes, gap.next) {
            (Some(bit), ..) => self.set_right(bit),
            (None, Some(resumes), Some(next)) => self.go_on_behind(layout, gap, resumes, next),
            _ => self.go_on_without(gap, end(gap)?),
        }
    }

    fn set_right(&self, bit: Bit) -> Result<()> {
        let path = self.segment_path(bit.segment);
        let file = files::open(&path, How::Write).at("open journal", &path)?;
        file.write_all_at(&[bit.byte], bit.offset).at("write", &path)?;
        disk::sync_file(&file, "sync journal", &path)
    }

    /// Has what is whole behind damage stand in a segment that says what is lost before it.
    fn go_on_behind(&self, layout: &Layout, gap: &Gap, resumes: &Resume, next: u64) -> Result<()> {
        let is_behind_gap = !gap.is_of_header();
        if is_behind_gap {
            Config::require(layout, JOURNAL_GAPS)?;
        }
        let (bytes, length) = self.readable_segment(resumes.segment)?;
        let mut header = SegmentHeader { first: next, previous_end: gap.offset, previous_hash: resumes.previous, is_behind_gap };
        let is_same = next == resumes.segment && resumes.segment == gap.segment;
        if let Some(own) = SegmentHeader::decode(&bytes).filter(|_| is_same) {
            // Something stands between its header and its first record. It goes on where it did.
            header = SegmentHeader { is_behind_gap, previous_hash: resumes.previous, ..own };
        }
        // A segment that begins with what is lost keeps no record. Out of the way, it leaves its name to what takes their place.
        let is_emptied = gap.first == gap.segment && next != gap.segment;
        if is_emptied {
            let (emptied, _) = self.readable_segment(gap.segment)?;
            if let Some(emptied) = SegmentHeader::decode(&emptied) {
                header.previous_end = emptied.previous_end;
            }
        }
        if length > bytes.len() as u64 {
            return Err(self.corrupt(resumes.segment, bytes.len() as u64, "it is longer than a segment may be"));
        }
        let records = bytes.get(resumes.offset as usize..).unwrap_or_default();
        let bytes = [&header.encode()[..], records].concat();
        let path = self.segment_path(next);
        let is_in_place = next == resumes.segment;
        let name = path.file_name().unwrap_or(OsStr::new(""));
        if is_in_place && is_behind_gap {
            self.keep_aside(resumes.segment)?;
        }
        Folder::below(&self.folder).and_then(|folder| folder.write_synced(name, &bytes, !is_in_place)).at("write", &path)?;
        if resumes.segment != gap.segment && !is_in_place {
            // Its first records are lost, so that nothing leads to it any more.
            self.set_aside(resumes.segment)?;
        }
        if is_emptied {
            self.set_aside(gap.segment)?;
        }
        Ok(())
    }

    /// Goes on where the last records are lost, as if their append had been cut off. Segments of which nothing can be read are set aside.
    fn go_on_without(&self, gap: &Gap, bodies: Vec<Vec<u8>>) -> Result<()> {
        for later in self.segments()?.into_iter().filter(|first| *first > gap.segment) {
            self.set_aside(later)?;
        }
        let (segment, offset, sequence) = (gap.segment, gap.offset, gap.first - 1);
        let length = if segment == 0 { 0 } else { self.segment_bytes(segment)?.1 };
        let torn_bytes = length.saturating_sub(offset);
        let missing = self.hint().map_or(1, |hint| hint.saturating_sub(sequence).max(1));
        let end = Position { segment, offset, sequence, hash: hex(&gap.hash) };
        self.append_all(Tail { torn_bytes, missing, ..Tail::to(&end, true) }, bodies)
    }

    /// Appends records behind the end of a journal, however many.
    pub(crate) fn append_all(&self, mut tail: Tail, bodies: Vec<Vec<u8>>) -> Result<()> {
        let last = tail.end.sequence + bodies.len() as u64;
        let (mut batch, mut bytes) = (Vec::new(), 0);
        for body in bodies {
            bytes += body.len() as u64;
            batch.push(body);
            if bytes >= JOURNAL_SEGMENT_BYTES / 2 {
                tail = Tail::to(&self.append_bodies(&tail, std::mem::take(&mut batch))?, false);
                // Should this end here, the others are known to be missing.
                self.raise_hint(last);
                bytes = 0;
            }
        }
        if batch.is_empty() { Ok(()) } else { self.append_bodies(&tail, batch).map(drop) }
    }

    /// Keeps a copy of a segment under a name by which it is no part of the journal, and that no file had. Returns that name.
    pub(super) fn keep_aside(&self, first: u64) -> Result<PathBuf> {
        let (bytes, _) = self.readable_segment(first)?;
        let aside = self.segment_path(first).with_extension(DAMAGED);
        files::write_aside(&aside, &bytes).at("write", &aside)
    }

    /// Gives a segment such a name.
    fn set_aside(&self, first: u64) -> Result<()> {
        let path = self.segment_path(first);
        files::rename_aside(&path, &path.with_extension(DAMAGED)).at("set aside", &path)?;
        disk::sync_folder(&self.folder)
    }
}
