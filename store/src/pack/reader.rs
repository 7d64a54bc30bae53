//! Reads packs: one block by its place, or every block's directory in turn.

use std::{
    cell::RefCell,
    fs::File,
    os::unix::fs::{FileExt, MetadataExt},
    path::PathBuf,
};

use rustix::{buffer::spare_capacity, fs::SeekFrom, io::Errno};

use super::{
    block::{Block, room_for},
    directory::{Directory, HEADER_BYTES, directory_end, is_raw},
    writer::{Location, PACK_HEADER_BYTES, PACK_TRAILER_BYTES, PackInfo, Trailer, header},
};
use crate::{
    codec::Malformed,
    error::{Error, IoContext, Result},
    files::{self, How},
    format::{BLOCK_MAGIC, LARGE_BLOCK_BYTES, SMALL_PACK_BYTES, STORED_BLOCK_BYTES_MAX},
    id::{ObjectId, ObjectKind, PackId, hex},
    keys::{Ids, Keys},
    layout::Layout,
};

/// A thread keeps at most so many bytes to read compressed blocks into: more than ours have.
const STORED_BYTES_MAX: usize = 2 * LARGE_BLOCK_BYTES;

/// Stands before the reason.
const UNREADABLE_BASE: &str = ", which cannot be read: ";

/// Blocks are looked for in pieces of this many bytes.
const MAGIC_PIECE_BYTES: usize = 64 << 10;

thread_local! {
    /// Room that a compressed block is read into. Kept, because fresh memory costs more than the copy.
    static STORED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A pack's blocks may have so many bytes of headers and directories at most, which are read at once.
const DIRECTORIES_BYTES_MAX: u64 = 1 << 30;

/// A block as far as its pack alone tells.
#[derive(Debug)]
pub enum Read {
    /// It was decoded.
    Block(Block),
    /// It has bases.
    OnBases(OnBases),
}

/// A block that is decoded once its bases are at hand.
#[derive(Debug)]
pub struct OnBases {
    directory: Directory,
    payload: Vec<u8>,
    location: Location,
    path: PathBuf,
    ids: Ids,
}

impl OnBases {
    /// Bytes of it that are held until it is decoded.
    pub fn payload_bytes(&self) -> usize {
        self.payload.len()
    }

    /// Its bases and their kinds, in order.
    pub fn bases(&self) -> impl Iterator<Item = (ObjectKind, ObjectId)> + '_ {
        self.directory.kinds_and_bases()
    }

    /// Decodes it, and checks every object in it against its id. `prefix` is the bytes of the bases, `depth` how many blocks in a row had
    /// to be decoded for them.
    pub fn decode(&self, prefix: &[u8], depth: u32) -> Result<Block> {
        let corrupt = |what, reason| Error::Corrupt { what, place: self.path.clone(), reason };
        let decoded = self.directory.unpack_on(&self.payload, prefix, depth);
        let block = decoded.map_err(|e| corrupt(format!("block at {}", self.location.offset), e.to_string()))?;
        match wrong_object(&block, &self.ids) {
            None => Ok(block),
            Some((kind, id)) => {
                let what = format!("{} {id} in the block at {}", kind.name(), self.location.offset);
                Err(corrupt(what, "its bytes do not hash to its id".into()))
            }
        }
    }

    /// Names a base that an error keeps from being read. Where that base lacks one in turn, the last one's reason is given.
    pub fn lacks_for(&self, base: ObjectId, error: &Error) -> Error {
        match error {
            Error::Corrupt { reason, .. } => {
                self.lacks(base, &reason.rsplit_once(UNREADABLE_BASE).map_or(&**reason, |(_, why)| why))
            }
            other => self.lacks(base, other),
        }
    }

    /// Names a base that cannot be read.
    pub fn lacks(&self, base: ObjectId, reason: &impl std::fmt::Display) -> Error {
        let reason = format!("it builds on the object {base}{UNREADABLE_BASE}{reason}");
        Error::Corrupt { what: format!("block at {}", self.location.offset), place: self.path.clone(), reason }
    }
}

