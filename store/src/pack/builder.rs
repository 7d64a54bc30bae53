//! Collects objects and encodes them as one block.

use zstd::zstd_safe::{self, CCtx, CParameter};

use super::directory::{Codec, Entry, HEADER_BYTES, zstd_error};
use crate::{
    codec::put_uint,
    format::{BLOCK_BYTES_MAX, BLOCK_MAGIC, BLOCK_OBJECTS_MAX},
    id::{ID_BYTES, ObjectId, ObjectKind},
    keys::{Part, Seal},
};

/// Collects objects and encodes them as one block.
#[derive(Default)]
pub struct BlockBuilder {
    entries: Vec<Entry>,
    bases: Vec<ObjectId>,
    heads: Vec<u8>,
    tails: Vec<u8>,
}

impl BlockBuilder {
    /// Adds an object, the last `tail_bytes` of which are ids and are left uncompressed.
    pub fn push(&mut self, kind: ObjectKind, id: ObjectId, bytes: &[u8], tail_bytes: usize) {
        let (head, tail) = bytes.split_at(bytes.len() - tail_bytes);
        self.heads.extend_from_slice(head);
        self.tails.extend_from_slice(tail);
        self.entries.push(Entry { kind, id, head_bytes: head.len(), tail_bytes, base: None, version: 0 });
    }

    /// Adds an object that is a later version of `base`, with `version` others before it. Those of one base stand in a row.
    pub fn push_on(&mut self, kind: ObjectKind, id: ObjectId, bytes: &[u8], base: ObjectId, version: u32) {
        if self.bases.last() != Some(&base) {
            self.bases.push(base);
        }
        self.heads.extend_from_slice(bytes);
        let base = Some(self.bases.len() as u32 - 1);
        self.entries.push(Entry { kind, id, head_bytes: bytes.len(), tail_bytes: 0, base, version });
    }

    /// Takes over another builder's objects.
    pub fn join(&mut self, other: &mut BlockBuilder) {
        self.entries.append(&mut other.entries);
        self.heads.append(&mut other.heads);
        self.tails.append(&mut other.tails);
    }

    /// Raw bytes collected so far.
    pub fn raw_bytes(&self) -> usize {
        self.heads.len() + self.tails.len()
    }

    /// True if the block stays one that a reader takes, with so many more raw bytes in it.
    pub fn has_room_for(&self, bytes: usize) -> bool {
        self.raw_bytes() + bytes <= BLOCK_BYTES_MAX && self.entries.len() < BLOCK_OBJECTS_MAX
    }

    /// True if nothing was added.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The objects' directory lines so far.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Encodes a block without bases and empties the builder. Data that zstd makes less than 1/32 smaller is stored raw.
    pub fn encode(&mut self, compressor: &mut zstd::bulk::Compressor<'_>, seal: &Seal) -> std::io::Result<(Vec<Entry>, Vec<u8>)> {
        let coded = compressor.compress(&self.heads)?;
        match coded.len() + self.heads.len() / 32 < self.heads.len() {
            true => Ok(self.assemble(Codec::Zstd, &coded, self.heads.len(), seal)),
            false => {
                let heads = std::mem::take(&mut self.heads);
                Ok(self.assemble(Codec::Raw, &heads, heads.len(), seal))
            }
        }
    }

    /// The objects as one zstd frame with the prefix `prefix`, the bytes of all bases in order.
    pub fn compress_on<'p>(&self, context: &mut CCtx<'p>, prefix: &'p [u8], level: i32) -> std::io::Result<Vec<u8>> {
        let mut coded = Vec::with_capacity(zstd_safe::compress_bound(self.heads.len()));
        // The window has to reach from the frame's end to the prefix's beginning.
        let reach = (prefix.len() + self.heads.len()).next_power_of_two().trailing_zeros().clamp(10, 27);
        for parameter in [CParameter::CompressionLevel(level), CParameter::WindowLog(reach)] {
            context.set_parameter(parameter).map_err(zstd_error)?;
        }
        context.ref_prefix(prefix).map_err(zstd_error)?;
        context.compress2(&mut coded, &self.heads).map_err(zstd_error)?;
        Ok(coded)
    }

    /// The bytes that the objects take as one zstd frame without a prefix.
    pub fn compressed_bytes(&self, compressor: &mut zstd::bulk::Compressor<'_>) -> std::io::Result<usize> {
        Ok(compressor.compress(&self.heads)?.len())
    }

    /// The block of what [`BlockBuilder::compress_on`] gave. Empties the builder.
    pub fn encode_on(&mut self, coded: &[u8], seal: &Seal) -> (Vec<Entry>, Vec<u8>) {
        self.assemble(Codec::ZstdPrefix, coded, self.heads.len(), seal)
    }

    fn encode_directory(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.entries.len() * (ID_BYTES + 8) + self.bases.len() * ID_BYTES);
        for e in &self.entries {
            out.push(e.kind as u8);
            out.extend_from_slice(&e.id.0);
            put_uint(&mut out, e.head_bytes as u64);
            put_uint(&mut out, (e.tail_bytes as u64).max(u64::from(e.version)));
            put_uint(&mut out, e.base.map_or(0, |base| u64::from(base) + 1));
        }
        self.bases.iter().for_each(|base| out.extend_from_slice(&base.0));
        out
    }

    fn assemble(&mut self, codec: Codec, coded: &[u8], heads_bytes: usize, seal: &Seal) -> (Vec<Entry>, Vec<u8>) {
        let directory = self.encode_directory();
        let directory = seal.seal(Part::Directory, &directory);
        let directory_end = HEADER_BYTES + directory.len();
        let mut out = Vec::with_capacity(directory_end + coded.len() + self.tails.len() + seal.overhead());
        out.resize(HEADER_BYTES, 0);
        out.extend_from_slice(&directory);
        match seal.is_plain() {
            // Not joined first: most of what is written goes this way.
            true => [coded, &self.tails].iter().for_each(|bytes| out.extend_from_slice(bytes)),
            false => out.extend_from_slice(&seal.seal(Part::Payload, [coded, &self.tails].concat())),
        }
        let payload_bytes = out.len() - directory_end;
        let payload_crc = crc32c::crc32c(&out[directory_end..]);
        let numbers = [
            self.entries.len() as u32,
            self.bases.len() as u32,
            (directory_end - HEADER_BYTES) as u32,
            payload_bytes as u32,
            heads_bytes as u32,
            self.tails.len() as u32,
            payload_crc,
        ];
        out[..4].copy_from_slice(&BLOCK_MAGIC);
        out[4] = codec as u8;
        for (i, number) in numbers.iter().enumerate() {
            out[8 + i * 4..12 + i * 4].copy_from_slice(&number.to_le_bytes());
        }
        let crc = crc32c::crc32c_append(crc32c::crc32c(&out[..HEADER_BYTES - 4]), &out[HEADER_BYTES..directory_end]);
        out[HEADER_BYTES - 4..HEADER_BYTES].copy_from_slice(&crc.to_le_bytes());
        let entries = std::mem::take(&mut self.entries);
        *self =
            BlockBuilder { heads: std::mem::take(&mut self.heads), tails: std::mem::take(&mut self.tails), ..Self::default() };
        self.heads.clear();
        self.tails.clear();
        (entries, out)
    }
}
