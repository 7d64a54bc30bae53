//! Following references: from checkpoints to everything that they need.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use crate::{
    codec::DecodeError,
    error::{Error, Result},
    graph::{self, GraphContent, GraphPath, RecipePart, Visitor},
    id::{BlobId, ObjectId, ObjectKey, TreeId},
    keys::Ids,
    pack::ObjectKind,
    progress::Progress,
    recipe,
    record::Checkpoint,
    store::Store,
    tree::TreeNode,
    view::View,
};

/// Mark of a live object.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark(u32);

const COPIED: u32 = 1 << 31;
const SEEN: u32 = 1 << 30;
/// It is needed as it is, and not what it refers to.
const BASE_ALONE: u32 = 1 << 29;
const NOWHERE: u32 = BASE_ALONE - 1;

impl Mark {
    /// The number of the pack in which the index finds it.
    pub(super) fn home(self) -> Option<usize> {
        let home = self.0 & NOWHERE;
        (home != NOWHERE).then_some(home as usize)
    }

    /// Sets the home, unless there is one.
    pub(super) fn set_home(&mut self, pack: usize) {
        if self.home().is_none() {
            self.0 = self.0 & !NOWHERE | pack as u32;
        }
    }

    /// Notes that it was found in its home's directories; false if it had been before.
    pub(super) fn see(&mut self) -> bool {
        let first = self.0 & SEEN == 0;
        self.0 |= SEEN;
        first
    }

    /// True if it was found in its home's directories.
    pub(super) fn is_seen(self) -> bool {
        self.0 & SEEN != 0
    }

    /// Notes that no copy of it is kept.
    pub(super) fn forget_copy(&mut self) {
        self.0 &= !COPIED;
    }

    /// Notes that it was copied; false if it had been before.
    pub(super) fn copy(&mut self) -> bool {
        let first = self.0 & COPIED == 0;
        self.0 |= COPIED;
        first
    }
}

/// Collects what lives. Its memory grows with the number of live objects, some 30 bytes for each.
pub(super) struct Marker<'a> {
    store: &'a Store,
    pub(super) view: Arc<View>,
    pub(super) live: HashMap<ObjectKey, Mark>,
    /// Of these, the sealed records of checkpoints.
    records: HashSet<ObjectKey>,
    /// Objects that were added while `notes_fresh` was set, and others that must stay where they are.
    pub(super) fresh: Vec<ObjectKey>,
    pub(super) notes_fresh: bool,
}

impl<'a> Marker<'a> {
    pub(super) fn new(store: &'a Store, view: Arc<View>) -> Self {
        Marker { store, view, live: HashMap::new(), records: HashSet::new(), fresh: Vec::new(), notes_fresh: false }
    }

    fn add(&mut self, id: ObjectId) -> bool {
        let key = id.key();
        let mut is_new = false;
        let mark = self.live.entry(key).or_insert_with(|| {
            is_new = true;
            Mark(NOWHERE)
        });
        // Of what was only built upon, nothing was followed.
        is_new |= mark.0 & BASE_ALONE != 0;
        mark.0 &= !BASE_ALONE;
        if is_new && self.notes_fresh {
            self.fresh.push(key);
        }
        is_new
    }

    /// Marks what something that lives builds on: a tree, a recipe's node or a chunk, and nothing that it refers to. False if it had been
    /// marked before.
    pub(super) fn base(&mut self, id: ObjectId) -> bool {
        let mut is_new = false;
        self.live.entry(id.key()).or_insert_with(|| {
            is_new = true;
            Mark(NOWHERE | BASE_ALONE)
        });
        is_new
    }

    /// Takes the marks off sealed records that no pack has: the journal has them as well, and nothing reads them here.
    pub(super) fn pass_over_lost_records(&mut self) {
        let records = &self.records;
        self.live.retain(|key, mark| mark.home().is_some() || !records.contains(key));
    }

    /// Notes that nothing is copied so far.
    pub(super) fn forget_copies(&mut self) {
        self.live.values_mut().for_each(Mark::forget_copy);
    }

    /// True if an object lives by itself, and not only because others build on it.
    pub(super) fn lives(&self, key: &ObjectKey) -> bool {
        self.live.get(key).is_some_and(|mark| mark.0 & BASE_ALONE == 0)
    }

    /// Marks everything that a checkpoint needs.
    pub(super) fn checkpoint(&mut self, checkpoint: &Checkpoint, progress: &dyn Progress) -> Result<()> {
        graph::follow(self, self.store.ids(), checkpoint, progress)
    }