/// The first object of a block whose bytes are not those of its id.
fn wrong_object(block: &Block, ids: &Ids) -> Option<(ObjectKind, ObjectId)> {
    let wrong = block.objects.iter().find(|(kind, id, range)| !ids.matches(*kind, *id, &block.bytes[range.clone()]));
    wrong.map(|(kind, id, _)| (*kind, *id))
}

/// An open pack.
#[derive(Debug)]
pub struct PackFile {
    /// Its id, as its file is named.
    pub id: PackId,
    path: PathBuf,
    file: File,
    keys: Keys,
}

/// A block's payload: decoded, or opened alone, for it has bases.
enum Decoded {
    Block(Result<Block, Malformed>),
    Later(Vec<u8>, Directory),
}

impl PackFile {
    /// Opens a pack for reading. Its header is checked; its trailer is not.
    pub fn open(layout: &Layout, id: PackId) -> Result<Self> {
        let pack = Self::open_unchecked(layout, id)?;
        let mut found = [0; PACK_HEADER_BYTES];
        pack.read_at(&mut found, 0)?;
        if found != header() {
            return Err(pack.corrupt("pack header".into(), "not a pack of this version"));
        }
        Ok(pack)
    }

    /// Opens a pack of which not even the header may be right, for saving what can be saved.
    pub(crate) fn open_unchecked(layout: &Layout, id: PackId) -> Result<Self> {
        let path = layout.pack(id);
        let file = files::open(&path, How::Read).at("open pack", &path)?;
        Ok(PackFile { id, path, file, keys: layout.keys.clone() })
    }

    /// True if its file has no name any more, and only whoever has it open keeps its bytes.
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

    /// Reads the block at a place, decodes it if it has no bases, and checks every object in it against its id.
    pub fn read_block(&self, location: Location) -> Result<Read> {
        let total = location.block_bytes as usize;
        if !(HEADER_BYTES..=STORED_BLOCK_BYTES_MAX).contains(&total) {
            return Err(self.corrupt(format!("block at {}", location.offset), "impossible length"));
        }
        let mut header = [0; HEADER_BYTES];
        self.read_at(&mut header, location.offset)?;
        let block = match is_raw(&header) {
            // The bytes stay as they are.
            true => {
                let stored = self.read_fresh(total, location.offset)?;
                self.directory_of(&stored, location)?.unpack_stored(stored, &self.keys.seal)
            }
            false => {
                let read = STORED.with_borrow_mut(|kept| {
                    if kept.len() < total {
                        kept.resize(total, 0);
                    }
                    let stored = &mut kept[..total];
                    self.read_at(stored, location.offset)?;
                    let read = self.directory_of(stored, location).and_then(|directory| {
                        let payload = directory.open_payload(&stored[directory.directory_end..], &self.keys.seal);
                        let payload = payload.map_err(|e| self.corrupt(format!("block at {}", location.offset), e))?;
                        match directory.bases.is_empty() {
                            true => Ok(Decoded::Block(directory.unpack(&payload))),
                            false => Ok(Decoded::Later(payload.into_owned(), directory)),
                        }
                    });
                    kept.truncate(STORED_BYTES_MAX);
                    kept.shrink_to(STORED_BYTES_MAX);
                    read
                })?;
                match read {
                    Decoded::Block(unpacked) => unpacked,
                    Decoded::Later(payload, directory) => {
                        let (path, ids) = (self.path.clone(), self.keys.ids.clone());
                        return Ok(Read::OnBases(OnBases { directory, payload, location, path, ids }));
                    }
                }
            }
        };
        let block = block.map_err(|e| self.corrupt(format!("block at {}", location.offset), e))?;
        if let Some((kind, id)) = wrong_object(&block, &self.keys.ids) {
            let what = format!("{} {id} in the block at {}", kind.name(), location.offset);
            return Err(self.corrupt(what, "its bytes do not hash to its id"));
        }
        Ok(Read::Block(block))
    }

