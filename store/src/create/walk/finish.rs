//! A folder whose entries are complete: its node, its tree and its section of the new stat cache.

use std::sync::{Arc, Mutex, atomic::Ordering};

use super::{
    WalkState, Worker, lock,
    pending::{EntryUpdate, Folder},
};
use crate::{
    error::Result,
    filesystem::FilesystemId,
    id::TreeId,
    links::LinkedFolder,
    name,
    omitted::Reason,
    statcache::{self, CacheEntry, Section},
    tree::{Kind, Node, Totals},
};

/// The new stat cache.
pub(super) struct CacheOut {
    pub(super) writer: Option<Mutex<statcache::Writer>>,
    /// True if what the old one says is in it already.
    pub(super) keeps_old: bool,
}

impl CacheOut {
    fn append(
        &self,
        tree: TreeId,
        filesystem: FilesystemId,
        entries: &[&CacheEntry],
        old: Option<(u64, &Section)>,
    ) -> Result<u64> {
        self.writer.as_ref().map_or(Ok(0), |out| lock(out).append_entries(tree, filesystem, entries, old))
    }
}

impl WalkState<'_, '_> {
    /// Counts one part of a folder as complete; completes the folder, and what that completes in turn.
    pub(super) fn complete(&self, folder: Arc<Folder>, worker: &mut Worker<'_>, out: &CacheOut) -> Result<()> {
        let mut current = folder;
        while current.pending.fetch_sub(1, Ordering::AcqRel) == 1 {
            let finished = self.finish(&current, worker, out)?;
            let Some((parent, slot)) = current.parent.clone() else {
                *lock(&self.root) = finished;
                break;
            };
            if let Some((now, links)) = finished {
                let mut state = lock(&parent.state);
                let is_as_before = state.old(slot) == Some(&now);
                state.slots[slot].now = if is_as_before { EntryUpdate::AsBefore } else { EntryUpdate::New(Box::new(now)) };
                if !links.is_empty() {
                    state.links.insert(slot, links);
                }
            }
            current = parent;
        }
        Ok(())
    }

    /// Names a folder that was removed while it was read, and in whose place there is something again.
    fn name_if_replaced(&self, folder: &Folder) {
        if folder.is_gone.load(Ordering::Relaxed) {
            let path = folder.path();
            let now = self.walk.workspace.join(name::as_path(&path)).symlink_metadata();
            if !now.is_err_and(|e| e.kind() == std::io::ErrorKind::NotFound) {
                self.omit(path, Reason::Changing);
            }
        }
    }

    /// Makes a folder's node from its entries. `None` where the folder is left out.
    fn finish(
        &self,
        folder: &Folder,
        worker: &mut Worker<'_>,
        out: &CacheOut,
    ) -> Result<Option<(CacheEntry, Vec<LinkedFolder>)>> {
        let mut state = std::mem::take(&mut *lock(&folder.state));
        let Some((stat, xattrs, racy)) = state.stat.take() else { return Ok(None) };
        self.name_if_replaced(folder);
        let (mut below, mut kept) = (std::mem::take(&mut state.links), Vec::new());
        let mut totals = Totals::default();
        let mut linked = LinkedFolder::new(folder.depth, &folder.name);
        let mut entries = Vec::with_capacity(state.slots.len());
        let mut unchanged = true;
        for (i, slot) in state.slots.iter().enumerate() {
            let now = match (&slot.now, state.old(i)) {
                (EntryUpdate::AsBefore, Some(old)) => old,
                (EntryUpdate::New(now), old) => {
                    unchanged &= old == Some(&**now);
                    now
                }
                _ => continue,
            };
            totals.add(&now.node);
            if now.node.as_folder().is_none() && now.node.links > 1 {
                linked.push(&now.node.name, (slot.dev, now.ino));
            }
            kept.extend(below.remove(&i));
            entries.push(now);
        }
        let mut links = kept.pop().unwrap_or_default();
        kept.into_iter().rev().for_each(|other| links.extend(other));
        if !links.is_empty() || !linked.is_empty() {
            links.push(linked);
        }
        let filesystem = state.looked.filesystem.id;
        let (tree, section) = match &state.old {
            // A section of another filesystem says so, and has to be written anew.
            Some(old) if state.looked.is_known && unchanged && old.entries.len() == entries.len() => {
                let offset =
                    if out.keeps_old { self.old_section(folder) } else { out.append(old.tree, filesystem, &entries, None)? };
                (old.tree, offset)
            }
            _ => {
                self.dirty.store(true, Ordering::Relaxed);
                let nodes: Vec<&Node> = entries.iter().map(|entry| &entry.node).collect();
                let (tree, _) =
                    worker.batch.folder(&nodes, state.old.as_ref().map(|old| old.tree)).map_err(|e| self.in_folder(folder, e))?;
                let known = state.old.as_ref().map(|old| (self.old_section(folder), old));
                (tree, out.append(tree, filesystem, &entries, known)?)
            }
        };
        let node = Node { name: folder.name.clone(), meta: stat.meta(xattrs), links: 1, kind: Kind::Folder { tree, totals } };
        Ok(Some((CacheEntry { node, ino: stat.ino, ctime: stat.ctime, racy, section }, links)))
    }
}
