//! A visit of everything that a checkpoint reaches.

use super::{Reach, Sums, VisitedTree};
use crate::{
    check::{FindingKind, structure::describe},
    error::{Error, Result},
    graph::{GraphContent, GraphPath, Item, RecipePart, Visitor},
    id::{BlobId, ObjectId, TreeId},
    omitted,
    pack::ObjectKind,
    recipe,
    record::Checkpoint,
    tree::{DEPTH_MAX, Kind, TreeNode},
};

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
            self.followed.insert(id.object().key(), VisitedTree { totals: None, is_dirty: true, is_counted: false });
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
        self.count_unreached(id.key(), claimed.bytes);
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
        self.followed
            .insert(id.object().key(), VisitedTree { totals: Some(sums.totals), is_dirty: sums.is_dirty, is_counted: false });
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
        let reads = self.wrong.is_empty() && self.reads(blob, bytes);
        let sum = if reads { &mut self.read_bytes } else { &mut self.unread_bytes };
        *sum = sum.saturating_add(bytes);
        if reads {
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
