//! Entries of an archive, in the order in which they make trees.

use std::collections::BTreeMap;

use crate::{
    create::sink::Batch,
    error::Result,
    id::TreeId,
    links::LinkedFolder,
    name,
    tree::{self, Kind, Meta, Node, Totals},
};

/// An entry on its way into a tree. Folders are encoded when all members were read, because members come in any order.
pub(super) struct Item {
    pub(super) node: Node,
    /// The folder that it is in; the root's is the root itself.
    pub(super) folder: usize,
    pub(super) children: Option<BTreeMap<Vec<u8>, usize>>,
    pub(super) group: Option<usize>,
}

pub(super) struct Items {
    pub(super) items: Vec<Item>,
    pub(super) groups: usize,
    /// Memory that they take, about.
    pub(super) bytes: u64,
}

/// Memory that an entry takes until all are there, about: its name is a key of its folder as well.
fn kept_bytes(node: &Node) -> u64 {
    let xattrs: usize = node.meta.xattrs.iter().map(|(name, value)| name.len() + value.len() + size_of::<tree::Xattr>()).sum();
    let content = match &node.kind {
        Kind::File { holes, .. } => size_of_val(holes.as_slice()),
        Kind::Symlink { target } => target.len(),
        _ => 0,
    };
    (size_of::<Item>() + 2 * node.name.len() + size_of::<(Vec<u8>, usize)>() + xattrs + content) as u64
}

pub(super) fn folder_node(name: &[u8], meta: Meta) -> Node {
    let kind = Kind::Folder { tree: TreeId([0; 32]), totals: Totals::default() };
    Node { name: name.to_vec(), meta, links: 1, kind }
}

impl Items {
    pub(super) fn new() -> Self {
        let node = folder_node(b"workspace", Meta { mode: 0o755, ..Meta::default() });
        Items { items: vec![Item { node, folder: 0, children: Some(BTreeMap::new()), group: None }], groups: 0, bytes: 0 }
    }

    pub(super) fn path(&self, mut at: usize) -> Vec<u8> {
        let mut parts = Vec::new();
        while at != 0 {
            parts.push(self.items[at].node.name.as_slice());
            at = self.items[at].folder;
        }
        parts.reverse();
        if parts.is_empty() { b".".to_vec() } else { parts.join(&b'/') }
    }

    pub(super) fn find(&self, path: &[u8]) -> Option<usize> {
        name::components(path).try_fold(0, |at, part| self.items[at].children.as_ref()?.get(part).copied())
    }

    /// Puts an entry at a path; folders that no member has named yet are made on the way. A later member replaces an earlier one.
    /// `None` where something that is no folder is on the way.
    pub(super) fn put(&mut self, path: &[u8], node: Node, group: Option<usize>) -> Option<()> {
        let parts: Vec<&[u8]> = name::components(path).collect();
        let Some((last, folders)) = parts.split_last() else {
            self.items[0].node.meta = node.meta;
            return Some(());
        };
        let mut at = 0;
        for part in folders {
            let next = match self.items[at].children.as_ref().and_then(|c| c.get(*part)) {
                Some(next) => *next,
                None => self.add(at, folder_node(part, Meta { mode: 0o755, ..Meta::default() }), None),
            };
            self.items[next].children.as_ref()?;
            at = next;
        }
        let existing = self.items[at].children.as_ref().and_then(|c| c.get(*last)).copied();
        match existing {
            Some(old) if self.items[old].children.is_some() && node.as_folder().is_some() => {
                self.items[old].node.meta = node.meta;
            }
            _ => {
                self.add(at, Node { name: last.to_vec(), ..node }, group);
            }
        }
        Some(())
    }

    fn add(&mut self, folder: usize, node: Node, group: Option<usize>) -> usize {
        let index = self.items.len();
        let name = node.name.clone();
        let children = node.as_folder().is_some().then(BTreeMap::new);
        self.bytes = self.bytes.saturating_add(kept_bytes(&node));
        self.items.push(Item { node, folder, children, group });
        if let Some(siblings) = &mut self.items[folder].children {
            siblings.insert(name, index);
        }
        index
    }

    /// Encodes all folders, the deepest first, and lists the hard-linked entries in the order of a walk.
    pub(super) fn encode(mut self, batch: &mut Batch<'_>) -> Result<(Node, Vec<LinkedFolder>)> {
        // Children come behind their folder in this order, so that it can be taken from its end.
        let mut preorder = Vec::with_capacity(self.items.len());
        let mut links = Vec::new();
        let mut stack = vec![(0, 0)];
        while let Some((at, depth)) = stack.pop() {
            preorder.push(at);
            let Some(children) = &self.items[at].children else { continue };
            stack.extend(children.values().rev().map(|child| (*child, depth + 1)));
            let mut linked = LinkedFolder::new(depth, &self.items[at].node.name);
            for (name, child) in children {
                if let Some(group) = self.items[*child].group {
                    linked.push(name, (0, group as u64));
                }
            }
            links.push(linked);
        }
        for at in preorder.iter().rev() {
            let Some(children) = self.items[*at].children.take() else { continue };
            let entries: Vec<Node> = children.values().map(|child| self.items[*child].node.clone()).collect();
            let (tree, totals) = batch.folder(&entries, None).map_err(|e| e.at(&self.path(*at)))?;
            self.items[*at].node.kind = Kind::Folder { tree, totals };
        }
        let root = self.items.swap_remove(0).node;
        Ok((root, links))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::BlobId;
    use crate::tree::Hole;

    #[test]
    fn an_entry_takes_the_memory_of_all_that_it_holds() {
        let file = |holes| Kind::File { size: 9, blob: BlobId([0; 32]), holes };
        let node = |name: &str, xattrs: &[(&str, &str)], kind| {
            let xattrs = xattrs.iter().map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec())).collect();
            kept_bytes(&Node { name: name.into(), meta: Meta { xattrs, ..Meta::default() }, links: 1, kind })
        };
        let least = (size_of::<Item>() + size_of::<(Vec<u8>, usize)>()) as u64;
        assert_eq!(node("", &[], Kind::Fifo), least);
        assert_eq!(node("12345", &[], file(Vec::new())), least + 10);
        assert_eq!(node("1", &[], file(vec![Hole { start: 1, bytes: 1 }; 3])), least + 2 + 3 * size_of::<Hole>() as u64);
        assert_eq!(node("1", &[], Kind::Symlink { target: b"1234567".to_vec() }), least + 2 + 7);
        let xattr = size_of::<tree::Xattr>() as u64;
        assert_eq!(node("1", &[("a", "1234"), ("bcd", "")], Kind::Fifo), least + 2 + 8 + 2 * xattr);
    }
}
