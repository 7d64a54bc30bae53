//! Marks of what blocks build on. What lives only because others build on it is marked as such: what it refers to does not live with it.

use std::collections::{BTreeSet, HashSet};

use super::{
    Survey,
    built::{BuiltBlocks, DependentBlock, share},
    flatten,
};
use crate::{
    error::Result,
    id::{ObjectId, PackId},
    pack::{Location, PackFile},
    progress::{self, Progress},
    store::Store,
};

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
        let lives = |block: &DependentBlock| block.versions.iter().any(|version| self.marker.lives(&version.key));
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
