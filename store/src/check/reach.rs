//! Reachability: does every checkpoint have all it needs? Each tree, recipe and chunk is looked at once, however many checkpoints share
//! it; only where something is wrong are paths looked for.

mod order;
mod visit;

use parhelia_name::step::Step;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, btree_map};

use self::order::{Ends, UNORDERED, levelled};
use super::{
    AffectedPath, FindingKind,
    structure::{Packs, describe},
};
use crate::{
    codec::DecodeError,
    damaged::{self, DamageSet},
    error::Result,
    format::DEPTH_READ_MAX,
    graph,
    id::{BlobId, ObjectId, ObjectKey, OpId, PackId, TreeId},
    pack::{Location, ObjectKind},
    progress::{Phase, Progress},
    record::{Checkpoint, LinksTable},
    store::Store,
    tree::{Totals, TreeNode},
};

/// Damage of an object.
pub(super) struct Bad {
    pub(super) kind: FindingKind,
    pub(super) message: String,
    pub(super) pack: Option<PackId>,
    pub(super) touches: Vec<AffectedPath>,
    pub(super) touches_more: u64,
}

/// A tree that was followed to its end.
#[derive(Clone, Copy)]
pub(super) struct VisitedTree {
    /// Its sums; `None` where it could not be read.
    pub(super) totals: Option<Totals>,
    /// True if something in it is wrong.
    pub(super) is_dirty: bool,
    /// True if the bytes below it are counted as unread, because it could not be read.
    pub(super) is_counted: bool,
}

/// The sums so far of a tree node that is being followed.
#[derive(Default)]
pub(super) struct Sums {
    totals: Totals,
    is_dirty: bool,
}

/// Sources of proof that a chunk is there.
pub(super) enum Trust<'a> {
    /// All packs were read, and it was seen.
    Packs(&'a Packs),
    /// Its block's directory has it. Holds the blocks looked at and the objects seen in them.
    Directories(HashSet<Location>, HashSet<ObjectKey>),
    /// The index has it. The keys of all objects, in order, where so many are asked for that one look at all of them is faster.
    Index(Option<Vec<ObjectKey>>),
    /// Only its bytes; every blob's bytes together are hashed, too.
    Bytes,
}

/// Follows checkpoints.
pub(super) struct Reach<'a> {
    pub(super) store: &'a Store,
    trust: Trust<'a>,
    /// Blocks that are known to be damaged: they are read, whatever is taken as proof.
    damaged: DamageSet,
    /// Number of blocks in a row that are being looked at.
    depth: u32,
    pub(super) followed: HashMap<ObjectKey, VisitedTree>,
    /// Nodes of split folders.
    ends: HashMap<ObjectKey, Ends>,
    /// Chunks, recipes and tables that were looked at; whether they are good.
    seen: HashMap<ObjectKey, bool>,
    pub(super) bad: BTreeMap<ObjectId, Bad>,
    /// Blobs that need something bad, and what.
    pub(super) bad_blobs: HashMap<BlobId, Vec<ObjectId>>,
    pub(super) whole_blobs: HashSet<ObjectKey>,
    /// Nodes of recipes that are known to be whole.
    pub(super) whole_recipes: HashSet<ObjectId>,
    /// Of the blob that is being followed: what is wrong, and how many bytes each node of its recipe makes.
    wrong: Vec<ObjectId>,
    made: HashMap<ObjectId, u64>,
    /// Content that is read although its place is proof enough.
    chosen: Option<Sampler>,
    /// Bytes of different content that were read, and that were not.
    pub(super) read_bytes: u64,
    pub(super) unread_bytes: u64,
}

/// A choice of content by chance.
struct Sampler {
    key: [u8; 32],
    /// So many of 256.
    of_256: u64,
    /// Bytes that may still be read.
    left_bytes: u64,
}

impl<'a> Reach<'a> {
    pub(super) fn new(store: &'a Store, trust: Trust<'a>) -> Self {
        Reach {
            store,
            trust,
            damaged: DamageSet::read(store.layout()),
            depth: 0,
            followed: HashMap::new(),
            ends: HashMap::new(),
            seen: HashMap::new(),
            bad: BTreeMap::new(),
            bad_blobs: HashMap::new(),
            whole_blobs: HashSet::new(),
            whole_recipes: HashSet::new(),
            wrong: Vec::new(),
            made: HashMap::new(),
            chosen: None,
            read_bytes: 0,
            unread_bytes: 0,
        }
    }

