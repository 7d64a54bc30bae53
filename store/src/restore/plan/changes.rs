//! Changes that a plan would make, one by one.

use super::Plan;
use crate::{
    error::Result,
    restore::{
        skipped::{SkippedEntry, Why},
        summary::RestoreChange,
        table::{Action, entry_path},
        walk::KeptEntry,
    },
};

impl Plan {
    /// Calls `visit` with every path that something happens to, from the target, in no order.
    pub fn each_change(&self, visit: &mut dyn FnMut(RestoreChange, &[u8])) -> Result<()> {
        for (folder, line) in self.folders.iter().enumerate().filter(|(_, line)| line.wanted) {
            let path = crate::restore::table::folder_path(&self.folders, folder as u32);
            match (line.is_new, line.differs) {
                (true, _) if folder > 0 => visit(RestoreChange::Create, &path),
                (false, true) => visit(RestoreChange::Metadata, &path),
                _ => {}
            }
        }
        for item in &self.items {
            let node = self.node(item.folder, item.index)?;
            let change = match item.action {
                Action::Create => RestoreChange::Create,
                Action::Replace | Action::Exchange => RestoreChange::Replace,
                Action::Meta => RestoreChange::Metadata,
            };
            let path = entry_path(&self.folders, item.folder, &node.name);
            if self.exchanged.contains_key(&(item.folder, item.index)) {
                visit(RestoreChange::Delete, &path);
            }
            visit(change, &path);
        }
        for link in &self.links {
            let path = entry_path(&self.folders, link.folder, &self.node(link.folder, link.index)?.name);
            if self.exchanged.contains_key(&(link.folder, link.index)) {
                visit(RestoreChange::Delete, &path);
            }
            visit(RestoreChange::Link, &path);
        }
        for extra in &self.extras {
            let change = match (self.options.delete, extra.stays) {
                (true, false) => RestoreChange::Delete,
                (true, true) => RestoreChange::Empty,
                (false, _) => RestoreChange::Keep,
            };
            visit(change, &entry_path(&self.folders, extra.folder, &extra.name));
        }
        Ok(())
    }

    /// Calls `visit` with the path, from the target, of everything that is there and does not stay as it is: content, type, metadata, name.
    /// A folder of which the metadata alone changes does not count: its time changes with every entry that is made in it.
    pub fn each_overwritten(&self, visit: &mut dyn FnMut(&[u8])) -> Result<()> {
        for item in self.items.iter().filter(|item| item.action != Action::Create) {
            visit(&entry_path(&self.folders, item.folder, &self.node(item.folder, item.index)?.name));
        }
        for link in self.links.iter().filter(|link| link.action != Action::Create) {
            visit(&entry_path(&self.folders, link.folder, &self.node(link.folder, link.index)?.name));
        }
        for extra in self.extras.iter().filter(|_| self.options.delete) {
            visit(&entry_path(&self.folders, extra.folder, &extra.name));
        }
        Ok(())
    }

    /// Entries that the checkpoint does not have and that stay on purpose although extras go: mounts, and folders with something in them that
    /// capture left out or that is left alone.
    pub fn kept(&self) -> impl Iterator<Item = SkippedEntry> {
        self.kept.iter().map(|kept| self.kept_as(kept))
    }

    pub(in crate::restore) fn kept_as(&self, kept: &KeptEntry) -> SkippedEntry {
        SkippedEntry { path: entry_path(&self.folders, kept.folder, &kept.name), error: kept.reason.clone(), why: Why::Kept }
    }

    /// Entries that cannot be made, changed or removed, because something has to stay.
    pub fn blocked(&self) -> impl Iterator<Item = SkippedEntry> {
        self.blocked.iter().map(|blocked| SkippedEntry {
            path: entry_path(&self.folders, blocked.folder, &blocked.name),
            error: blocked.reason.clone().into_owned(),
            why: blocked.why,
        })
    }
}
