//! Blocks that build on others. What lives only because others build on it is marked as such: what it refers to does not live with it.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::{Survey, flatten};
use crate::{
    error::Result,
    format::DEPTH_READ_MAX,
    id::{ObjectId, ObjectKey, PackId},
    pack::{Directory, Location, PackFile},
    progress::{self, Progress},
    store::Store,
};

/// A chain is followed for so many steps: more than a reader takes.
const STEPS_MAX: usize = 4 * DEPTH_READ_MAX as usize;

/// A block that builds on others.
pub(super) struct Built {
    pub(super) location: Location,
    bases: Vec<ObjectId>,
    /// The objects that the index finds here.
    pub(super) versions: Vec<Version>,
    raw_bytes: u64,
}

/// An object in such a block.
#[derive(Clone, Copy)]
pub(super) struct Version {
    pub(super) key: ObjectKey,
    /// The number of its base among the block's.
    base: Option<u32>,
    /// The number of versions before it.
    pub(super) number: u32,
    pub(super) raw_bytes: u32,
}

/// All such blocks, and the places of their objects.
#[derive(Default)]
pub(super) struct BuiltBlocks {
    pub(super) blocks: Vec<Built>,
    places: HashMap<ObjectKey, (u32, u32)>,
    /// Bases of blocks in packs whose directories cannot be read to the end. All of them are needed.
    of_damaged: Vec<Vec<ObjectId>>,
    /// Stored bytes of what lives by itself, in all packs; copies count.
    pub(super) live_bytes: u64,
}

impl BuiltBlocks {
    fn add(&mut self, survey: &Survey<'_>, location: Location, directory: &Directory) -> Result<()> {
        let mut versions = Vec::new();
        for entry in &directory.entries {
            let key = entry.id.key();
            if survey.view.locate_key(&key)? == Some(location) {
                self.places.insert(key, (self.blocks.len() as u32, versions.len() as u32));
                let (base, number, raw_bytes) = (entry.base, entry.version, entry.head_bytes as u32);
                versions.push(Version { key, base, number, raw_bytes });
            }
        }
        if !versions.is_empty() {
            let (bases, raw_bytes) = (directory.bases.clone(), directory.raw_bytes() as u64);
            self.blocks.push(Built { location, bases, versions, raw_bytes });
        }
        Ok(())
    }

    /// The number of the block of an object that builds on another, and the object.
    pub(super) fn get(&self, key: &ObjectKey) -> Option<(usize, &Version)> {
        let (block, version) = *self.places.get(key)?;
        Some((block as usize, self.blocks.get(block as usize)?.versions.get(version as usize)?))
    }

    /// The object that an object builds on.
    pub(super) fn base_of(&self, key: &ObjectKey) -> Option<ObjectId> {
        let (block, version) = self.get(key)?;
        self.blocks[block].bases.get(version.base? as usize).copied()
    }

    /// The share of an object in its block's stored bytes, if it builds on another.
    pub(super) fn stored_bytes(&self, key: &ObjectKey) -> u64 {
        let Some((block, version)) = self.get(key) else { return 0 };
        share(&self.blocks[block].location, u64::from(version.raw_bytes), self.blocks[block].raw_bytes)
    }

    /// The objects that an object builds on, at first hand and further, up to what builds on nothing.
    pub(super) fn chain(&self, key: &ObjectKey) -> impl Iterator<Item = ObjectId> {
        let first = self.base_of(key);
        std::iter::successors(first, |id| self.base_of(&id.key())).take(STEPS_MAX)
    }

    /// For each block, how many in a row have to be decoded for it.
    pub(super) fn depths(&self) -> Vec<u32> {
        let mut depths: Vec<Option<u32>> = vec![None; self.blocks.len()];
        for first in 0..self.blocks.len() {
            let mut stack = vec![(first, false)];
            while let Some((number, is_below_known)) = stack.pop() {
                let below = || self.blocks[number].bases.iter().filter_map(|base| self.places.get(&base.key()));
                if is_below_known {
                    let deepest = below().filter_map(|(block, _)| depths[*block as usize]).max();
                    depths[number] = Some(deepest.unwrap_or(0).saturating_add(1));
                } else if depths[number].is_none() {
                    // What builds on itself, in a forged store, counts as the end of a chain.
                    depths[number] = Some(0);
                    stack.push((number, true));
                    stack.extend(below().map(|(block, _)| (*block as usize, false)).filter(|(b, _)| depths[*b].is_none()));
                }
            }
        }
        depths.into_iter().map(Option::unwrap_or_default).collect()
    }
}

