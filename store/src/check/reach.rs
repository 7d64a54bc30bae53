//! Reachability: does every checkpoint have all it needs? Each tree, recipe and chunk is looked at once, however many checkpoints share
//! it; only where something is wrong are paths looked for.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, btree_map};

use super::{
    FindingKind, Touched,
    structure::{Packs, describe},
};
use crate::{
    codec::Malformed,
    damaged::Damaged,
    error::{Error, Result},
    format::DEPTH_READ_MAX,
    id::{BlobId, ObjectId, ObjectKey, PackId, RecipeId, TreeId},
    pack::{Location, ObjectKind},
    progress::{self, Phase, Progress},
    recipe,
    record::{Checkpoint, LinksTable},
    store::Store,
    tree::{self, Child, DEPTH_MAX, Kind, Node, Totals, TreeNode},
};

/// What is wrong with an object.
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
    /// What its sums are; `None` where it could not be read.
    pub(super) totals: Option<Totals>,
    /// Whether something in it is wrong.
    pub(super) is_dirty: bool,
}

/// A node of a split folder, as the node above it and the one beside it see it.
#[derive(Clone)]
struct Ends {
    level: u8,
    first: Option<Vec<u8>>,
    last: Option<Vec<u8>>,
}

/// A node of a recipe: how many bytes it makes, the nodes below with theirs, and its level.
struct RecipePart {
    bytes: u64,
    lower: Vec<(RecipeId, u64)>,
    level: u8,
}

/// More levels than a split folder has.
const LEVELS_MAX: usize = 10;

enum Item {
    Entry(Node),
    Part(Child),
}

struct Frame {
    id: TreeId,
    items: std::vec::IntoIter<Item>,
    /// The item whose tree is being followed.
    waiting: Option<Item>,
    totals: Totals,
    is_dirty: bool,
}

