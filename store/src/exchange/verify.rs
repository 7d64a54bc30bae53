//! Verification of packs that come from elsewhere: every object in them is decoded and checked against its id, before the packs are the store's.

use std::{
    collections::{HashMap, HashSet},
    path::PathBuf,
    sync::Arc,
};

use crate::{
    error::{Error, Result},
    format::{DEPTH_MAX, PREFIX_BYTES_MAX},
    id::{ObjectId, ObjectKey, ObjectKind, PackId},
    pack::{Block, Location, PackFile, Read},
    progress::{self, Progress},
    store::Store,
};

/// Decoded blocks that others build on are kept up to so many bytes together.
const KEPT_BYTES: usize = 64 << 20;
/// Blocks that build on each other in a row, at most: gc may lead a base to a copy that builds on others.
const ROW_MAX: u32 = 4 * DEPTH_MAX;

/// The first pack with something that is not what its id says, and the fault.
pub(super) fn first_bad(store: &Store, packs: &[(PackId, PathBuf)], progress: &dyn Progress) -> Result<Option<(PackId, Error)>> {
    let mut verifier = Verifier { store, files: HashMap::new(), places: HashMap::new(), kept: HashMap::new(), kept_bytes: 0 };
    let mut blocks = Vec::new();
    for (pack, path) in packs {
        let file = PackFile::at(store.layout(), *pack, path)?;
        file.scan(|location, directory| {
            verifier.places.extend(directory.entries.iter().map(|entry| (entry.id.key(), location)));
            blocks.push(location);
            Ok(())
        })?;
        verifier.files.insert(*pack, file);
    }
    for location in blocks {
        progress::check(progress)?;
        match verifier.block(location, 0, &mut HashSet::new()) {
            Err(e) if e.is_damage() => return Ok(Some((location.pack, e))),
            Err(e) => return Err(e),
            Ok(_) => {}
        }
    }
    Ok(None)
}

struct Verifier<'a> {
    store: &'a Store,
    files: HashMap<PackId, PackFile>,
    /// Where the packs have objects.
    places: HashMap<ObjectKey, Location>,
    kept: HashMap<Location, Arc<Block>>,
    kept_bytes: usize,
}

impl Verifier<'_> {
    /// Decodes a block, whose objects are checked on the way.
    fn block(&mut self, location: Location, depth: u32, above: &mut HashSet<Location>) -> Result<Arc<Block>> {
        if let Some(block) = self.kept.get(&location) {
            return Ok(block.clone());
        }
        let corrupt = |reason: &str| Error::Corrupt {
            what: format!("block at {}", location.offset),
            place: format!("{}", location.pack).into(),
            reason: reason.into(),
        };
        if depth > ROW_MAX || !above.insert(location) {
            return Err(corrupt("too many blocks build on each other"));
        }
        let file = self.files.get(&location.pack).ok_or_else(|| corrupt("its pack is not among those"))?;
        let block = match file.read_block(location)? {
            Read::Block(block) => block,
            Read::OnBases(block) => {
                let (mut prefix, bases) = (Vec::new(), block.bases().collect::<Vec<_>>());
                let mut row = 0;
                for (kind, base) in bases {
                    let (bytes, of_base) = self.object(kind, base, depth, above)?;
                    prefix.extend_from_slice(&bytes);
                    row = row.max(of_base);
                    if prefix.len() > PREFIX_BYTES_MAX {
                        return Err(corrupt("what it builds on is too long"));
                    }
                }
                block.decode(&prefix, row)?
            }
        };
        above.remove(&location);
        let block = Arc::new(block);
        if self.kept_bytes > KEPT_BYTES {
            self.kept.clear();
            self.kept_bytes = 0;
        }
        self.kept_bytes += block.bytes.len();
        self.kept.insert(location, block.clone());
        Ok(block)
    }

    /// The bytes of an object that a block builds on, and how many blocks in a row were decoded for them. What comes with these packs is looked for first.
    fn object(&mut self, kind: ObjectKind, id: ObjectId, depth: u32, above: &mut HashSet<Location>) -> Result<(Vec<u8>, u32)> {
        let block = match self.places.get(&id.key()).copied().filter(|at| !above.contains(at)) {
            Some(at) => self.block(at, depth + 1, above)?,
            None => self.store.object_block(kind, id)?,
        };
        let bytes = block.object(id).unwrap_or_default().to_vec();
        Ok((bytes, block.depth))
    }
}
