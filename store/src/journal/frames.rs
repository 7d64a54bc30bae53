//! Segments as they are stored: a header, and records in frames with checksums that are chained by their hashes.

use std::{
    fs::File,
    io,
    ops::Range,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use crate::{
    codec::Decoder,
    errno,
    error::{Error, IoContext, Result, Side},
    files::{self, How},
    format::{JOURNAL_MAGIC, JOURNAL_RECORD_BYTES_MAX, JOURNAL_VERSION},
};

/// Length of a segment's header, in bytes.
pub(super) const SEGMENT_HEADER_BYTES: usize = 64;
/// Length of what stands before a record's body, in bytes.
pub(super) const FRAME_BYTES: usize = 48;
/// Bytes that a disk loses together.
const SECTOR_BYTES: usize = 4096;
/// Segments are read in pieces of this many bytes.
pub(super) const PIECE_BYTES: usize = 1 << 20;

pub(super) struct SegmentHeader {
    pub(super) first: u64,
    pub(super) previous_end: u64,
    pub(super) previous_hash: [u8; 32],
    /// Records between the segment before and this one are lost for good; the hash is the last one's of these.
    pub(super) is_behind_gap: bool,
}

/// The flag of a segment behind lost records.
const BEHIND_GAP: [u8; 2] = [1, 0];

impl SegmentHeader {
    pub(super) fn encode(&self) -> [u8; SEGMENT_HEADER_BYTES] {
        let mut out = [0; SEGMENT_HEADER_BYTES];
        out[..8].copy_from_slice(&JOURNAL_MAGIC);
        out[8..10].copy_from_slice(&JOURNAL_VERSION.to_le_bytes());
        if self.is_behind_gap {
            out[10..12].copy_from_slice(&BEHIND_GAP);
        }
        out[12..20].copy_from_slice(&self.first.to_le_bytes());
        out[20..28].copy_from_slice(&self.previous_end.to_le_bytes());
        out[28..60].copy_from_slice(&self.previous_hash);
        let crc = crc32c::crc32c(&out[..60]);
        out[60..].copy_from_slice(&crc.to_le_bytes());
        out
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut d = Decoder::new(bytes.get(..SEGMENT_HEADER_BYTES)?);
        let magic: [u8; 8] = d.array("segment").ok()?;
        let version: [u8; 2] = d.array("segment").ok()?;
        let flags: [u8; 2] = d.array("segment").ok()?;
        let header = SegmentHeader {
            first: d.u64("segment").ok()?,
            previous_end: d.u64("segment").ok()?,
            previous_hash: d.array("segment").ok()?,
            is_behind_gap: flags == BEHIND_GAP,
        };
        let crc = d.u32("segment").ok()?;
        let whole = crc == crc32c::crc32c(&bytes[..60]) && [[0; 2], BEHIND_GAP].contains(&flags);
        (magic == JOURNAL_MAGIC && u16::from_le_bytes(version) == JOURNAL_VERSION && whole).then_some(header)
    }
}

/// One frame: length, checksum, sequence, hash of the record before, body. Returns the bytes and the chain hash.
pub(super) fn encode_frame(sequence: u64, previous: &[u8; 32], body: &[u8]) -> (Vec<u8>, [u8; 32]) {
    let mut out = Vec::with_capacity(FRAME_BYTES + body.len());
    out.extend_from_slice(&(body.len() as u32).to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&sequence.to_le_bytes());
    out.extend_from_slice(previous);
    out.extend_from_slice(body);
    let crc = crc32c::crc32c_append(crc32c::crc32c(&out[..4]), &out[8..]);
    out[4..8].copy_from_slice(&crc.to_le_bytes());
    let hash = *blake3::hash(&out[8..]).as_bytes();
    (out, hash)
}

/// A frame's length, body and chain hash.
pub(super) type Frame<'a> = (usize, &'a [u8], [u8; 32]);

/// The frame at the start of `bytes`, from its sequence on; `None` where there is no whole one.
pub(super) fn checked_frame(bytes: &[u8]) -> Option<&[u8]> {
    let mut d = Decoder::new(bytes);
    let length = d.u32("frame").ok()? as usize;
    let crc = d.u32("frame").ok()?;
    if length > JOURNAL_RECORD_BYTES_MAX {
        return None;
    }
    let rest = bytes.get(8..FRAME_BYTES + length)?;
    (crc32c::crc32c_append(crc32c::crc32c(&bytes[..4]), rest) == crc).then_some(rest)
}

/// The sequence and the body of the frame at the start of `bytes`, whatever it continues.
pub(super) fn whole_frame(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let rest = checked_frame(bytes)?;
    Some((u64::from_le_bytes(*rest.first_chunk()?), &rest[40..]))
}