/// What is taken as proof that a chunk is there.
pub(super) enum Trust<'a> {
    /// What reading all packs has shown.
    Packs(&'a Packs),
    /// What its block's directory says. Holds the blocks looked at and the objects seen in them.
    Directories(HashSet<Location>, HashSet<ObjectKey>),
    /// That the index has it. The keys of all objects, in order, where so many are asked for that one look at all of them is faster.
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
    pub(super) whole_blobs: HashSet<BlobId>,
    /// Nodes of recipes that are known to be whole.
    pub(super) whole_recipes: HashSet<ObjectId>,
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
        }
    }

    /// The blocks that were found damaged on the way. What lies in a pack that is gone is among them.
    pub(super) fn damaged_blocks(&self) -> Vec<Location> {
        let view = self.store.view();
        let located = self.bad.keys().filter_map(|id| view.locate(*id).ok().flatten());
        let blocks: BTreeSet<Location> = located.collect();
        blocks.into_iter().filter(|at| self.store.block(*at).is_err_and(|e| e.is_damage())).collect()
    }

    /// How many different tree nodes were followed.
    pub(super) fn trees(&self) -> u64 {
        self.followed.len() as u64
    }

    /// Follows one checkpoint.
    pub(super) fn checkpoint(&mut self, checkpoint: &Checkpoint, progress: &dyn Progress) -> Result<()> {
        progress.phase(Phase::Check, Some(checkpoint.record.workspace.entries), None);
        for (kind, id) in own_objects(checkpoint) {
            let read = |bytes: &[u8]| match kind {
                ObjectKind::Record => bytes == checkpoint.sealed.as_bytes(),
                _ => crate::omitted::decode(bytes).is_ok(),
            };
            if self.read(kind, id, read) == Some(false) {
                self.blame(FindingKind::Damaged, id, None, format!("{} does not decode", describe(kind, id)));
            }
        }
        if let Some(table) = checkpoint.record.links {
            self.links(checkpoint, table)?;
        }
        self.tree(checkpoint.record.root, progress)
    }

    /// Follows the table of hard links. Once for all checkpoints that have it.
    fn links(&mut self, checkpoint: &Checkpoint, table: LinksTable) -> Result<()> {
        let is_known = self.whole_blobs.contains(&table.blob);
        // Of a checkpoint that was made just now, no content is read.
        if !self.blob(table.blob, table.bytes)? || is_known || matches!(self.trust, Trust::Index(_)) {
            return Ok(());
        }
        if let Err(e) = self.store.links(checkpoint) {
            let id = table.blob.object();
            self.blame(FindingKind::Damaged, id, None, e.to_string());
            self.whole_blobs.remove(&table.blob);
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
                self.blame(FindingKind::Index, id, None, format!("{}: {e}", describe(kind, id)));
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
            Err(e) => self.blame(FindingKind::Damaged, id, Some(location.pack), format!("{}: {e}", describe(kind, id))),
        }
        None
    }

    /// Whether an object is there, without reading it where the packs' directories have shown it.
    fn is_there(&mut self, kind: ObjectKind, id: ObjectId) -> bool {
        if let Some(good) = self.seen.get(&id.key()) {
            return *good;
        }
        let shown = match &self.trust {
            Trust::Index(Some(_)) if self.damaged.is_empty() => self.is_indexed(id),
            _ => self.store.view().locate(id).ok().flatten().is_some_and(|location| self.is_shown(id, location)),
        };
        let good = shown || self.read(kind, id, |_| ()).is_some();
        self.seen.insert(id.key(), good);
        good
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

    fn tree(&mut self, root: TreeId, progress: &dyn Progress) -> Result<()> {
        let mut stack: Vec<Frame> = Vec::new();
        self.enter(root, &mut stack);
        while let Some(frame) = stack.last_mut() {
            let Some(item) = frame.waiting.take().or_else(|| frame.items.next()) else {
                let Some(frame) = stack.pop() else { break };
                self.followed.insert(frame.id.object().key(), Followed { totals: Some(frame.totals), is_dirty: frame.is_dirty });
                continue;
            };
            progress::check(progress)?;
            let (lower, claimed) = match &item {
                Item::Part(child) => (child.tree, child.totals),
                Item::Entry(node) => match node.kind {
                    Kind::Folder { tree, totals } => (tree, totals),
                    Kind::File { size, blob, .. } if size > 0 => {
                        frame.totals.add(node);
                        progress.advance(1, size);
                        let whole = self.blob(blob, size)?;
                        if let Some(frame) = stack.last_mut() {
                            frame.is_dirty |= !whole;
                        }
                        continue;
                    }
                    _ => {
                        frame.totals.add(node);
                        continue;
                    }
                },
            };
            if let Some(followed) = self.followed.get(&lower.object().key()).copied() {
                let fits = followed.totals.is_none_or(|totals| totals == claimed);
                match &item {
                    Item::Part(child) => frame.totals.merge(&child.totals),
                    Item::Entry(node) => frame.totals.add(node),
                }
                frame.is_dirty |= followed.is_dirty || !fits;
                if !fits {
                    let id = lower.object();
                    self.blame(
                        FindingKind::Totals,
                        id,
                        None,
                        format!("{}: sums above it differ from it", describe(ObjectKind::Tree, id)),
                    );
                    self.followed.entry(id.key()).and_modify(|followed| followed.is_dirty = true);
                }
            } else {
                frame.waiting = Some(item);
                self.enter(lower, &mut stack);
            }
        }
        Ok(())
    }

    /// Whether the nodes below an upper one are of the next lower level, begin with the names that it says, and leave the entries in order. What
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

    /// Starts to follow a tree node; one that cannot be read is done at once.
    fn enter(&mut self, id: TreeId, stack: &mut Vec<Frame>) {
        if self.followed.contains_key(&id.object().key()) {
            return;
        }
        let node = match stack.len() {
            0..DEPTH_MAX => self.read(ObjectKind::Tree, id.object(), levelled),
            _ => None,
        };
        let node = match node {
            Some(Ok((level, TreeNode::Inner(children)))) if !self.fits_together(level, &children) => {
                Some(Err(Malformed(UNORDERED)))
            }
            node => node.map(|read| read.map(|(_, node)| node)),
        };
        let items: Vec<Item> = match node {
            Some(Ok(TreeNode::Leaf(nodes))) => nodes.into_iter().map(Item::Entry).collect(),
            Some(Ok(TreeNode::Inner(children))) => children.into_iter().map(Item::Part).collect(),
            failed => {
                let reason = failed.and_then(Result::err).map_or("folders nest too deep".to_owned(), |e| e.to_string());
                let message = format!("{}: {reason}", describe(ObjectKind::Tree, id.object()));
                self.blame(FindingKind::Damaged, id.object(), None, message);
                self.followed.insert(id.object().key(), Followed { totals: None, is_dirty: true });
                return;
            }
        };
        stack.push(Frame { id, items: items.into_iter(), waiting: None, totals: Totals::default(), is_dirty: false });
    }

    /// Whether a blob has all it needs.
    fn blob(&mut self, blob: BlobId, size: u64) -> Result<bool> {
        if self.whole_blobs.contains(&blob) {
            return Ok(true);
        }
        if self.bad_blobs.contains_key(&blob) {
            return Ok(false);
        }
        let may_be_chunk = size <= u64::from(self.store.config().chunking.bytes_max);
        let has_recipe = self.is_indexed(self.store.ids().recipe_root(blob));
        let mut wrong = Vec::new();
        if may_be_chunk && !has_recipe {
            if !self.is_there(ObjectKind::Chunk, blob.object()) {
                wrong.push(blob.object());
            }
        } else {
            self.recipe(blob, size, &mut wrong);
        }
        if matches!(self.trust, Trust::Bytes) && wrong.is_empty() {
            match self.store.blob(blob, size).and_then(|reader| reader.read_verified(|_| Ok(()))) {
                Ok(()) => {}
                Err(Error::Cancelled) => return Err(Error::Cancelled),
                Err(e) => {
                    self.blame(FindingKind::Damaged, blob.object(), None, e.to_string());
                    wrong.push(blob.object());
                }
            }
        }
        if wrong.is_empty() {
            self.whole_blobs.insert(blob);
            return Ok(true);
        }
        self.bad_blobs.insert(blob, wrong);
        Ok(false)
    }

    /// Follows a recipe; each of its nodes once, however often it stands there.
    fn recipe(&mut self, blob: BlobId, size: u64, wrong: &mut Vec<ObjectId>) {
        let mut sums: HashMap<ObjectId, u64> = HashMap::new();
        let mut pending = vec![(ObjectKind::RecipeRoot, self.store.ids().recipe_root(blob), size, 0)];
        while let Some((kind, id, claimed, above)) = pending.pop() {
            if self.whole_recipes.contains(&id) {
                continue;
            }
            let sum = match sums.get(&id) {
                Some(sum) => *sum,
                None => match self.recipe_node(kind, id, blob, above, wrong) {
                    Some(RecipePart { bytes, lower, level }) => {
                        sums.insert(id, bytes);
                        pending.extend(lower.into_iter().map(|(id, bytes)| (ObjectKind::RecipeNode, id.object(), bytes, level)));
                        bytes
                    }
                    None => {
                        wrong.push(id);
                        sums.insert(id, claimed);
                        continue;
                    }
                },
            };
            if sum != claimed {
                let message = format!("{} makes {sum} bytes, what refers to it says {claimed}", describe(kind, id));
                self.blame(FindingKind::Damaged, id, None, message);
                wrong.push(id);
            }
        }
    }

    /// A node of a recipe. `above` is the level of the node above.
    fn recipe_node(
        &mut self,
        kind: ObjectKind,
        id: ObjectId,
        blob: BlobId,
        above: u8,
        wrong: &mut Vec<ObjectId>,
    ) -> Option<RecipePart> {
        let ids = self.store.ids();
        let node = self.read(kind, id, |bytes| match kind {
            ObjectKind::RecipeRoot => recipe::decode_top(ids, blob, bytes),
            _ => recipe::decode_below(above, bytes),
        })?;
        match node {
            Ok((level, recipe::Node::Chunks(runs))) => {
                let mut sum = 0u64;
                for run in runs {
                    sum = sum.saturating_add(run.run_bytes());
                    if !self.is_there(ObjectKind::Chunk, run.id.object()) {
                        wrong.push(run.id.object());
                    }
                }
                Some(RecipePart { bytes: sum, lower: Vec::new(), level })
            }
            Ok((level, recipe::Node::Nodes(lower))) => {
                Some(RecipePart { bytes: lower.iter().fold(0, |sum, (_, bytes)| bytes.saturating_add(sum)), lower, level })
            }
            Err(e) => {
                self.blame(FindingKind::Damaged, id, None, format!("{}: {e}", describe(kind, id)));
                None
            }
        }
    }
}

/// The reason against an upper tree node.
const UNORDERED: &str = "split folder: levels, first names or order";

/// A tree node with its level.
fn levelled(bytes: &[u8]) -> Result<(u8, TreeNode), Malformed> {
    Ok((bytes.first().copied().unwrap_or_default(), tree::decode(bytes)?))
}

/// What a checkpoint needs beside its trees and the table of hard links.
pub(super) fn own_objects(checkpoint: &Checkpoint) -> Vec<(ObjectKind, ObjectId)> {
    let record = &checkpoint.record;
    let tables = record.omitted.iter().map(|omitted| omitted.table);
    let mut objects = vec![(ObjectKind::Record, checkpoint.digest.object())];
    objects.extend(tables.map(|id| (ObjectKind::Table, id)));
    objects
}
