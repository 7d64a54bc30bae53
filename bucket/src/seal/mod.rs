//! Sealing: an object's content, cut into pieces that are encrypted one by one, so that a range of it can be read.
//!
//! Each object has a key of its own, derived from the master key and the object's random name. So nonces can be counted, and neither a nonce
//! nor a key is ever shared between machines. What authenticates a piece covers the object's path, its name and the piece's number, and
//! whether it is the last: objects that were swapped, pieces that were moved, and an object that was cut short are all found. Content is padded
//! to a Padmé length, so that its exact length does not show.
//!
//! A bucket without encryption has the same framing, with checksums in place of tags.

mod frame;
mod key;
mod padme;
#[cfg(test)]
mod tests;

use std::ops::Range;

pub use self::{
    frame::{HEADER_BYTES, Header},
    key::{Cipher, Keyring, MasterKey},
};
use self::{key::ObjectKey, padme::padme};
use crate::error::{Error, Result};

/// Length of the tag behind each piece, in bytes.
pub const TAG_BYTES: u64 = 16;
/// Length of the content's length at the end of the padded content, in bytes.
const LENGTH_BYTES: u64 = 8;
/// Shortest padded content, in bytes: below this, every segment has the same length.
const PADDED_BYTES_MIN: u64 = 1024;
/// Longest object that is opened as a whole, in bytes of its stored form.
pub const WHOLE_BYTES_MAX: u64 = 256 << 20;

/// What is needed to seal or open an object without reading its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sealing {
    /// The cipher.
    pub cipher: Cipher,
    /// Generation of the master key; 0 without encryption.
    pub generation: u32,
    /// Binary logarithm of the pieces' length, 12 to 22.
    pub piece_log2: u8,
}

impl Sealing {
    /// Length of a piece's content, in bytes.
    fn piece_bytes(self) -> u64 {
        1 << self.piece_log2
    }
}

/// Lengths of a sealed object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Length of the content, in bytes.
    pub content_bytes: u64,
    /// Length of the content with its padding and its length, in bytes.
    padded_bytes: u64,
    piece_bytes: u64,
}

impl Shape {
    /// The shape of a content. Fails above 2^48 bytes.
    pub fn of(content_bytes: u64, sealing: Sealing) -> Result<Self> {
        if content_bytes >= 1 << 48 {
            return Err(Error::Invalid(format!("cannot seal {content_bytes} bytes: an object has less than 2^48")));
        }
        let padded_bytes = padme(content_bytes + LENGTH_BYTES).max(PADDED_BYTES_MIN);
        Ok(Shape { content_bytes, padded_bytes, piece_bytes: sealing.piece_bytes() })
    }

    /// Number of pieces; at least one.
    fn pieces(self) -> u64 {
        self.padded_bytes.div_ceil(self.piece_bytes)
    }

    /// Length of the stored object, in bytes.
    pub fn stored_bytes(self) -> u64 {
        HEADER_BYTES + self.padded_bytes + self.pieces() * TAG_BYTES
    }

    /// Where a piece lies in the padded content.
    fn piece(self, index: u64) -> Range<u64> {
        let start = index * self.piece_bytes;
        start..(start + self.piece_bytes).min(self.padded_bytes)
    }

    /// Where a run of pieces lies in the stored object.
    fn stored(self, pieces: Range<u64>) -> Range<u64> {
        let stored_piece = self.piece_bytes + TAG_BYTES;
        HEADER_BYTES + pieces.start * stored_piece..(HEADER_BYTES + pieces.end * stored_piece).min(self.stored_bytes())
    }

    /// The pieces that hold a range of the content.
    fn holding(self, range: &Range<u64>) -> Range<u64> {
        range.start / self.piece_bytes..range.end.div_ceil(self.piece_bytes)
    }
}

/// A content that is sealed or was sealed: bytes that can be read from any place, and never change.
pub trait Content {
    /// Length in bytes.
    fn bytes(&self) -> u64;
    /// Fills a buffer from an offset; the range lies within the content.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()>;
}

impl Content for [u8] {
    fn bytes(&self) -> u64 {
        self.len() as u64
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let from = usize::try_from(offset).ok().and_then(|start| self.get(start..start.checked_add(buffer.len())?));
        buffer.copy_from_slice(from.ok_or_else(|| Error::Invalid("cannot read behind the end of a content".into()))?);
        Ok(())
    }
}

