//! Reading blocks and objects, wherever they lie by now.

use std::{
    collections::HashSet,
    sync::{Arc, PoisonError},
};

use super::Store;
use crate::{
    codec::DecodeError,
    damaged,
    error::{Error, Result},
    format::{DEPTH_READ_MAX, PREFIX_BYTES_MAX},
    id::{BlobId, ObjectId, ObjectKind, PackId},
    journal::Position,
    pack::{Block, CachedBlock, Location, OnBases, PackFile, Read, Reuse},
};

/// Limits of one read of blocks that build on each other: more than writers make, and little enough for packs that somebody forged.
#[derive(Default)]
struct Budget {
    /// Blocks in a row that wait for their bases.
    depth: u32,
    /// Blocks that were read.
    reads: u32,
    /// Bytes that are held meanwhile.
    held_bytes: usize,
}

/// Our own blocks build on at most 25 others, and after repacking on those that their bases were copied to.
const READS_MAX: u32 = 4096;
const HELD_BYTES_MAX: usize = 256 << 20;

impl Budget {
    /// Fails with the reason if no more base may be read.
    fn check(&self) -> std::result::Result<(), &'static str> {
        if self.depth > DEPTH_READ_MAX {
            return Err("too many blocks build on each other");
        }
        match self.reads < READS_MAX && self.held_bytes < HELD_BYTES_MAX {
            true => Ok(()),
            false => Err("too much has to be read for it"),
        }
    }
}

