//! What is whole in the packs.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::Found;
use crate::{
    error::{Error, Result},
    id::{ObjectId, ObjectKey, PackId},
    pack::{Location, ObjectKind, PackFile},
    progress::{self, Phase, Progress},
    recipe,
    store::Store,
};

/// Where whole objects lie.
#[derive(Debug, Default)]
pub(super) struct Survey {
    /// Every whole object, at one place of it, in an undamaged pack if that can be.
    pub(super) good: HashMap<ObjectKey, Location>,
    /// Recipes among them.
    pub(super) recipes: Vec<ObjectId>,
    /// All packs that were surveyed.
    pub(super) packs: Vec<PackId>,
    /// Packs with damage, and those that are gone.
    pub(super) damaged: BTreeSet<PackId>,
    /// Whole objects that are not good, in packs that gc has condemned and whose bytes are still there. They may go at any time.
    condemned: HashMap<ObjectKey, Location>,
}

impl Survey {
    /// Reads every block of every pack.
    pub(super) fn take(store: &Store, progress: &dyn Progress) -> Result<Self> {
        let packs = store.view().packs()?;
        let (current, condemned): (Vec<_>, Vec<_>) = packs.into_iter().partition(|(_, state)| state.condemned.is_none());
        progress.phase(Phase::Check, None, Some(current.iter().map(|(_, state)| state.bytes).sum()));
        let mut survey = Survey::default();
        let mut in_damaged = HashMap::new();
        for (id, state) in current {
            survey.packs.push(id);
            let mut found = Vec::new();
            let digest = read_pack(store, id, &mut found, progress).map_err(cannot_tell)?;
            let is_whole = digest.is_some_and(|digest| digest == state.digest);
            if !is_whole {
                survey.damaged.insert(id);
            }
            for (key, location, kind, object) in found {
                if kind == ObjectKind::RecipeRoot {
                    survey.recipes.push(object);
                }
                let into = if is_whole { &mut survey.good } else { &mut in_damaged };
                into.entry(key).or_insert(location);
            }
        }
        for (key, location) in in_damaged {
            survey.good.entry(key).or_insert(location);
        }
        for (id, _) in condemned {
            let mut found = Vec::new();
            read_pack(store, id, &mut found, progress).map_err(cannot_tell)?;
            for (key, location, ..) in found {
                if !survey.good.contains_key(&key) {
                    survey.condemned.insert(key, location);
                }
            }
        }
        survey.recipes.sort_unstable();
        survey.recipes.dedup();
        Ok(survey)
    }

    /// Those of these recipes that have to go. Nobody can unfold them, as some node is not good, nor recovered, nor `elsewhere`; or
    /// chunks are lost of one that nobody needs, as its file is there in one chunk. Any other of which chunks are lost stays: by it, all
    /// the rest of its file can be read.
    pub(super) fn broken_recipes(
        &self,
        store: &Store,
        recipes: impl IntoIterator<Item = ObjectId>,
        recovered: &[Found],
        elsewhere: &dyn Fn(ObjectId) -> Result<bool>,
    ) -> Result<BTreeSet<ObjectId>> {
        let recovered: HashMap<ObjectKey, &Found> = recovered.iter().map(|found| (found.id.key(), found)).collect();
        let read = |id: ObjectId| -> Result<Option<Vec<u8>>> {
            match recovered.get(&id.key()) {
                Some(found) => Ok(Some(found.bytes.clone())),
                None => self.read(store, id),
            }
        };
        let has = |id: ObjectId| self.good.contains_key(&id.key()) || recovered.contains_key(&id.key());
        let mut broken = BTreeSet::new();
        for root in recipes {
            let bytes = read(root)?.unwrap_or_default();
            let Ok((blob, node)) = crate::gc::read_recipe_root(&bytes) else {
                broken.insert(root);
                continue;
            };
            let (mut pending, mut seen) = (vec![node], HashSet::new());
            while let Some(node) = pending.pop() {
                let nodes = match node {
                    recipe::Node::Nodes(nodes) => nodes,
                    recipe::Node::Chunks(runs) => {
                        if has(blob.object()) && !runs.iter().all(|run| has(run.id.object())) {
                            broken.insert(root);
                        }
                        continue;
                    }
                };
                for id in nodes.iter().map(|(id, _)| id.object()).filter(|id| seen.insert(*id)) {
                    match read(id)?.map(|bytes| recipe::decode_node(&bytes)) {
                        Some(Ok(node)) => pending.push(node),
                        None if elsewhere(id)? => {}
                        _ => _ = broken.insert(root),
                    }
                }
            }
        }
        Ok(broken)
    }

