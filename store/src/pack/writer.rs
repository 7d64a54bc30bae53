//! Writes one pack: header, blocks, the blocks' directories once more, trailer. The copies let a reader index a pack with two reads. A small
//! pack has none, because one read is all of it.

use std::{
    fs::{self, File},
    io::Write,
    path::PathBuf,
};

use serde::{Deserialize, Serialize};

use super::directory::{Entry, HEADER_BYTES, directory_end};
use crate::{
    codec::{Decoder, Malformed},
    error::{IoContext, Result},
    files::{self, How},
    format::{PACK_END_MAGIC, PACK_MAGIC, PACK_VERSION, SMALL_PACK_BYTES},
    id::{PackId, hex},
    keys::Seal,
    layout::Layout,
};

/// Length of a pack's header, in bytes.
pub const PACK_HEADER_BYTES: usize = 16;
/// Length of a pack's trailer, in bytes.
pub const PACK_TRAILER_BYTES: usize = 64;

/// Location of an object: the block that holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Location {
    /// The pack.
    pub pack: PackId,
    /// The block's first byte in the pack.
    pub offset: u64,
    /// The block's length, in bytes, header and directory included.
    pub block_bytes: u32,
}

/// A finished pack, as the journal names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PackInfo {
    /// Its id; `packs/<id>.pack` is its file.
    pub id: PackId,
    /// Its length, in bytes.
    pub bytes: u64,
    /// BLAKE3 of its blocks' headers and directories, in hex; also in its trailer.
    pub digest: String,
}

/// True if one of these packs is not there, at its full length.
pub(crate) fn lacks_any(layout: &Layout, packs: &[PackInfo]) -> bool {
    let is_there = |pack: &PackInfo| fs::symlink_metadata(layout.pack(pack.id)).is_ok_and(|meta| meta.len() == pack.bytes);
    !packs.iter().all(is_there)
}

/// The header that every pack starts with.
pub fn header() -> [u8; PACK_HEADER_BYTES] {
    let mut out = [0; PACK_HEADER_BYTES];
    out[..8].copy_from_slice(&PACK_MAGIC);
    out[8..10].copy_from_slice(&PACK_VERSION.to_le_bytes());
    let crc = crc32c::crc32c(&out[..12]);
    out[12..].copy_from_slice(&crc.to_le_bytes());
    out
}

/// The end of a whole pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trailer {
    /// Number of blocks.
    pub blocks: u32,
    /// Length of the copies of the blocks' headers and directories, which stand right before the trailer, in bytes; 0 where there are none.
    pub directories_bytes: u64,
    /// Length of the pack, in bytes.
    pub pack_bytes: u64,
    /// BLAKE3 of the blocks' headers and directories.
    pub digest: [u8; 32],
}

impl Trailer {
    /// Its bytes.
    pub fn encode(&self) -> [u8; PACK_TRAILER_BYTES] {
        let mut out = [0; PACK_TRAILER_BYTES];
        out[..8].copy_from_slice(&PACK_END_MAGIC);
        out[8..12].copy_from_slice(&self.blocks.to_le_bytes());
        out[12..20].copy_from_slice(&self.directories_bytes.to_le_bytes());
        out[20..28].copy_from_slice(&self.pack_bytes.to_le_bytes());
        out[28..60].copy_from_slice(&self.digest);
        let crc = crc32c::crc32c(&out[..60]);
        out[60..].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// Reads a trailer; its checksum must be right.
    pub fn decode(bytes: &[u8; PACK_TRAILER_BYTES]) -> Result<Self, Malformed> {
        let mut d = Decoder::new(bytes);
        let magic: [u8; 8] = d.array("pack trailer")?;
        let trailer = Trailer {
            blocks: d.u32("pack trailer")?,
            directories_bytes: d.u64("pack trailer")?,
            pack_bytes: d.u64("pack trailer")?,
            digest: d.array("pack trailer")?,
        };
        match magic == PACK_END_MAGIC && trailer.encode() == *bytes {
            true => Ok(trailer),
            false => Err(Malformed("pack trailer")),
        }
    }
}

/// A pack being written.
pub struct PackWriter {
    id: PackId,
    path: PathBuf,
    file: File,
    bytes: u64,
    blocks: u32,
    /// The blocks' headers and directories.
    directories: Vec<u8>,
    seal: Seal,
}

impl PackWriter {
    /// Starts the pack file; it must not exist.
    pub fn create(layout: &Layout, id: PackId) -> Result<Self> {
        let path = layout.pack(id);
        let mut file = files::open(&path, How::New).at("create pack", &path)?;
        file.write_all(&header()).at("write pack", &path)?;
        let (bytes, seal) = (PACK_HEADER_BYTES as u64, layout.keys.seal.clone());
        Ok(PackWriter { id, path, file, bytes, blocks: 0, directories: Vec::new(), seal })
    }

    /// Appends an encoded block and says where it lies.
    pub fn append(&mut self, block: &[u8], entries: &[Entry]) -> Result<Location> {
        debug_assert!(!entries.is_empty());
        let mut header = [0; HEADER_BYTES];
        header.copy_from_slice(&block[..HEADER_BYTES]);
        let directory_end = directory_end(&header, &self.seal).unwrap_or(HEADER_BYTES);
        self.directories.extend_from_slice(&block[..directory_end]);
        self.file.write_all(block).at("write pack", &self.path)?;
        let location = Location { pack: self.id, offset: self.bytes, block_bytes: block.len() as u32 };
        self.bytes += block.len() as u64;
        self.blocks += 1;
        Ok(location)
    }

    /// Bytes written so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Writes the copies and the trailer. The file is whole but not yet synced; the caller syncs it before anything refers to it.
    pub fn finish(mut self) -> Result<(PackInfo, File)> {
        let digest = *blake3::hash(&self.directories).as_bytes();
        if self.bytes <= SMALL_PACK_BYTES {
            self.directories.clear();
        }
        let directories_bytes = self.directories.len() as u64;
        self.bytes += directories_bytes + PACK_TRAILER_BYTES as u64;
        let trailer = Trailer { blocks: self.blocks, directories_bytes, pack_bytes: self.bytes, digest };
        self.directories.extend_from_slice(&trailer.encode());
        self.file.write_all(&self.directories).at("write pack", &self.path)?;
        Ok((PackInfo { id: self.id, bytes: self.bytes, digest: hex(&digest) }, self.file))
    }
}
