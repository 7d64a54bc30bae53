//! Paths of checkpoints that damage touches.

use std::collections::HashSet;

use super::{
    Finding, Hurt, HurtCheckpoint,
    reach::{Bad, Reach},
    report::{FINDINGS_MAX, touch},
};
use crate::{
    error::Result,
    graph::{self, GraphContent, GraphPath, RecipePart, Visitor},
    id::{BlobId, ObjectId, TreeId},
    name,
    pack::ObjectKind,
    progress::Progress,
    recipe,
    record::Checkpoint,
    tree::{self, TreeNode},
};

/// Everything that was found wrong.
pub(super) struct DamageReport {
    /// One finding for each object, with the first places that it touches.
    pub(super) findings: Vec<Finding>,
    /// The checkpoints that are touched, newest first.
    pub(super) hurt: Vec<HurtCheckpoint>,
}

impl Reach<'_> {
    /// The findings. Each path that they touch is given to `hurt`, of the last checkpoint first; memory holds a few of them for each object
    /// that is reported, and for each checkpoint.
    pub(super) fn findings(
        mut self,
        checkpoints: &[Checkpoint],
        hurt: &mut dyn FnMut(&Hurt) -> Result<()>,
        progress: &dyn Progress,
    ) -> Result<DamageReport> {
        let mut hurt_checkpoints = Vec::new();
        if !self.bad.is_empty() {
            let ids = self.store.ids();
            let reported = self.bad.keys().take(FINDINGS_MAX).copied().collect();
            for checkpoint in checkpoints.iter().rev() {
                let summary = HurtCheckpoint::new(checkpoint);
                let mut touching = DamageVisitor { reach: &mut self, reported: &reported, summary, hurt };
                graph::follow(&mut touching, ids, checkpoint, progress)?;
                if touching.summary.paths > 0 {
                    hurt_checkpoints.push(touching.summary);
                }
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
        Ok(DamageReport { findings: self.bad.into_iter().map(finding).collect(), hurt: hurt_checkpoints })
    }
}

/// Visits a checkpoint as far as something below is wrong.
struct DamageVisitor<'r, 'a> {
    reach: &'r mut Reach<'a>,
    /// The objects whose findings name places.
    reported: &'r HashSet<ObjectId>,
    summary: HurtCheckpoint,
    hurt: &'r mut dyn FnMut(&Hurt) -> Result<()>,
}

impl DamageVisitor<'_, '_> {
    /// Notes that objects are needed at a place, as far as they are bad.
    fn touch(&mut self, ids: &[ObjectId], place: &GraphPath<'_>) -> Result<()> {
        let checkpoint = self.summary.checkpoint;
        let mut found: Option<Hurt> = None;
        for id in ids {
            let Some(bad) = self.reach.bad.get_mut(id) else { continue };
            match self.reported.contains(id) {
                true => touch(&mut bad.touches, &mut bad.touches_more, checkpoint, place.path),
                false => bad.touches_more += 1,
            }
            let new = || Hurt { checkpoint, path: name::display(place.path), objects: Vec::new(), error: bad.message.clone() };
            found.get_or_insert_with(new).objects.push(*id);
        }
        let Some(found) = found else { return Ok(()) };
        self.summary.count(&found.path);
        (self.hurt)(&found)
    }
}

impl Visitor for DamageVisitor<'_, '_> {
    type Open = ();

    fn record(&mut self, checkpoint: &Checkpoint, place: &GraphPath<'_>) -> Result<()> {
        self.touch(&[checkpoint.digest.object()], place)
    }

    fn object(&mut self, _kind: ObjectKind, id: ObjectId, place: &GraphPath<'_>) -> Result<()> {
        self.touch(&[id], place)
    }

    fn tree(&mut self, id: TreeId, _depth: usize, place: &GraphPath<'_>) -> Result<Option<(TreeNode, ())>> {
        let id = id.object();
        if self.reach.followed.get(&id.key()).is_some_and(|followed| !followed.is_dirty) {
            return Ok(None);
        }
        self.touch(&[id], place)?;
        let store = self.reach.store;
        let block = store.view().locate(id).ok().flatten().and_then(|location| store.block(location).ok());
        Ok(block.and_then(|block| Some((tree::decode(block.object(id)?).ok()?, ()))))
    }

    /// Everything that is wrong with a blob is known by now.
    fn blob(&mut self, blob: BlobId, _bytes: u64, place: &GraphPath<'_>) -> Result<Option<GraphContent>> {
        let bad = self.reach.bad_blobs.get(&blob).cloned().unwrap_or_default();
        self.touch(&bad, place)?;
        Ok(None)
    }

    fn recipe(&mut self, _blob: BlobId, _part: &RecipePart, _place: &GraphPath<'_>) -> Result<Option<(u8, recipe::Node)>> {
        Ok(None)
    }
}
