//! Reads packs: one block by its place, or every block's directory in turn.

mod examined;
mod healing;
mod on_bases;
mod scan;

use std::{
    cell::RefCell,
    fs::File,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::atomic::AtomicBool,
};

use rustix::{buffer::spare_capacity, io::Errno};

use self::healing::Healer;
pub use self::on_bases::OnBases;
use super::{
    block::{Block, room_for},
    directory::{Directory, HEADER_BYTES, directory_end, is_raw},
    trailer::{PACK_HEADER_BYTES, VERSION_PARITY, VERSION_PLAIN, header},
    writer::Location,
};
use crate::{
    codec::DecodeError,
    error::{Error, IoContext, Result},
    files::{self, How},
    format::{LARGE_BLOCK_BYTES, STORED_BLOCK_BYTES_MAX},
    id::{ObjectId, ObjectKind, PackId},
    keys::{Ids, Keys},
    layout::Layout,
};

/// A thread keeps at most so many bytes to read compressed blocks into: more than ours have.
const STORED_BYTES_MAX: usize = 2 * LARGE_BLOCK_BYTES;

thread_local! {
    /// Room that a compressed block is read into. Kept, because fresh memory costs more than the copy.
    static STORED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A block as far as its pack alone tells.
#[derive(Debug)]
pub enum Read {
    /// It was decoded.
    Block(Block),
    /// It builds on objects of other blocks, which have to be decoded first.
    OnBases(OnBases),
}

/// The first object of a block whose bytes are not those of its id.
fn wrong_object(block: &Block, ids: &Ids) -> Option<(ObjectKind, ObjectId)> {
    let wrong = block.objects.iter().find(|(kind, id, range)| !ids.matches(*kind, *id, &block.bytes[range.clone()]));
    wrong.map(|(kind, id, _)| (*kind, *id))
}

/// An open pack file, from which blocks are read by their places.
#[derive(Debug)]
pub struct PackFile {
    /// Its id, as its file is named.
    pub id: PackId,
    path: PathBuf,
    file: File,
    layout: Layout,
    keys: Keys,
    healing: Healer,
    /// True if the disk could not read something of it.
    unread: AtomicBool,
}

/// A block's payload: decoded, or opened alone, for it has bases.
enum BlockPayload {
    Block(Result<Block, DecodeError>),
    Later(Vec<u8>, Directory),
}

impl PackFile {
    /// Opens a pack for reading. Its header is checked; its trailer is not.
    pub fn open(layout: &Layout, id: PackId) -> Result<Self> {
        Self::open_unchecked(layout, id)?.checked()
    }

    /// The same, of a pack in which any damage is to be noticed, whether parity makes up for it or not.
    pub(crate) fn open_unhealed(layout: &Layout, id: PackId) -> Result<Self> {
        PackFile { healing: Healer::off(), ..Self::open_unchecked(layout, id)? }.checked()
    }

    pub(crate) fn checked(self) -> Result<Self> {
        self.healing(|| {
            let mut found = [0; PACK_HEADER_BYTES];
            self.read_at(&mut found, 0)?;
            match [VERSION_PLAIN, VERSION_PARITY].iter().any(|version| found == header(*version)) {
                true => Ok(()),
                false => Err(self.corrupt("pack header".into(), "not a pack of this version")),
            }
        })?;
        Ok(self)
    }

    /// Opens a pack that has not taken its name yet. Damage in it is told as it is.
    pub(crate) fn at(layout: &Layout, id: PackId, path: &Path) -> Result<Self> {
        let pack = Self::open_as(layout, id, path.to_owned())?;
        Ok(PackFile { healing: Healer::off(), ..pack })
    }

    /// Opens a pack of which not even the header may be right, for saving what can be saved.
    pub(crate) fn open_unchecked(layout: &Layout, id: PackId) -> Result<Self> {
        Self::open_as(layout, id, layout.pack(id))
    }

    fn open_as(layout: &Layout, id: PackId, path: PathBuf) -> Result<Self> {
        let file = files::open(&path, How::Read).at("open pack", &path)?;
        let (layout, keys) = (layout.clone(), layout.keys.clone());
        Ok(PackFile { id, path, file, layout, keys, healing: Healer::default(), unread: AtomicBool::new(false) })
    }

    /// True if its file has no name any more, and only whoever has it open keeps its bytes.
    pub(crate) fn is_removed(&self) -> bool {
        self.file.metadata().is_ok_and(|found| found.nlink() == 0)
    }

    fn corrupt(&self, what: String, reason: impl ToString) -> Error {
        Error::Corrupt { what, place: self.path.clone(), reason: reason.to_string() }
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        self.read_exact_at(buffer, offset).map_err(|source| match source.kind() {
            std::io::ErrorKind::UnexpectedEof => self.corrupt(format!("block at {offset}"), "the file ends before it does"),
            _ => Error::Io { action: "read pack", path: self.path.clone(), source },
        })
    }

    /// Reads into memory that is not filled with zeros first.
    fn read_fresh(&self, total: usize, offset: u64) -> Result<Vec<u8>> {
        let mut bytes = room_for(total);
        if self.was_healed() {
            bytes.resize(total, 0);
            return self.read_at(&mut bytes, offset).map(|()| bytes);
        }
        while bytes.len() < total {
            let at = offset + bytes.len() as u64;
            match rustix::io::pread(&self.file, spare_capacity(&mut bytes), at) {
                Ok(0) => return Err(self.corrupt(format!("block at {offset}"), "the file ends before it does")),
                Ok(_) | Err(Errno::INTR) => {}
                Err(e) => {
                    let source = e.into();
                    self.note_unread(&source);
                    return Err(Error::Io { action: "read pack", path: self.path.clone(), source });
                }
            }
        }
        // There is room for a little more than was asked for.
        bytes.truncate(total);
        Ok(bytes)
    }

    /// Reads the block at a place, decodes it if it has no bases, and checks every object in it against its id.
    pub fn read_block(&self, location: Location) -> Result<Read> {
        self.healing(|| self.read_block_once(location))
    }

    fn read_block_once(&self, location: Location) -> Result<Read> {
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
                            true => Ok(BlockPayload::Block(directory.unpack(&payload))),
                            false => Ok(BlockPayload::Later(payload.into_owned(), directory)),
                        }
                    });
                    kept.truncate(STORED_BYTES_MAX);
                    kept.shrink_to(STORED_BYTES_MAX);
                    read
                })?;
                match read {
                    BlockPayload::Block(unpacked) => unpacked,
                    BlockPayload::Later(payload, directory) => {
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
        self.healing(|| self.read_stored_once(location))
    }

    fn read_stored_once(&self, location: Location) -> Result<(Directory, Vec<u8>)> {
        let named = |e: DecodeError| self.corrupt(format!("block at {}", location.offset), e);
        let mut bytes = vec![0; location.block_bytes as usize];
        self.read_at(&mut bytes, location.offset)?;
        let directory = Directory::decode(&bytes, &self.keys.seal).map_err(named)?;
        let payload = bytes.get(directory.directory_end..).unwrap_or_default();
        if directory.block_bytes() != bytes.len() || crc32c::crc32c(payload) != directory.payload_crc {
            return Err(named(DecodeError("block payload checksum")));
        }
        Ok((directory, bytes))
    }

    /// Reads the header and directory of the block at `offset`.
    pub fn read_directory(&self, offset: u64) -> Result<Directory> {
        self.healing(|| self.read_directory_once(offset))
    }

    fn read_directory_once(&self, offset: u64) -> Result<Directory> {
        let named = |e: DecodeError| self.corrupt(format!("block at {offset}"), e);
        let mut start = vec![0; HEADER_BYTES];
        self.read_at(&mut start, offset)?;
        let header: &[u8; HEADER_BYTES] = start.first_chunk().ok_or_else(|| named(DecodeError("block header")))?;
        let end = directory_end(header, &self.keys.seal).map_err(named)?;
        start.resize(end, 0);
        self.read_at(&mut start[HEADER_BYTES..], offset + HEADER_BYTES as u64)?;
        Directory::decode(&start, &self.keys.seal).map_err(named)
    }
}

#[cfg(test)]
mod tests;
