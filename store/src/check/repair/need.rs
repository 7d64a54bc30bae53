//! Objects that the checkpoints need, and those of them that are nowhere in the packs.

use std::collections::{BTreeMap, HashSet};

use super::{LostObject, SourceObject, sources::Sources, survey::Survey};
use crate::{
    check::report::touch,
    error::Result,
    graph::{self, GraphContent, GraphPath, RecipePart, Visitor},
    id::{BlobId, ObjectId, ObjectKey, TreeId},
    pack::ObjectKind,
    progress::Progress,
    recipe,
    record::Checkpoint,
    store::Store,
    tree::{self, TreeNode},
};

/// Follows checkpoints.
pub(super) struct Need<'a> {
    store: &'a Store,
    survey: &'a mut Survey,
    sources: &'a mut Sources,
    /// Trees and blobs of which nothing is lost.
    whole: HashSet<ObjectKey>,
    /// Number of times that something lost was come upon. An object that is lost once counts again with everything that needs it.
    losses: u64,
    /// The number of losses before the blob that is being followed.
    losses_before: u64,
    /// Nodes of its recipe. One that stands there twice is followed once.
    nodes: HashSet<ObjectKey>,
    lost: BTreeMap<ObjectId, LostObject>,
}

impl<'a> Need<'a> {
    pub(super) fn new(store: &'a Store, survey: &'a mut Survey, sources: &'a mut Sources) -> Self {
        let (whole, losses, losses_before, nodes, lost) = Default::default();
        Need { store, survey, sources, whole, losses, losses_before, nodes, lost }
    }

    /// Objects that are nowhere. Those that were found in the sources are the survey's.
    pub(super) fn finish(self) -> Vec<LostObject> {
        self.lost.into_values().collect()
    }

    /// Follows one checkpoint to all that it needs.
    pub(super) fn follow(&mut self, checkpoint: &Checkpoint, progress: &dyn Progress) -> Result<()> {
        let ids = self.store.ids();
        graph::follow(&mut NeedVisitor { need: self, checkpoint }, ids, checkpoint, progress)
    }

    fn has(&self, id: ObjectId) -> bool {
        self.survey.good.contains_key(&id.key()) || self.survey.recovered.contains_key(&id.key())
    }
}

/// A checkpoint that is being followed.
struct NeedVisitor<'n, 'a, 'c> {
    need: &'n mut Need<'a>,
    checkpoint: &'c Checkpoint,
}

impl NeedVisitor<'_, '_, '_> {
    fn lose(&mut self, kind: ObjectKind, id: ObjectId, place: &GraphPath<'_>) {
        let none = || LostObject { object: id, kind: kind.name(), touches: Vec::new(), touches_more: 0 };
        let lost = self.need.lost.entry(id).or_insert_with(none);
        self.need.losses += 1;
        touch(&mut lost.touches, &mut lost.touches_more, self.checkpoint.record.id, place.path);
    }

    /// Sees that an object is there, or takes it from a condemned pack or a source. False where it is lost.
    fn require(&mut self, kind: ObjectKind, id: ObjectId, place: &GraphPath<'_>) -> Result<bool> {
        if self.need.has(id) {
            return Ok(true);
        }
        let found = match self.need.survey.read_condemned(self.need.store, kind, id)? {
            None => self.need.sources.find(self.need.store, kind, id, self.checkpoint, place)?,
            found => found,
        };
        let is_found = found.is_some();
        match found {
            Some(found) => _ = self.need.survey.recovered.insert(id.key(), found),
            None => self.lose(kind, id, place),
        }
        Ok(is_found)
    }

    /// True if content of which neither the one chunk nor the recipe is at hand was kept as one chunk, as far as anybody knows. What tells it is
    /// taken.
    fn is_chunk_elsewhere(&mut self, chunk: ObjectId, recipe: ObjectId, place: &GraphPath<'_>) -> Result<bool> {
        for (kind, id) in [(ObjectKind::Chunk, chunk), (ObjectKind::RecipeRoot, recipe)] {
            let mut found = self.need.survey.read_condemned(self.need.store, kind, id)?;
            found = found.or_else(|| self.need.sources.in_stores(kind, id));
            if let Some(found) = found {
                self.need.survey.recovered.insert(id.key(), found);
                return Ok(kind == ObjectKind::Chunk);
            }
        }
        // A live file of this content gives it as one chunk. Where there is none, directories of damaged packs still tell.
        let whole = self.need.sources.find(self.need.store, ObjectKind::Chunk, chunk, self.checkpoint, place)?;
        let is_found = whole.is_some();
        if let Some(found) = whole {
            self.need.survey.recovered.insert(chunk.key(), found);
        }
        let tells_of = |id| self.need.survey.tells_of(self.need.store, id);
        Ok(is_found || tells_of(chunk) || !tells_of(recipe))
    }

    /// Reads an object. `None` where it is lost, or does not decode.
    fn fetch<T, E>(
        &mut self,
        kind: ObjectKind,
        id: ObjectId,
        place: &GraphPath<'_>,
        decode: impl FnOnce(&[u8]) -> Result<T, E>,
    ) -> Result<Option<T>> {
        if !self.require(kind, id, place)? {
            return Ok(None);
        }
        let decoded = match self.need.survey.recovered.get(&id.key()) {
            Some(found) => decode(&found.bytes),
            None => match self.need.survey.read(self.need.store, id)? {
                Some(bytes) => decode(&bytes),
                None => return Ok(None),
            },
        };
        if decoded.is_err() {
            self.lose(kind, id, place);
        }
        Ok(decoded.ok())
    }
}

