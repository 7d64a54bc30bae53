//! The prefix that an index is based on: hashes of the bytes before its offset, piece by piece.
//!
//! Going on costs the hashing of the last piece or two, not of everything: bytes that are inserted or removed anywhere before shift
//! what lies there. A change that keeps every later byte in its place, within the same file (not one renamed over it), is what the
//! quick check cannot see; [`Check::Whole`] sees it.

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom},
};

use serde::{Deserialize, Serialize};

/// Bytes that are hashed together.
pub const PIECE_BYTES: u64 = 4 << 20;
/// Bytes hashed before an index goes on, if there are as many.
const SEAM_BYTES_MIN: u64 = 64 << 10;

/// The extent of the comparison before an index goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Check {
    /// The last pieces where it is still the same file, everything where it is another.
    #[default]
    Seam,
    /// Everything.
    Whole,
}

/// The bytes before an offset.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Prefix {
    /// The offset.
    pub bytes: u64,
    /// The file's inode number.
    pub inode: u64,
    /// BLAKE3 of every whole piece, in hex.
    pub pieces: Vec<String>,
    /// BLAKE3 of what follows the last whole piece, in hex.
    pub rest: String,
}

impl Prefix {
    /// True if a file still begins with these bytes.
    pub fn holds(&self, file: &mut File, inode: u64, check: Check) -> io::Result<bool> {
        let whole = self.pieces.len() as u64;
        if self.bytes / PIECE_BYTES != whole || file.metadata()?.len() < self.bytes {
            return Ok(false);
        }
        let rest = self.bytes % PIECE_BYTES;
        if rest > 0 && hash(file, whole * PIECE_BYTES, rest)?.as_deref() != Some(&self.rest) {
            return Ok(false);
        }
        let first = match check {
            Check::Whole => 0,
            Check::Seam if inode != self.inode => 0,
            Check::Seam if rest >= SEAM_BYTES_MIN => whole,
            Check::Seam => whole.saturating_sub(1),
        };
        for (number, piece) in (first..whole).zip(self.pieces.iter().skip(first as usize)) {
            if hash(file, number * PIECE_BYTES, PIECE_BYTES)?.as_deref() != Some(piece) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn hash(file: &mut File, from: u64, bytes: u64) -> io::Result<Option<String>> {
    file.seek(SeekFrom::Start(from))?;
    let mut hasher = blake3::Hasher::new();
    let read = io::copy(&mut file.take(bytes), &mut hasher)?;
    Ok((read == bytes).then(|| hasher.finalize().to_hex().to_string()))
}

/// Reads a file from an offset on, and hashes what passes, so that the prefix grows with what was read.
#[derive(Debug)]
pub(super) struct HashingReader<R> {
    input: R,
    hasher: blake3::Hasher,
    prefix: Prefix,
}

impl HashingReader<io::Take<File>> {
    /// Goes on after a prefix that holds, up to `end`.
    pub fn new(mut file: File, prefix: Prefix, end: u64) -> io::Result<Self> {
        let start = prefix.pieces.len() as u64 * PIECE_BYTES;
        let mut hasher = blake3::Hasher::new();
        file.seek(SeekFrom::Start(start))?;
        io::copy(&mut (&mut file).take(prefix.bytes - start), &mut hasher)?;
        let input = file.take(end.saturating_sub(prefix.bytes));
        Ok(HashingReader { input, hasher, prefix })
    }
}

impl<R> HashingReader<R> {
    /// The prefix up to what was read.
    pub fn prefix(mut self) -> Prefix {
        let is_empty = self.prefix.bytes.is_multiple_of(PIECE_BYTES);
        self.prefix.rest = if is_empty { String::new() } else { self.hasher.finalize().to_hex().to_string() };
        self.prefix
    }
}

impl<R: Read> Read for HashingReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(buffer)?;
        let mut rest = &buffer[..read];
        while !rest.is_empty() {
            let room = (PIECE_BYTES - self.prefix.bytes % PIECE_BYTES) as usize;
            let part = &rest[..room.min(rest.len())];
            self.hasher.update(part);
            self.prefix.bytes += part.len() as u64;
            rest = &rest[part.len()..];
            if self.prefix.bytes.is_multiple_of(PIECE_BYTES) {
                self.prefix.pieces.push(self.hasher.finalize().to_hex().to_string());
                self.hasher.reset();
            }
        }
        Ok(read)
    }
}
