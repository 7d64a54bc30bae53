//! Reading trees: a folder's entries, one entry by name or path, and everything below a folder in preorder.

use super::{Child, Kind, Node, TreeNode};
use crate::{
    error::{Error, Result},
    id::TreeId,
    name,
    pack::ObjectKind,
    record::Checkpoint,
    store::Store,
};

/// A tree that nests deeper than this is not followed: no filesystem holds one, only a forged one does.
pub const DEPTH_MAX: usize = 65_536;

/// Sources of tree nodes: a store, or a folder that was only looked at.
pub trait Trees: Sync {
    /// Reads a tree node.
    fn tree_node(&self, id: TreeId) -> Result<TreeNode>;
}

impl Trees for Store {
    fn tree_node(&self, id: TreeId) -> Result<TreeNode> {
        Store::tree_node(self, id)
    }
}

/// Receives an entry's path from the folder, its preorder position and its node; says whether to go on below it.
pub type Visit<'a> = dyn FnMut(&[u8], u64, &Node) -> Result<bool> + 'a;

impl Store {
    /// Reads a tree node.
    pub fn tree_node(&self, id: TreeId) -> Result<TreeNode> {
        self.read_object(ObjectKind::Tree, id.object(), super::decode)
    }

    /// All entries of a folder, ordered by name.
    pub fn folder(&self, tree: TreeId) -> Result<Vec<Node>> {
        match self.levelled(tree)? {
            (_, TreeNode::Leaf(nodes)) => Ok(nodes),
            (level, TreeNode::Inner(children)) => {
                let mut nodes = Vec::new();
                self.append_leaves(&children, level, &mut nodes)?;
                Ok(nodes)
            }
        }
    }

    fn append_leaves(&self, children: &[Child], level: u8, nodes: &mut Vec<Node>) -> Result<()> {
        for child in children {
            let (lower, node) = self.levelled(child.tree)?;
            if lower.checked_add(1) != Some(level) {
                return Err(self.bad_tree(child.tree, "its level is not one less than that of the node above"));
            }
            match node {
                // A name that stood in two leaves would be in the folder twice.
                TreeNode::Leaf(leaf)
                    if leaf.first().is_none_or(|first| nodes.last().is_some_and(|last| last.name >= first.name)) =>
                {
                    return Err(self.bad_tree(child.tree, "its names do not continue those before"));
                }
                TreeNode::Leaf(leaf) => nodes.extend(leaf),
                TreeNode::Inner(below) => self.append_leaves(&below, lower, nodes)?,
            }
        }
        Ok(())
    }

    /// Reads a tree node with its level.
    fn levelled(&self, tree: TreeId) -> Result<(u8, TreeNode)> {
        let read = |bytes: &[u8]| Ok((bytes.first().copied().unwrap_or_default(), super::decode(bytes)?));
        self.read_object(ObjectKind::Tree, tree.object(), read)
    }

    fn bad_tree(&self, tree: TreeId, reason: &str) -> Error {
        Error::Corrupt { what: format!("tree {tree}"), place: self.layout().packs(), reason: reason.into() }
    }

    /// The entry of a folder with this name. Of a big folder, only the nodes on the way are read.
    pub fn entry(&self, tree: TreeId, name: &[u8]) -> Result<Option<Node>> {
        let mut tree = tree;
        for _ in 0..10 {
            match self.tree_node(tree)? {
                TreeNode::Leaf(mut nodes) => {
                    let found = nodes.binary_search_by(|node| node.name.as_slice().cmp(name)).ok();
                    return Ok(found.map(|i| nodes.swap_remove(i)));
                }
                TreeNode::Inner(children) => match children.partition_point(|c| c.first.as_slice() <= name) {
                    0 => return Ok(None),
                    i => tree = children[i - 1].tree,
                },
            }
        }
        Err(self.bad_tree(tree, "it is too deep"))
    }

    /// The node of a checkpoint's `workspace` folder; its name is `workspace`.
    pub fn workspace_node(&self, checkpoint: &Checkpoint) -> Result<Node> {
        self.entry(checkpoint.record.root, b"workspace")?
            .filter(|node| node.as_folder().is_some())
            .ok_or_else(|| self.bad_tree(checkpoint.record.root, "it has no workspace folder"))
    }

    /// The tree of a checkpoint's workspace; none where it is damaged, which says nothing of its content.
    pub fn content_of(&self, checkpoint: &Checkpoint) -> Result<Option<TreeId>> {
        match self.workspace_node(checkpoint) {
            Ok(node) => Ok(node.as_folder().map(|(tree, _)| tree)),
            Err(e) if e.is_damage() => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// The node at a path inside a checkpoint's workspace; the workspace folder itself for an empty path.
    pub fn node_at(&self, checkpoint: &Checkpoint, path: &[u8]) -> Result<Node> {
        let mut node = self.workspace_node(checkpoint)?;
        for part in name::components(path) {
            let next = match node.as_folder() {
                Some((tree, _)) => self.entry(tree, part)?,
                None => None,
            };
            node = next.ok_or_else(|| Error::NoSuchPath { path: name::display(path), checkpoint: checkpoint.id() })?;
        }
        Ok(node)
    }

    /// Calls `visit` with everything below a folder, in preorder: path from the folder, preorder position (the folder itself is 0)
    /// and node. Where `visit` answers false for a folder, what is in it is passed over.
    pub fn walk(&self, tree: TreeId, visit: &mut Visit<'_>) -> Result<()> {
        // An explicit stack: a hostile tree must not overflow the program's.
        let mut path: Vec<u8> = Vec::new();
        let mut position = 0u64;
        let mut stack = vec![(self.folder(tree)?.into_iter(), 0usize)];
        while let Some((entries, path_bytes)) = stack.last_mut() {
            let Some(node) = entries.next() else {
                stack.pop();
                continue;
            };
            path.truncate(*path_bytes);
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(&node.name);
            position = position.saturating_add(1);
            let descend = visit(&path, position, &node)?;
            if let Kind::Folder { tree, totals } = &node.kind {
                if descend {
                    if stack.len() >= DEPTH_MAX {
                        return Err(self.bad_tree(*tree, "folders nest too deep").at(&path));
                    }
                    let entries = self.folder(*tree).map_err(|e| e.at(&path))?;
                    stack.push((entries.into_iter(), path.len()));
                } else {
                    position = position.saturating_add(totals.entries);
                }
            }
        }
        Ok(())
    }
}
