//! Reads a pack from end to end: by its trailer, by the copies of its directories, or block by block.

use std::{fs::File, os::unix::fs::FileExt};

use rustix::{fs::SeekFrom, io::Errno};

use super::PackFile;
use crate::{
    error::{Error, IoContext, Result},
    format::{BLOCK_MAGIC, PACK_BYTES, SMALL_PACK_BYTES},
    id::hex,
    pack::{
        directory::Directory,
        trailer::{PACK_HEADER_BYTES, PACK_TRAILER_BYTES, PARITY_TRAILER_BYTES, Trailer},
        writer::{Location, PackInfo},
    },
};

/// Blocks are looked for in pieces of this many bytes.
pub(super) const MAGIC_PIECE_BYTES: usize = 64 << 10;

/// Bytes that a disk loses together.
const SECTOR_BYTES: u64 = 4096;

/// True if a pack has a right trailer at its end.
pub(super) fn has_trailer(file: &File) -> bool {
    let Ok(length) = file.metadata().map(|found| found.len()) else { return false };
    let mut end = vec![0; length.min(PARITY_TRAILER_BYTES as u64) as usize];
    let at = length - end.len() as u64;
    file.read_exact_at(&mut end, at).is_ok() && Trailer::decode_end(&end).is_ok_and(|trailer| trailer.pack_bytes == length)
}

/// A longer pack is not read as a whole.
const WHOLE_BYTES_MAX: u64 = 2 * PACK_BYTES;

/// A pack's blocks may have so many bytes of headers and directories at most, which are read at once.
const DIRECTORIES_BYTES_MAX: u64 = 1 << 30;

