//! Changes that somebody makes after a safety checkpoint was begun are neither replaced nor removed: no checkpoint has them.
//!
//! A change shows in the inode's ctime, which no program sets. The restore changes that itself where it adds or removes a name of a file
//! that has several; those files are remembered. Between the look and the change a moment remains. On filesystems that another
//! machine or a program stamps, nothing is known, and nothing is held back; on those that stamp whole seconds, a change within the
//! second is not seen.

use std::{
    collections::{BTreeSet, HashSet},
    os::fd::BorrowedFd,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::{filesystem::Filesystems, sys::Stat, tree::Time};

/// The reason for which an entry is left as it is.
pub const CHANGED: &str = "it was changed after the safety checkpoint was begun, and is left as it is";

/// The limit, by time, on what may be replaced and removed. Clones are one.
#[derive(Clone, Debug)]
pub struct Guard(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    since: Time,
    filesystems: Filesystems,
    /// Files, by device and inode, of which this restore has changed the names.
    own: Mutex<HashSet<(u64, u64)>>,
    /// The paths of what was left, from the target.
    left: Mutex<BTreeSet<Vec<u8>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Guard {
    /// Holds back what was changed at this time or later.
    pub fn new(since: Time) -> Self {
        let (filesystems, own, left) = Default::default();
        Guard(Arc::new(Inner { since, filesystems, own, left }))
    }

    /// True if an entry of an open folder is as it was, or is a folder: those go by what is in them.
    pub fn allows(&self, folder: BorrowedFd<'_>, stat: &Stat) -> bool {
        stat.is_folder()
            || stat.ctime < self.0.since
            || lock(&self.0.own).contains(&(stat.dev, stat.ino))
            || !self.0.filesystems.of(folder, stat.dev).is_stamped_here
    }

    /// Notes that this restore is about to change the number of a file's names.
    pub fn touch(&self, stat: &Stat) {
        lock(&self.0.own).insert((stat.dev, stat.ino));
    }

    /// Notes that an entry is left.
    pub fn leave(&self, path: Vec<u8>) {
        lock(&self.0.left).insert(path);
    }

    /// The paths of what was left.
    pub fn left(&self) -> BTreeSet<Vec<u8>> {
        lock(&self.0.left).clone()
    }
}
