//! One tree as inodes. An inode number is a base plus the entry's preorder position, and the sums in the tree nodes lead from the top
//! to any position, so nothing is kept per inode: not what the kernel knows, nor what it forgets.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, OnceLock},
};

use fuser::FileAttr;
use parhelia_store::{
    Error, Result, Store,
    id::TreeId,
    links::{Links, LinksFolder, Member},
    name,
    record::Checkpoint,
    tree::{Node, Totals, TreeNode},
};

use crate::tree::{
    attr,
    nodes::{DecodedNode, Lines, TreeNodes, positions_of},
};

/// Levels of one big folder's tree nodes; more is forged.
const LEVELS_MAX: u8 = 10;

/// An entry, and where it stands.
pub struct TreeEntry {
    node: Arc<DecodedNode>,
    index: usize,
    /// Its preorder position; 0 is the top.
    pub position: u64,
    /// The position of the folder that holds it; the top's is its own.
    pub parent: u64,
}

impl TreeEntry {
    /// The node. `None` cannot be: a found entry is one of a leaf's.
    pub fn node(&self) -> Option<&Node> {
        match &self.node.lines {
            Lines::Leaf(nodes) => nodes.get(self.index),
            Lines::Inner(_) => None,
        }
    }

    /// The folder's tree and sums, if it is one.
    pub fn folder(&self) -> Option<(TreeId, &Totals)> {
        self.node().and_then(Node::as_folder)
    }

    /// The first position behind it and all below it.
    pub fn end(&self) -> u64 {
        self.position.saturating_add(self.node().map_or(1, positions_of))
    }
}

/// A tree, shown under inode numbers.
pub struct PreorderTree {
    nodes: Arc<TreeNodes>,
    top: Arc<DecodedNode>,
    base: u64,
    pub(super) checkpoint: Checkpoint,
    /// The position here of the workspace folder, from which the paths of hard links begin.
    pub(super) workspace: u64,
    pub(super) links: OnceLock<Links>,
    /// The folders of the table of hard links that were looked up, by their positions here.
    pub(super) linked_folders: Mutex<HashMap<u64, Option<LinksFolder>>>,
    /// The positions here of the leaders that were looked up.
    pub(super) leaders: Mutex<HashMap<Member, u64>>,
}

impl PreorderTree {
    /// Shows everything below `top`. Inode numbers are `base` plus the position; the workspace folder, in which hard links are, is at the
    /// position `workspace`.
    pub fn new(nodes: Arc<TreeNodes>, top: Node, base: u64, checkpoint: Checkpoint, workspace: u64) -> Self {
        let top = Arc::new(DecodedNode::new(TreeNode::Leaf(vec![top])));
        let (links, linked_folders, leaders) = Default::default();
        PreorderTree { nodes, top, base, checkpoint, workspace, links, linked_folders, leaders }
    }

    /// The checkpoint that it belongs to.
    pub fn checkpoint(&self) -> &Checkpoint {
        &self.checkpoint
    }

    /// The store that its nodes are read from.
    pub fn store(&self) -> &Arc<Store> {
        self.nodes.store()
    }

    /// Keeps decoded nodes within one of so many equal shares of their bytes from now on.
    pub fn share(&self, shares: u64) {
        self.nodes.share(shares);
    }

    /// The folder that the tree begins with, at position 0.
    pub fn top(&self) -> TreeEntry {
        TreeEntry { node: self.top.clone(), index: 0, position: 0, parent: 0 }
    }

    fn bad(&self, tree: TreeId, reason: &str) -> Error {
        let place = self.store().layout().packs();
        Error::Corrupt { what: format!("tree {tree}"), place, reason: reason.into() }
    }

    /// The entry at a position; `None` where there is none. `on_way` is called with the name of each entry that leads there.
    pub fn locate_by(&self, position: u64, on_way: &mut dyn FnMut(&[u8])) -> Result<Option<TreeEntry>> {
        let mut at = self.top();
        while at.position != position {
            if position >= at.end() {
                return Ok(None);
            }
            let Some((tree, _)) = at.folder() else { return Ok(None) };
            let Some(next) = self.step(tree, &at, position)? else { return Ok(None) };
            at = next;
            on_way(at.node().map_or(&[], |node| &node.name));
        }
        Ok(Some(at))
    }

