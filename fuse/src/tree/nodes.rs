//! Decoded tree nodes, each with the preorder positions of its lines relative to its first entry. As a tree node is the same wherever
//! it stands, so are these, and one cache serves every checkpoint that is shown.

use std::sync::Arc;

use parhelia_store::{
    Result, Store,
    id::TreeId,
    tree::{Child, Kind, Node, TreeNode},
};
use quick_cache::{Weighter, sync::Cache};

use crate::caches::{by_bytes, share_of};

/// The lines of a tree node.
pub enum Lines {
    /// Entries of a folder.
    Leaf(Vec<Node>),
    /// Lower nodes of a big folder.
    Inner(Vec<Child>),
}

/// A decoded tree node.
pub struct DecodedNode {
    /// Entries, or lower nodes, in order of names.
    pub lines: Lines,
    /// For each line, how many positions lie between the first entry and it.
    pub starts: Vec<u64>,
    /// The number of positions that it covers.
    pub positions: u64,
    bytes: u64,
}

/// Positions that an entry takes: its own, and those of all below it.
pub fn positions_of(node: &Node) -> u64 {
    match &node.kind {
        Kind::Folder { totals, .. } => totals.entries.saturating_add(1),
        _ => 1,
    }
}

impl DecodedNode {
    /// Adds up the positions of a node's lines.
    pub fn new(node: TreeNode) -> Self {
        let mut starts = Vec::new();
        // Sums saturate: only a forged tree has more entries than that, and must not stop the mount.
        let mut positions = 0u64;
        let mut bytes = size_of::<DecodedNode>();
        let lines = match node {
            TreeNode::Leaf(nodes) => {
                for node in &nodes {
                    starts.push(positions);
                    positions = positions.saturating_add(positions_of(node));
                    bytes += node_bytes(node);
                }
                Lines::Leaf(nodes)
            }
            TreeNode::Inner(children) => {
                for child in &children {
                    starts.push(positions);
                    positions = positions.saturating_add(child.totals.entries);
                    bytes += size_of::<Child>() + child.first.len() + 24;
                }
                Lines::Inner(children)
            }
        };
        DecodedNode { lines, starts, positions, bytes: bytes as u64 }
    }

    /// The line that covers a relative position.
    pub fn covering(&self, position: u64) -> Option<usize> {
        if position >= self.positions {
            return None;
        }
        self.starts.partition_point(|start| *start <= position).checked_sub(1)
    }
}

fn node_bytes(node: &Node) -> usize {
    let xattrs: usize = node.meta.xattrs.iter().map(|(name, value)| name.len() + value.len() + 48).sum();
    let kind = match &node.kind {
        Kind::File { holes, .. } => holes.len() * 16,
        Kind::Symlink { target } => target.len(),
        _ => 0,
    };
    size_of::<Node>() + node.name.len() + xattrs + kind + 32
}

#[derive(Clone)]
struct Weight;

impl Weighter<TreeId, Arc<DecodedNode>> for Weight {
    fn weight(&self, _: &TreeId, node: &Arc<DecodedNode>) -> u64 {
        node.bytes
    }
}

/// Decoded tree nodes of one store, within a bound of bytes.
pub struct TreeNodes {
    store: Arc<Store>,
    bytes: u64,
    cache: Cache<TreeId, Arc<DecodedNode>, Weight>,
}

impl TreeNodes {
    /// A cache of at most `bytes`.
    pub fn new(store: Arc<Store>, bytes: u64) -> Self {
        TreeNodes { store, bytes, cache: by_bytes(4096, bytes, Weight) }
    }

    /// Keeps within one of so many equal shares of the bytes from now on.
    pub fn share(&self, shares: u64) {
        self.cache.set_capacity(share_of(self.bytes, shares));
    }

    /// The store that nodes are read from.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// A tree node, from the cache or from the store.
    pub fn get(&self, tree: TreeId) -> Result<Arc<DecodedNode>> {
        self.cache.get_or_insert_with(&tree, || Ok(Arc::new(DecodedNode::new(self.store.tree_node(tree)?))))
    }
}
