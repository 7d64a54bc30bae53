//! Gives what was built its names, and removes what is not wanted. Everything that gets a name here is on the medium already.

mod names;

use std::{
    collections::HashSet,
    os::{
        fd::{AsFd, BorrowedFd},
        unix::fs::MetadataExt,
    },
    path::Path,
};

use rustix::{fs::AtFlags, io::Errno};

use self::names::{put_back, rename_new, swap};
use super::{
    building,
    held::{Hold, HoldCause},
    remove::{Removal, foresee, remove},
    run::{Run, Stamps, temporary},
    skipped::{SkippedEntry, Why},
    table::{Action, Stamp},
    target::Target,
    walk::{HOLDS_HELD, HOLDS_SPARED, not_empty},
};
use crate::{
    clock,
    error::{Error, Result, TargetContext},
    name, progress, sys,
};

/// Fails with the reason where a folder does not go with all that is in it.
fn goes(removed: &Removal, path: &[u8]) -> Result<(), String> {
    match (&removed.held, removed.kept) {
        (_, false) => Ok(()),
        (Some(held), true) => Err(format!("{HOLDS_HELD}: {}", held.reason(path))),
        (None, true) => Err(format!("{HOLDS_SPARED}: {}", removed.stays.shown())),
    }
}

/// Result of settling.
#[derive(Debug, Default)]
pub struct PublishOutcome {
    /// Entries removed.
    pub deleted: u64,
    /// Entries whose metadata was set.
    pub metadata: u64,
    /// Folders that were emptied but for what stays on purpose.
    pub kept: Vec<SkippedEntry>,
    /// Stamps of entries as they are now.
    pub done: Stamps,
}

