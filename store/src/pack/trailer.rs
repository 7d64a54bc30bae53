//! Headers and trailers of packs. A pack of version 1 has no parity; one of version 2 has, and has its trailer twice: before the parity shards,
//! under another magic, and at its end.

use super::parity::Shape;
use crate::{
    codec::{DecodeError, Decoder},
    format::{PACK_END_MAGIC, PACK_END_MAGIC_2, PACK_MAGIC, PACK_PARITY_MAGIC},
};

/// Length of a pack's header, in bytes.
pub const PACK_HEADER_BYTES: usize = 16;
/// Length of the trailer of a pack without parity, in bytes.
pub const PACK_TRAILER_BYTES: usize = 64;
/// Length of the trailer of a pack with parity, in bytes.
pub const PARITY_TRAILER_BYTES: usize = 84;

/// The version of packs without parity.
pub const VERSION_PLAIN: u16 = 1;
/// The version of packs with parity.
pub const VERSION_PARITY: u16 = 2;

/// The header that every pack of a version starts with.
pub fn header(version: u16) -> [u8; PACK_HEADER_BYTES] {
    let mut out = [0; PACK_HEADER_BYTES];
    out[..8].copy_from_slice(&PACK_MAGIC);
    out[8..10].copy_from_slice(&version.to_le_bytes());
    let crc = crc32c::crc32c(&out[..12]);
    out[12..].copy_from_slice(&crc.to_le_bytes());
    out
}

/// The end of a whole pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trailer {
    /// Number of blocks in the pack.
    pub blocks: u32,
    /// Length of the copies of the blocks' headers and directories, in bytes; 0 where there are none.
    pub directories_bytes: u64,
    /// Length of the pack, in bytes.
    pub pack_bytes: u64,
    /// BLAKE3 of the blocks' headers and directories.
    pub digest: [u8; 32],
    /// The shape of the parity, where there is any.
    pub parity: Option<Shape>,
}

impl Trailer {
    /// The trailer of a pack whose header, blocks and copies take `covered_bytes`.
    pub fn new(blocks: u32, directories_bytes: u64, covered_bytes: u64, digest: [u8; 32], has_parity: bool) -> Self {
        let parity = has_parity.then(|| Shape::of(covered_bytes));
        let mut trailer = Trailer { blocks, directories_bytes, pack_bytes: 0, digest, parity };
        trailer.pack_bytes = covered_bytes + trailer.end_bytes();
        trailer
    }

    /// Length of what follows header, blocks and copies, in bytes.
    fn end_bytes(&self) -> u64 {
        match &self.parity {
            None => PACK_TRAILER_BYTES as u64,
            Some(shape) => 2 * PARITY_TRAILER_BYTES as u64 + shape.parity_bytes() + shape.checksums_bytes(),
        }
    }

    /// The end of the copies: header, blocks and copies are before it.
    pub fn covered_bytes(&self) -> u64 {
        self.pack_bytes - self.end_bytes()
    }

    /// The end of the blocks, where the copies begin.
    pub fn blocks_end(&self) -> u64 {
        self.covered_bytes() - self.directories_bytes
    }

    /// Its bytes, at the pack's end.
    pub fn encode(&self) -> Vec<u8> {
        self.encode_as(if self.parity.is_some() { PACK_END_MAGIC_2 } else { PACK_END_MAGIC })
    }

    /// Its bytes before the parity shards.
    pub fn encode_before_parity(&self) -> Vec<u8> {
        self.encode_as(PACK_PARITY_MAGIC)
    }

    fn encode_as(&self, magic: [u8; 8]) -> Vec<u8> {
        let mut out = magic.to_vec();
        out.extend_from_slice(&self.blocks.to_le_bytes());
        out.extend_from_slice(&self.directories_bytes.to_le_bytes());
        out.extend_from_slice(&self.pack_bytes.to_le_bytes());
        out.extend_from_slice(&self.digest);
        if let Some(shape) = &self.parity {
            out.extend_from_slice(&shape.covered_bytes.to_le_bytes());
            out.extend_from_slice(&shape.shard_bytes.to_le_bytes());
            out.extend_from_slice(&shape.stripes.to_le_bytes());
            out.extend_from_slice(&u32::from(shape.rows).to_le_bytes());
        }
        out.extend_from_slice(&crc32c::crc32c(&out).to_le_bytes());
        out
    }