/// Seals and opens one object.
pub struct Seal<'a> {
    location: &'a str,
    sealing: Sealing,
    name: [u8; 32],
    key: ObjectKey,
}

impl<'a> Seal<'a> {
    /// The seal of an object: `location` is its path below the bucket's prefix.
    pub fn new(location: &'a str, name: [u8; 32], sealing: Sealing, keys: &Keyring) -> Result<Self> {
        let key = keys.object_key(location, sealing, &name)?;
        Ok(Seal { location, sealing, name, key })
    }

    /// The seal that an object's header names. Tells a wrong key from damage.
    pub fn of_header(location: &'a str, header: &Header, keys: &Keyring) -> Result<Self> {
        if keys.check(location, header.sealing, &header.name)? != header.check {
            return Err(Error::WrongKey { object: location.into(), generation: header.sealing.generation });
        }
        Seal::new(location, header.name, header.sealing, keys)
    }

    /// The stored bytes of a range of the sealed object: the same for the same content each time, so that an upload can go on.
    pub fn seal_range<C: Content + ?Sized>(&self, content: &C, keys: &Keyring, range: Range<u64>) -> Result<Vec<u8>> {
        let shape = Shape::of(content.bytes(), self.sealing)?;
        if range.start > range.end || range.end > shape.stored_bytes() {
            return Err(Error::Invalid(format!("cannot seal {range:?} of {} bytes", shape.stored_bytes())));
        }
        let stored_piece = shape.piece_bytes + TAG_BYTES;
        let pieces = range.start.saturating_sub(HEADER_BYTES) / stored_piece
            ..range.end.saturating_sub(HEADER_BYTES).div_ceil(stored_piece);
        let mut start = shape.stored(pieces.clone()).start;
        let mut bytes = Vec::with_capacity(to_usize(range.end - range.start + 2 * stored_piece)?);
        if range.start < HEADER_BYTES {
            let check = keys.check(self.location, self.sealing, &self.name)?;
            bytes.extend_from_slice(&Header { sealing: self.sealing, name: self.name, check }.encode());
            start = 0;
        }
        for index in pieces {
            self.seal_piece(content, shape, index, &mut bytes)?;
        }
        bytes.truncate(to_usize(range.end - start)?);
        bytes.drain(..to_usize(range.start - start)?);
        Ok(bytes)
    }

    /// The whole sealed object.
    pub fn seal_whole(&self, content: &[u8], keys: &Keyring) -> Result<Vec<u8>> {
        let stored_bytes = Shape::of(content.bytes(), self.sealing)?.stored_bytes();
        self.seal_range(content, keys, 0..stored_bytes)
    }

    fn seal_piece<C: Content + ?Sized>(&self, content: &C, shape: Shape, index: u64, to: &mut Vec<u8>) -> Result<()> {
        let piece = shape.piece(index);
        let at = to.len();
        to.resize(at + to_usize(piece.end - piece.start)?, 0);
        let plain = &mut to[at..];
        let from_content = piece.end.min(shape.content_bytes).saturating_sub(piece.start);
        content.read_at(piece.start.min(shape.content_bytes), &mut plain[..to_usize(from_content)?])?;
        // The content's length takes the last eight bytes, which may lie in two pieces.
        let length_at = shape.padded_bytes - LENGTH_BYTES;
        if piece.end > length_at {
            for (place, byte) in (length_at..).zip(shape.content_bytes.to_le_bytes()).filter(|(place, _)| piece.contains(place)) {
                plain[to_usize(place - piece.start)?] = byte;
            }
        }
        let aad = self.aad(index, index + 1 == shape.pieces());
        let tag = self.key.seal(index, &aad, plain).ok_or(Error::Random)?;
        to.extend_from_slice(&tag);
        Ok(())
    }

    /// What a piece's tag covers beside its bytes.
    fn aad(&self, index: u64, is_last: bool) -> Vec<u8> {
        let mut aad = Vec::with_capacity(64 + self.location.len());
        aad.extend_from_slice(&frame::VERSION.to_le_bytes());
        aad.extend_from_slice(&[self.sealing.cipher as u8, self.sealing.piece_log2]);
        aad.extend_from_slice(&self.sealing.generation.to_le_bytes());
        aad.extend_from_slice(&self.name);
        aad.extend_from_slice(&index.to_le_bytes());
        aad.push(u8::from(is_last));
        aad.extend_from_slice(self.location.as_bytes());
        aad
    }

