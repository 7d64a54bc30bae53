//! Whole objects in the packs.
//!
//! Blocks that build on others are decoded with what the survey itself has found, never with what an index says: a base counts wherever it
//! is whole, in a damaged pack, in one that gc has condemned, or in a second copy.
//!
//! Blocks whose bases are nowhere are intact all the same: they wait. Once a base was taken from a source they are decoded, which may be
//! what others wait for; those of which checkpoints need something are kept for the day on which a base is found.

mod read;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::Duration,
};

use self::read::{is_unread, read_again, read_pack};
use super::SourceObject;
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

/// Time before packs are looked at once more that the disk could not read: one whose link was reset is there again by then.
const PAUSE: Duration = Duration::from_secs(3);

/// Locations of whole objects.
#[derive(Debug, Default)]
pub(super) struct Survey {
    /// Every whole object, at one place of it, in an undamaged pack if that can be.
    pub(super) good: HashMap<ObjectKey, Location>,
    /// Ids of the whole objects that are recipes.
    pub(super) recipes: Vec<ObjectId>,
    /// All packs that were surveyed.
    pub(super) packs: Vec<PackId>,
    /// Packs with damage, and those that are gone.
    pub(super) damaged: BTreeSet<PackId>,
    /// Packs of which the disk could not read all, at some time. What it could not may be whole.
    pub(super) unread: BTreeSet<PackId>,
    /// Objects that were taken from elsewhere.
    pub(super) recovered: HashMap<ObjectKey, SourceObject>,
    /// Whole objects that are not good, in packs that gc has condemned and whose bytes are still there. They may go at any time.
    condemned: HashMap<ObjectKey, Location>,
    /// Every whole object, in any pack: what blocks are decoded with.
    whole: HashMap<ObjectKey, Location>,
    scanned: Vec<PackScan>,
    /// Objects in blocks that wait for what they build on.
    waiting: HashSet<ObjectKey>,
    /// Blocks that only what was recovered has made readable.
    late: HashSet<Location>,
    kept: Mutex<HashMap<Location, Arc<Block>>>,
}

type Object = (ObjectKey, Location, ObjectKind, ObjectId);

/// A block that waits for what it builds on.
#[derive(Clone, Debug)]
pub(super) struct DeferredBlock {
    pub(super) at: Location,
    pub(super) bases: Vec<(ObjectKind, ObjectId)>,
    pub(super) objects: Vec<ObjectId>,
}

/// A pack as far as it was read.
#[derive(Debug)]
struct PackScan {
    id: PackId,
    /// Its digest as the journal has it.
    committed: String,
    is_condemned: bool,
    /// True while its directories, its trailer and all blocks that were decoded so far are right.
    is_whole: bool,
    found: Vec<Object>,
    waiting: Vec<DeferredBlock>,
}

impl PackScan {
    /// Number of what was found in whole blocks, or waits.
    fn blocks(&self) -> usize {
        self.found.len() + self.waiting.iter().map(|block| block.objects.len()).sum::<usize>()
    }
}

impl Survey {
    /// Reads every block of every pack.
    pub(super) fn take(store: &Store, progress: &dyn Progress) -> Result<Self> {
        let packs = store.view().packs()?;
        progress.phase(Phase::Check, None, Some(packs.values().map(|state| state.bytes).sum()));
        let mut survey = Survey::default();
        for (id, state) in packs {
            let (committed, is_condemned) = (state.digest, state.condemned.is_some());
            let mut pack = PackScan { id, committed, is_condemned, is_whole: true, found: Vec::new(), waiting: Vec::new() };
            let is_read = read_pack(store, &mut pack, progress).map_err(cannot_tell)?;
            if !is_read && !pack.is_condemned {
                survey.unread.insert(id);
            }
            survey.scanned.push(pack);
        }
        if !survey.unread.is_empty() {
            thread::sleep(PAUSE);
        }
        for pack in survey.scanned.iter_mut().filter(|pack| survey.unread.contains(&pack.id)) {
            read_again(store, pack, progress).map_err(cannot_tell)?;
        }
        let found = survey.scanned.iter().flat_map(|pack| &pack.found);
        survey.whole.extend(found.map(|(key, location, ..)| (*key, *location)));
        survey.decode_all_waiting(store, progress)?;
        Ok(survey)
    }

    /// Decodes the waiting blocks, as far as their bases are at hand by now. Says whether there were any.
    pub(super) fn decode_all_waiting(&mut self, store: &Store, progress: &dyn Progress) -> Result<bool> {
        let mut has_decoded = false;
        while self.decode_waiting(store, progress)? {
            has_decoded = true;
        }
        self.settle();
        Ok(has_decoded)
    }

    /// Sums up what was found where.
    fn settle(&mut self) {
        let mut in_damaged = HashMap::new();
        self.good.clear();
        self.condemned.clear();
        self.recipes.clear();
        self.packs.clear();
        self.damaged.clear();
        for pack in self.scanned.iter().filter(|pack| !pack.is_condemned) {
            // What still waits can never be decoded.
            let is_whole = pack.is_whole && pack.waiting.is_empty();
            self.packs.push(pack.id);
            if !is_whole {
                self.damaged.insert(pack.id);
            }
            for (key, location, kind, object) in &pack.found {
                if *kind == ObjectKind::RecipeRoot {
                    self.recipes.push(*object);
                }
                let into = if is_whole { &mut self.good } else { &mut in_damaged };
                into.entry(*key).or_insert(*location);
            }
        }
        for (key, location) in in_damaged {
            self.good.entry(key).or_insert(location);
        }
        for (key, location, ..) in self.scanned.iter().filter(|pack| pack.is_condemned).flat_map(|pack| &pack.found) {
            if !self.good.contains_key(key) {
                self.condemned.insert(*key, *location);
            }
        }
        self.recipes.sort_unstable();
        self.recipes.dedup();
        let waiting = self.scanned.iter().flat_map(|pack| &pack.waiting);
        self.waiting = waiting.flat_map(|block| &block.objects).map(|id| id.key()).collect();
    }