impl Run<'_> {
    /// Puts the staging folder in the place of the target.
    pub fn publish_new(&self) -> Result<()> {
        let (Some((above, staged)), Target::Fresh { name, .. }) = (&self.staging.beside, &self.plan.target) else {
            return Ok(());
        };
        let path = self.plan.target();
        match rename_new(above.as_fd(), staged, name) {
            Err(Errno::EXIST | Errno::NOTEMPTY | Errno::NOTDIR) => return Err(Error::TargetNotEmpty { path, is_folder: true }),
            other => other.at_target("rename into place", &path)?,
        }
        self.check_is_there(&path)?;
        super::medium::sync_name(&path)
    }

    /// Fails unless the target's path leads to the folder that was built.
    fn check_is_there(&self, path: &Path) -> Result<()> {
        let built = sys::stat_fd(&self.staging.root).at_target("read", path)?;
        let found = std::fs::symlink_metadata(path).at_target("read", path)?;
        match (found.dev(), found.ino()) == (built.dev, built.ino) {
            true => Ok(()),
            // It was moved away, or a folder above it was.
            false => Err(Errno::STALE).at_target("find what was restored at", path),
        }
    }

    /// Changes the live folder: new names, then removals, then metadata, folders last.
    pub fn publish_in_place(&self, published: &dyn Fn()) -> Result<PublishOutcome> {
        progress::check(self.progress)?;
        let mut out = PublishOutcome::default();
        let plan = self.plan;
        for item in plan.items.iter().filter(|item| item.action != Action::Meta) {
            self.name_entry(item.folder, item.index, item.action, &mut out)?;
        }
        for link in &plan.links {
            self.name_entry(link.folder, link.index, link.action, &mut out)?;
        }
        let exchanged = plan.items.iter().filter(|item| item.action == Action::Exchange);
        let exchanged: HashSet<(u32, u32)> = exchanged.map(|item| (item.folder, item.index)).collect();
        for line in plan.folders.iter().skip(1).filter(|line| line.is_new && line.wanted) {
            if plan.folders[line.parent as usize].is_new || self.is_skipped(line.parent, line.index) {
                continue;
            }
            match exchanged.contains(&(line.parent, line.index)) {
                true => self.exchange(line.parent, line.index, &line.name, true, &mut out)?,
                false => self.rename(line.parent, line.index, &line.name, true)?,
            }
        }
        published();
        self.delete_extras(&mut out);
        self.fix_metadata(&mut out)?;
        let finished = self.finish_folders(false)?;
        let finished_ones = finished.folders.iter().map(|(folder, _)| &plan.folders[*folder as usize]);
        out.metadata += finished_ones.filter(|line| line.differs).count() as u64;
        out.done.add(finished);
        Ok(out)
    }

    /// Gives one entry its name; folders get theirs later.
    fn name_entry(&self, folder: u32, index: u32, action: Action, out: &mut PublishOutcome) -> Result<()> {
        if self.plan.folders[folder as usize].is_new || self.is_skipped(folder, index) {
            return Ok(());
        }
        let node = self.plan.node(folder, index)?;
        if node.as_folder().is_some() {
            return Ok(());
        }
        if action == Action::Exchange {
            return self.exchange(folder, index, &node.name, false, out);
        }
        self.rename(folder, index, &node.name, !self.may_replace(action))
    }

    fn may_replace(&self, action: Action) -> bool {
        match &self.plan.target {
            Target::Entry { replace, .. } => *replace && action != Action::Create,
            _ => action != Action::Create,
        }
    }

    fn rename(&self, folder: u32, index: u32, name: &[u8], new: bool) -> Result<()> {
        let temporary = temporary(self.plan, folder, index);
        let fd = match self.dirs.get(folder) {
            Ok(fd) => fd,
            Err(e) => {
                self.discard(folder, &temporary);
                self.skip_entry(folder, index, name, Hold::inside(HoldCause::unseen(e)));
                return Ok(());
            }
        };
        if !new && !self.may_replace_now(folder, index, fd.as_fd(), name) {
            self.discard(folder, &temporary);
            return Ok(());
        }
        let renamed = match new {
            true => rename_new(fd.as_fd(), &temporary, name),
            false => rustix::fs::renameat(&fd, temporary.as_slice(), &fd, name),
        };
        match renamed {
            Err(Errno::EXIST | Errno::ISDIR | Errno::NOTDIR) => {
                self.discard(folder, &temporary);
                self.taken_entry(folder, index, name);
                Ok(())
            }
            // By now, others have got their names: whatever happens to this one, they all do.
            Err(e) => {
                self.discard(folder, &temporary);
                self.skip_entry(folder, index, name, self.why(fd.as_fd(), name, e));
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    /// The reason for which the system has refused to change the entry of a name.
    fn why(&self, fd: BorrowedFd<'_>, name: &[u8], errno: Errno) -> Hold {
        Hold::own(HoldCause::of(fd, name).unwrap_or(HoldCause::after(errno)))
    }

    /// Puts an entry in the place of one of another type, which then goes: at no moment is there neither. A folder goes only with what is
    /// in it, and that only if extras may be deleted.
    fn exchange(&self, folder: u32, index: u32, name: &[u8], for_folder: bool, out: &mut PublishOutcome) -> Result<()> {
        let (path, temporary) = (self.inside(folder, name), temporary(self.plan, folder, index));
        let fd = match self.dirs.get(folder) {
            Ok(fd) => fd,
            Err(e) => {
                self.discard(folder, &temporary);
                self.skip_entry(folder, index, name, Hold::inside(HoldCause::unseen(e)));
                return Ok(());
            }
        };
        let is_folder = match sys::stat_at(fd.as_fd(), name) {
            Err(Errno::NOENT) => return self.rename(folder, index, name, true),
            Err(e) => {
                self.discard(folder, &temporary);
                self.skip_entry(folder, index, name, Hold::own(HoldCause::unseen(e)));
                return Ok(());
            }
            Ok(stat) => stat.is_folder(),
        };
        if !is_folder && for_folder && !self.may_replace_now(folder, index, fd.as_fd(), name) {
            self.discard(folder, &temporary);
            return Ok(());
        }
        if !is_folder && !for_folder {
            return self.rename(folder, index, name, !self.may_replace(Action::Exchange));
        }
        // What stays must not get a temporary name, under which the next restore would remove it.
        let goes = match (is_folder, self.plan.options.delete) {
            (false, _) => Ok(()),
            (true, deletes) => match foresee(fd.as_fd(), name, &path, &self.plan.spared) {
                foreseen if !foreseen.kept && !deletes && foreseen.entries > 1 => Err(not_empty()),
                foreseen => goes(&foreseen, &path),
            },
        };
        let gone = goes.and_then(|()| match swap(fd.as_fd(), &temporary, &self.aside(folder, index), name) {
            Ok(old) => {
                // A power cut must not keep the removal and lose the exchange.
                let synced = self.sync_file(folder, fd.as_fd()).map_err(|e| self.why(fd.as_fd(), name, e).to_string());
                let removed = synced.and_then(|()| self.remove_old(fd.as_fd(), &old, &path, is_folder, out));
                if removed.is_err() && !put_back(fd.as_fd(), &old, &temporary, name) {
                    let old = name::display(&old);
                    self.skip(folder, name, format!("it is restored, but what was in its place could not be removed: see {old}"));
                    return Ok(());
                }
                removed
            }
            Err(Errno::XDEV) => self.give_way(fd.as_fd(), (&temporary, name), &path, is_folder, out),
            Err(e) => Err(self.why(fd.as_fd(), name, e).to_string()),
        });
        if let Err(reason) = gone {
            self.discard(folder, &temporary);
            self.skip_entry(folder, index, name, reason);
        }
        Ok(())
    }

    /// Removes the entry of a name, and gives the name to another one. An overlay filesystem lets no folder of its lower layers be renamed, so
    /// that it cannot be exchanged. What was built is on the medium, and is known by the pin: who comes after a crash in between finds a
    /// folder that is removed in part, as where any other is, and restores the rest.
    fn give_way(
        &self,
        fd: BorrowedFd<'_>,
        (temporary, name): (&[u8], &[u8]),
        path: &[u8],
        is_folder: bool,
        out: &mut PublishOutcome,
    ) -> Result<(), String> {
        self.remove_old(fd, name, path, is_folder, out)?;
        rename_new(fd, temporary, name).map_err(|e| format!("what was in its place is removed, and it cannot be named: {e}"))
    }

    /// Name under which an old entry waits to be removed on a filesystem that cannot exchange two.
    fn aside(&self, folder: u32, index: u32) -> Vec<u8> {
        building::entry_name(self.plan.op, folder, !index)
    }

    /// Removes what was in the place of another. Fails with a reason where some of it stays.
    fn remove_old(
        &self,
        fd: BorrowedFd<'_>,
        old: &[u8],
        path: &[u8],
        is_folder: bool,
        out: &mut PublishOutcome,
    ) -> Result<(), String> {
        let unlinked = match (is_folder, self.plan.options.delete) {
            (false, _) => rustix::fs::unlinkat(fd, old, AtFlags::empty()),
            (true, false) => rustix::fs::unlinkat(fd, old, AtFlags::REMOVEDIR).inspect(|()| out.deleted += 1),
            (true, true) => {
                let removed = remove(fd, old, path, &self.plan.spared);
                out.deleted += removed.entries;
                return goes(&removed, path);
            }
        };
        unlinked.map_err(|e| match e {
            Errno::NOTEMPTY | Errno::EXIST => not_empty(),
            e => self.why(fd, old, e).to_string(),
        })
    }

    fn delete_extras(&self, out: &mut PublishOutcome) {
        for extra in self.plan.extras.iter().filter(|_| self.plan.options.delete) {
            let path = self.inside(extra.folder, &extra.name);
            let fd = match self.dirs.get(extra.folder) {
                Ok(fd) => fd,
                Err(e) => {
                    self.skip(extra.folder, &extra.name, Hold::inside(HoldCause::unseen(e)));
                    continue;
                }
            };
            let removed = remove(fd.as_fd(), &extra.name, &path, &self.plan.spared);
            out.deleted += removed.entries;
            if let Some(error) = removed.stays.reason(&path) {
                out.kept.push(SkippedEntry { path: path.clone(), error, why: Why::Kept });
            }
            let is_known = || {
                let mut blocked = self.plan.blocked.iter();
                blocked.any(|blocked| (blocked.folder, &blocked.name) == (extra.folder, &extra.name))
            };
            if let Some(held) = removed.held.filter(|_| !is_known()) {
                self.skip(extra.folder, &extra.name, held.reason(&path));
            }
        }
    }

    fn fix_metadata(&self, out: &mut PublishOutcome) -> Result<()> {
        for item in self.plan.items.iter().filter(|item| item.action == Action::Meta) {
            let node = self.plan.node(item.folder, item.index)?;
            let keeps = self.plan.spared.keeps_attributes(|| self.inside(item.folder, &node.name));
            match self.dirs.get(item.folder).and_then(|fd| self.set_meta(fd.as_fd(), &node.name, &node, keeps)) {
                Ok(refused) => {
                    self.note(item.folder, &node.name, &node.meta, &refused);
                    out.metadata += 1;
                }
                Err(e) => self.skip_meta(item.folder, item.index, &node.name, Hold::own(HoldCause::after(e))),
            }
        }
        Ok(())
    }

    /// Reads the stamps of everything that was changed in the live folder, after all is synced.
    pub fn look_again(&self, done: &mut Stamps) -> Result<()> {
        let plan = self.plan;
        let items = plan.items.iter().map(|item| (item.folder, item.index));
        let links = plan.links.iter().flat_map(|l| [(l.folder, l.index), (l.from_folder, l.from_index)]);
        for (folder, index) in items.chain(links).filter(|(folder, _)| !plan.folders[*folder as usize].is_new) {
            let node = plan.node(folder, index)?;
            let stamp = if self.is_skipped(folder, index) { Stamp::default() } else { self.stamp_now(folder, &node.name) };
            done.stamps.push((folder, index, stamp));
        }
        for (folder, line) in plan.folders.iter().enumerate().skip(1) {
            let is_settled = line.is_new && line.wanted && !plan.folders[line.parent as usize].is_new;
            if is_settled || line.finish && line.wanted && !line.is_new {
                done.folders.push((folder as u32, self.stamp_now(line.parent, &line.name)));
            }
        }
        Ok(())
    }

    fn stamp_now(&self, folder: u32, name: &[u8]) -> Stamp {
        match self.dirs.get(folder).and_then(|fd| sys::stat_at(fd.as_fd(), name)) {
            Ok(stat) => Stamp::in_place(&stat, clock::now()),
            Err(_) => Stamp::default(),
        }
    }
}
