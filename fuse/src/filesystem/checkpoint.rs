//! One checkpoint's workspace, or a folder of it, as a filesystem. Inode numbers are 1 plus the preorder position in the workspace:
//! the same in every mount of the checkpoint, of a part of it too.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use parhelia_store::{
    Error, Result, Store, name,
    pin::Pin,
    record::Checkpoint,
    tree::{Totals, features},
};

use crate::{
    content::Content,
    fault::Fault,
    filesystem::{EntryReply, FOREVER, Line, Needs, ReadOnlyFilesystem, Space, entry},
    readahead::{Entry, Next, Readahead, Scope, Source},
    tree::{
        nodes::TreeNodes,
        preorder::{PreorderTree, TreeEntry},
    },
};

/// The inode number that the kernel gives the root of every FUSE filesystem.
const ROOT: u64 = 1;

/// One checkpoint's tree.
pub struct CheckpointFilesystem {
    tree: PreorderTree,
    content: Content,
    /// The position of the folder that is the filesystem's root.
    root: u64,
    totals: Totals,
    acls: bool,
    _pin: Mutex<Option<Pin>>,
}

impl CheckpointFilesystem {
    /// Shows the folder at `path` of the checkpoint's workspace. The pin, if one could be had, is on the checkpoint, and held as
    /// long as it is shown.
    pub fn new(
        store: &Arc<Store>,
        checkpoint: Checkpoint,
        path: &[u8],
        tree_cache_bytes: u64,
        acls: bool,
        pin: Option<Pin>,
        readahead: Arc<Readahead>,
    ) -> Result<Self> {
        let parts = Arc::new(TreeNodes::new(store.clone(), tree_cache_bytes));
        let node = store.workspace_node(&checkpoint)?;
        let id = checkpoint.id();
        let tree = PreorderTree::new(parts, node, ROOT, checkpoint, 0);
        let mut root = tree.top();
        for part in name::components(path) {
            let next = tree.child(&root, part)?;
            root = next.ok_or_else(|| Error::NoSuchPath { path: name::display(path), checkpoint: id.clone() })?;
        }
        let Some((_, totals)) = root.folder() else {
            let path = name::display(path);
            return Err(Error::Invalid(format!("{path} in checkpoint {id} is not a folder; mount the folder that holds it")));
        };
        let mut totals = *totals;
        if root.node().is_some_and(|node| !node.meta.xattrs.is_empty()) {
            totals.features |= features::XATTR;
        }
        let root = root.position;
        Ok(CheckpointFilesystem {
            tree,
            content: Content::new(store.clone(), readahead),
            root,
            totals,
            acls,
            _pin: Mutex::new(pin),
        })
    }

    fn found(&self, ino: u64) -> Result<TreeEntry, Fault> {
        let position = if ino == ROOT { Some(self.root) } else { self.tree.position(ino) };
        let found = position.map(|position| self.tree.locate(position)).transpose()?;
        found.flatten().ok_or(Fault::Stale)
    }

    fn parent(&self, found: &TreeEntry) -> Result<EntryReply, Fault> {
        let position = if found.position == self.root { self.root } else { found.parent };
        let parent = self.tree.locate(position)?.ok_or(Fault::Stale)?;
        entry::shown(&self.tree, &parent)
    }
}

impl Source for CheckpointFilesystem {
    fn read(&self, ino: u64, offset: u64, bytes: u64, take: &mut dyn FnMut(&[u8])) -> Result<(), Fault> {
        entry::read(&self.content, &self.found(ino)?, offset, bytes, take)
    }

    fn entries(&self, ino: u64, scope: Scope, visit: &mut dyn FnMut(Entry) -> Next) -> Result<(), Fault> {
        entry::entries(&self.tree, &self.found(ino)?, scope, visit)
    }

    fn prefetch(&self, ino: u64) -> Result<(), Fault> {
        entry::prefetch(&self.content, &self.found(ino)?)
    }

    fn cache_bytes(&self) -> u64 {
        self.tree.store().cache_bytes()
    }
}

impl ReadOnlyFilesystem for CheckpointFilesystem {
    fn needs(&self) -> Needs {
        let has = |feature| self.totals.features & feature != 0;
        let xattrs = has(features::XATTR);
        Needs { xattrs, holes: has(features::SPARSE), fresh_folders: false, acls: self.acls && xattrs }
    }

    fn lookup(&self, folder: u64, name: &[u8]) -> Result<Result<EntryReply, Duration>, Fault> {
        let folder = self.found(folder)?;
        match name {
            b"." => return entry::shown(&self.tree, &folder).map(Ok),
            b".." => return self.parent(&folder).map(Ok),
            _ if folder.folder().is_none() => return Err(Fault::NotAFolder),
            _ => {}
        }
        match self.tree.child(&folder, name)? {
            Some(found) => entry::shown(&self.tree, &found).map(Ok),
            None => Ok(Err(FOREVER)),
        }
    }

    fn attr(&self, ino: u64) -> Result<EntryReply, Fault> {
        entry::shown(&self.tree, &self.found(ino)?)
    }

    fn list(&self, ino: u64, from: u64, visit: &mut dyn FnMut(Line<'_>) -> bool) -> Result<(), Fault> {
        let folder = self.found(ino)?;
        let parent = self.parent(&folder)?;
        entry::list(&self.tree, &folder, parent, from, visit)
    }

    fn readlink(&self, ino: u64) -> Result<Vec<u8>, Fault> {
        entry::readlink(&self.found(ino)?)
    }

    fn seek(&self, ino: u64, offset: u64, wants_data: bool) -> Result<u64, Fault> {
        entry::seek(&self.found(ino)?, offset, wants_data)
    }

    fn xattr(&self, ino: u64, name: &[u8]) -> Result<Vec<u8>, Fault> {
        entry::xattr(&self.found(ino)?, name)
    }

    fn xattr_names(&self, ino: u64) -> Result<Vec<u8>, Fault> {
        Ok(entry::xattr_names(&self.found(ino)?))
    }

    fn space(&self) -> Result<Space, Fault> {
        Ok(Space { bytes: self.totals.bytes, entries: self.totals.entries.saturating_add(1) })
    }

    fn share(&self, shares: u64) {
        self.tree.share(shares);
        self.content.share(shares);
    }

    fn path(&self, ino: u64) -> String {
        let path = self.tree.path(self.tree.position(ino).unwrap_or(0));
        format!("{}:{path}", self.tree.checkpoint().id())
    }
}