    /// Reads the trailer at the end of `bytes`, the last ones of a pack. Its checksum must be right.
    pub fn decode_end(bytes: &[u8]) -> Result<Self, DecodeError> {
        if let Some(last) = bytes.last_chunk::<PARITY_TRAILER_BYTES>()
            && last.starts_with(&PACK_END_MAGIC_2)
        {
            return Self::decode_with_parity(last, PACK_END_MAGIC_2);
        }
        let last = bytes.last_chunk::<PACK_TRAILER_BYTES>().ok_or(DecodeError("pack trailer"))?;
        let mut d = Decoder::new(&last[8..]);
        let trailer = Trailer {
            blocks: d.u32("pack trailer")?,
            directories_bytes: d.u64("pack trailer")?,
            pack_bytes: d.u64("pack trailer")?,
            digest: d.array("pack trailer")?,
            parity: None,
        };
        match trailer.encode() == *last {
            true => trailer.checked(),
            false => Err(DecodeError("pack trailer")),
        }
    }

    /// Reads the trailer that stands before the parity shards.
    pub fn decode_before_parity(bytes: &[u8; PARITY_TRAILER_BYTES]) -> Result<Self, DecodeError> {
        Self::decode_with_parity(bytes, PACK_PARITY_MAGIC)
    }

    fn decode_with_parity(bytes: &[u8; PARITY_TRAILER_BYTES], magic: [u8; 8]) -> Result<Self, DecodeError> {
        let mut d = Decoder::new(&bytes[8..]);
        let (blocks, directories_bytes) = (d.u32("pack trailer")?, d.u64("pack trailer")?);
        let (pack_bytes, digest) = (d.u64("pack trailer")?, d.array("pack trailer")?);
        let (covered_bytes, shard_bytes) = (d.u64("pack trailer")?, d.u32("pack trailer")?);
        let (stripes, rows) = (d.u32("pack trailer")?, d.u32("pack trailer")?);
        let rows = u8::try_from(rows).map_err(|_| DecodeError("shape of a pack's parity"))?;
        let parity = Some(Shape { covered_bytes, shard_bytes, stripes, rows });
        let trailer = Trailer { blocks, directories_bytes, pack_bytes, digest, parity };
        match trailer.encode_as(magic) == *bytes {
            true => trailer.checked(),
            false => Err(DecodeError("pack trailer")),
        }
    }

    /// Fails where the lengths are not possible.
    fn checked(self) -> Result<Self, DecodeError> {
        if let Some(shape) = &self.parity {
            shape.check()?;
        }
        let covered = self.pack_bytes.checked_sub(self.end_bytes());
        let is_covered = |covered: u64| self.parity.is_none_or(|shape| shape.covered_bytes == covered);
        let has_room =
            |covered: u64| covered.checked_sub(self.directories_bytes).is_some_and(|end| end >= PACK_HEADER_BYTES as u64);
        match covered.is_some_and(|covered| is_covered(covered) && has_room(covered)) {
            true => Ok(self),
            false => Err(DecodeError("lengths in a pack's trailer")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trailers_are_read_back_and_changed_ones_are_refused() {
        for has_parity in [false, true] {
            let trailer = Trailer::new(3, 200, 70_000, [7; 32], has_parity);
            let bytes = [&[9; 30][..], &trailer.encode()].concat();
            assert_eq!(Trailer::decode_end(&bytes), Ok(trailer));
            assert_eq!((trailer.covered_bytes(), trailer.blocks_end()), (70_000, 69_800));
            for at in 30..bytes.len() {
                let mut bytes = bytes.clone();
                bytes[at] ^= 8;
                assert!(Trailer::decode_end(&bytes).is_err(), "{at}");
            }
        }
        let trailer = Trailer::new(3, 200, 70_000, [7; 32], true);
        let before = trailer.encode_before_parity();
        assert_eq!(Trailer::decode_before_parity(before.as_slice().try_into().unwrap()), Ok(trailer));
        assert!(Trailer::decode_end(&before).is_err());
    }

    #[test]
    fn impossible_lengths_are_refused() {
        for has_parity in [false, true] {
            let good = Trailer::new(3, 200, 70_000, [7; 32], has_parity);
            for bad in [
                Trailer { directories_bytes: 69_985, ..good },
                Trailer { directories_bytes: u64::MAX, ..good },
                Trailer { pack_bytes: 10, ..good },
            ] {
                assert!(Trailer::decode_end(&bad.encode()).is_err(), "{bad:?}");
            }
        }
        let good = Trailer::new(3, 200, 70_000, [7; 32], true);
        assert!(Trailer::decode_end(&Trailer { pack_bytes: good.pack_bytes + 1, ..good }.encode()).is_err());
    }
}
