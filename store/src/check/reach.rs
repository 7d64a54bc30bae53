//! Reachability: does every checkpoint have all it needs? Each tree, recipe and chunk is looked at once, however many checkpoints share
//! it; only where something is wrong are paths looked for.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, btree_map};

use super::{
    FindingKind, Touched,
    structure::{Packs, describe},
};
use crate::{
    codec::Malformed,
    damaged::{self, Damaged},
    error::{Error, Result},
    format::DEPTH_READ_MAX,
    graph::{self, GraphContent, GraphPath, Item, RecipePart, Visitor},
    id::{BlobId, ObjectId, ObjectKey, PackId, TreeId},
    omitted,
    pack::{Location, ObjectKind},
    progress::{Phase, Progress},
    recipe,
    record::{Checkpoint, LinksTable},
    store::Store,
    tree::{self, Child, DEPTH_MAX, Kind, Totals, TreeNode},
};

/// Damage of an object.
pub(super) struct Bad {
    pub(super) kind: FindingKind,
    pub(super) message: String,
    pub(super) pack: Option<PackId>,
    pub(super) touches: Vec<Touched>,
    pub(super) touches_more: u64,
}

/// A tree that was followed to its end.
#[derive(Clone, Copy)]
pub(super) struct Followed {
    /// Its sums; `None` where it could not be read.
    pub(super) totals: Option<Totals>,
    /// True if something in it is wrong.
    pub(super) is_dirty: bool,
}

/// A node of a split folder, as the node above it and the one beside it see it.
#[derive(Clone)]
struct Ends {
    level: u8,
    first: Option<Vec<u8>>,
    last: Option<Vec<u8>>,
}

/// More levels than a split folder has.
const LEVELS_MAX: usize = 10;

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
    damaged: Damaged,
    /// Number of blocks in a row that are being looked at.
    depth: u32,
    pub(super) followed: HashMap<ObjectKey, Followed>,
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
}

