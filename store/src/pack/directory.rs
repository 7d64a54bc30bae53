//! A block as it is stored: objects compressed together, behind a header and a directory of their ids and lengths.
//!
//! ```text
//! header (40 bytes) | directory | payload
//! ```
//! A block may name bases: objects of other blocks whose bytes are its zstd frame's prefix. An object that is a later version of its base
//! then takes what was edited. The layout stands in `docs/format/store.md`, section "Blocks".

mod frame;
mod header;

use std::borrow::Cow;

pub(super) use self::frame::{decompress, decompress_on, zstd_error};
use self::header::Header;
pub use self::header::{HEADER_BYTES, directory_end, is_raw};
use super::block::{Block, room_for};
use crate::{
    codec::{DecodeError, Decoder},
    id::{ObjectId, ObjectKind},
    keys::{Part, Seal},
};

/// The coding of a block's payload. The numbers are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Codec {
    /// As it is.
    Raw = 0,
    /// All objects' heads as one zstd frame, then all tails raw. Tails are ids, which do not compress.
    Zstd = 1,
    /// All objects as one zstd frame with a prefix: the bytes of the block's bases, in order. There are no tails, because most ids of a
    /// tree node are those of its base.
    ZstdPrefix = 2,
}

/// One object's line in a block's directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Kind of the object: chunk, tree, recipe, table or record.
    pub kind: ObjectKind,
    /// Id by which the object is found.
    pub id: ObjectId,
    /// Bytes of it that are compressed with the others'.
    pub head_bytes: usize,
    /// Bytes at its end that are stored raw behind the compressed heads.
    pub tail_bytes: usize,
    /// The object that it is a later version of, by its number among the block's bases.
    pub base: Option<u32>,
    /// Number of versions before it since one that was stored whole; 0 where nothing is known of any.
    pub version: u32,
}

/// A block's header and directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory {
    /// The coding of the payload.
    pub codec: Codec,
    /// The objects, in order.
    pub entries: Vec<Entry>,
    /// Objects of other blocks without which this one cannot be decoded.
    pub bases: Vec<ObjectId>,
    /// The kind of each base: that of the objects that are later versions of it.
    base_kinds: Vec<ObjectKind>,
    /// Length of the header and directory, in bytes.
    pub directory_end: usize,
    /// Length of the payload as stored, in bytes.
    pub payload_bytes: usize,
    /// ... and of what was sealed.
    opened_bytes: usize,
    /// CRC32C of the payload as stored.
    pub payload_crc: u32,
    heads_bytes: usize,
    tails_bytes: usize,
}

impl Directory {
    /// Reads the header and directory that `bytes` starts with. The payload need not be there.
    pub fn decode(bytes: &[u8], seal: &Seal) -> Result<Self, DecodeError> {
        let header: &[u8; HEADER_BYTES] = bytes.first_chunk().ok_or(DecodeError("block header"))?;
        let end = directory_end(header, seal)?;
        let directory = bytes.get(HEADER_BYTES..end).ok_or(DecodeError("block directory"))?;
        let known = Header::decode(header)?;
        if crc32c::crc32c_append(crc32c::crc32c(&header[..HEADER_BYTES - 4]), directory) != known.header_crc {
            return Err(DecodeError("block header checksum"));
        }
        let opened_bytes = known.check(seal)?;
        let directory = seal.open(Part::Directory, directory)?;
        let mut d = Decoder::new(&directory);
        let (entries, base_kinds) = known.entries(&mut d)?;
        let bases = (0..known.bases).map(|_| d.array("block base").map(ObjectId)).collect::<Result<Vec<_>, _>>()?;
        d.finish("block directory")?;
        let base_kinds = base_kinds.into_iter().collect::<Option<Vec<_>>>().ok_or(DecodeError("base of no object"))?;
        let heads: usize = entries.iter().map(|entry| entry.head_bytes).sum();
        let tails: usize = entries.iter().map(|entry| entry.tail_bytes).sum();
        if heads != known.heads_bytes || tails != known.tails_bytes {
            return Err(DecodeError("block directory"));
        }
        Ok(Directory {
            codec: known.codec,
            entries,
            bases,
            base_kinds,
            directory_end: end,
            payload_bytes: known.payload_bytes,
            opened_bytes,
            payload_crc: known.payload_crc,
            heads_bytes: known.heads_bytes,
            tails_bytes: known.tails_bytes,
        })
    }

    /// The raw length of all objects, in bytes.
    pub fn raw_bytes(&self) -> usize {
        self.heads_bytes + self.tails_bytes
    }