impl Store {
    /// A pack by its id; the last ones that were used are kept open.
    pub(crate) fn pack(&self, id: PackId) -> Result<Arc<PackFile>> {
        let mut packs = self.packs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pack) = packs.get(&id) {
            return Ok(pack.clone());
        }
        let pack = Arc::new(PackFile::open(&self.layout, id)?);
        packs.put(id, pack.clone());
        Ok(pack)
    }

    /// The packs that have no file, and the number of those that have one. Files are listed, and not looked into.
    pub fn absent_packs(&self) -> Result<(Vec<PackId>, usize)> {
        let (absent, present) = self.view().absent_packs()?;
        match absent.is_empty() {
            true => Ok((absent, present)),
            // Another process may have repacked them.
            false => self.refresh()?.absent_packs(),
        }
    }

    /// Closes packs whose files are gone, so that their bytes are free.
    pub(crate) fn close_packs(&self, gone: &[PackId]) {
        let mut packs = self.packs.lock().unwrap_or_else(PoisonError::into_inner);
        for id in gone {
            packs.pop(id);
        }
    }

    /// The same for those that other processes have removed. Who holds a store open without looking at it calls this now and then.
    pub fn close_removed_packs(&self) {
        let mut packs = self.packs.lock().unwrap_or_else(PoisonError::into_inner);
        let removed: Vec<PackId> = packs.iter().filter(|(_, pack)| pack.is_removed()).map(|(id, _)| *id).collect();
        for id in removed {
            packs.pop(&id);
        }
    }

    /// The decoded block at a place, from the cache or from its pack. One reader decodes it, others wait for that.
    pub fn block(&self, location: Location) -> Result<Arc<Block>> {
        self.block_for(location, Reuse::Likely)
    }

    /// The same, for whoever may or may not come back to it.
    pub fn block_for(&self, location: Location, reuse: Reuse) -> Result<Arc<Block>> {
        self.block_within(location, reuse, &mut Budget::default())
    }

    /// The same, of a block on which others may build. One that is damaged is remembered.
    fn block_within(&self, location: Location, reuse: Reuse, budget: &mut Budget) -> Result<Arc<Block>> {
        let read = self.read_block_within(location, reuse, budget);
        if read.as_ref().is_err_and(|e| e.is_damage()) {
            self.unreadable.lock().unwrap_or_else(PoisonError::into_inner).insert(location);
        }
        read
    }

    fn read_block_within(&self, location: Location, reuse: Reuse, budget: &mut Budget) -> Result<Arc<Block>> {
        let got = self.blocks.get(location, reuse, || {
            budget.reads += 1;
            self.pack(location.pack)?.read_block(location)
        });
        let block = match got? {
            CachedBlock::Block(block) => return Ok(block),
            CachedBlock::OnBases(block) => block,
        };
        let (prefix, depth) = self.bases(&block, budget)?;
        match self.blocks.get(location, reuse, || block.decode(&prefix, depth).map(Read::Block))? {
            CachedBlock::Block(block) => Ok(block),
            // Nothing but the block that was just decoded is given back.
            CachedBlock::OnBases(_) => self.decode(Read::OnBases(block)).map(Arc::new),
        }
    }

    /// The bytes of a block's bases, in order, and how many blocks in a row were decoded for them.
    fn bases(&self, block: &OnBases, budget: &mut Budget) -> Result<(Vec<u8>, u32)> {
        let (mut prefix, mut depth) = (Vec::new(), 0);
        budget.depth += 1;
        budget.held_bytes += block.payload_bytes();
        for (kind, id) in block.bases() {
            budget.check().map_err(|reason| block.lacks(id, &reason))?;
            let base = self
                .object_block_within(kind, id, budget)
                .map_err(|e| if e.is_damage() { block.lacks_for(id, &e) } else { e })?;
            let bytes = base.object(id).unwrap_or_default();
            prefix.extend_from_slice(bytes);
            budget.held_bytes += bytes.len();
            depth = depth.max(base.depth);
            if prefix.len() > PREFIX_BYTES_MAX {
                return Err(block.lacks(id, &"with the others it is too long"));
            }
        }
        budget.depth -= 1;
        budget.held_bytes -= prefix.len() + block.payload_bytes();
        Ok((prefix, depth))
    }

    /// Notes the blocks that this handle could not read, so that the next create stores again what it comes upon of them. They are read once
    /// more: gc may have moved what was looked for. Says whether any of it was not known.
    pub fn note_unreadable(&self) -> bool {
        let found = std::mem::take(&mut *self.unreadable.lock().unwrap_or_else(PoisonError::into_inner));
        if found.is_empty() || self.refresh().is_err() {
            return false;
        }
        let current: HashSet<PackId> = self.view().current_packs().unwrap_or_default().into_iter().collect();
        let is_bad = |at: &Location| {
            let read = PackFile::open(&self.layout, at.pack).and_then(|file| self.decode(file.read_block(*at)?));
            current.contains(&at.pack) && read.is_err_and(|e| e.is_damage())
        };
        let is_there = |at: &Location| self.layout.pack(at.pack).exists();
        let bad = found.into_iter().filter(is_bad);
        let bad: Vec<Location> = bad.map(|at| if is_there(&at) { at } else { damaged::whole(at.pack) }).collect();
        // What was read for this is known by now.
        self.unreadable.lock().unwrap_or_else(PoisonError::into_inner).clear();
        damaged::note(self, bad, None)
    }

    /// Decodes a block that was read from a pack, and keeps neither it nor its pack.
    pub(crate) fn decode(&self, read: Read) -> Result<Block> {
        match read {
            Read::Block(block) => Ok(block),
            Read::OnBases(block) => {
                let (prefix, depth) = self.bases(&block, &mut Budget::default())?;
                block.decode(&prefix, depth)
            }
        }
    }

    /// Number of blocks that were read and decoded so far, those of trees included. Others were found in the cache.
    pub fn decoded_blocks(&self) -> u64 {
        self.blocks.decoded()
    }

    /// Keeps decoded blocks within one of so many equal shares of [`crate::OpenOptions::cache_bytes`] from now on.
    pub fn share_cache(&self, shares: u64) {
        self.blocks.share(shares);
    }

    /// Bytes of decoded blocks that are kept at most.
    pub fn cache_bytes(&self) -> u64 {
        self.blocks.bytes_max()
    }

    /// Bytes of decoded blocks for readers of long files.
    pub fn passing_bytes(&self) -> u64 {
        self.blocks.passing_bytes()
    }

    /// Location of the next block of the same pack; `None` behind the last one, or where the pack is damaged or gone.
    pub fn block_after(&self, location: Location) -> Option<Location> {
        let offset = location.offset.checked_add(u64::from(location.block_bytes))?;
        let directory = self.pack(location.pack).ok()?.read_directory(offset).ok()?;
        Some(Location { pack: location.pack, offset, block_bytes: u32::try_from(directory.block_bytes()).ok()? })
    }

    /// Location of an object.
    pub fn locate(&self, kind: ObjectKind, id: ObjectId) -> Result<Location> {
        let missing = || Error::Missing { kind: kind.name(), id: id.to_string() };
        self.view().locate(id)?.ok_or_else(missing)
    }

    fn locate_block(&self, kind: ObjectKind, id: ObjectId, budget: &mut Budget) -> Result<(Location, Arc<Block>)> {
        let location = self.locate(kind, id)?;
        Ok((location, self.block_within(location, Reuse::Likely, budget).map_err(|e| of_object(e, kind, id))?))
    }

    /// Looks an object up again, as long as the journal grows: it may be moved more than once.
    fn locate_moved_block(&self, kind: ObjectKind, id: ObjectId, budget: &mut Budget) -> Result<(Location, Arc<Block>)> {
        loop {
            let before = self.view().end().clone();
            self.reopen()?;
            match self.locate_block(kind, id, budget) {
                Err(e) if e.is_damage() && *self.view().end() != before => {}
                Err(Error::Io { path, source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
                    let what = format!("{} {id}", kind.name());
                    return Err(Error::Corrupt { what, place: path, reason: "the pack is missing".into() });
                }
                other => return other,
            }
        }
    }

    /// The block that holds an object, of which [`Block::object`] gives the bytes. Where garbage collection has moved the object
    /// meanwhile, it is looked up again.
    pub fn object_block(&self, kind: ObjectKind, id: ObjectId) -> Result<Arc<Block>> {
        self.object_block_within(kind, id, &mut Budget::default())
    }

    fn object_block_within(&self, kind: ObjectKind, id: ObjectId, budget: &mut Budget) -> Result<Arc<Block>> {
        let before = self.view();
        let (location, block) = match self.locate_block(kind, id, budget) {
            Err(e) if is_missing(&e) => self.locate_moved_block(kind, id, budget)?,
            // What its block builds on may be gone because the object is somewhere else by now.
            Err(e) if e.is_damage() && self.has_moved_on(before.end())? => self.locate_moved_block(kind, id, budget)?,
            other => other?,
        };
        match block.object(id) {
            Some(_) => Ok(block),
            None => Err(Error::Corrupt {
                what: format!("{} {id}", kind.name()),
                place: self.layout.pack(location.pack),
                reason: format!("the block at {} does not hold it", location.offset),
            }),
        }
    }

    /// True if the journal has grown since this place.
    fn has_moved_on(&self, before: &Position) -> Result<bool> {
        Ok(*self.refresh()?.end() != *before)
    }

    /// Reads an object and lets `read` make something of its bytes.
    pub fn read_object<T>(
        &self,
        kind: ObjectKind,
        id: ObjectId,
        read: impl FnOnce(&[u8]) -> Result<T, DecodeError>,
    ) -> Result<T> {
        let block = self.object_block(kind, id)?;
        let bytes = block.object(id).unwrap_or_default();
        read(bytes).map_err(|e| Error::Corrupt {
            what: format!("{} {id}", kind.name()),
            place: self.layout.packs(),
            reason: e.to_string(),
        })
    }

    /// True if a blob is stored as one chunk under its own id.
    pub(crate) fn is_single_chunk(&self, blob: BlobId, size: u64) -> Result<bool> {
        if size > u64::from(self.config.chunking.bytes_max) {
            return Ok(false);
        }
        let found = match self.view().locate(blob.object()) {
            Err(e) if e.is_not_found() => self.reopen()?.locate(blob.object())?,
            other => other?,
        };
        Ok(found.is_some())
    }
}

/// Names the object that a damaged block was read for.
fn of_object(e: Error, kind: ObjectKind, id: ObjectId) -> Error {
    match e {
        Error::Corrupt { what, place, reason } => {
            let object = format!("{} {id}", kind.name());
            let what = if what.starts_with(&object) { what } else { format!("{object} ({what})") };
            Error::Corrupt { what, place, reason }
        }
        other => other,
    }
}

/// True if an object may be somewhere else by now.
fn is_missing(e: &Error) -> bool {
    e.is_not_found() || matches!(e, Error::Missing { .. })
}