    /// The directory of the block at a place, from the block as it is stored.
    fn directory_of(&self, stored: &[u8], location: Location) -> Result<Directory> {
        let directory =
            Directory::decode(stored, &self.keys.seal).map_err(|e| self.corrupt(format!("block at {}", location.offset), e))?;
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
        let directory = Directory::decode(&bytes, &self.keys.seal).map_err(named)?;
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
        let end = directory_end(header, &self.keys.seal).map_err(named)?;
        start.resize(end, 0);
        self.read_at(&mut start[HEADER_BYTES..], offset + HEADER_BYTES as u64)?;
        Directory::decode(&start, &self.keys.seal).map_err(named)
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

    /// The trailer: a pack without a right one is torn.
    fn trailer(&self) -> Result<Trailer> {
        let length = self.file.metadata().at("read pack", &self.path)?.len();
        let least = (PACK_HEADER_BYTES + PACK_TRAILER_BYTES) as u64;
        if length < least {
            return Err(self.corrupt("pack".into(), "too short"));
        }
        let mut found = [0; PACK_TRAILER_BYTES];
        self.read_at(&mut found, length - PACK_TRAILER_BYTES as u64)?;
        let trailer = Trailer::decode(&found).map_err(|e| self.corrupt("pack trailer".into(), e))?;
        let fits = trailer.pack_bytes == length && trailer.directories_bytes <= (length - least).min(DIRECTORIES_BYTES_MAX);
        match fits {
            true => Ok(trailer),
            false => Err(self.corrupt("pack trailer".into(), "it does not fit the pack's length")),
        }
    }

    /// The copies of all blocks' headers and directories.
    fn copies(&self, trailer: &Trailer) -> Result<Vec<u8>> {
        let mut copies = vec![0; trailer.directories_bytes as usize];
        self.read_at(&mut copies, trailer.pack_bytes - PACK_TRAILER_BYTES as u64 - trailer.directories_bytes)?;
        match *blake3::hash(&copies).as_bytes() == trailer.digest {
            true => Ok(copies),
            false => Err(self.corrupt("directories before the pack's trailer".into(), "their digest is not the trailer's")),
        }
    }

    /// The blocks of a small pack, whole.
    fn small(&self, trailer: &Trailer) -> Result<Vec<u8>> {
        let blocks_bytes = trailer.pack_bytes - (PACK_HEADER_BYTES + PACK_TRAILER_BYTES) as u64;
        self.read_fresh(blocks_bytes as usize, PACK_HEADER_BYTES as u64)
    }

    /// Calls `visit` with the place and directory of every block, in order. What is read are the copies before the trailer, of a small pack
    /// all of it; where these are damaged, the blocks one by one.
    pub fn scan(&self, mut visit: impl FnMut(Location, &Directory) -> Result<()>) -> Result<PackInfo> {
        let trailer = self.trailer()?;
        if trailer.directories_bytes == 0 && trailer.pack_bytes <= SMALL_PACK_BYTES + PACK_TRAILER_BYTES as u64 {
            return self.scan_small(&trailer, visit);
        }
        let directories = match trailer.directories_bytes {
            0 => return self.scan_blocks(false, visit),
            _ => self.copies(&trailer),
        };
        let directories = match directories {
            Err(Error::Corrupt { .. }) => return self.scan_blocks(false, visit),
            other => other?,
        };
        let end = trailer.pack_bytes - PACK_TRAILER_BYTES as u64 - trailer.directories_bytes;
        let (mut offset, mut at, mut blocks) = (PACK_HEADER_BYTES as u64, 0, 0);
        while let Some(rest) = directories.get(at..).filter(|rest| !rest.is_empty()) {
            let directory = Directory::decode(rest, &self.keys.seal)
                .map_err(|e| self.corrupt(format!("directory of the block at {offset}"), e))?;
            let block_bytes = directory.block_bytes();
            if offset + block_bytes as u64 > end {
                break;
            }
            visit(Location { pack: self.id, offset, block_bytes: block_bytes as u32 }, &directory)?;
            offset += block_bytes as u64;
            at += directory.directory_end;
            blocks += 1;
        }
        match offset == end && blocks == trailer.blocks {
            true => Ok(self.info(&trailer)),
            false => Err(self.corrupt("pack trailer".into(), "it does not fit the blocks before it")),
        }
    }

    /// As [`PackFile::scan`], of a small pack without copies. Where a directory is damaged, the blocks behind it are visited, too.
    fn scan_small(&self, trailer: &Trailer, mut visit: impl FnMut(Location, &Directory) -> Result<()>) -> Result<PackInfo> {
        let bytes = self.small(trailer)?;
        let at = |place: usize| (PACK_HEADER_BYTES + place) as u64;
        let mut visit = |(place, directory): &(usize, Directory)| {
            visit(Location { pack: self.id, offset: at(*place), block_bytes: directory.block_bytes() as u32 }, directory)
        };
        let (before, end) = self.chain(&bytes, 0);
        before.iter().try_for_each(&mut visit)?;
        if end < bytes.len() {
            // What looks like a block may be a file's content. It is one if blocks follow from there to the end, and no more than there are.
            let starts = (end + 1..bytes.len()).filter(|start| bytes[*start..].starts_with(&BLOCK_MAGIC));
            let mut chains = starts.map(|start| self.chain(&bytes, start));
            let behind =
                chains.find(|(blocks, end)| *end == bytes.len() && before.len() + blocks.len() < trailer.blocks as usize);
            behind.iter().flat_map(|(blocks, _)| blocks).try_for_each(&mut visit)?;
            return Err(self.corrupt(format!("block at {}", at(end)), "its header or directory"));
        }
        let mut digest = blake3::Hasher::new();
        before.iter().for_each(|(place, directory)| _ = digest.update(&bytes[*place..place + directory.directory_end]));
        match *digest.finalize().as_bytes() == trailer.digest && before.len() == trailer.blocks as usize {
            true => Ok(self.info(trailer)),
            false => Err(self.corrupt("pack trailer".into(), "it does not fit the blocks before it")),
        }
    }

    /// The blocks that follow each other from a place on, and where they end.
    fn chain(&self, bytes: &[u8], from: usize) -> (Vec<(usize, Directory)>, usize) {
        let (mut blocks, mut at) = (Vec::new(), from);
        while let Some(Ok(directory)) =
            bytes.get(at..).filter(|rest| !rest.is_empty()).map(|rest| Directory::decode(rest, &self.keys.seal))
            && directory.block_bytes() <= bytes.len() - at
        {
            let block_bytes = directory.block_bytes();
            blocks.push((at, directory));
            at += block_bytes;
        }
        (blocks, at)
    }

    /// As [`PackFile::scan`], from the blocks themselves, and then checks the copies and the trailer. With `payloads`, the stored bytes of
    /// each block are checked against their CRC as well. What is visited before a damaged place may be whole.
    pub fn scan_blocks(&self, payloads: bool, mut visit: impl FnMut(Location, &Directory) -> Result<()>) -> Result<PackInfo> {
        let trailer = self.trailer()?;
        let end = trailer.pack_bytes - PACK_TRAILER_BYTES as u64 - trailer.directories_bytes;
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
        if *digest.finalize().as_bytes() != trailer.digest || blocks != trailer.blocks {
            return Err(self.corrupt("pack trailer".into(), "it does not fit the blocks before it"));
        }
        Ok(self.info(&trailer))
    }

    /// Checks the copies of the directories, where there are any. Without them a reader reads every block's own.
    pub fn check_copies(&self) -> Result<()> {
        let trailer = self.trailer()?;
        match trailer.directories_bytes {
            0 => Ok(()),
            _ => self.copies(&trailer).map(drop),
        }
    }

    fn info(&self, trailer: &Trailer) -> PackInfo {
        PackInfo { id: self.id, bytes: trailer.pack_bytes, digest: hex(&trailer.digest) }
    }
}

#[cfg(test)]
mod tests;
