//! What the checkpoints need, and what of that is nowhere in the packs.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::{Found, Lost, Touched, sources::Sources, survey::Survey};
use crate::{
    check::reach::own_objects,
    error::Result,
    id::{BlobId, ObjectId, ObjectKey, TreeId},
    name,
    pack::ObjectKind,
    progress::{self, Progress},
    recipe,
    record::Checkpoint,
    store::Store,
    tree::{self, Kind, Node, TreeNode},
};

/// Of one lost object, at most this many places are named.
const TOUCHED_MAX: usize = 20;

/// Where in a checkpoint something is needed.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) checkpoint: &'a Checkpoint,
    /// From the workspace folder. Empty for the folder itself, and for what belongs to the checkpoint as a whole.
    pub(super) path: &'a [u8],
    /// Of a file, or of the table of hard links, the bytes that are needed.
    pub(super) offset: u64,
    pub(super) bytes: u64,
}

/// What is still to be done.
enum Step {
    /// Follow a tree, and where it is.
    Follow(TreeId, Option<Vec<u8>>),
    /// All below a tree was followed; so many losses had been come upon before it.
    Done(TreeId, u64),
}

type Pending = Vec<Step>;

/// Follows checkpoints.
pub(super) struct Need<'a> {
    store: &'a Store,
    survey: &'a Survey,
    sources: Sources,
    /// Trees and blobs of which nothing is lost.
    whole: HashSet<ObjectKey>,
    /// How often something lost was come upon. An object that is lost once counts again with everything that needs it.
    losses: u64,
    recovered: HashMap<ObjectKey, Found>,
    lost: BTreeMap<ObjectId, Lost>,
}

impl<'a> Need<'a> {
    pub(super) fn new(store: &'a Store, survey: &'a Survey, sources: Sources) -> Self {
        let (whole, losses, recovered, lost) = Default::default();
        Need { store, survey, sources, whole, losses, recovered, lost }
    }

    /// What was found in the sources, and what was not.
    pub(super) fn finish(self) -> (Vec<Found>, Vec<Lost>) {
        (self.recovered.into_values().collect(), self.lost.into_values().collect())
    }

    /// Follows one checkpoint to all that it needs.
    pub(super) fn follow(&mut self, checkpoint: &Checkpoint, progress: &dyn Progress) -> Result<()> {
        let top = Place { checkpoint, path: b"", offset: 0, bytes: 0 };
        for (kind, id) in own_objects(checkpoint) {
            if kind == ObjectKind::Record && !self.has(id) {
                // The journal has every record, byte for byte.
                let bytes = checkpoint.sealed.as_bytes().to_vec();
                self.recovered.insert(id.key(), Found { kind, id, bytes });
            } else {
                self.require(kind, id, &top)?;
            }
        }
        if let Some(table) = checkpoint.record.links {
            self.blob(table.blob, table.bytes, &Place { bytes: table.bytes, ..top })?;
        }
        let mut pending: Pending = vec![Step::Follow(checkpoint.record.root, None)];
        while let Some(step) = pending.pop() {
            progress::check(progress)?;
            let (id, folder) = match step {
                Step::Follow(id, folder) => (id, folder),
                Step::Done(id, losses) => {
                    if self.losses == losses {
                        self.whole.insert(id.object().key());
                    }
                    continue;
                }
            };
            if self.whole.contains(&id.object().key()) {
                continue;
            }
            // Comes up again when all that is below was followed.
            pending.push(Step::Done(id, self.losses));
            let path = folder.clone().unwrap_or_default();
            let Some(bytes) = self.fetch(ObjectKind::Tree, id.object(), &Place { path: &path, ..top })? else { continue };
            match tree::decode(&bytes) {
                Ok(TreeNode::Inner(children)) => pending.extend(children.iter().map(|c| Step::Follow(c.tree, folder.clone()))),
                Ok(TreeNode::Leaf(nodes)) => {
                    for node in &nodes {
                        self.entry(node, folder.as_deref(), &top, &mut pending)?;
                    }
                }
                Err(_) => self.lose(ObjectKind::Tree, id.object(), &Place { path: &path, ..top }),
            }
        }
        Ok(())
    }

