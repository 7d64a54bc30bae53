//! Paths of checkpoints that damage touches.

use super::{
    Finding,
    reach::{Bad, Reach},
    report::touch,
};
use crate::{
    error::Result,
    graph::{self, GraphContent, GraphPath, RecipePart, Visitor},
    id::{BlobId, ObjectId, TreeId, Ulid},
    pack::ObjectKind,
    progress::Progress,
    recipe,
    record::Checkpoint,
    tree::{self, TreeNode},
};

impl Reach<'_> {
    /// The findings, with the paths that they touch.
    pub(super) fn findings(mut self, checkpoints: &[Checkpoint], progress: &dyn Progress) -> Result<Vec<Finding>> {
        if !self.bad.is_empty() {
            let ids = self.store.ids();
            for checkpoint in checkpoints {
                graph::follow(&mut Touching { reach: &mut self, checkpoint: checkpoint.record.id }, ids, checkpoint, progress)?;
            }
        }
        let finding = |(id, bad): (ObjectId, Bad)| Finding {
            kind: bad.kind,
            message: bad.message,
            pack: bad.pack,
            object: Some(id),
            touches: bad.touches,
            touches_more: bad.touches_more,
        };
        Ok(self.bad.into_iter().map(finding).collect())
    }
}

/// Visits a checkpoint as far as something below is wrong.
struct Touching<'r, 'a> {
    reach: &'r mut Reach<'a>,
    checkpoint: Ulid,
}

impl Touching<'_, '_> {
    fn touch(&mut self, id: ObjectId, place: &GraphPath<'_>) {
        if let Some(bad) = self.reach.bad.get_mut(&id) {
            touch(&mut bad.touches, &mut bad.touches_more, self.checkpoint, place.path);
        }
    }
}

impl Visitor for Touching<'_, '_> {
    type Open = ();

    fn record(&mut self, checkpoint: &Checkpoint, place: &GraphPath<'_>) -> Result<()> {
        self.touch(checkpoint.digest.object(), place);
        Ok(())
    }

    fn object(&mut self, _kind: ObjectKind, id: ObjectId, place: &GraphPath<'_>) -> Result<()> {
        self.touch(id, place);
        Ok(())
    }

    fn tree(&mut self, id: TreeId, _depth: usize, place: &GraphPath<'_>) -> Result<Option<(TreeNode, ())>> {
        let id = id.object();
        if self.reach.followed.get(&id.key()).is_some_and(|followed| !followed.is_dirty) {
            return Ok(None);
        }
        self.touch(id, place);
        let store = self.reach.store;
        let block = store.view().locate(id).ok().flatten().and_then(|location| store.block(location).ok());
        Ok(block.and_then(|block| Some((tree::decode(block.object(id)?).ok()?, ()))))
    }

    /// Everything that is wrong with a blob is known by now.
    fn blob(&mut self, blob: BlobId, _bytes: u64, place: &GraphPath<'_>) -> Result<Option<GraphContent>> {
        for id in self.reach.bad_blobs.get(&blob).cloned().unwrap_or_default() {
            self.touch(id, place);
        }
        Ok(None)
    }

    fn recipe(&mut self, _blob: BlobId, _part: &RecipePart, _place: &GraphPath<'_>) -> Result<Option<(u8, recipe::Node)>> {
        Ok(None)
    }
}