impl Visitor for NeedVisitor<'_, '_, '_> {
    /// The number of losses before it.
    type Open = u64;

    /// The journal has every record, byte for byte.
    fn record(&mut self, checkpoint: &Checkpoint, _place: &GraphPath<'_>) -> Result<()> {
        let (kind, id) = (ObjectKind::Record, checkpoint.digest.object());
        if !self.need.has(id) {
            let bytes = checkpoint.sealed.as_bytes().to_vec();
            self.need.survey.recovered.insert(id.key(), SourceObject::whole(kind, id, bytes));
        }
        Ok(())
    }

    fn object(&mut self, kind: ObjectKind, id: ObjectId, place: &GraphPath<'_>) -> Result<()> {
        self.require(kind, id, place).map(drop)
    }

    fn tree(&mut self, id: TreeId, _depth: usize, place: &GraphPath<'_>) -> Result<Option<(TreeNode, u64)>> {
        if self.need.whole.contains(&id.object().key()) {
            return Ok(None);
        }
        let before = self.need.losses;
        Ok(self.fetch(ObjectKind::Tree, id.object(), place, tree::decode)?.map(|node| (node, before)))
    }

    fn leave(&mut self, id: TreeId, before: u64) {
        if self.need.losses == before {
            self.need.whole.insert(id.object().key());
        }
    }

    fn blob(&mut self, blob: BlobId, bytes: u64, place: &GraphPath<'_>) -> Result<Option<GraphContent>> {
        if self.need.whole.contains(&blob.object().key()) {
            return Ok(None);
        }
        self.need.losses_before = self.need.losses;
        self.need.nodes.clear();
        let may_be_chunk = bytes <= u64::from(self.need.store.config().chunking.bytes_max);
        let recipe = self.need.store.ids().recipe_root(blob);
        // Where there are both, readers prefer the chunk.
        let is_chunk = may_be_chunk
            && (self.need.has(blob.object())
                || !self.need.has(recipe) && self.is_chunk_elsewhere(blob.object(), recipe, place)?);
        Ok(Some(if is_chunk { GraphContent::Chunk } else { GraphContent::Recipe }))
    }

    fn recipe(&mut self, blob: BlobId, part: &RecipePart, place: &GraphPath<'_>) -> Result<Option<(u8, recipe::Node)>> {
        if !self.need.nodes.insert(part.id.key()) {
            return Ok(None);
        }
        let ids = self.need.store.ids();
        self.fetch(part.kind, part.id, place, |bytes| part.decode(ids, blob, bytes))
    }

    fn leave_blob(&mut self, blob: BlobId, _bytes: u64) -> Result<()> {
        if self.need.losses == self.need.losses_before {
            self.need.whole.insert(blob.object().key());
        }
        Ok(())
    }
}