/// The frame at the start of `bytes`; `None` where there is no whole one that continues the chain.
pub(super) fn decode_frame<'a>(bytes: &'a [u8], sequence: u64, previous: &[u8; 32]) -> Option<Frame<'a>> {
    let rest = checked_frame(bytes)?;
    let length = rest.len() - 40;
    if rest[..8] != sequence.to_le_bytes() || rest[8..40] != previous[..] {
        return None;
    }
    Some((FRAME_BYTES + length, &rest[40..], *blake3::hash(rest).as_bytes()))
}

/// Reads a segment's frames in pieces: memory is asked for what is there to be decoded, whatever length the file has.
pub(super) struct Frames {
    pub(super) file: File,
    pub(super) path: PathBuf,
    /// Length of the file, in bytes.
    pub(super) length: u64,
    /// The offset in the file of the bytes that were read and not yet taken.
    pub(super) at: u64,
    bytes: Vec<u8>,
    taken: usize,
}

impl Frames {
    /// Opens a segment at an offset. Its header; `None` for the frames where the file ends before that.
    pub(super) fn open(path: &Path, from: u64) -> Result<(Option<SegmentHeader>, Option<Self>)> {
        let file = files::open(path, How::Read).at("open journal", path)?;
        let length = file.metadata().at("read journal", path)?.len();
        let mut start = vec![0; SEGMENT_HEADER_BYTES.min(usize::try_from(length).unwrap_or(usize::MAX))];
        file.read_exact_at(&mut start, 0).map_err(|e| unreadable(e, path, 0))?;
        let frames = Frames { file, path: path.to_owned(), length, at: from, bytes: Vec::new(), taken: 0 };
        Ok((SegmentHeader::decode(&start), (from <= length).then_some(frames)))
    }

    /// Bytes from here to the file's end.
    pub(super) fn left(&self) -> u64 {
        self.length.saturating_sub(self.at)
    }

    pub(super) fn ahead(&self) -> &[u8] {
        self.bytes.get(self.taken..).unwrap_or_default()
    }

    /// Goes on by so many of the bytes that were read.
    pub(super) fn take(&mut self, bytes: usize) {
        self.taken += bytes;
        self.at += bytes as u64;
    }

    /// Has at least so many bytes ahead, if the file has.
    pub(super) fn fill(&mut self, wanted: usize) -> Result<()> {
        if self.ahead().len() >= wanted {
            return Ok(());
        }
        self.bytes.drain(..self.taken);
        self.taken = 0;
        let most = usize::try_from(self.left()).unwrap_or(usize::MAX).min(wanted.max(PIECE_BYTES));
        let mut filled = self.bytes.len();
        self.bytes.resize(most.max(filled), 0);
        let from = self.at + filled as u64;
        filled += read_up_to(&self.file, &mut self.bytes[filled..], from).map_err(|e| unreadable(e, &self.path, from))?;
        self.bytes.truncate(filled);
        Ok(())
    }

    /// The next frame; `None` where no whole one continues the chain.
    pub(super) fn next(&mut self, sequence: u64, previous: &[u8; 32]) -> Result<Option<Frame<'_>>> {
        self.fill(FRAME_BYTES)?;
        let length = self.ahead().first_chunk().map_or(0, |length| u32::from_le_bytes(*length) as usize);
        if length <= JOURNAL_RECORD_BYTES_MAX {
            self.fill(FRAME_BYTES + length)?;
        }
        Ok(decode_frame(self.ahead(), sequence, previous))
    }
}

/// The error of bytes that could not be read. A bad sector is damage, around which there may be whole records.
pub(super) fn unreadable(error: io::Error, path: &Path, at: u64) -> Error {
    match errno::is_damage(Side::Store, &error) {
        true => Error::Corrupt {
            what: format!("journal record at {at}"),
            place: path.to_owned(),
            reason: format!("it cannot be read: {error}"),
        },
        false => Error::Io { action: "read journal", path: path.to_owned(), source: error },
    }
}

/// Fills a buffer from an offset as far as the file goes, with zeros where the disk cannot read. Returns how far, and what it could not read of
/// the buffer.
pub(super) fn read_around(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<(usize, Vec<Range<usize>>)> {
    match read_up_to(file, buffer, offset) {
        Err(e) if errno::is_damage(Side::Store, &e) => {}
        other => return other.map(|filled| (filled, Vec::new())),
    }
    let (mut filled, mut unread) = (0, Vec::new());
    while filled < buffer.len() {
        let at = offset + filled as u64;
        let sector_end = filled + SECTOR_BYTES - (at % SECTOR_BYTES as u64) as usize;
        let part = filled..sector_end.min(buffer.len());
        let piece = &mut buffer[part.clone()];
        match read_up_to(file, piece, at) {
            Ok(read) if read < piece.len() => return Ok((filled + read, unread)),
            Ok(_) => {}
            Err(e) if errno::is_damage(Side::Store, &e) => {
                piece.fill(0);
                unread.push(part.clone());
            }
            Err(e) => return Err(e),
        }
        filled = part.end;
    }
    Ok((filled, unread))
}

/// Fills a buffer from an offset as far as the file goes. Returns how far.
pub(super) fn read_up_to(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read_at(&mut buffer[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(filled)
}
