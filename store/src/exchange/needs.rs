//! The packs that a checkpoint needs.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use crate::{
    error::Result,
    graph::{self, GraphContent, GraphPath, RecipePart, Visitor},
    id::{BlobId, ObjectId, ObjectKey, PackId, TreeId},
    pack::{ObjectKind, PackFile},
    progress::Progress,
    recipe,
    record::Checkpoint,
    store::Store,
    tree::TreeNode,
    view::View,
};

/// The packs of checkpoints. What checkpoints share is followed once.
pub(super) struct Needs<'a> {
    store: &'a Store,
    view: Arc<View>,
    /// Of each tree node that was followed, the packs of everything below it.
    trees: HashMap<TreeId, Arc<BTreeSet<PackId>>>,
    /// Of each recipe's node, likewise, but for what is below it.
    places: HashMap<ObjectKey, Option<PackId>>,
    /// Of each pack, those with what its blocks build on.
    bases: HashMap<PackId, (Arc<BTreeSet<PackId>>, bool)>,
    /// The sets that are being filled: one for each node on the way, and one for the checkpoint.
    open: Vec<BTreeSet<PackId>>,
    /// True if something is in no pack.
    lacks: bool,
}

/// The packs that a checkpoint needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PackNeed {
    pub(super) packs: BTreeSet<PackId>,
    /// True if something of it is in no pack of the store: it is damaged.
    pub(super) is_damaged: bool,
}

impl<'a> Needs<'a> {
    pub(super) fn new(store: &'a Store) -> Self {
        let (trees, places, bases) = Default::default();
        Needs { store, view: store.view(), trees, places, bases, open: Vec::new(), lacks: false }
    }

    /// The packs of a checkpoint, with those that their blocks build on. Goes by the store as it is now.
    pub(super) fn of(&mut self, checkpoint: &Checkpoint, progress: &dyn Progress) -> Result<PackNeed> {
        let view = self.store.refresh()?;
        if view.end() != self.view.end() {
            // gc may have moved things.
            *self = Needs { view, ..Needs::new(self.store) };
        }
        (self.open, self.lacks) = (vec![BTreeSet::new()], false);
        graph::follow(self, self.store.ids(), checkpoint, progress)?;
        let mut packs = self.open.pop().unwrap_or_default();
        let mut pending: Vec<PackId> = packs.iter().copied().collect();
        while let Some(pack) = pending.pop() {
            let more: Vec<PackId> = self.bases_of(pack)?.iter().copied().filter(|base| !packs.contains(base)).collect();
            packs.extend(&more);
            pending.extend(more);
        }
        Ok(PackNeed { packs, is_damaged: self.lacks })
    }

    fn bases_of(&mut self, pack: PackId) -> Result<Arc<BTreeSet<PackId>>> {
        if let Some((known, lacks)) = self.bases.get(&pack) {
            self.lacks |= lacks;
            return Ok(Arc::clone(known));
        }
        let mut lacks = false;
        let mut bases: HashSet<ObjectId> = HashSet::new();
        let scanned = PackFile::open(self.store.layout(), pack).and_then(|file| {
            file.scan(|_, directory| {
                bases.extend(&directory.bases);
                Ok(())
            })
        });
        match scanned {
            Err(e) if e.is_damage() || e.is_not_found() => lacks = true,
            other => drop(other?),
        }
        let mut packs = BTreeSet::new();
        for base in bases {
            packs.extend(self.view.locate(base)?.map(|at| at.pack).filter(|found| *found != pack));
        }
        let packs = Arc::new(packs);
        self.lacks |= lacks;
        self.bases.insert(pack, (Arc::clone(&packs), lacks));
        Ok(packs)
    }

    /// Notes that an object is needed; false if it lies nowhere.
    fn add(&mut self, id: ObjectId) -> Result<bool> {
        let key = id.key();
        let place = match self.places.get(&key) {
            Some(place) => *place,
            None => {
                let place = self.view.locate_key(&key)?.map(|at| at.pack);
                self.places.insert(key, place);
                place
            }
        };
        match place {
            Some(pack) => _ = self.open.last_mut().is_some_and(|open| open.insert(pack)),
            None => self.lacks = true,
        }
        Ok(place.is_some())
    }
}

impl Visitor for Needs<'_> {
    type Open = ();

    fn record(&mut self, checkpoint: &Checkpoint, _: &GraphPath<'_>) -> Result<()> {
        // The journal has it as well.
        let lacks = self.lacks;
        self.add(checkpoint.digest.object())?;
        self.lacks = lacks;
        Ok(())
    }

    fn object(&mut self, _: ObjectKind, id: ObjectId, _: &GraphPath<'_>) -> Result<()> {
        self.add(id).map(drop)
    }

    fn tree(&mut self, id: TreeId, _: usize, _: &GraphPath<'_>) -> Result<Option<(TreeNode, ())>> {
        if let Some(known) = self.trees.get(&id) {
            let known = Arc::clone(known);
            self.open.last_mut().into_iter().for_each(|open| open.extend(known.iter()));
            return Ok(None);
        }
        if !self.add(id.object())? {
            return Ok(None);
        }
        let node = match self.store.tree_node(id) {
            Err(e) if e.is_damage() || e.is_not_found() => {
                self.lacks = true;
                return Ok(None);
            }
            other => other?,
        };
        self.open.push(BTreeSet::new());
        Ok(Some((node, ())))
    }

    fn leave(&mut self, id: TreeId, (): ()) {
        let Some(mut packs) = self.open.pop() else { return };
        packs.extend(self.places.get(&id.object().key()).copied().flatten());
        self.open.last_mut().into_iter().for_each(|open| open.extend(&packs));
        // What lacks something is looked at again for each checkpoint that has it.
        if !self.lacks {
            self.trees.insert(id, Arc::new(packs));
        }
    }

    fn blob(&mut self, blob: BlobId, bytes: u64, _: &GraphPath<'_>) -> Result<Option<GraphContent>> {
        if self.store.is_single_chunk(blob, bytes)? {
            return Ok(Some(GraphContent::Chunk));
        }
        Ok(Some(GraphContent::Recipe))
    }

    fn recipe(&mut self, blob: BlobId, part: &RecipePart, _: &GraphPath<'_>) -> Result<Option<(u8, recipe::Node)>> {
        if !self.add(part.id)? {
            return Ok(None);
        }
        match self.store.read_object(part.kind, part.id, |bytes| part.decode(self.store.ids(), blob, bytes)) {
            Err(e) if e.is_damage() || e.is_not_found() => {
                self.lacks = true;
                Ok(None)
            }
            other => other.map(Some),
        }
    }
}