    /// Follows an entry of a folder; `None` is the root, whose parts are no paths of the workspace.
    fn entry(&mut self, node: &Node, folder: Option<&[u8]>, top: &Place<'_>, pending: &mut Pending) -> Result<()> {
        let path = match folder {
            None if node.name == b"workspace" => Vec::new(),
            None => node.name.clone(),
            Some(folder) => name::join(folder, &node.name),
        };
        match node.kind {
            Kind::Folder { tree, .. } => pending.push(Step::Follow(tree, Some(path))),
            Kind::File { size, blob, .. } if size > 0 => {
                self.blob(blob, size, &Place { path: &path, offset: 0, bytes: size, ..*top })?;
            }
            _ => {}
        }
        Ok(())
    }

    fn has(&self, id: ObjectId) -> bool {
        self.survey.good.contains_key(&id.key()) || self.recovered.contains_key(&id.key())
    }

    fn lose(&mut self, kind: ObjectKind, id: ObjectId, place: &Place<'_>) {
        let none = || Lost { object: id, kind: kind.name(), touches: Vec::new(), touches_more: 0 };
        let lost = self.lost.entry(id).or_insert_with(none);
        self.losses += 1;
        let touched = Touched { checkpoint: place.checkpoint.record.id, path: name::display(place.path) };
        if lost.touches.len() < TOUCHED_MAX {
            lost.touches.push(touched);
        } else {
            lost.touches_more += 1;
        }
    }

    /// Sees that an object is there, or takes it from a condemned pack or a source. False where it is lost.
    fn require(&mut self, kind: ObjectKind, id: ObjectId, place: &Place<'_>) -> Result<bool> {
        if self.has(id) {
            return Ok(true);
        }
        let found = match self.survey.read_condemned(self.store, id)? {
            None => self.sources.find(self.store, kind, id, place)?,
            found => found,
        };
        match found {
            Some(bytes) => {
                self.recovered.insert(id.key(), Found { kind, id, bytes });
                Ok(true)
            }
            None => {
                self.lose(kind, id, place);
                Ok(false)
            }
        }
    }

    fn fetch(&mut self, kind: ObjectKind, id: ObjectId, place: &Place<'_>) -> Result<Option<Vec<u8>>> {
        if !self.require(kind, id, place)? {
            return Ok(None);
        }
        match self.recovered.get(&id.key()) {
            Some(found) => Ok(Some(found.bytes.clone())),
            None => self.survey.read(self.store, id),
        }
    }

    fn blob(&mut self, blob: BlobId, size: u64, place: &Place<'_>) -> Result<()> {
        if self.whole.contains(&blob.object().key()) {
            return Ok(());
        }
        let losses = self.losses;
        let (ids, root) = (self.store.ids(), self.store.ids().recipe_root(blob));
        let may_be_chunk = size <= u64::from(self.store.config().chunking.bytes_max);
        // Where there are both, readers prefer the chunk.
        if may_be_chunk && (self.has(blob.object()) || !self.has(root)) {
            self.require(ObjectKind::Chunk, blob.object(), place)?;
        } else if let Some(bytes) = self.fetch(ObjectKind::RecipeRoot, root, place)? {
            match recipe::decode_root(ids, blob, &bytes) {
                Ok(node) => self.parts(node, place)?,
                Err(_) => self.lose(ObjectKind::RecipeRoot, root, place),
            }
        }
        if self.losses == losses {
            self.whole.insert(blob.object().key());
        }
        Ok(())
    }

    /// Sees that all chunks of a recipe are there, in the order of the file.
    fn parts(&mut self, root: recipe::Node, place: &Place<'_>) -> Result<()> {
        let mut pending = vec![(root, 0u64)];
        while let Some((node, start)) = pending.pop() {
            let mut at = start;
            match node {
                recipe::Node::Chunks(runs) => {
                    for run in runs {
                        let here = Place { offset: at, bytes: run.bytes.into(), ..*place };
                        self.require(ObjectKind::Chunk, run.id.object(), &here)?;
                        at = at.saturating_add(run.run_bytes());
                    }
                }
                recipe::Node::Nodes(nodes) => {
                    for (id, bytes) in nodes {
                        let here = Place { offset: at, bytes, ..*place };
                        if let Some(found) = self.fetch(ObjectKind::RecipeNode, id.object(), &here)? {
                            match recipe::decode_node(&found) {
                                Ok(node) => pending.push((node, at)),
                                Err(_) => self.lose(ObjectKind::RecipeNode, id.object(), &here),
                            }
                        }
                        at = at.saturating_add(bytes);
                    }
                }
            }
        }
        Ok(())
    }
}
