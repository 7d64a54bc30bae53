//! The checkpoints of a mounted store that are looked at: open, and pinned.

use std::sync::{Arc, Mutex};

use parhelia_store::{
    Error, Result,
    pin::Pin,
    record::Checkpoint,
    tree::{Kind, Meta, Node, Time, Totals, TreeNode, WORKSPACE_FOLDER},
};

use super::{StoreFilesystem, inode::Inode, locked};
use crate::{
    fault::Fault,
    tree::{
        nodes::positions_of,
        preorder::{PreorderTree, TreeEntry},
    },
};

/// A checkpoint whose tree is looked at. It is pinned as long as anything reads it.
pub(super) struct Open {
    pub(super) tree: PreorderTree,
    _pin: Mutex<Option<Pin>>,
}

impl StoreFilesystem {
    /// A checkpoint's tree, pinned.
    pub(super) fn opened(&self, number: u64) -> Result<Arc<Open>, Fault> {
        if let Some(open) = locked(&self.open).get(&number) {
            return Ok(open.clone());
        }
        let id = self.fresh()?.checkpoint(number).ok_or(Fault::Stale)?.record.id;
        let pin = self.store.pin_for_reading([id], "mount", |_| {});
        // Whether it is still there counts once it is pinned.
        let checkpoint = self.fresh()?.checkpoint(number).ok_or(Fault::Stale)?.clone();
        let tree = self.tree(number, checkpoint)?;
        let opened = Arc::new(Open { tree, _pin: Mutex::new(pin) });
        let mut open = locked(&self.open);
        if let Some(other) = open.get(&number) {
            return Ok(other.clone());
        }
        let evicted = open.push(number, opened.clone());
        drop(open);
        drop(evicted);
        Ok(opened)
    }

    /// A checkpoint's root tree, with the folder that stands for it on top.
    fn tree(&self, number: u64, checkpoint: Checkpoint) -> Result<PreorderTree> {
        let root = checkpoint.record.root;
        let TreeNode::Leaf(nodes) = self.store.tree_node(root)? else {
            let place = self.store.layout().packs();
            return Err(Error::Corrupt { what: format!("tree {root}"), place, reason: "it is no root".into() });
        };
        let (mut totals, mut workspace, mut position) = (Totals::default(), 0, 1u64);
        for node in &nodes {
            if node.name == WORKSPACE_FOLDER.as_bytes() {
                workspace = position;
            }
            totals.add(node);
            position = position.saturating_add(positions_of(node));
        }
        let created = checkpoint.record.created_at;
        let mtime = Time { secs: created.as_second(), nanos: created.subsec_nanosecond().unsigned_abs() };
        let (uid, gid) = self.owner;
        let meta = Meta { mode: 0o555, uid, gid, mtime, xattrs: Vec::new() };
        let top = Node { name: checkpoint.id().into_bytes(), meta, links: 1, kind: Kind::Folder { tree: root, totals } };
        let base = Inode::Entry(number, 0).number();
        Ok(PreorderTree::new(self.nodes.clone(), top, base, checkpoint, workspace))
    }

    /// An entry inside a checkpoint.
    pub(super) fn found(&self, number: u64, position: u64) -> Result<(Arc<Open>, TreeEntry), Fault> {
        let open = self.opened(number)?;
        let found = open.tree.locate(position)?.ok_or(Fault::Stale)?;
        Ok((open, found))
    }

    /// The entry that an inode number of a checkpoint's tree stands for; anything else is no file.
    pub(super) fn entry(&self, ino: u64) -> Result<(Arc<Open>, TreeEntry), Fault> {
        match Inode::from_number(ino) {
            Some(Inode::Entry(number, position)) => self.found(number, position),
            Some(_) => Err(Fault::Invalid),
            None => Err(Fault::Stale),
        }
    }
}
