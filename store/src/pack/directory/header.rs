//! Headers of blocks.

use super::{Codec, Entry};
use crate::{
    codec::{DecodeError, Decoder},
    format::{BLOCK_BYTES_MAX, BLOCK_MAGIC, BLOCK_OBJECTS_MAX, PAYLOAD_BYTES_MAX},
    id::{ID_BYTES, ObjectId, ObjectKind},
    keys::Seal,
};

/// Length of a block's header, in bytes.
pub const HEADER_BYTES: usize = 40;

/// The total length of a block's header and directory, from its first [`HEADER_BYTES`] bytes.
pub fn directory_end(header: &[u8; HEADER_BYTES], seal: &Seal) -> Result<usize, DecodeError> {
    let mut d = Decoder::new(header);
    if d.array::<4>("block")? != BLOCK_MAGIC {
        return Err(DecodeError("block magic"));
    }
    d.byte("block")?;
    // What a cipher leaves behind the header may be anything.
    if d.byte("block")? != 0 {
        return Err(DecodeError("block cipher"));
    }
    if d.take(2, "block")? != [0; 2] {
        return Err(DecodeError("key of a block"));
    }
    let objects = d.u32("block")? as usize;
    let bases = d.u32("block")? as usize;
    let directory = d.u32("block")? as usize;
    if objects > BLOCK_OBJECTS_MAX || bases > objects {
        return Err(DecodeError("block directory length"));
    }
    // A kind, an id, and three numbers of one to five bytes each.
    let possible = objects * (ID_BYTES + 4) + bases * ID_BYTES..=objects * (ID_BYTES + 16) + bases * ID_BYTES;
    if !directory.checked_sub(seal.overhead()).is_some_and(|bytes| possible.contains(&bytes)) {
        return Err(DecodeError("block directory length"));
    }
    Ok(HEADER_BYTES + directory)
}

/// True if the block with this header is stored as it is.
pub fn is_raw(header: &[u8; HEADER_BYTES]) -> bool {
    header[4] == Codec::Raw as u8
}

/// A block's header behind its magic. [`directory_end`] checks its cipher and key.
pub(super) struct Header {
    pub(super) codec: Codec,
    count: usize,
    pub(super) bases: u32,
    pub(super) payload_bytes: usize,
    pub(super) heads_bytes: usize,
    pub(super) tails_bytes: usize,
    pub(super) payload_crc: u32,
    pub(super) header_crc: u32,
}

impl Header {
    pub(super) fn decode(header: &[u8; HEADER_BYTES]) -> Result<Self, DecodeError> {
        let mut d = Decoder::new(&header[4..]);
        let codec = match d.byte("block codec")? {
            0 => Codec::Raw,
            1 => Codec::Zstd,
            2 => Codec::ZstdPrefix,
            _ => return Err(DecodeError("block codec")),
        };
        d.take(3, "block header")?;
        let count = d.u32("block header")? as usize;
        let bases = d.u32("block header")?;
        d.u32("block header")?;
        Ok(Header {
            codec,
            count,
            bases,
            payload_bytes: d.u32("block header")? as usize,
            heads_bytes: d.u32("block header")? as usize,
            tails_bytes: d.u32("block header")? as usize,
            payload_crc: d.u32("block header")?,
            header_crc: d.u32("block header")?,
        })
    }

    /// Checks that the lengths are possible and fit the codec. Returns the payload's length without its seal, in bytes.
    pub(super) fn check(&self, seal: &Seal) -> Result<usize, DecodeError> {
        let &Header { codec, bases, payload_bytes, heads_bytes, tails_bytes, .. } = self;
        if heads_bytes.saturating_add(tails_bytes) > BLOCK_BYTES_MAX || payload_bytes > PAYLOAD_BYTES_MAX {
            return Err(DecodeError("block length"));
        }
        let opened_bytes = payload_bytes.checked_sub(seal.overhead()).ok_or(DecodeError("block length"))?;
        if codec == Codec::Raw && opened_bytes != heads_bytes + tails_bytes || opened_bytes < tails_bytes {
            return Err(DecodeError("block length"));
        }
        if (codec == Codec::ZstdPrefix) != (bases > 0) || bases > 0 && tails_bytes > 0 {
            return Err(DecodeError("block bases"));
        }
        Ok(opened_bytes)
    }

    /// Decodes the directory's lines. Returns them with the kind of each base, `None` for one that no object names.
    pub(super) fn entries(&self, d: &mut Decoder<'_>) -> Result<(Vec<Entry>, Vec<Option<ObjectKind>>), DecodeError> {
        let mut entries = Vec::with_capacity(self.count);
        let mut base_kinds = vec![None; self.bases as usize];
        for _ in 0..self.count {
            let kind = ObjectKind::from_number(d.byte("object kind")?).ok_or(DecodeError("object kind"))?;
            let id = ObjectId(d.array("object id")?);
            let head_bytes = d.uint32("object length")? as usize;
            // Where there are bases, there are no tails.
            let (tail_bytes, version) = match (d.uint32("object length")?, self.codec) {
                (version, Codec::ZstdPrefix) => (0, version),
                (tail, _) => (tail as usize, 0),
            };
            let base = d.uint32("object base")?.checked_sub(1);
            let may_build = matches!(kind, ObjectKind::Chunk | ObjectKind::RecipeNode | ObjectKind::Tree);
            if base.is_some_and(|base| base >= self.bases || !may_build) {
                return Err(DecodeError("object base"));
            }
            if let Some(known) = base.and_then(|base| base_kinds.get_mut(base as usize))
                && known.replace(kind).is_some_and(|other| other != kind)
            {
                return Err(DecodeError("kind of a base"));
            }
            entries.push(Entry { kind, id, head_bytes, tail_bytes, base, version });
        }
        Ok((entries, base_kinds))
    }
}