    /// The entry at a position; `None` where there is none.
    pub fn locate(&self, position: u64) -> Result<Option<TreeEntry>> {
        self.locate_by(position, &mut |_| {})
    }

    /// The entry of a folder that is at a position, or above it.
    fn step(&self, tree: TreeId, folder: &TreeEntry, position: u64) -> Result<Option<TreeEntry>> {
        let (mut tree, mut first) = (tree, folder.position.saturating_add(1));
        for _ in 0..LEVELS_MAX {
            let node = self.nodes.get(tree)?;
            let Some(index) = node.covering(position.saturating_sub(first)) else { return Ok(None) };
            first = first.saturating_add(node.starts[index]);
            match &node.lines {
                Lines::Inner(children) => tree = children[index].tree,
                Lines::Leaf(_) => return Ok(Some(TreeEntry { node, index, position: first, parent: folder.position })),
            }
        }
        Err(self.bad(tree, "it is too deep"))
    }

    /// The entry of a folder with this name. Of a big folder, only the nodes on the way are read.
    pub fn child(&self, folder: &TreeEntry, name: &[u8]) -> Result<Option<TreeEntry>> {
        let Some((mut tree, _)) = folder.folder() else { return Ok(None) };
        let mut first = folder.position.saturating_add(1);
        for _ in 0..LEVELS_MAX {
            let node = self.nodes.get(tree)?;
            let index = match &node.lines {
                Lines::Inner(children) => {
                    let Some(index) = children.partition_point(|c| c.first.as_slice() <= name).checked_sub(1) else {
                        return Ok(None);
                    };
                    tree = children[index].tree;
                    index
                }
                Lines::Leaf(nodes) => {
                    let Ok(index) = nodes.binary_search_by(|node| node.name.as_slice().cmp(name)) else { return Ok(None) };
                    let position = first.saturating_add(node.starts[index]);
                    return Ok(Some(TreeEntry { node, index, position, parent: folder.position }));
                }
            };
            first = first.saturating_add(node.starts[index]);
        }
        Err(self.bad(tree, "it is too deep"))
    }

    /// Calls `visit` with the entries of a folder, in order, from the first one at or behind position `from` on, until it answers
    /// false.
    pub fn list(&self, folder: &TreeEntry, from: u64, visit: &mut dyn FnMut(TreeEntry) -> bool) -> Result<()> {
        let Some((tree, _)) = folder.folder() else { return Ok(()) };
        let first = folder.position.saturating_add(1);
        self.list_part(tree, (folder.position, first), from.max(first), LEVELS_MAX, visit).map(drop)
    }

    fn list_part(
        &self,
        tree: TreeId,
        (parent, first): (u64, u64),
        from: u64,
        levels: u8,
        visit: &mut dyn FnMut(TreeEntry) -> bool,
    ) -> Result<bool> {
        if levels == 0 {
            return Err(self.bad(tree, "it is too deep"));
        }
        let node = self.nodes.get(tree)?;
        let Some(start) = node.covering(from.saturating_sub(first)) else { return Ok(true) };
        for index in start..node.starts.len() {
            let position = first.saturating_add(node.starts[index]);
            let goes_on = match &node.lines {
                Lines::Inner(children) => self.list_part(children[index].tree, (parent, position), from, levels - 1, visit)?,
                Lines::Leaf(_) if position < from => true,
                Lines::Leaf(_) => visit(TreeEntry { node: node.clone(), index, position, parent }),
            };
            if !goes_on {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The inode number of the entry at a position that is known to be no hard link.
    pub fn inode_at(&self, position: u64) -> u64 {
        self.base.saturating_add(position)
    }

    /// The position that an inode number stands for.
    pub fn position(&self, ino: u64) -> Option<u64> {
        ino.checked_sub(self.base)
    }

    /// The answer of `stat` about an entry.
    pub fn attr(&self, found: &TreeEntry) -> Result<Option<FileAttr>> {
        let ino = self.inode(found)?;
        Ok(found.node().map(|node| attr::of(node, ino)))
    }

    /// The path of an entry from the top, as people read it.
    pub fn path(&self, position: u64) -> String {
        let mut path = Vec::new();
        let found = self.locate_by(position, &mut |component| path = name::join(&path, component));
        match found {
            Ok(Some(_)) => name::display(&path),
            _ => format!("entry {position}"),
        }
    }
}
