//! Writes one pack: header, blocks, the blocks' directories once more, parity, trailer. The copies let a reader index a pack with two reads. A
//! small pack has none, because one read is all of it.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::PathBuf,
};

use serde::{Deserialize, Serialize};

use super::{
    directory::{Entry, HEADER_BYTES, directory_end},
    parity::{self, Sums},
    trailer::{Trailer, VERSION_PARITY, VERSION_PLAIN, header},
};
use crate::{
    error::{IoContext, Result},
    files::{self, How},
    format::SMALL_PACK_BYTES,
    id::{PackId, hex},
    keys::Seal,
    layout::Layout,
};

/// Location of an object: the block that holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Location {
    /// Id of the pack that has the block.
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

/// A pack being written.
pub struct PackWriter {
    id: PackId,
    path: PathBuf,
    file: File,
    bytes: u64,
    blocks: u32,
    /// The blocks' headers and directories.
    directories: Vec<u8>,
    /// Checksums of what was written, where the pack gets parity.
    sums: Option<Sums>,
    /// True if the pack gets copies of them, unless it is small.
    has_copies: bool,
    seal: Seal,
}

/// A pack of which all but the end is written.
pub struct Ending {
    file: File,
    trailer: Trailer,
    sums: Option<Sums>,
}

impl PackWriter {
    /// Starts the pack file; it must not exist.
    pub fn create(layout: &Layout, id: PackId) -> Result<Self> {
        let path = layout.pack(id);
        let file = files::open(&path, How::New).at("create pack", &path)?;
        let (sums, seal) = (layout.has_parity.then(Sums::default), layout.keys.seal.clone());
        let mut writer =
            PackWriter { id, path, file, bytes: 0, blocks: 0, directories: Vec::new(), has_copies: true, sums, seal };
        writer.write(&header(if layout.has_parity { VERSION_PARITY } else { VERSION_PLAIN }))?;
        Ok(writer)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).at("write pack", &self.path)?;
        if let Some(sums) = &mut self.sums {
            sums.add(bytes);
        }
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    /// Appends an encoded block and says where it lies.
    pub fn append(&mut self, block: &[u8], entries: &[Entry]) -> Result<Location> {
        debug_assert!(!entries.is_empty());
        let mut header = [0; HEADER_BYTES];
        header.copy_from_slice(&block[..HEADER_BYTES]);
        let directory_end = directory_end(&header, &self.seal).unwrap_or(HEADER_BYTES);
        self.directories.extend_from_slice(&block[..directory_end]);
        let location = Location { pack: self.id, offset: self.bytes, block_bytes: block.len() as u32 };
        self.write(block)?;
        self.blocks += 1;
        Ok(location)
    }

    /// Bytes written so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Length of the pack if it is finished now, in bytes.
    pub fn finished_bytes(&self) -> u64 {
        let copies_bytes = self.copies_bytes();
        Trailer::new(self.blocks, copies_bytes, self.bytes + copies_bytes, [0; 32], self.sums.is_some()).pack_bytes
    }

    /// Leaves the copies of the directories out: readers take each block's own.
    pub fn leave_out_copies(&mut self) {
        self.has_copies = false;
    }

    fn copies_bytes(&self) -> u64 {
        if self.has_copies && self.bytes > SMALL_PACK_BYTES { self.directories.len() as u64 } else { 0 }
    }

    /// Writes the copies. What is left to write, parity and trailer, may be written by another thread.
    pub fn end(mut self) -> Result<(PackInfo, Ending)> {
        let digest = *blake3::hash(&self.directories).as_bytes();
        let directories = match self.copies_bytes() {
            0 => Vec::new(),
            _ => std::mem::take(&mut self.directories),
        };
        self.write(&directories)?;
        let trailer = Trailer::new(self.blocks, directories.len() as u64, self.bytes, digest, self.sums.is_some());
        let info = PackInfo { id: self.id, bytes: trailer.pack_bytes, digest: hex(&digest) };
        Ok((info, Ending { file: self.file, trailer, sums: self.sums }))
    }

    /// Writes all that is left. The file is whole but not yet synced; the caller syncs it before anything refers to it.
    pub fn finish(self) -> Result<(PackInfo, File)> {
        let path = self.path.clone();
        let (info, ending) = self.end()?;
        Ok((info, ending.write().at("write pack", &path)?))
    }
}

impl Ending {
    /// Writes it. The file is then whole but not yet synced.
    pub fn write(mut self) -> io::Result<File> {
        let mut bytes = Vec::new();
        if let (Some(shape), Some(sums)) = (self.trailer.parity, self.sums) {
            bytes.extend_from_slice(&self.trailer.encode_before_parity());
            bytes.extend_from_slice(&parity::section(&self.file, shape, sums)?);
        }
        bytes.extend_from_slice(&self.trailer.encode());
        self.file.write_all(&bytes)?;
        Ok(self.file)
    }
}