    /// As [`Marker::checkpoint`], for a deleted checkpoint that is pinned. False where parts of it are gone already: then it was pinned
    /// too late, as its holder is about to see, and nothing stays marked for it.
    pub(super) fn deleted_checkpoint(&mut self, checkpoint: &Checkpoint, progress: &dyn Progress) -> Result<bool> {
        self.notes_fresh = true;
        let marked = self.checkpoint(checkpoint, progress);
        self.notes_fresh = false;
        let fresh = std::mem::take(&mut self.fresh);
        let is_whole = match marked {
            Ok(()) => fresh.iter().try_fold(true, |whole, key| Ok::<_, Error>(whole && self.view.locate_key(key)?.is_some()))?,
            Err(Error::Missing { .. }) => false,
            Err(e) => return Err(e),
        };
        if !is_whole {
            fresh.iter().for_each(|key| {
                self.live.remove(key);
            });
        }
        Ok(is_whole)
    }

    /// Marks a blob's recipe and everything in it.
    pub(super) fn recipe_of(&mut self, blob: BlobId) -> Result<()> {
        let place = GraphPath { path: b"", offset: 0, bytes: 0 };
        graph::follow_recipe(self, self.store.ids(), blob, &place)
    }
}

impl Visitor for Marker<'_> {
    type Open = ();

    fn record(&mut self, checkpoint: &Checkpoint, _place: &GraphPath<'_>) -> Result<()> {
        self.add(checkpoint.digest.object());
        self.records.insert(checkpoint.digest.object().key());
        Ok(())
    }

    fn object(&mut self, _kind: ObjectKind, id: ObjectId, _place: &GraphPath<'_>) -> Result<()> {
        self.add(id);
        Ok(())
    }

    fn tree(&mut self, id: TreeId, _depth: usize, _place: &GraphPath<'_>) -> Result<Option<(TreeNode, ())>> {
        self.add(id.object()).then(|| Ok((self.store.tree_node(id)?, ()))).transpose()
    }

    /// Everything that a reader of this blob may read. Where there are both, that is its recipe and the chunk of the same id: readers prefer the
    /// chunk, and may have found it already.
    fn blob(&mut self, blob: BlobId, bytes: u64, _place: &GraphPath<'_>) -> Result<Option<GraphContent>> {
        if bytes <= u64::from(self.store.config().chunking.bytes_max) {
            let has_recipe = self.view.locate(self.store.ids().recipe_root(blob))?.is_some();
            if !has_recipe {
                return Ok(Some(GraphContent::Chunk));
            }
            if self.view.locate(blob.object())?.is_some() {
                self.add(blob.object());
            }
        }
        Ok(Some(GraphContent::Recipe))
    }

    fn progress_bytes(&self, _bytes: u64) -> Option<u64> {
        Some(0)
    }

    fn recipe(&mut self, blob: BlobId, part: &RecipePart, _place: &GraphPath<'_>) -> Result<Option<(u8, recipe::Node)>> {
        let read = |bytes: &[u8]| part.decode(self.store.ids(), blob, bytes);
        match self.add(part.id) {
            true => self.store.read_object(part.kind, part.id, read).map(Some),
            false => Ok(None),
        }
    }
}

/// The blob whose recipe's root these bytes are, and the root itself.
pub(crate) fn read_recipe_root(ids: &Ids, bytes: &[u8]) -> Result<(BlobId, recipe::Node), DecodeError> {
    let blob = BlobId(*bytes.first_chunk().ok_or(DecodeError("recipe"))?);
    Ok((blob, recipe::decode_root(ids, blob, bytes)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_keeps_its_first_home_and_what_is_noted_once() {
        let mut mark = Mark(NOWHERE);
        assert_eq!((mark.home(), mark.is_seen()), (None, false));
        mark.set_home(3);
        mark.set_home(4);
        assert_eq!(mark.home(), Some(3));
        assert_eq!((mark.see(), mark.is_seen(), mark.see()), (true, true, false));
        assert_eq!((mark.copy(), mark.copy()), (true, false));
        assert_eq!((mark.home(), mark.is_seen()), (Some(3), true));
        let mut other = Mark(NOWHERE);
        assert!(other.copy() && !other.is_seen() && other.see() && !other.copy());
        other.set_home(0);
        assert_eq!(other.home(), Some(0));
    }
}
