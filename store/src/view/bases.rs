//! Blocks of packs that can be decoded. An object that builds on one that is nowhere is as good as lost; were it indexed, the next
//! checkpoint with the same content would refer to it.

use std::collections::{HashMap, HashSet};

use super::{Batch, Db, Family, View};
use crate::{
    error::Result,
    id::ObjectKey,
    pack::{Directory, Location},
};

/// Takes a block's place and directory.
pub(super) type Visit<'a> = &'a mut dyn FnMut(Location, &Directory) -> Result<()>;

/// An index of objects that is being made.
pub(super) trait Places {
    /// Notes that a block's objects lie there. Of copies, the last one counts.
    fn put(&mut self, at: Location, directory: &Directory) -> Result<()>;
    /// Takes back what was noted of a block.
    fn take_back(&mut self, at: Location, directory: &Directory) -> Result<()>;
    /// True if an object is indexed.
    fn has(&self, key: &ObjectKey) -> Result<bool>;
}

/// Indexes the blocks that `scan` visits. Where some pack could not be read whole (`scan` says false), and where a whole store is indexed (a
/// repair may have left blocks whose bases are lost), blocks that build, at first or second hand, on what is not indexed are left out: `scan` is called again, with false, until there are no more of them, as the other copies
/// of their objects count in their place.
pub(super) fn index(
    places: &mut dyn Places,
    is_whole_store: bool,
    mut scan: impl FnMut(bool, Visit<'_>) -> Result<bool>,
) -> Result<()> {
    if scan(true, &mut |at, directory| places.put(at, directory))? && !is_whole_store {
        return Ok(());
    }
    let mut left_out: HashSet<Location> = HashSet::new();
    loop {
        let mut on_bases: Vec<(Location, Vec<ObjectKey>)> = Vec::new();
        scan(false, &mut |at, directory| {
            if left_out.contains(&at) {
                return places.take_back(at, directory);
            }
            if !directory.bases.is_empty() {
                on_bases.push((at, directory.bases.iter().map(|base| base.key()).collect()));
            }
            places.put(at, directory)
        })?;
        let before = left_out.len();
        for (at, bases) in on_bases {
            for base in bases {
                if !places.has(&base)? {
                    left_out.insert(at);
                    break;
                }
            }
        }
        if left_out.len() == before {
            return Ok(());
        }
    }
}

/// Objects in memory, before those that `below` tells of.
pub(super) struct InMemory<'a> {
    pub(super) objects: HashMap<ObjectKey, Location>,
    pub(super) below: &'a dyn Fn(&ObjectKey) -> Result<bool>,
}

impl Places for InMemory<'_> {
    fn put(&mut self, at: Location, directory: &Directory) -> Result<()> {
        self.objects.extend(directory.entries.iter().map(|e| (e.id.key(), at)));
        Ok(())
    }

    fn take_back(&mut self, at: Location, directory: &Directory) -> Result<()> {
        for key in directory.entries.iter().map(|e| e.id.key()) {
            if self.objects.get(&key) == Some(&at) {
                self.objects.remove(&key);
            }
        }
        Ok(())
    }

    fn has(&self, key: &ObjectKey) -> Result<bool> {
        if self.objects.contains_key(key) { Ok(true) } else { (self.below)(key) }
    }
}

/// A RocksDB that takes in the journal's tail of a view.
pub(super) struct DbPlaces<'a> {
    pub(super) db: &'a Db,
    pub(super) view: &'a View,
}

impl Places for DbPlaces<'_> {
    fn put(&mut self, at: Location, directory: &Directory) -> Result<()> {
        self.db.put_locations(directory.entries.iter().map(|e| (e.id.key(), at)))
    }

    fn take_back(&mut self, at: Location, directory: &Directory) -> Result<()> {
        let mut batch = Batch::default();
        for key in directory.entries.iter().map(|e| e.id.key()) {
            if self.db.location(&key)? == Some(at) {
                batch.delete(Family::Objects, key);
            }
        }
        self.db.write(batch)
    }

    fn has(&self, key: &ObjectKey) -> Result<bool> {
        self.view.has_stored(key)
    }
}

#[cfg(test)]
mod tests {
    use zstd::zstd_safe::CCtx;

    use super::*;
    use crate::{
        id::{ObjectId, OpId, PackId},
        pack::{BlockBuilder, ObjectKind},
    };

    fn id(name: &str) -> ObjectId {
        crate::testing::blob_id(name.as_bytes()).object()
    }

    /// A block of some objects; with a base, all of them build on it.
    fn block(names: &[&str], base: Option<&str>) -> Directory {
        let mut builder = BlockBuilder::default();
        let (_, block) = match base {
            Some(base) => {
                names.iter().for_each(|name| builder.push_on(ObjectKind::Chunk, id(name), name.as_bytes(), id(base), 1));
                let coded = builder.compress_on(&mut CCtx::create(), base.as_bytes(), 3).unwrap();
                builder.encode_on(&coded, &crate::testing::seal())
            }
            None => {
                names.iter().for_each(|name| builder.push(ObjectKind::Chunk, id(name), name.as_bytes(), 0));
                builder.encode(&mut zstd::bulk::Compressor::new(3).unwrap(), &crate::testing::seal()).unwrap()
            }
        };
        Directory::decode(&block, &crate::testing::seal()).unwrap()
    }

    /// The number of the block in which each object is found.
    fn indexed(blocks: &[Directory]) -> HashMap<ObjectKey, u64> {
        let pack = PackId::new(OpId::generate(), 0);
        let mut places = InMemory { objects: HashMap::new(), below: &|_| Ok(false) };
        let mut scans = 0;
        index(&mut places, false, |is_first, visit| {
            scans += 1;
            assert_eq!(is_first, scans == 1);
            let mut numbered = (0..).zip(blocks);
            numbered.try_for_each(|(offset, block)| visit(Location { pack, offset, block_bytes: 1 }, block))?;
            Ok(false)
        })
        .unwrap();
        places.objects.into_iter().map(|(key, at)| (key, at.offset)).collect()
    }

    fn expected(places: &[(&str, u64)]) -> HashMap<ObjectKey, u64> {
        places.iter().map(|(name, number)| (id(name).key(), *number)).collect()
    }

    #[test]
    fn of_copies_the_last_one_counts_wherever_its_base_lies() {
        let blocks = [block(&["b", "x"], Some("a")), block(&["b"], None), block(&["a"], None), block(&["x"], Some("b"))];
        assert_eq!(indexed(&blocks), expected(&[("a", 2), ("b", 1), ("x", 3)]));
    }

    #[test]
    fn what_builds_on_what_is_nowhere_is_left_out_but_for_its_other_copies() {
        let blocks = [
            block(&["copied", "other"], None),
            block(&["first", "copied"], Some("lost")),
            block(&["second"], Some("first")),
            block(&["third", "other"], Some("second")),
            block(&["sound"], Some("copied")),
        ];
        assert_eq!(indexed(&blocks), expected(&[("copied", 0), ("other", 0), ("sound", 4)]));
    }
}
