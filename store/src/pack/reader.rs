//! Reads packs: one block by its place, or every block's directory in turn.

use std::{
    cell::RefCell,
    fs::File,
    os::unix::fs::{FileExt, MetadataExt},
    path::{Path, PathBuf},
};

use rustix::{buffer::spare_capacity, fs::SeekFrom, io::Errno};

use super::{
    block::{Block, Directory, HEADER_BYTES, directory_end, is_raw, matches_id, room_for},
    writer::{Location, PACK_HEADER_BYTES, PACK_TRAILER_BYTES, PackInfo, header, trailer},
};
use crate::{
    codec::Malformed,
    error::{Error, IoContext, Result},
    files::{self, How},
    format::{BLOCK_BYTES_MAX, BLOCK_MAGIC, LARGE_BLOCK_BYTES},
    id::{PackId, hex},
};

/// A thread keeps at most so many bytes to read compressed blocks into: more than ours have.
const STORED_BYTES_MAX: usize = 2 * LARGE_BLOCK_BYTES;

/// Blocks are looked for in pieces of this many bytes.
const MAGIC_PIECE_BYTES: usize = 64 << 10;

thread_local! {
    /// What a compressed block is read into. Kept, because fresh memory costs more than the copy.
    static STORED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// An open pack.
#[derive(Debug)]
pub struct PackFile {
    /// Its id, as its file is named.
    pub id: PackId,
    path: PathBuf,
    file: File,
}

impl PackFile {
    /// Opens a pack for reading. Its header is checked; its trailer is not.
    pub fn open(path: &Path, id: PackId) -> Result<Self> {
        let file = files::open(path, How::Read).at("open pack", path)?;
        let pack = PackFile { id, path: path.to_owned(), file };
        let mut found = [0; PACK_HEADER_BYTES];
        pack.read_at(&mut found, 0)?;
        if found != header() {
            return Err(pack.corrupt("pack header".into(), "not a pack of this version"));
        }
        Ok(pack)
    }

    /// Opens a pack of which not even the header may be right, for saving what can be saved.
    pub(crate) fn open_unchecked(path: &Path, id: PackId) -> Result<Self> {
        let file = files::open(path, How::Read).at("open pack", path)?;
        Ok(PackFile { id, path: path.to_owned(), file })
    }

    /// Whether its file has no name any more, and only whoever has it open keeps its bytes.
    pub(crate) fn is_removed(&self) -> bool {
        self.file.metadata().is_ok_and(|found| found.nlink() == 0)
    }

    fn corrupt(&self, what: String, reason: impl ToString) -> Error {
        Error::Corrupt { what, place: self.path.clone(), reason: reason.to_string() }
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        self.file.read_exact_at(buffer, offset).map_err(|source| match source.kind() {
            std::io::ErrorKind::UnexpectedEof => self.corrupt(format!("block at {offset}"), "the file ends before it does"),
            _ => Error::Io { action: "read pack", path: self.path.clone(), source },
        })
    }

    /// Reads into memory that is not filled with zeros first.
    fn read_fresh(&self, total: usize, offset: u64) -> Result<Vec<u8>> {
        let mut bytes = room_for(total);
        while bytes.len() < total {
            let at = offset + bytes.len() as u64;
            match rustix::io::pread(&self.file, spare_capacity(&mut bytes), at) {
                Ok(0) => return Err(self.corrupt(format!("block at {offset}"), "the file ends before it does")),
                Ok(_) | Err(Errno::INTR) => {}
                Err(e) => return Err(Error::Io { action: "read pack", path: self.path.clone(), source: e.into() }),
            }
        }
        // There is room for a little more than was asked for.
        bytes.truncate(total);
        Ok(bytes)
    }

    /// Reads and decodes the block at a place, and checks every object in it against its id.
    pub fn read_block(&self, location: Location) -> Result<Block> {
        let total = location.block_bytes as usize;
        if !(HEADER_BYTES..=3 * BLOCK_BYTES_MAX).contains(&total) {
            return Err(self.corrupt(format!("block at {}", location.offset), "impossible length"));
        }
        let mut header = [0; HEADER_BYTES];
        self.read_at(&mut header, location.offset)?;
        let block = match is_raw(&header) {
            // The bytes stay as they are.
            true => {
                let stored = self.read_fresh(total, location.offset)?;
                self.directory_of(&stored, location)?.unpack_stored(stored)
            }
            false => STORED.with_borrow_mut(|kept| {
                if kept.len() < total {
                    kept.resize(total, 0);
                }
                let stored = &mut kept[..total];
                self.read_at(stored, location.offset)?;
                let unpacked =
                    self.directory_of(stored, location).map(|directory| directory.unpack(&stored[directory.directory_end..]));
                kept.truncate(STORED_BYTES_MAX);
                kept.shrink_to(STORED_BYTES_MAX);
                unpacked
            })?,
        };
        let block = block.map_err(|e| self.corrupt(format!("block at {}", location.offset), e))?;
        for (kind, id, range) in &block.objects {
            if !matches_id(*kind, *id, &block.bytes[range.clone()]) {
                let what = format!("{} {} in the block at {}", kind.name(), id, location.offset);
                return Err(self.corrupt(what, "its bytes do not hash to its id"));
            }
        }
        Ok(block)
    }

    /// The directory of the block at a place, from the block as it is stored.
    fn directory_of(&self, stored: &[u8], location: Location) -> Result<Directory> {
        let directory = Directory::decode(stored).map_err(|e| self.corrupt(format!("block at {}", location.offset), e))?;
        match directory.block_bytes() == stored.len() {
            true => Ok(directory),
            false => Err(self.corrupt(format!("block at {}", location.offset), "its length is not the index's")),
        }
    }

    /// Reads the block at a place as it is stored, and checks its checksums.
    pub fn read_stored(&self, location: Location) -> Result<(Directory, Vec<u8>)> {
        let named = |e: Malformed| self.corrupt(format!("block at {}", location.offset), e);
        let mut bytes = vec![0; location.block_bytes as usize];
        self.read_at(&mut bytes, location.offset)?;
        let directory = Directory::decode(&bytes).map_err(named)?;
        let payload = bytes.get(directory.directory_end..).unwrap_or_default();
        if directory.block_bytes() != bytes.len() || crc32c::crc32c(payload) != directory.payload_crc {
            return Err(named(Malformed("block payload checksum")));
        }
        Ok((directory, bytes))
    }

    /// Reads the header and directory of the block at `offset`.
    pub fn read_directory(&self, offset: u64) -> Result<Directory> {
        let named = |e: Malformed| self.corrupt(format!("block at {offset}"), e);
        let mut start = vec![0; HEADER_BYTES];
        self.read_at(&mut start, offset)?;
        let header: &[u8; HEADER_BYTES] = start.first_chunk().ok_or_else(|| named(Malformed("block header")))?;
        let end = directory_end(header).map_err(named)?;
        start.resize(end, 0);
        self.read_at(&mut start[HEADER_BYTES..], offset + HEADER_BYTES as u64)?;
        Directory::decode(&start).map_err(named)
    }

    /// The first place from `from` on at which a block may begin, found in pieces of a bounded length.
    pub(crate) fn next_magic(&self, from: u64) -> Result<Option<u64>> {
        let mut piece = vec![0; MAGIC_PIECE_BYTES];
        let (mut at, mut filled) = (from, 0);
        loop {
            // A hole holds nothing; its length may be anything.
            match rustix::fs::seek(&self.file, SeekFrom::Data(at + filled as u64)) {
                Ok(data) if data > at + filled as u64 => (at, filled) = (data, 0),
                Err(Errno::NXIO) => return Ok(None),
                _ => {}
            }
            match self.file.read_at(&mut piece[filled..], at + filled as u64) {
                Ok(0) => return Ok(None),
                Ok(n) => filled += n,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(e).at("read pack", &self.path),
            }
            if let Some(found) = piece[..filled].windows(BLOCK_MAGIC.len()).position(|four| four == BLOCK_MAGIC) {
                return Ok(Some(at + found as u64));
            }
            // A magic may begin in the last bytes of this piece.
            let kept = filled.min(BLOCK_MAGIC.len() - 1);
            piece.copy_within(filled - kept..filled, 0);
            at += (filled - kept) as u64;
            filled = kept;
        }
    }

    /// Calls `visit` with the place and directory of every block, in order, and then checks the trailer: a pack without a right
    /// one is torn. With `payloads`, the stored bytes of each block are checked against their CRC as well.
    pub fn scan(&self, payloads: bool, mut visit: impl FnMut(Location, &Directory) -> Result<()>) -> Result<PackInfo> {
        let length = self.file.metadata().at("read pack", &self.path)?.len();
        let end = length
            .checked_sub(PACK_TRAILER_BYTES as u64)
            .filter(|end| *end >= PACK_HEADER_BYTES as u64)
            .ok_or_else(|| self.corrupt("pack".into(), "too short"))?;
        let mut found = [0; PACK_TRAILER_BYTES];
        self.read_at(&mut found, end)?;
        let mut offset = PACK_HEADER_BYTES as u64;
        let mut blocks = 0;
        let mut digest = blake3::Hasher::new();
        while offset < end {
            let directory = self.read_directory(offset)?;
            let block_bytes = directory.block_bytes() as u64;
            if offset + block_bytes > end {
                return Err(self.corrupt(format!("block at {offset}"), "it reaches past the pack's end"));
            }
            let mut raw = vec![0; directory.directory_end];
            self.read_at(&mut raw, offset)?;
            digest.update(&raw);
            if payloads {
                let mut payload = vec![0; directory.payload_bytes];
                self.read_at(&mut payload, offset + directory.directory_end as u64)?;
                if crc32c::crc32c(&payload) != directory.payload_crc {
                    return Err(self.corrupt(format!("block at {offset}"), "payload checksum"));
                }
            }
            visit(Location { pack: self.id, offset, block_bytes: block_bytes as u32 }, &directory)?;
            offset += block_bytes;
            blocks += 1;
        }
        let digest = *digest.finalize().as_bytes();
        if found != trailer(blocks, length, &digest) {
            return Err(self.corrupt("pack trailer".into(), "it does not fit the blocks before it"));
        }
        Ok(PackInfo { id: self.id, bytes: length, digest: hex(&digest) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_magic_is_found_wherever_it_lies() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let pack = PackFile::open_unchecked(file.path(), PackId([0; 16])).unwrap();
        let places = [0, 1, MAGIC_PIECE_BYTES - 5, MAGIC_PIECE_BYTES - 2, MAGIC_PIECE_BYTES, 3 * MAGIC_PIECE_BYTES - 7];
        for place in places {
            let bytes = [vec![b'x'; place], BLOCK_MAGIC.to_vec(), vec![b'x'; 9]].concat();
            std::fs::write(file.path(), &bytes).unwrap();
            for from in [0, place / 2, place] {
                assert_eq!(pack.next_magic(from as u64).unwrap(), Some(place as u64), "{from}");
            }
            for from in [place + 1, bytes.len(), bytes.len() + 5] {
                assert_eq!(pack.next_magic(from as u64).unwrap(), None, "{from}");
            }
        }
    }
}