    /// Has about so many bytes of content read, of `all_bytes`: other files each time.
    pub(super) fn choose_content(&mut self, bytes_max: u64, all_bytes: u64) {
        let key = *blake3::hash(&OpId::generate().0).as_bytes();
        let of_256 = (u128::from(bytes_max) * 256 / u128::from(all_bytes.max(1))).min(256) as u64;
        self.chosen = (bytes_max > 0).then_some(Sampler { key, of_256: of_256.max(1), left_bytes: bytes_max });
    }

    /// True if this content is to be read.
    fn reads(&mut self, blob: BlobId, bytes: u64) -> bool {
        if matches!(self.trust, Trust::Bytes) {
            return true;
        }
        let Some(chosen) = self.chosen.as_mut().filter(|chosen| bytes <= chosen.left_bytes) else { return false };
        let is_chosen = u64::from(blake3::keyed_hash(&chosen.key, &blob.0).as_bytes()[0]) < chosen.of_256;
        if is_chosen {
            chosen.left_bytes -= bytes;
        }
        is_chosen
    }

    /// The blocks that were found damaged on the way, and the packs that are gone.
    pub(super) fn damaged_blocks(&self) -> Vec<Location> {
        let view = self.store.view();
        let located = self.bad.keys().filter_map(|id| view.locate(*id).ok().flatten());
        let blocks: BTreeSet<Location> = located.collect();
        let damaged = blocks.into_iter().filter(|at| self.store.block(*at).is_err_and(|e| e.is_damage()));
        // What else lay in a pack that is gone was not come upon where a tree above it lay there, too.
        let is_there = |pack| self.store.layout().pack(pack).exists();
        damaged.map(|at| if is_there(at.pack) { at } else { damaged::whole(at.pack) }).collect()
    }

    /// Number of different tree nodes that were followed.
    pub(super) fn trees(&self) -> u64 {
        self.followed.len() as u64
    }

    /// Follows a checkpoint from its root down to chunks, and blames what is damaged or missing.
    pub(super) fn checkpoint(&mut self, checkpoint: &Checkpoint, progress: &dyn Progress) -> Result<()> {
        progress.phase(Phase::Check, Some(checkpoint.record.workspace.entries), None);
        let is_known = |reach: &Self, table: LinksTable| reach.whole_blobs.contains(&table.blob.object().key());
        let new_links = checkpoint.record.links.filter(|table| !is_known(self, *table));
        graph::follow(self, self.store.ids(), checkpoint, progress)?;
        self.count_unreached(checkpoint.record.root.object().key(), checkpoint.record.workspace.bytes);
        // Of a checkpoint that was made just now, no content is read.
        if let Some(table) = new_links.filter(|table| table.bytes == 0 || is_known(self, *table))
            && !matches!(self.trust, Trust::Index(_))
            && let Err(e) = self.store.links(checkpoint)
        {
            let id = table.blob.object();
            self.blame(FindingKind::Damaged, id, None, e.fault());
            self.whole_blobs.remove(&id.key());
            self.bad_blobs.insert(table.blob, vec![id]);
        }
        Ok(())
    }

    /// Counts what lies below a tree that could not be read.
    fn count_unreached(&mut self, tree: ObjectKey, bytes: u64) {
        let lost = self.followed.get_mut(&tree).filter(|tree| tree.totals.is_none() && !tree.is_counted);
        if let Some(lost) = lost {
            lost.is_counted = true;
            self.unread_bytes = self.unread_bytes.saturating_add(bytes);
        }
    }

    /// True if everything was reached and read.
    pub(super) fn has_read_all(&self) -> bool {
        self.unread_bytes == 0 && self.followed.values().all(|tree| tree.totals.is_some())
    }

    fn blame(&mut self, kind: FindingKind, id: ObjectId, pack: Option<PackId>, message: String) {
        if let btree_map::Entry::Vacant(slot) = self.bad.entry(id) {
            slot.insert(Bad { kind, message, pack, touches: Vec::new(), touches_more: 0 });
        }
    }