    /// Decodes the waiting blocks all bases of which were found. Says whether there were any.
    fn decode_waiting(&mut self, store: &Store, progress: &dyn Progress) -> Result<bool> {
        let mut has_decoded = false;
        for number in 0..self.scanned.len() {
            for block in std::mem::take(&mut self.scanned[number].waiting) {
                progress::check(progress)?;
                if !block.bases.iter().all(|(_, base)| self.can_give(*base)) {
                    self.scanned[number].waiting.push(block);
                    continue;
                }
                has_decoded = true;
                let at = block.at;
                let read = self.block(store, at);
                if read.as_ref().is_err_and(is_unread) {
                    self.unread.insert(at.pack);
                }
                match unless_damaged(read).map_err(cannot_tell)? {
                    Some(block) => {
                        if !self.recovered.is_empty() {
                            self.late.insert(at);
                        }
                        for (kind, id, _) in &block.objects {
                            self.scanned[number].found.push((id.key(), at, *kind, *id));
                            self.whole.entry(id.key()).or_insert(at);
                        }
                    }
                    None => self.scanned[number].is_whole = false,
                }
            }
        }
        Ok(has_decoded)
    }

    fn can_give(&self, id: ObjectId) -> bool {
        self.whole.contains_key(&id.key()) || self.recovered.contains_key(&id.key())
    }

    /// True if there is an object by what the packs' directories tell, whether it can be read or not.
    pub(super) fn tells_of(&self, store: &Store, id: ObjectId) -> bool {
        self.waiting.contains(&id.key()) || store.view().locate(id).is_ok_and(|found| found.is_some())
    }

    /// The waiting blocks that hold one of these objects, or what such a block waits for.
    pub(super) fn waiting_for(&self, wanted: impl IntoIterator<Item = ObjectId>) -> Vec<DeferredBlock> {
        let mut holding: HashMap<ObjectId, Vec<&DeferredBlock>> = HashMap::new();
        for block in self.scanned.iter().flat_map(|pack| &pack.waiting) {
            block.objects.iter().for_each(|id| holding.entry(*id).or_default().push(block));
        }
        let (mut pending, mut seen): (Vec<ObjectId>, HashSet<ObjectId>) = (wanted.into_iter().collect(), HashSet::new());
        let mut found: HashMap<Location, DeferredBlock> = HashMap::new();
        while let Some(id) = pending.pop() {
            if seen.insert(id) {
                for block in holding.get(&id).into_iter().flatten() {
                    pending.extend(block.bases.iter().map(|(_, base)| *base));
                    found.insert(block.at, (*block).clone());
                }
            }
        }
        found.into_values().collect()
    }

    /// The bases that these blocks wait for and that nothing can give.
    pub(super) fn missing_bases(&self, waiting: &[DeferredBlock]) -> BTreeMap<ObjectId, ObjectKind> {
        let bases = waiting.iter().flat_map(|block| &block.bases);
        bases.filter(|(_, id)| !self.can_give(*id)).map(|(kind, id)| (*id, *kind)).collect()
    }

    /// True if nothing is wrong in a pack but that blocks wait.
    pub(super) fn intact(&self, pack: PackId) -> bool {
        self.scanned.iter().any(|scanned| scanned.id == pack && scanned.is_whole)
    }

    /// The place of a good object that builds, at first or second hand, on nothing that was recovered.
    pub(super) fn settled(&self, id: ObjectId) -> Option<Location> {
        self.good.get(&id.key()).filter(|at| !self.late.contains(at)).copied()
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
                    if let Some(found) = self.recovered.get(&id.key()).filter(|_| !self.whole.contains_key(&id.key())) {
                        prefix.extend_from_slice(&found.bytes);
                        continue;
                    }
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
        elsewhere: &dyn Fn(ObjectId) -> Result<bool>,
    ) -> Result<BTreeSet<ObjectId>> {
        let read = |id: ObjectId| -> Result<Option<Vec<u8>>> {
            match self.recovered.get(&id.key()) {
                Some(found) => Ok(Some(found.bytes.clone())),
                None => self.read(store, id),
            }
        };
        let has = |id: ObjectId| self.good.contains_key(&id.key()) || self.recovered.contains_key(&id.key());
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

    /// An object that only a condemned pack has, as long as it is there.
    pub(super) fn read_condemned(&self, store: &Store, kind: ObjectKind, id: ObjectId) -> Result<Option<SourceObject>> {
        let Some(location) = self.condemned.get(&id.key()) else { return Ok(None) };
        let block = unless_damaged(self.block(store, *location)).map_err(cannot_tell)?;
        Ok(block.and_then(|block| SourceObject::in_block(kind, id, &block, (0, *location))))
    }

    /// The bytes of a good object.
    pub(super) fn read(&self, store: &Store, id: ObjectId) -> Result<Option<Vec<u8>>> {
        let Some(location) = self.good.get(&id.key()) else { return Ok(None) };
        Ok(self.block(store, *location)?.object(id).map(<[u8]>::to_vec))
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