/// The share of so many raw bytes in a block's stored ones.
pub(super) fn share(location: &Location, raw_bytes: u64, raw_bytes_all: u64) -> u64 {
    (u128::from(location.block_bytes) * u128::from(raw_bytes) / u128::from(raw_bytes_all.max(1))) as u64
}

impl Survey<'_> {
    /// Marks what blocks build on, as far as something in them lives, and what that builds on in turn; or decides that some of what lives
    /// builds on something else from now on, and marks less.
    pub(super) fn mark_bases(&mut self, store: &Store, flatten: bool, progress: &dyn Progress) -> Result<()> {
        let built = self.read_built(store, progress)?;
        if flatten {
            let plan = flatten::plan(self, store, &built)?;
            (self.rebased, self.let_go) = (plan.rebased, plan.let_go);
        }
        match self.rebased.is_empty() {
            true => self.mark_for_blocks(&built),
            false => self.mark_for_objects(&built),
        }
        Ok(())
    }

    fn read_built(&mut self, store: &Store, progress: &dyn Progress) -> Result<BuiltBlocks> {
        let (mut built, mut damaged) = (BuiltBlocks::default(), HashSet::new());
        for pack in &self.packs {
            progress::check(progress)?;
            let scanned = PackFile::open(store.layout(), pack.id).and_then(|file| {
                file.scan(|location, directory| {
                    let lives = directory.entries.iter().filter(|entry| self.marker.lives(&entry.id.key()));
                    let raw: usize = lives.map(|entry| entry.head_bytes + entry.tail_bytes).sum();
                    built.live_bytes += share(&location, raw as u64, directory.raw_bytes() as u64);
                    if directory.bases.is_empty() { Ok(()) } else { built.add(self, location, directory) }
                })
            });
            match scanned {
                Err(e) if !e.is_damage() => return Err(e),
                // Told of when the directories are read for what lives.
                Err(_) => _ = damaged.insert(pack.id),
                Ok(_) => {}
            }
        }
        built.of_damaged = self.bases_of_damaged(store, &damaged)?;
        Ok(built)
    }

    /// A block in which anything lives keeps all of its bases, so that it can stay as it is.
    fn mark_for_blocks(&mut self, built: &BuiltBlocks) {
        let lives = |block: &Built| block.versions.iter().any(|version| self.marker.lives(&version.key));
        let mut pending: Vec<usize> = (0..built.blocks.len()).filter(|number| lives(&built.blocks[*number])).collect();
        let mut followed = vec![false; built.blocks.len()];
        let mut bases: Vec<ObjectId> = built.of_damaged.concat();
        loop {
            for base in bases.drain(..) {
                self.marker.base(base);
                pending.extend(built.get(&base.key()).map(|(block, _)| block));
            }
            let Some(number) = pending.pop() else { return };
            if !std::mem::replace(&mut followed[number], true) {
                bases.extend(&built.blocks[number].bases);
            }
        }
    }

    /// An object keeps its own base alone. Blocks in which that leaves too little are written anew, or keep their bases' packs.
    fn mark_for_objects(&mut self, built: &BuiltBlocks) {
        let mut needed: Vec<ObjectId> = built.of_damaged.concat();
        for version in built.blocks.iter().flat_map(|block| &block.versions) {
            if self.marker.lives(&version.key) && !self.rebased.contains_key(&version.key) {
                needed.extend(built.base_of(&version.key));
            }
        }
        for base in needed {
            let mut next = Some(base).filter(|base| self.marker.base(*base));
            while let Some(base) = next.and_then(|id| built.base_of(&id.key())) {
                next = Some(base).filter(|base| self.marker.base(*base));
            }
        }
    }

    /// Bases of blocks to which the index still leads although their packs' directories cannot be read to the end. All of that lives,
    /// because such a pack stays as it is. Where even those blocks cannot be read, nothing may go: nobody can tell what they build on.
    fn bases_of_damaged(&mut self, store: &Store, damaged: &HashSet<PackId>) -> Result<Vec<Vec<ObjectId>>> {
        let mut places: BTreeSet<Location> = BTreeSet::new();
        if !damaged.is_empty() {
            self.view.each_object(|_, location| {
                places.extend(damaged.contains(&location.pack).then_some(location));
                Ok(())
            })?;
        }
        let mut found = Vec::new();
        for place in places {
            let file = PackFile::open_unchecked(store.layout(), place.pack);
            match file.and_then(|file| file.read_directory(place.offset)) {
                Ok(directory) if directory.bases.is_empty() => {}
                Ok(directory) => found.push(directory.bases),
                Err(e) if e.is_damage() => self.has_unreadable_blocks = true,
                Err(e) => return Err(e),
            }
        }
        Ok(found)
    }
}
