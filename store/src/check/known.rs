//! Objects that need not be looked at again, because a checkpoint that was verified before shares them. Two trees are walked in step; below
//! a folder that both have, nothing is read.

use std::collections::{HashMap, HashSet};

use super::reach::{Reach, VisitedTree};
use crate::{
    id::{BlobId, TreeId},
    pack::ObjectKind,
    recipe,
    record::Checkpoint,
    tree::{Kind, Totals, TreeNode},
};

impl Reach<'_> {
    /// Takes everything for whole that a checkpoint has in common with a verified one. What cannot be read here is named when the new
    /// checkpoint is followed.
    pub(super) fn know(&mut self, verified: &Checkpoint, new: &Checkpoint) {
        if let (Some(old), Some(new)) = (verified.record.links, new.record.links) {
            match old == new {
                true => _ = self.whole_blobs.insert(old.blob.object().key()),
                false => self.know_recipe(old.blob),
            }
        }
        let mut pending = vec![(verified.record.root, new.record.root)];
        while let Some((old, new)) = pending.pop() {
            let (Ok(old), Ok(new)) = (self.store.tree_node(old), self.store.tree_node(new)) else { continue };
            match (old, new) {
                (TreeNode::Inner(old), TreeNode::Inner(new)) => {
                    let ids: HashSet<TreeId> = old.iter().map(|child| child.tree).collect();
                    let by_name: HashMap<&[u8], TreeId> = old.iter().map(|child| (child.first.as_slice(), child.tree)).collect();
                    for child in &new {
                        if ids.contains(&child.tree) {
                            self.know_tree(child.tree, child.totals);
                        } else if let Some(old) = by_name.get(child.first.as_slice()) {
                            pending.push((*old, child.tree));
                        }
                    }
                }
                (TreeNode::Leaf(old), TreeNode::Leaf(new)) => {
                    let by_name: HashMap<&[u8], &Kind> = old.iter().map(|node| (node.name.as_slice(), &node.kind)).collect();
                    for node in &new {
                        match (by_name.get(node.name.as_slice()), &node.kind) {
                            (Some(Kind::Folder { tree: old, .. }), Kind::Folder { tree, totals }) if old == tree => {
                                self.know_tree(*tree, *totals);
                            }
                            (Some(Kind::Folder { tree: old, .. }), Kind::Folder { tree, .. }) => pending.push((*old, *tree)),
                            (Some(Kind::File { blob: old, .. }), Kind::File { blob, .. }) if old == blob => {
                                self.whole_blobs.insert(blob.object().key());
                            }
                            (Some(Kind::File { blob: old, .. }), Kind::File { .. }) => self.know_recipe(*old),
                            _ => {}
                        }
                    }
                }
                _ => {}
            }
        }
    }

    fn know_tree(&mut self, tree: TreeId, totals: Totals) {
        self.followed.insert(tree.object().key(), VisitedTree { totals: Some(totals), is_dirty: false, is_counted: false });
    }

    /// The nodes right below a recipe's root: of a file that only grew, all but the last few are in the new recipe, too.
    fn know_recipe(&mut self, blob: BlobId) {
        let ids = self.store.ids();
        let id = ids.recipe_root(blob);
        let Ok(Some(_)) = self.store.view().locate(id) else { return };
        let root = self.store.read_object(ObjectKind::RecipeRoot, id, |bytes| recipe::decode_root(ids, blob, bytes));
        if let Ok(recipe::Node::Nodes(nodes)) = root {
            self.whole_recipes.extend(nodes.into_iter().map(|(id, _)| id.object()));
        }
    }
}