impl PackFile {
    /// The first place from `from` on at which a block may begin, found in pieces of a bounded length.
    pub(crate) fn next_magic(&self, from: u64) -> Result<Option<u64>> {
        if from == 0 {
            // Who looks for blocks has met damage.
            self.heal(0);
        }
        let overlay = self.overlay();
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
                Ok(n) => {
                    if let Some(overlay) = &overlay {
                        overlay.patch(&mut piece[filled..filled + n], at + filled as u64);
                    }
                    filled += n;
                }
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(e) if e.raw_os_error() == Some(Errno::IO.raw_os_error()) => {
                    self.note_unread(&e);
                    match self.next_sector(&mut piece[filled..], at + filled as u64)? {
                        0 => return Ok(None),
                        n => filled += n,
                    }
                }
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

    /// Reads up to the end of a sector that may be one which the disk cannot read; what it cannot becomes zeros. 0 at the file's end.
    fn next_sector(&self, buffer: &mut [u8], at: u64) -> Result<usize> {
        let length = self.file.metadata().at("read pack", &self.path)?.len();
        let within = SECTOR_BYTES - at % SECTOR_BYTES;
        let bytes = within.min(length.saturating_sub(at)).min(buffer.len() as u64) as usize;
        let sector = &mut buffer[..bytes];
        if let Err(e) = self.read_exact_at(sector, at) {
            if e.raw_os_error() != Some(Errno::IO.raw_os_error()) {
                return Err(e).at("read pack", &self.path);
            }
            sector.fill(0);
            if let Some(overlay) = self.overlay() {
                overlay.patch(sector, at);
            }
        }
        Ok(bytes)
    }

    /// The trailer: a pack without a right one is torn.
    pub(super) fn trailer(&self) -> Result<Trailer> {
        self.healing(|| self.trailer_once())
    }

    fn trailer_once(&self) -> Result<Trailer> {
        if let Some(overlay) = self.overlay() {
            return Ok(overlay.trailer);
        }
        let length = self.file.metadata().at("read pack", &self.path)?.len();
        if length < (PACK_HEADER_BYTES + PACK_TRAILER_BYTES) as u64 {
            return Err(self.corrupt("pack".into(), "too short"));
        }
        let mut end = vec![0; length.min(PARITY_TRAILER_BYTES as u64) as usize];
        let at = length - end.len() as u64;
        self.read_at(&mut end, at)?;
        let trailer = Trailer::decode_end(&end).map_err(|e| self.corrupt("pack trailer".into(), e))?;
        match trailer.pack_bytes == length && trailer.directories_bytes <= DIRECTORIES_BYTES_MAX {
            true => Ok(trailer),
            false => Err(self.corrupt("pack trailer".into(), "it does not fit the pack's length")),
        }
    }

    /// The copies of all blocks' headers and directories.
    pub(super) fn copies(&self, trailer: &Trailer) -> Result<Vec<u8>> {
        self.healing(|| {
            let mut copies = vec![0; trailer.directories_bytes as usize];
            self.read_at(&mut copies, trailer.blocks_end())?;
            match *blake3::hash(&copies).as_bytes() == trailer.digest {
                true => Ok(copies),
                false => Err(self.corrupt("directories before the pack's trailer".into(), "their digest is not the trailer's")),
            }
        })
    }

    /// The blocks of a small pack, whole.
    pub(super) fn small(&self, trailer: &Trailer) -> Result<Vec<u8>> {
        let blocks_bytes = trailer.blocks_end() - PACK_HEADER_BYTES as u64;
        self.read_fresh(blocks_bytes as usize, PACK_HEADER_BYTES as u64)
    }

    /// Calls `visit` with the place and directory of every block, in order. What is read are the copies before the trailer, of a small pack
    /// all of it; where these are damaged, the blocks one by one.
    pub fn scan(&self, mut visit: impl FnMut(Location, &Directory) -> Result<()>) -> Result<PackInfo> {
        let trailer = self.trailer()?;
        if trailer.directories_bytes == 0 && trailer.blocks_end() <= SMALL_PACK_BYTES {
            return self.scan_small(&trailer, visit);
        }
        let directories = match trailer.directories_bytes {
            0 => return self.scan_without_copies(&trailer, visit),
            _ => self.copies(&trailer),
        };
        let directories = match directories {
            Err(Error::Corrupt { .. }) => return self.scan_blocks(false, visit),
            other => other?,
        };
        let end = trailer.blocks_end();
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

    /// As [`PackFile::scan`], of a pack without copies that is not small. Where a directory is damaged, all of the pack is read.
    fn scan_without_copies(
        &self,
        trailer: &Trailer,
        mut visit: impl FnMut(Location, &Directory) -> Result<()>,
    ) -> Result<PackInfo> {
        let mut blocks = Vec::new();
        let scanned = self.scan_blocks(false, |at, directory| {
            blocks.push((at, directory.clone()));
            Ok(())
        });
        if matches!(scanned, Err(Error::Corrupt { .. })) && trailer.pack_bytes <= WHOLE_BYTES_MAX {
            return self.scan_small(trailer, visit);
        }
        blocks.iter().try_for_each(|(at, directory)| visit(*at, directory))?;
        scanned
    }

    /// As [`PackFile::scan`], of a small pack without copies. Where a directory is damaged, the blocks behind it are visited, too.
    fn scan_small(&self, trailer: &Trailer, mut visit: impl FnMut(Location, &Directory) -> Result<()>) -> Result<PackInfo> {
        let generation = self.healing.generation();
        let mut bytes = self.small(trailer)?;
        let (mut before, mut end) = self.chain(&bytes, 0);
        if end < bytes.len() && self.heal(generation) {
            bytes = self.small(trailer)?;
            (before, end) = self.chain(&bytes, 0);
        }
        let at = |place: usize| (PACK_HEADER_BYTES + place) as u64;
        let mut visit = |(place, directory): &(usize, Directory)| {
            visit(Location { pack: self.id, offset: at(*place), block_bytes: directory.block_bytes() as u32 }, directory)
        };
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
        let end = trailer.blocks_end();
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
                self.check_payload(offset, &directory)?;
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

    fn check_payload(&self, offset: u64, directory: &Directory) -> Result<()> {
        self.healing(|| {
            let mut payload = vec![0; directory.payload_bytes];
            self.read_at(&mut payload, offset + directory.directory_end as u64)?;
            match crc32c::crc32c(&payload) == directory.payload_crc {
                true => Ok(()),
                false => Err(self.corrupt(format!("block at {offset}"), "payload checksum")),
            }
        })
    }

    /// Checks the copies of the directories, where there are any. Without them a reader reads every block's own.
    pub fn check_copies(&self) -> Result<()> {
        let trailer = self.trailer()?;
        match trailer.directories_bytes {
            0 => Ok(()),
            _ => self.copies(&trailer).map(drop),
        }
    }

    pub(super) fn info(&self, trailer: &Trailer) -> PackInfo {
        PackInfo { id: self.id, bytes: trailer.pack_bytes, digest: hex(&trailer.digest) }
    }
}
