//! Whole objects in the packs.
//!
//! Blocks that build on others are decoded with what the survey itself has found, never with what an index says: a base counts wherever it
//! is whole, in a damaged pack, in one that gc has condemned, or in a second copy.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::{Arc, Mutex, PoisonError},
};

use super::Found;
use crate::{
    error::{Error, Result},
    format::DEPTH_READ_MAX,
    id::{ObjectId, ObjectKey, PackId},
    pack::{Block, Location, ObjectKind, PackFile, Read},
    progress::{self, Phase, Progress},
    recipe,
    store::Store,
};

/// Decoded blocks that are kept, so that those of a chain are not decoded again for each of its blocks.
const BLOCKS_KEPT: usize = 64;

/// Locations of whole objects.
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
    /// Every whole object, in any pack: what blocks are decoded with.
    whole: HashMap<ObjectKey, Location>,
    kept: Mutex<HashMap<Location, Arc<Block>>>,
}

/// A pack as far as it was read.
struct Scanned {
    id: PackId,
    /// Its digest as the journal has it.
    committed: String,
    is_condemned: bool,
    /// True while its directories, its trailer and all blocks that were decoded so far are right.
    is_whole: bool,
    found: Vec<Object>,
    /// Blocks that wait for what they build on.
    waiting: Vec<(Location, Vec<ObjectId>)>,
}

impl Survey {
    /// Reads every block of every pack.
    pub(super) fn take(store: &Store, progress: &dyn Progress) -> Result<Self> {
        let packs = store.view().packs()?;
        progress.phase(Phase::Check, None, Some(packs.values().map(|state| state.bytes).sum()));
        let mut survey = Survey::default();
        let mut scanned = Vec::new();
        for (id, state) in packs {
            let (committed, is_condemned) = (state.digest, state.condemned.is_some());
            let mut pack = Scanned { id, committed, is_condemned, is_whole: true, found: Vec::new(), waiting: Vec::new() };
            read_pack(store, &mut pack, progress).map_err(cannot_tell)?;
            survey.whole.extend(pack.found.iter().map(|(key, location, ..)| (*key, *location)));
            scanned.push(pack);
        }
        while survey.decode_waiting(store, &mut scanned, progress)? {}
        let mut in_damaged = HashMap::new();
        for pack in scanned.iter_mut().filter(|pack| !pack.is_condemned) {
            // What still waits can never be decoded.
            pack.is_whole &= pack.waiting.is_empty();
            survey.packs.push(pack.id);
            if !pack.is_whole {
                survey.damaged.insert(pack.id);
            }
            for (key, location, kind, object) in pack.found.drain(..) {
                if kind == ObjectKind::RecipeRoot {
                    survey.recipes.push(object);
                }
                let into = if pack.is_whole { &mut survey.good } else { &mut in_damaged };
                into.entry(key).or_insert(location);
            }
        }
        for (key, location) in in_damaged {
            survey.good.entry(key).or_insert(location);
        }
        for (key, location, ..) in scanned.iter_mut().filter(|pack| pack.is_condemned).flat_map(|pack| pack.found.drain(..)) {
            if !survey.good.contains_key(&key) {
                survey.condemned.insert(key, location);
            }
        }
        survey.recipes.sort_unstable();
        survey.recipes.dedup();
        Ok(survey)
    }

    /// Decodes the waiting blocks all bases of which were found. Says whether there were any.
    fn decode_waiting(&mut self, store: &Store, packs: &mut [Scanned], progress: &dyn Progress) -> Result<bool> {
        let mut has_decoded = false;
        for pack in packs {
            for (location, bases) in std::mem::take(&mut pack.waiting) {
                progress::check(progress)?;
                if !bases.iter().all(|base| self.whole.contains_key(&base.key())) {
                    pack.waiting.push((location, bases));
                    continue;
                }
                has_decoded = true;
                match unless_damaged(self.block(store, location)).map_err(cannot_tell)? {
                    Some(block) => {
                        let found = block.objects.iter().map(|(kind, id, _)| (id.key(), location, *kind, *id));
                        pack.found.extend(found);
                        for (_, id, _) in &block.objects {
                            self.whole.entry(id.key()).or_insert(location);
                        }
                    }
                    None => pack.is_whole = false,
                }
            }
        }
        Ok(has_decoded)
    }

