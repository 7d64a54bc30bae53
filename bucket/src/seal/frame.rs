//! The header of a sealed object.

use super::{Sealing, key::Cipher};
use crate::{
    codec::{Decoder, Encoder},
    error::{Error, Result},
};

const MAGIC: &[u8; 8] = b"PARHSEAL";
/// Version of the framing.
pub(super) const VERSION: u16 = 1;
/// Length of the header, in bytes.
pub const HEADER_BYTES: u64 = 72;
/// Binary logarithms of the lengths that pieces may have: 4 KiB to 4 MiB.
const PIECE_LOG2: std::ops::RangeInclusive<u8> = 12..=22;

/// The header of a sealed object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// How the object is sealed.
    pub sealing: Sealing,
    /// The object's random name.
    pub name: [u8; 32],
    /// The key check value: derived from master key and name, and equal only where the key is right.
    pub check: [u8; 16],
}

impl Header {
    /// The stored form.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Encoder::default();
        bytes.raw(MAGIC).u16(VERSION).u8(self.sealing.cipher as u8).u8(self.sealing.piece_log2).u32(self.sealing.generation);
        bytes.raw(&self.name).raw(&self.check).u32(0);
        let mut bytes = bytes.finish();
        bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
        bytes
    }

    /// The header at the beginning of an object's bytes.
    pub fn decode(location: &str, stored: &[u8]) -> Result<Self> {
        let damaged = |cause: &str| Error::damaged(location, cause);
        let newer = |what: String| Error::Newer { object: location.into(), what };
        let bytes = stored.get(..HEADER_BYTES as usize).ok_or_else(|| damaged("it is shorter than a header"))?;
        let (covered, sum) = bytes.split_at(HEADER_BYTES as usize - 4);
        if !covered.starts_with(MAGIC) {
            return Err(damaged("it does not begin as a sealed object does"));
        }
        if crc32c::crc32c(covered).to_le_bytes() != sum {
            return Err(damaged("the checksum of its header is wrong"));
        }
        let mut fields = Decoder::of(&covered[MAGIC.len()..]);
        let mut read = || {
            let lead = (fields.u16()?, fields.u8()?, fields.u8()?, fields.u32()?);
            Ok::<_, crate::codec::Malformed>((lead, fields.array::<32>()?, fields.array::<16>()?, fields.u32()?))
        };
        let ((version, cipher, piece_log2, generation), name, check, reserved) =
            read().map_err(|_| damaged("its header is too short"))?;
        if version != VERSION {
            return Err(newer(format!("it is sealed in version {version}")));
        }
        let cipher = Cipher::of(cipher).ok_or_else(|| newer(format!("its cipher has the number {cipher}")))?;
        if !PIECE_LOG2.contains(&piece_log2) || reserved != 0 || (cipher == Cipher::Plain) != (generation == 0) {
            return Err(damaged("its header has values that none has"));
        }
        Ok(Header { sealing: Sealing { cipher, generation, piece_log2 }, name, check })
    }
}