    /// Reads an object; what is wrong with it is noted.
    fn read<T>(&mut self, kind: ObjectKind, id: ObjectId, read: impl FnOnce(&[u8]) -> T) -> Option<T> {
        if self.bad.contains_key(&id) {
            return None;
        }
        let location = match self.store.view().locate(id) {
            Ok(Some(location)) => location,
            Ok(None) => {
                let builds = matches!(&self.trust, Trust::Packs(packs) if packs.without_bases.contains(&id.key()));
                let (found, reason) = match builds {
                    true => (FindingKind::Damaged, "builds on an object that is lost"),
                    false => (FindingKind::Missing, "is in no pack that is known"),
                };
                self.blame(found, id, None, format!("{} {reason}", describe(kind, id)));
                return None;
            }
            Err(e) => {
                self.blame(FindingKind::Index, id, None, format!("{}: {}", describe(kind, id), e.fault()));
                return None;
            }
        };
        match self.store.block(location) {
            Ok(block) => match block.object(id) {
                Some(bytes) => return Some(read(bytes)),
                None => {
                    let message = format!(
                        "the index places {} in a block that does not hold it; run {}",
                        describe(kind, id),
                        Step::RebuildInCheck
                    );
                    self.blame(FindingKind::Index, id, Some(location.pack), message);
                }
            },
            Err(e) => self.blame(FindingKind::Damaged, id, Some(location.pack), format!("{}: {}", describe(kind, id), e.fault())),
        }
        None
    }

    /// True if an object is there, without reading it where the packs' directories have shown it.
    fn is_there(&mut self, kind: ObjectKind, id: ObjectId) -> bool {
        // Looking there once more takes no memory.
        if self.has_all_keys() && self.damaged.is_empty() && self.is_indexed(id) {
            return true;
        }
        if let Some(good) = self.seen.get(&id.key()) {
            return *good;
        }
        let location = self.store.view().locate(id).ok().flatten();
        let shown = location.is_some_and(|location| self.is_shown(id, location));
        let good = shown || self.read(kind, id, |_| ()).is_some();
        self.seen.insert(id.key(), good);
        good
    }

    fn has_all_keys(&self) -> bool {
        matches!(self.trust, Trust::Index(Some(_)))
    }

    fn is_indexed(&self, id: ObjectId) -> bool {
        match &self.trust {
            Trust::Index(Some(keys)) => keys.binary_search(&id.key()).is_ok(),
            _ => self.store.view().locate(id).ok().flatten().is_some(),
        }
    }

    fn is_shown(&mut self, id: ObjectId, location: Location) -> bool {
        if self.damaged.has(id, location) {
            return false;
        }
        match &mut self.trust {
            Trust::Bytes => false,
            Trust::Index(_) => true,
            Trust::Packs(packs) => packs.confirmed.contains(&id.key()) && !packs.bad_blocks.contains(&location),
            Trust::Directories(blocks, objects) => {
                if !blocks.insert(location) {
                    return objects.contains(&id.key());
                }
                let directory = self.store.pack(location.pack).and_then(|pack| pack.read_directory(location.offset));
                let Ok(directory) = directory else { return false };
                if self.depth == DEPTH_READ_MAX {
                    return false;
                }
                let mut bases = directory.kinds_and_bases();
                // Each block is looked at once, so that this ends even where blocks are said to build on each other.
                self.depth += 1;
                let has_bases = bases.all(|(kind, base)| self.is_there(kind, base));
                self.depth -= 1;
                if has_bases && let Trust::Directories(_, objects) = &mut self.trust {
                    objects.extend(directory.entries.iter().map(|entry| entry.id.key()));
                    return objects.contains(&id.key());
                }
                false
            }
        }
    }

    /// Reads a tree node; what is wrong with it is noted.
    fn tree_node(&mut self, id: TreeId) -> Option<TreeNode> {
        let node = match self.read(ObjectKind::Tree, id.object(), levelled)? {
            Ok((level, TreeNode::Inner(children))) if !self.fits_together(level, &children) => Err(DecodeError(UNORDERED)),
            node => node.map(|(_, node)| node),
        };
        node.map_err(|e| self.blame_bytes(ObjectKind::Tree, id.object(), &e.to_string())).ok()
    }

    fn blame_bytes(&mut self, kind: ObjectKind, id: ObjectId, reason: &str) {
        self.blame(FindingKind::Damaged, id, None, format!("{}: {reason}", describe(kind, id)));
    }
}
