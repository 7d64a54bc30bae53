//! Trees and recipes on their way into the store.

use std::{borrow::Borrow, collections::HashMap};

use super::{Batch, Sink, lock};
use crate::{
    create::later::{Instead, Later},
    error::{Error, Result},
    format::{BLOCK_BYTES_MAX, META_BLOCK_BYTES},
    id::{BlobId, ObjectId, RecipeId, TreeId},
    pack::ObjectKind,
    recipe::{self, ChunkRun, EncodedObject},
    tree::{self, Node, Totals, TreeNode},
};

/// The refusal of an object that is too long for any reader.
fn too_long(encoded: &EncodedObject) -> Error {
    let (what, hint) = match encoded.kind {
        ObjectKind::Tree => (
            "what is kept of the entries in this folder (names, extended attributes, holes, link targets)",
            "take extended attributes away, copy files with very many holes to ones without, or exclude what has them",
        ),
        ObjectKind::Table => ("the table of what was left out", "exclude fewer paths, or a folder that holds many of them"),
        ObjectKind::Record => ("the checkpoint's record, with its message, git and environment", "leave some of that out"),
        _ => ("the list of a file's chunks", "exclude the file"),
    };
    Error::TooLong { what, bytes: encoded.bytes.len(), hint }
}

impl<'a> Batch<'a> {
    /// Takes the recipe of a file that was read. `before` is what the file held before.
    pub fn recipe(&mut self, blob: BlobId, runs: &[ChunkRun], before: Option<BlobId>) -> Result<()> {
        if runs.len() < 2 && runs.iter().all(|run| run.repeat == 1) {
            return Ok(());
        }
        let nodes = before.map_or_else(Vec::new, |before| self.recipe_nodes(before));
        for (number, encoded) in recipe::encode(self.sink.ids(), blob, runs).into_iter().enumerate() {
            let base = match encoded.kind {
                // Who keeps a root has to keep all of its chunks, so that nothing builds on one.
                ObjectKind::RecipeRoot => None,
                _ => nodes.get(number.min(nodes.len().saturating_sub(1))).map(|id| id.object()),
            };
            self.meta(encoded, base)?;
        }
        Ok(())
    }

    /// The nodes right below the root of a recipe that is there; none where it cannot be read.
    fn recipe_nodes(&self, blob: BlobId) -> Vec<RecipeId> {
        let Sink::Store(packs) = self.sink else { return Vec::new() };
        let ids = packs.store.ids();
        let id = ids.recipe_root(blob);
        if !packs.find(id).is_ok_and(|found| found.is_some()) {
            return Vec::new();
        }
        match packs.store.read_object(ObjectKind::RecipeRoot, id, |bytes| recipe::decode_root(ids, blob, bytes)) {
            Ok(recipe::Node::Nodes(nodes)) => nodes.into_iter().map(|(id, _)| id).collect(),
            _ => Vec::new(),
        }
    }

    /// Takes a tree, recipe, record or table. `base` is the object of the same kind that it takes the place of. One that no reader would
    /// take is refused: a checkpoint with it could never be read.
    pub fn meta(&mut self, encoded: EncodedObject, base: Option<ObjectId>) -> Result<()> {
        let packs = match self.sink {
            Sink::Look(_, objects) => {
                lock(objects).insert(encoded.id, encoded.bytes);
                return Ok(());
            }
            Sink::Store(packs) => packs,
        };
        if encoded.bytes.len() > BLOCK_BYTES_MAX {
            return Err(too_long(&encoded));
        }
        if !packs.claim(encoded.id)? {
            return Ok(());
        }
        let EncodedObject { kind, id, bytes, tail_bytes } = encoded;
        if let Some((at, base)) = packs.base(base)? {
            return self.later(at, Later { kind, id, bytes, base, instead: Instead::Meta(tail_bytes) });
        }
        self.put_meta(kind, id, &bytes, tail_bytes)
    }

    pub(super) fn put_meta(&mut self, kind: ObjectKind, id: ObjectId, bytes: &[u8], tail_bytes: usize) -> Result<()> {
        if !self.meta.has_room_for(bytes.len()) {
            self.write(|batch| &mut batch.meta)?;
        }
        self.meta.push(kind, id, bytes, tail_bytes);
        if self.meta.raw_bytes() >= META_BLOCK_BYTES {
            self.write(|batch| &mut batch.meta)?;
        }
        Ok(())
    }

    /// Takes the tree of a folder. `before` is the tree that the folder had.
    pub fn folder<T: Borrow<Node>>(&mut self, entries: &[T], before: Option<TreeId>) -> Result<(TreeId, Totals)> {
        let parts = before.map_or_else(|| Ok(HashMap::new()), |before| self.parts(before))?;
        tree::encode_folder_parts(self.sink.ids(), entries, |encoded, (level, first)| {
            // The root is made of another part where the folder has grown or shrunk past a level.
            let base = parts.get(&(level, first.to_vec())).copied().or(before);
            self.meta(encoded, base.map(TreeId::object))
        })
    }

    /// The nodes of a folder's tree, by their level and the first name that they cover. None of a folder that is not split.
    fn parts(&self, root: TreeId) -> Result<HashMap<(u8, Vec<u8>), TreeId>> {
        let Sink::Store(packs) = self.sink else { return Ok(HashMap::new()) };
        let (mut parts, mut pending) = (HashMap::new(), vec![root]);
        while let Some(tree) = pending.pop() {
            let read = packs.store.read_object(ObjectKind::Tree, tree.object(), |bytes| {
                Ok((bytes.first().copied().unwrap_or_default(), tree::decode(bytes)?))
            });
            match read {
                Ok((level, TreeNode::Inner(children))) => {
                    // Leaves are not read.
                    pending.extend(children.iter().filter(|_| level > 1).map(|child| child.tree));
                    let below = level.saturating_sub(1);
                    parts.extend(children.into_iter().map(|child| ((below, child.first), child.tree)));
                }
                Err(e) if !e.is_damage() => return Err(e),
                _ => {}
            }
        }
        Ok(parts)
    }
}