    /// Decodes a block, with what the survey has found for its bases.
    pub(super) fn block(&self, store: &Store, location: Location) -> Result<Arc<Block>> {
        self.block_within(store, location, DEPTH_READ_MAX)
    }

    fn block_within(&self, store: &Store, location: Location, depth_max: u32) -> Result<Arc<Block>> {
        let kept = || self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(block) = kept().get(&location) {
            return Ok(block.clone());
        }
        // Of a damaged pack not even the header may be right.
        let file = PackFile::open_unchecked(store.layout(), location.pack)?;
        let block = match file.read_block(location)? {
            Read::Block(block) => block,
            Read::OnBases(block) => {
                let (mut prefix, mut depth) = (Vec::new(), 0);
                for (_, id) in block.bases() {
                    let place = self.whole.get(&id.key()).filter(|_| depth_max > 0);
                    let Some(place) = place else { return Err(block.lacks(id, &"no pack has it whole")) };
                    let base = self.block_within(store, *place, depth_max - 1)?;
                    prefix.extend_from_slice(base.object(id).unwrap_or_default());
                    depth = depth.max(base.depth);
                }
                block.decode(&prefix, depth)?
            }
        };
        let block = Arc::new(block);
        let mut kept = kept();
        if kept.len() >= BLOCKS_KEPT {
            kept.clear();
        }
        kept.insert(location, block.clone());
        Ok(block)
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
            let Ok((blob, node)) = crate::gc::read_recipe_root(store.ids(), &bytes) else {
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
        let block = unless_damaged(self.block(store, *location)).map_err(cannot_tell)?;
        Ok(block.and_then(|block| block.object(id).map(<[u8]>::to_vec)))
    }

    /// The bytes of a good object.
    pub(super) fn read(&self, store: &Store, id: ObjectId) -> Result<Option<Vec<u8>>> {
        let Some(location) = self.good.get(&id.key()) else { return Ok(None) };
        Ok(self.block(store, *location)?.object(id).map(<[u8]>::to_vec))
    }
}

type Object = (ObjectKey, Location, ObjectKind, ObjectId);

/// Reads a pack's blocks, also behind a place that cannot be read.
fn read_pack(store: &Store, pack: &mut Scanned, progress: &dyn Progress) -> Result<()> {
    let scanned = PackFile::open(store.layout(), pack.id).and_then(|file| {
        let mut are_whole = true;
        let info = file.scan_blocks(false, |location, _| {
            progress::check(progress)?;
            are_whole &= read_block(&file, location, pack)?;
            progress.advance(0, u64::from(location.block_bytes));
            Ok(())
        })?;
        Ok(are_whole && unless_damaged(file.check_copies())?.is_some() && info.digest == pack.committed)
    });
    match scanned {
        Ok(is_whole) => {
            pack.is_whole = is_whole;
            return Ok(());
        }
        Err(e) if e.is_damage() => pack.is_whole = false,
        Err(e) => return Err(e),
    }
    // Directories are damaged, or the trailer is: whatever looks like a block may be one.
    pack.found.clear();
    pack.waiting.clear();
    let Some(file) = unless_damaged(PackFile::open_unchecked(store.layout(), pack.id))? else { return Ok(()) };
    let mut at = 0;
    while let Some(offset) = unless_damaged(file.next_magic(at))?.flatten() {
        progress::check(progress)?;
        let directory = unless_damaged(file.read_directory(offset))?;
        let location = directory.and_then(|directory| {
            let block_bytes = u32::try_from(directory.block_bytes()).ok()?;
            Some(Location { pack: pack.id, offset, block_bytes })
        });
        at = match location {
            Some(location) if read_block(&file, location, pack)? => offset + u64::from(location.block_bytes),
            _ => offset + 1,
        };
    }
    Ok(())
}

/// Takes in what a block holds, if all of it hashes to its ids, or has it wait for what it builds on. False where it is damaged.
fn read_block(file: &PackFile, location: Location, pack: &mut Scanned) -> Result<bool> {
    match unless_damaged(file.read_block(location))? {
        Some(Read::Block(block)) => {
            pack.found.extend(block.objects.iter().map(|(kind, id, _)| (id.key(), location, *kind, *id)));
            Ok(true)
        }
        Some(Read::OnBases(block)) => {
            pack.waiting.push((location, block.bases().map(|(_, id)| id).collect()));
            Ok(true)
        }
        None => Ok(false),
    }
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