impl<'a> Reach<'a> {
    pub(super) fn new(store: &'a Store, trust: Trust<'a>) -> Self {
        Reach {
            store,
            trust,
            damaged: Damaged::read(store.layout()),
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
        }
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

    /// Follows one checkpoint.
    pub(super) fn checkpoint(&mut self, checkpoint: &Checkpoint, progress: &dyn Progress) -> Result<()> {
        progress.phase(Phase::Check, Some(checkpoint.record.workspace.entries), None);
        let is_known = |reach: &Self, table: LinksTable| reach.whole_blobs.contains(&table.blob.object().key());
        let new_links = checkpoint.record.links.filter(|table| !is_known(self, *table));
        graph::follow(self, self.store.ids(), checkpoint, progress)?;
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
                    let message =
                        format!("the index places {} in a block that does not hold it; run --rebuild-index", describe(kind, id));
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
        if self.damaged.has(location) {
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

    /// True if the nodes below an upper one are of the next lower level, begin with the names that it says, and leave the entries in order. What
    /// cannot be read is named where it is followed.
    fn fits_together(&mut self, level: u8, children: &[Child]) -> bool {
        let is_quick = matches!(self.trust, Trust::Index(_));
        children.iter().enumerate().all(|(number, child)| {
            // What a verified checkpoint has as well is not read again.
            if is_quick && self.followed.contains_key(&child.tree.object().key()) {
                return true;
            }
            let Some(ends) = self.ends(child.tree, 0) else { return true };
            let begins = ends.level.checked_add(1) == Some(level) && ends.first.as_ref() == Some(&child.first);
            begins && children.get(number + 1).is_none_or(|next| ends.last.is_none_or(|last| last < next.first))
        })
    }

    /// The level of a tree node, and the first and the last name below it; `None` where it cannot be read. Each is read once.
    fn ends(&mut self, id: TreeId, depth: usize) -> Option<Ends> {
        if let Some(known) = self.ends.get(&id.object().key()) {
            return Some(known.clone());
        }
        let (level, node) = self.read(ObjectKind::Tree, id.object(), levelled)?.ok()?;
        let (first, last) = match node {
            TreeNode::Leaf(mut nodes) => (nodes.first().map(|node| node.name.clone()), nodes.pop().map(|node| node.name)),
            TreeNode::Inner(children) => {
                let last = children.last().filter(|_| depth < LEVELS_MAX).and_then(|child| self.ends(child.tree, depth + 1));
                (children.first().map(|child| child.first.clone()), last.and_then(|ends| ends.last))
            }
        };
        let ends = Ends { level, first, last };
        self.ends.insert(id.object().key(), ends.clone());
        Some(ends)
    }

    /// Reads a tree node; what is wrong with it is noted.
    fn tree_node(&mut self, id: TreeId) -> Option<TreeNode> {
        let node = match self.read(ObjectKind::Tree, id.object(), levelled)? {
            Ok((level, TreeNode::Inner(children))) if !self.fits_together(level, &children) => Err(Malformed(UNORDERED)),
            node => node.map(|(_, node)| node),
        };
        node.map_err(|e| self.blame_bytes(ObjectKind::Tree, id.object(), &e.to_string())).ok()
    }

    fn blame_bytes(&mut self, kind: ObjectKind, id: ObjectId, reason: &str) {
        self.blame(FindingKind::Damaged, id, None, format!("{}: {reason}", describe(kind, id)));
    }
}

impl Visitor for Reach<'_> {
    type Open = Sums;

    fn record(&mut self, checkpoint: &Checkpoint, _place: &GraphPath<'_>) -> Result<()> {
        let id = checkpoint.digest.object();
        if self.read(ObjectKind::Record, id, |bytes| bytes == checkpoint.sealed.as_bytes()) == Some(false) {
            self.blame(FindingKind::Damaged, id, None, format!("{} does not decode", describe(ObjectKind::Record, id)));
        }
        Ok(())
    }

    fn object(&mut self, kind: ObjectKind, id: ObjectId, _place: &GraphPath<'_>) -> Result<()> {
        if kind != ObjectKind::Table {
            if !self.is_there(kind, id) {
                self.wrong.push(id);
            }
        } else if self.read(kind, id, |bytes| omitted::decode(bytes).is_ok()) == Some(false) {
            self.blame(FindingKind::Damaged, id, None, format!("{} does not decode", describe(kind, id)));
        }
        Ok(())
    }

    fn tree(&mut self, id: TreeId, depth: usize, _place: &GraphPath<'_>) -> Result<Option<(TreeNode, Sums)>> {
        if self.followed.contains_key(&id.object().key()) {
            return Ok(None);
        }
        let node = match depth {
            0..DEPTH_MAX => self.tree_node(id),
            _ => {
                self.blame_bytes(ObjectKind::Tree, id.object(), "folders nest too deep");
                None
            }
        };
        if node.is_none() {
            self.followed.insert(id.object().key(), Followed { totals: None, is_dirty: true });
        }
        Ok(node.map(|node| (node, Sums::default())))
    }

    fn visited(&mut self, above: &mut Sums, item: &Item) {
        let (lower, claimed) = match item {
            Item::Part(child) => {
                above.totals.merge(&child.totals);
                (child.tree, child.totals)
            }
            Item::Entry(node) => {
                above.totals.add(node);
                match node.kind {
                    Kind::Folder { tree, totals } => (tree, totals),
                    Kind::File { size, blob, .. } => {
                        above.is_dirty |= size > 0 && self.bad_blobs.contains_key(&blob);
                        return;
                    }
                    _ => return,
                }
            }
        };
        let id = lower.object();
        let Some(followed) = self.followed.get_mut(&id.key()) else { return };
        if followed.totals.is_some_and(|totals| totals != claimed) {
            followed.is_dirty = true;
            self.blame(
                FindingKind::Totals,
                id,
                None,
                format!("{}: sums above it differ from it", describe(ObjectKind::Tree, id)),
            );
        }
        above.is_dirty |= self.followed.get(&id.key()).is_some_and(|followed| followed.is_dirty);
    }

    fn leave(&mut self, id: TreeId, sums: Sums) {
        self.followed.insert(id.object().key(), Followed { totals: Some(sums.totals), is_dirty: sums.is_dirty });
    }

    fn blob(&mut self, blob: BlobId, bytes: u64, _place: &GraphPath<'_>) -> Result<Option<GraphContent>> {
        if self.whole_blobs.contains(&blob.object().key()) || self.bad_blobs.contains_key(&blob) {
            return Ok(None);
        }
        self.wrong.clear();
        self.made.clear();
        let may_be_chunk = bytes <= u64::from(self.store.config().chunking.bytes_max);
        let has_recipe = self.is_indexed(self.store.ids().recipe_root(blob));
        Ok(Some(if may_be_chunk && !has_recipe { GraphContent::Chunk } else { GraphContent::Recipe }))
    }

    fn progress_bytes(&self, bytes: u64) -> Option<u64> {
        Some(bytes)
    }

    /// Reads each node once, however often it stands there.
    fn recipe(&mut self, blob: BlobId, part: &RecipePart, _place: &GraphPath<'_>) -> Result<Option<(u8, recipe::Node)>> {
        if self.whole_recipes.contains(&part.id) {
            return Ok(None);
        }
        let (mut made, mut node) = (self.made.get(&part.id).copied(), None);
        if made.is_none() {
            let ids = self.store.ids();
            match self.read(part.kind, part.id, |bytes| part.decode(ids, blob, bytes)) {
                Some(Ok(decoded)) => {
                    made = Some(decoded.1.bytes());
                    node = Some(decoded);
                }
                failed => {
                    if let Some(Err(e)) = failed {
                        self.blame_bytes(part.kind, part.id, &e.to_string());
                    }
                    self.wrong.push(part.id);
                }
            }
        }
        let made = made.unwrap_or(part.bytes);
        self.made.insert(part.id, made);
        if made != part.bytes {
            let reason = format!("{} makes {made} bytes, what refers to it says {}", describe(part.kind, part.id), part.bytes);
            self.blame(FindingKind::Damaged, part.id, None, reason);
            self.wrong.push(part.id);
        }
        Ok(node)
    }

    fn leave_blob(&mut self, blob: BlobId, bytes: u64) -> Result<()> {
        if matches!(self.trust, Trust::Bytes) && self.wrong.is_empty() {
            match self.store.blob(blob, bytes).and_then(|reader| reader.read_verified(|_| Ok(()))) {
                Ok(()) => {}
                Err(Error::Cancelled) => return Err(Error::Cancelled),
                Err(e) => {
                    self.blame(FindingKind::Damaged, blob.object(), None, e.fault());
                    self.wrong.push(blob.object());
                }
            }
        }
        if !self.wrong.is_empty() {
            self.bad_blobs.insert(blob, std::mem::take(&mut self.wrong));
        } else if !(self.made.is_empty() && self.has_all_keys()) {
            // A single chunk is looked up again instead.
            self.whole_blobs.insert(blob.object().key());
        }
        Ok(())
    }
}

/// The reason against an upper tree node.
const UNORDERED: &str = "split folder: levels, first names or order";

/// A tree node with its level.
fn levelled(bytes: &[u8]) -> Result<(u8, TreeNode), Malformed> {
    Ok((bytes.first().copied().unwrap_or_default(), tree::decode(bytes)?))
}