    /// Opens a piece in place, and returns its content.
    fn open_piece<'p>(&self, index: u64, is_last: bool, stored: &'p mut [u8]) -> Result<&'p mut [u8]> {
        let damaged = |cause: String| Error::damaged(self.location, cause);
        let whole = stored.len();
        let opened = whole.checked_sub(TAG_BYTES as usize).map(|length| {
            let (bytes, tag) = stored.split_at_mut(length);
            // A copy is kept for the second look: opening in place leaves nothing of what does not open.
            let before = is_last.then(|| bytes.to_vec());
            let opens = self.key.open(index, &self.aad(index, is_last), bytes, tag);
            let is_cut = !opens && before.is_some_and(|mut bytes| self.key.open(index, &self.aad(index, false), &mut bytes, tag));
            (opens, is_cut)
        });
        match opened {
            Some((true, _)) => Ok(&mut stored[..whole - TAG_BYTES as usize]),
            Some((false, true)) => Err(damaged(format!("it was cut behind piece {index}"))),
            Some((false, false)) => Err(damaged(format!("piece {index} does not open"))),
            None => Err(damaged(format!("piece {index} is cut off"))),
        }
    }

    /// The stored range to fetch for a range of a content whose length is known.
    pub fn stored_range(&self, content_bytes: u64, range: &Range<u64>) -> Result<Range<u64>> {
        let shape = Shape::of(content_bytes, self.sealing)?;
        if range.start >= range.end || range.end > content_bytes {
            return Err(Error::Invalid(format!("cannot read {range:?} of {}: it has {content_bytes} bytes", self.location)));
        }
        Ok(shape.stored(shape.holding(range)))
    }

    /// The content of a range, from the stored bytes that [`Seal::stored_range`] names.
    pub fn open_range(&self, content_bytes: u64, range: &Range<u64>, mut stored: Vec<u8>) -> Result<Vec<u8>> {
        let fetched = self.stored_range(content_bytes, range)?;
        let shape = Shape::of(content_bytes, self.sealing)?;
        if stored.len() as u64 != fetched.end - fetched.start {
            return Err(Error::damaged(self.location, "the remote gave another range than was asked for"));
        }
        let pieces = shape.holding(range);
        let mut content = Vec::with_capacity(stored.len());
        for (index, piece) in pieces.clone().zip(stored.chunks_mut(to_usize(shape.piece_bytes + TAG_BYTES)?)) {
            content.extend_from_slice(self.open_piece(index, index + 1 == shape.pieces(), piece)?);
        }
        let start = pieces.start * shape.piece_bytes;
        content.truncate(to_usize(range.end - start)?);
        content.drain(..to_usize(range.start - start)?);
        Ok(content)
    }
}

/// The content of a whole sealed object, and its header.
pub fn open_whole(location: &str, mut stored: Vec<u8>, keys: &Keyring) -> Result<(Header, Vec<u8>)> {
    let damaged = |cause: &str| Error::damaged(location, cause);
    let header = Header::decode(location, &stored)?;
    let seal = Seal::of_header(location, &header, keys)?;
    let body = stored.split_off(HEADER_BYTES as usize);
    let (mut content, stored_piece) = (body, to_usize(header.sealing.piece_bytes() + TAG_BYTES)?);
    let pieces = content.len().div_ceil(stored_piece);
    let mut kept = 0;
    for index in 0..pieces {
        let at = index * stored_piece..(index * stored_piece + stored_piece).min(content.len());
        let length = seal.open_piece(index as u64, index + 1 == pieces, &mut content[at.clone()])?.len();
        content.copy_within(at.start..at.start + length, kept);
        kept += length;
    }
    content.truncate(kept);
    let (padded, length) = content.split_last_chunk::<{ LENGTH_BYTES as usize }>().ok_or_else(|| damaged("it is too short"))?;
    let content_bytes = u64::from_le_bytes(*length);
    let shape = Shape::of(content_bytes, header.sealing).map_err(|_| damaged("its length is out of bounds"))?;
    let content_end = usize::try_from(content_bytes).ok().filter(|end| *end <= padded.len());
    let (Some(end), true) = (content_end, shape.padded_bytes == content.len() as u64) else {
        return Err(damaged("its length does not fit its content"));
    };
    content.truncate(end);
    Ok((header, content))
}

/// A length in memory.
fn to_usize(bytes: u64) -> Result<usize> {
    usize::try_from(bytes).map_err(|_| Error::Invalid(format!("cannot hold {bytes} bytes in memory")))
}