    /// The bytes of an object that only a condemned pack has, as long as it is there.
    pub(super) fn read_condemned(&self, store: &Store, id: ObjectId) -> Result<Option<Vec<u8>>> {
        let Some(location) = self.condemned.get(&id.key()) else { return Ok(None) };
        let block = unless_damaged(store.block(*location)).map_err(cannot_tell)?;
        Ok(block.and_then(|block| block.object(id).map(<[u8]>::to_vec)))
    }

    /// The bytes of a good object.
    pub(super) fn read(&self, store: &Store, id: ObjectId) -> Result<Option<Vec<u8>>> {
        let Some(location) = self.good.get(&id.key()) else { return Ok(None) };
        Ok(store.block(*location)?.object(id).map(<[u8]>::to_vec))
    }
}

type Object = (ObjectKey, Location, ObjectKind, ObjectId);

/// Reads a pack's blocks, also behind a place that cannot be read. Returns its digest where nothing is wrong with it.
fn read_pack(store: &Store, id: PackId, found: &mut Vec<Object>, progress: &dyn Progress) -> Result<Option<String>> {
    let path = store.layout().pack(id);
    let mut is_whole = true;
    let scanned = PackFile::open(&path, id).and_then(|file| {
        let info = file.scan_blocks(false, |location, _| {
            progress::check(progress)?;
            is_whole &= read_block(store, &file, location, found)?;
            progress.advance(0, u64::from(location.block_bytes));
            Ok(())
        })?;
        is_whole &= unless_damaged(file.check_copies())?.is_some();
        Ok(info)
    });
    match scanned {
        Ok(info) => return Ok(is_whole.then_some(info.digest)),
        Err(e) if e.is_damage() => {}
        Err(e) => return Err(e),
    }
    // Directories are damaged, or the trailer is: whatever looks like a block may be one.
    found.clear();
    let Some(file) = unless_damaged(PackFile::open_unchecked(&path, id))? else { return Ok(None) };
    let mut at = 0;
    while let Some(offset) = unless_damaged(file.next_magic(at))?.flatten() {
        progress::check(progress)?;
        let directory = unless_damaged(file.read_directory(offset))?;
        let location = directory.and_then(|directory| {
            let block_bytes = u32::try_from(directory.block_bytes()).ok()?;
            Some(Location { pack: id, offset, block_bytes })
        });
        at = match location {
            Some(location) if read_block(store, &file, location, found)? => offset + u64::from(location.block_bytes),
            _ => offset + 1,
        };
    }
    Ok(None)
}

/// Takes in what a block holds, if all of it hashes to its ids.
fn read_block(store: &Store, file: &PackFile, location: Location, found: &mut Vec<Object>) -> Result<bool> {
    let decoded = file.read_block(location).and_then(|read| store.decode(read));
    let Some(block) = unless_damaged(decoded)? else { return Ok(false) };
    found.extend(block.objects.iter().map(|(kind, id, _)| (id.key(), location, *kind, *id)));
    Ok(true)
}

/// `None` where something is gone or damaged. What only cannot be read now may be whole, and would be lost by a repair.
fn unless_damaged<T>(read: Result<T>) -> Result<Option<T>> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(e) if e.is_damage() => Ok(None),
        Err(e) => Err(e),
    }
}

/// Says what has to be done before a pack can be judged.
fn cannot_tell(e: Error) -> Error {
    match e {
        Error::Io { action, path, source } => {
            let text = format!("{source}; it may be whole, so nothing was repaired: see that it can be read, and try again");
            Error::Io { action, path, source: std::io::Error::new(source.kind(), text) }
        }
        other => other,
    }
}
