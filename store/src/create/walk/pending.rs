//! Folders whose entries are not all there yet.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize},
    },
};

use crate::{
    create::exclude::Repository,
    filesystem::Filesystem,
    links::LinkedFolder,
    statcache::{CacheEntry, Section},
    sys::Stat,
    tree::{self, Time},
};

pub(super) struct Folder {
    pub(super) parent: Option<(Arc<Folder>, usize)>,
    /// Number of folders that it is in.
    pub(super) depth: usize,
    pub(super) name: Vec<u8>,
    pub(super) repository: Option<Arc<Repository>>,
    pub(super) only_tracked: bool,
    /// True if everything in it is looked at, whatever the source says.
    pub(super) is_full: bool,
    pub(super) old: Option<CacheEntry>,
    /// Parts that are not complete yet.
    pub(super) pending: AtomicUsize,
    /// True if it was removed while it was read.
    pub(super) is_gone: AtomicBool,
    pub(super) state: Mutex<State>,
}

impl Folder {
    /// Its path from the workspace folder. Folders do not keep their paths, which would take memory by the square of a tree's depth.
    pub(super) fn path(&self) -> Vec<u8> {
        let mut names = Vec::with_capacity(self.depth);
        let mut at = self;
        while let Some((parent, _)) = &at.parent {
            names.push(at.name.as_slice());
            at = parent;
        }
        names.reverse();
        names.join(&b'/')
    }
}

impl Drop for Folder {
    /// Lets go of a chain of parents one by one, because it may be longer than the program's stack.
    fn drop(&mut self) {
        let mut parent = self.parent.take();
        while let Some((folder, _)) = parent {
            parent = Arc::into_inner(folder).and_then(|mut folder| folder.parent.take());
        }
    }
}

#[derive(Default)]
pub(super) struct State {
    /// `None` where the folder itself is left out.
    pub(super) stat: Option<(Stat, Vec<tree::Xattr>, bool)>,
    /// The names in it. That of a file which was read is in its node instead.
    pub(super) names: Vec<Vec<u8>>,
    /// The entries, one for each name.
    pub(super) slots: Vec<Slot>,
    /// The cache's section.
    pub(super) old: Option<Section>,
    pub(super) looked: ScanContext,
    /// The folders with hard-linked entries that are among the entries or below them, by slot; the last one first, so that the folder that
    /// all are in can be added without moving them.
    pub(super) links: HashMap<usize, Vec<LinkedFolder>>,
}

impl State {
    /// The cache's entry under the name of a slot.
    pub(super) fn old(&self, slot: usize) -> Option<&CacheEntry> {
        self.old.as_ref()?.entries.get(self.slots.get(slot)?.old? as usize)
    }
}

/// The circumstances in which a folder's entries are looked at.
#[derive(Clone, Copy, Default)]
pub(super) struct ScanContext {
    /// Before the folder was listed.
    pub(super) at: Time,
    /// The filesystem that the folder is on.
    pub(super) filesystem: Filesystem,
    /// True if that is the one that the cache's section is of.
    pub(super) is_known: bool,
}

/// An entry. There may be millions in one folder.
pub(super) struct Slot {
    /// Number of the cache's entry under this name.
    pub(super) old: Option<u32>,
    pub(super) now: EntryUpdate,
    /// It is on another filesystem than its folder: a mounted file.
    pub(super) elsewhere: bool,
    pub(super) dev: u64,
}

/// State of an entry now.
pub(super) enum EntryUpdate {
    /// Left out, or not known yet.
    Nothing,
    /// As the cache has it.
    AsBefore,
    /// Something else.
    New(Box<CacheEntry>),
}

impl From<Option<CacheEntry>> for EntryUpdate {
    fn from(cached: Option<CacheEntry>) -> Self {
        cached.map_or(EntryUpdate::Nothing, |cached| EntryUpdate::New(Box::new(cached)))
    }
}