    /// The bases with their kinds.
    pub fn kinds_and_bases(&self) -> impl Iterator<Item = (ObjectKind, ObjectId)> {
        self.base_kinds.iter().copied().zip(self.bases.iter().copied())
    }

    /// Length of the whole block, in bytes.
    pub fn block_bytes(&self) -> usize {
        self.directory_end + self.payload_bytes
    }

    /// The objects' bytes, from the block as it is stored. Where nothing is compressed or sealed they stay where they are, and the
    /// payload's checksum is left to the caller, who checks every object against its id.
    pub fn unpack_stored(&self, stored: Vec<u8>, seal: &Seal) -> Result<Block, DecodeError> {
        let payload = stored.get(self.directory_end..).ok_or(DecodeError("block length"))?;
        if self.codec != Codec::Raw || self.tails_bytes != 0 || !seal.is_plain() {
            return self.unpack(&self.open_payload(payload, seal)?);
        }
        if payload.len() != self.payload_bytes || payload.len() != self.heads_bytes {
            return Err(DecodeError("block payload length"));
        }
        let mut objects = Vec::with_capacity(self.entries.len());
        let mut at = self.directory_end;
        for e in &self.entries {
            objects.push((e.kind, e.id, at..at + e.head_bytes));
            at += e.head_bytes;
        }
        Ok(Block::plain(objects, stored))
    }

    /// The payload as it was before it was stored; checks the checksum of what is stored.
    pub fn open_payload<'p>(&self, stored: &'p [u8], seal: &Seal) -> Result<Cow<'p, [u8]>, DecodeError> {
        if stored.len() != self.payload_bytes || crc32c::crc32c(stored) != self.payload_crc {
            return Err(DecodeError("block payload checksum"));
        }
        seal.open(Part::Payload, stored)
    }

    /// The objects' bytes, from the opened payload of a block without bases; the ids are left to the caller to check.
    pub fn unpack(&self, payload: &[u8]) -> Result<Block, DecodeError> {
        self.check_length(payload)?;
        let (coded, tails) = payload.split_at(self.opened_bytes - self.tails_bytes);
        let heads = match self.codec {
            Codec::Raw => Cow::Borrowed(coded),
            Codec::Zstd => Cow::Owned(decompress(coded, self.heads_bytes).map_err(|_| DecodeError("zstd frame"))?),
            Codec::ZstdPrefix => return Err(DecodeError("block bases")),
        };
        if heads.len() != self.heads_bytes {
            return Err(DecodeError("zstd frame length"));
        }
        let mut objects = Vec::with_capacity(self.entries.len());
        if self.tails_bytes == 0 {
            let mut at = 0;
            for e in &self.entries {
                objects.push((e.kind, e.id, at..at + e.head_bytes));
                at += e.head_bytes;
            }
            return Ok(Block::plain(objects, heads.into_owned()));
        }
        let mut bytes = room_for(self.heads_bytes + self.tails_bytes);
        let (mut head_at, mut tail_at) = (0, 0);
        for e in &self.entries {
            let start = bytes.len();
            bytes.extend_from_slice(&heads[head_at..head_at + e.head_bytes]);
            bytes.extend_from_slice(&tails[tail_at..tail_at + e.tail_bytes]);
            head_at += e.head_bytes;
            tail_at += e.tail_bytes;
            objects.push((e.kind, e.id, start..bytes.len()));
        }
        Ok(Block::plain(objects, bytes))
    }

    /// The objects' bytes, from the opened payload of a block with bases. `prefix` is the bytes of all bases, `depth` how many blocks in a row
    /// had to be decoded for them. The ids are left to the caller to check.
    pub fn unpack_on(&self, payload: &[u8], prefix: &[u8], depth: u32) -> Result<Block, DecodeError> {
        self.check_length(payload)?;
        let bytes = decompress_on(prefix, payload, self.heads_bytes).map_err(|_| DecodeError("zstd frame"))?;
        if bytes.len() != self.heads_bytes {
            return Err(DecodeError("zstd frame length"));
        }
        let (mut objects, mut bases) = (Vec::with_capacity(self.entries.len()), Vec::with_capacity(self.entries.len()));
        let mut at = 0;
        for e in &self.entries {
            objects.push((e.kind, e.id, at..at + e.head_bytes));
            bases.push(e.base.and_then(|base| self.bases.get(base as usize)).map(|base| (*base, e.version)));
            at += e.head_bytes;
        }
        let mut block = Block::plain(objects, bytes);
        (block.bases, block.depth) = (bases, depth + 1);
        Ok(block)
    }

    fn check_length(&self, payload: &[u8]) -> Result<(), DecodeError> {
        if payload.len() == self.opened_bytes { Ok(()) } else { Err(DecodeError("block payload length")) }
    }
}
