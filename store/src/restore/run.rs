//! A restore under way: what all its steps share, and the folders.

mod folders;
mod outcome;
mod staging;
mod sync;

use std::{
    collections::HashSet,
    os::fd::{AsFd, BorrowedFd},
    path::PathBuf,
    sync::{
        Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use rustix::io::Errno;

pub use self::{outcome::FailedEntries, staging::StagingFolder};
use super::{
    building,
    held::{Hold, HoldCause},
    medium::{self, Medium},
    meta::MetaFailure,
    plan::Plan,
    remove::remove,
    select::ProtectedEntries,
    skipped::{SkippedEntry, Why},
    table::{Action, Dirs, Stamp, entry_path, folder_path},
};
use crate::{error::Result, name, progress::Progress, store::Store, sys, tree::Meta};

/// Work that one thread has done.
#[derive(Debug, Default)]
pub struct Stamps {
    /// Stamps of entries as they are now.
    pub stamps: Vec<(u32, u32, Stamp)>,
    /// Stamps of folders as they are now.
    pub folders: Vec<(u32, Stamp)>,
}

impl Stamps {
    /// Adds up what all threads have done.
    pub fn sum(parts: Vec<Stamps>) -> Self {
        let mut all = Stamps::default();
        parts.into_iter().for_each(|part| all.add(part));
        all
    }

    /// Adds what another thread has done.
    pub fn add(&mut self, other: Stamps) {
        self.stamps.extend(other.stamps);
        self.folders.extend(other.folders);
    }
}

/// The name under which an entry is built in a folder that exists.
pub fn temporary(plan: &Plan, folder: u32, index: u32) -> Vec<u8> {
    building::entry_name(plan.op, folder, index)
}

/// A restore under way.
pub struct Run<'a> {
    pub store: &'a Store,
    pub plan: &'a Plan,
    pub progress: &'a dyn Progress,
    pub staging: &'a StagingFolder,
    pub dirs: Dirs<'a>,
    /// Entries of existing folders that are written, not only found or joined.
    pub written: HashSet<(u32, u32)>,
    /// Entries that could not be made.
    pub not_made: Mutex<HashSet<(u32, u32)>>,
    pub skipped: Mutex<Vec<SkippedEntry>>,
    /// Of each folder, whether it could not be made, or is in one; none where all were.
    pub unmade: OnceLock<Vec<bool>>,
    pub foreign: AtomicU64,
    /// True if something that was built, and did not get its name, could not be removed again.
    pub is_littered: AtomicBool,
    /// The filesystems that the target lies on.
    pub mediums: Vec<Medium>,
}

impl<'a> Run<'a> {
    /// A restore that begins now.
    pub fn new(
        store: &'a Store,
        plan: &'a Plan,
        progress: &'a dyn Progress,
        staging: &'a StagingFolder,
        step: &'a (dyn Fn(u32) -> (u32, Vec<u8>) + Sync),
    ) -> Result<Self> {
        let dirs = Dirs::new(staging.root.clone(), step);
        Ok(Run {
            mediums: medium::mediums(plan, &dirs)?,
            store,
            plan,
            progress,
            staging,
            dirs,
            written: written(plan),
            not_made: Default::default(),
            skipped: Default::default(),
            unmade: OnceLock::new(),
            foreign: AtomicU64::new(0),
            is_littered: AtomicBool::new(false),
        })
    }
}

impl Run<'_> {
    /// True if nothing has to be built.
    pub fn is_empty(&self) -> bool {
        self.written.is_empty() && self.plan.links.is_empty() && !self.plan.folders.iter().any(|line| line.is_new)
    }

    /// Threads that each step may use, at least 1.
    pub fn threads(&self) -> usize {
        self.plan.options.threads.max(1)
    }

    /// The path of an entry, for messages.
    pub fn path(&self, folder: u32, name: &[u8]) -> PathBuf {
        let inside = entry_path(&self.plan.folders, folder, name);
        self.plan.target().join(name::as_path(&inside))
    }

    /// The name that an entry has until everything is built.
    pub fn name_now(&self, folder: u32, index: u32, name: &[u8]) -> Vec<u8> {
        match self.plan.folders[folder as usize].is_new {
            true => name.to_vec(),
            false => temporary(self.plan, folder, index),
        }
    }

    /// Notes that something could not be made as it was.
    pub fn skip(&self, folder: u32, name: &[u8], error: impl ToString) {
        self.add_skipped(folder, name, error.to_string(), Why::Held);
    }

    /// Notes that the metadata of something could not be set.
    pub fn skip_alike(&self, folder: u32, name: &[u8], error: impl ToString) {
        self.add_skipped(folder, name, error.to_string(), Why::HeldAlike);
    }

    /// A result of the system's for one entry that is made; none where it refuses this one, which is noted. What remains is an error of
    /// everything.
    pub fn unless_held<T>(
        &self,
        folder: u32,
        index: u32,
        name: &[u8],
        result: rustix::io::Result<T>,
    ) -> rustix::io::Result<Option<T>> {
        match result.map_err(|e| (HoldCause::by(e), e)) {
            Ok(value) => Ok(Some(value)),
            Err((Some(held), _)) => {
                self.skip_entry(folder, index, name, Hold::own(held));
                Ok(None)
            }
            Err((None, e)) => Err(e),
        }
    }

    /// The metadata that could not be set. Where the system refuses them all for this one entry, that is noted.
    pub fn or_named(&self, folder: u32, name: &[u8], set: rustix::io::Result<MetaFailure>) -> rustix::io::Result<MetaFailure> {
        match set.map_err(|e| (HoldCause::by(e), e)) {
            Ok(refused) => Ok(refused),
            Err((Some(held), _)) => {
                self.skip_alike(folder, name, Hold::own(held));
                Ok(MetaFailure { rest: true, ..MetaFailure::default() })
            }
            Err((None, e)) => Err(e),
        }
    }

    /// True if a folder could not be made, or is in one that could not.
    pub fn is_unmade(&self, folder: u32) -> bool {
        self.unmade.get().is_some_and(|unmade| unmade[folder as usize])
    }

    fn add_skipped(&self, folder: u32, name: &[u8], error: String, why: Why) {
        let path = entry_path(&self.plan.folders, folder, name);
        let skipped = SkippedEntry { path, error, why };
        self.skipped.lock().unwrap_or_else(PoisonError::into_inner).push(skipped);
    }

    /// Notes that an entry is not made, because it would give privileges.
    pub fn withhold_entry(&self, folder: u32, index: u32, name: &[u8], reason: &str) {
        self.not_made.lock().unwrap_or_else(PoisonError::into_inner).insert((folder, index));
        self.add_skipped(folder, name, reason.to_owned(), Why::Withheld);
    }

    /// Notes that an entry was built, and did not get its name because somebody else has it by now.
    pub fn taken_entry(&self, folder: u32, index: u32, name: &[u8]) {
        self.not_made.lock().unwrap_or_else(PoisonError::into_inner).insert((folder, index));
        self.add_skipped(folder, name, "something else has taken its name meanwhile".to_owned(), Why::Taken);
    }

    /// True if the entry that has a name may be replaced; if not, that is noted.
    pub fn may_replace_now(&self, folder: u32, index: u32, fd: BorrowedFd<'_>, name: &[u8]) -> bool {
        let Some(guard) = self.plan.spared.guard() else { return true };
        let Ok(stat) = sys::stat_at(fd, name) else { return true };
        if guard.allows(fd, &stat) {
            if stat.links > 1 && !stat.is_folder() {
                guard.touch(&stat);
            }
            return true;
        }
        self.not_made.lock().unwrap_or_else(PoisonError::into_inner).insert((folder, index));
        guard.leave(entry_path(&self.plan.folders, folder, name));
        false
    }

    /// Notes that an entry could not be made at all.
    pub fn skip_entry(&self, folder: u32, index: u32, name: &[u8], error: impl ToString) {
        self.not_made.lock().unwrap_or_else(PoisonError::into_inner).insert((folder, index));
        self.skip(folder, name, error);
    }

    /// Notes that an entry that is there did not get its metadata.
    pub fn skip_meta(&self, folder: u32, index: u32, name: &[u8], error: impl ToString) {
        self.not_made.lock().unwrap_or_else(PoisonError::into_inner).insert((folder, index));
        self.skip_alike(folder, name, error);
    }

    /// True if an entry could not be made.
    pub fn is_skipped(&self, folder: u32, index: u32) -> bool {
        self.not_made.lock().unwrap_or_else(PoisonError::into_inner).contains(&(folder, index))
    }

    /// Notes what of an entry's metadata could not be set, or was not because it would give privileges.
    pub fn note(&self, folder: u32, name: &[u8], wanted: &Meta, refused: &MetaFailure) {
        for xattr in self.plan.options.withheld(wanted) {
            self.add_skipped(folder, name, format!("attribute {}: it is not restored", name::display(xattr)), Why::Withheld);
        }
        if refused.owner {
            self.foreign.fetch_add(1, Ordering::Relaxed);
        }
        for (xattr, error) in &refused.xattrs {
            self.skip_alike(folder, name, format!("attribute {}: {error}", name::display(xattr)));
        }
    }

    /// Removes what was built under a name, all or in part, and is not to stay. Where that fails, it is named; the pin stays and leads the next
    /// run to it.
    pub fn discard(&self, folder: u32, now: &[u8]) {
        let hold = match self.dirs.get(folder) {
            Ok(fd) => remove(fd.as_fd(), now, b"", &ProtectedEntries::default()).held.map(|stuck| stuck.hold),
            Err(e) => Some(Hold::inside(HoldCause::unseen(e))),
        };
        if let Some(hold) = hold {
            self.is_littered.store(true, Ordering::Relaxed);
            self.skip(folder, now, format!("it is a part of what could not be restored, and cannot be removed: {hold}"));
        }
    }

    /// Removes everything that was built and has not got its name yet. False where some of it is left.
    pub fn abandon(&self) -> bool {
        if self.staging.beside.is_some() {
            return self.staging.remove();
        }
        let plan = self.plan;
        let items = plan.items.iter().filter(|item| item.action != Action::Meta).map(|item| (item.folder, item.index));
        let links = plan.links.iter().map(|link| (link.folder, link.index));
        let made = plan.folders.iter().skip(1).filter(|line| line.is_new).map(|line| (line.parent, line.index));
        let mut is_clear = true;
        for (folder, index) in items.chain(links).chain(made) {
            if plan.folders[folder as usize].is_new {
                continue;
            }
            is_clear &= match self.dirs.get(folder) {
                Ok(fd) => !remove(fd.as_fd(), &temporary(plan, folder, index), b"", &ProtectedEntries::default()).kept,
                Err(e) => e == Errno::NOENT,
            };
        }
        is_clear
    }

    /// The folder's path from the target, for what is spared.
    pub fn inside(&self, folder: u32, name: &[u8]) -> Vec<u8> {
        name::join(&folder_path(&self.plan.folders, folder), name)
    }
}

/// Parent of a folder, and its name there at the moment: its own, or that of its staging.
pub fn step(plan: &Plan, published: bool, folder: u32) -> (u32, Vec<u8>) {
    let line = &plan.folders[folder as usize];
    let is_staged = line.is_new && !published && !plan.folders[line.parent as usize].is_new;
    let name = if is_staged { temporary(plan, line.parent, line.index) } else { line.name.to_vec() };
    (line.parent, name)
}

/// Entries of existing folders that are to be written.
pub fn written(plan: &Plan) -> HashSet<(u32, u32)> {
    let items = plan.items.iter().filter(|item| item.action != Action::Meta && !plan.folders[item.folder as usize].is_new);
    items.map(|item| (item.folder, item.index)).collect()
}
