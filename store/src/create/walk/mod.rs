//! The walk: every folder is a task; a folder is complete when its entries are, and then completes its parent's entry. Workers take
//! the newest task first, so that the open part of the tree stays as deep as the tree and no wider.

mod file;
mod finish;
mod folder;
mod queue;

use std::{
    collections::HashMap,
    os::fd::{AsFd, OwnedFd},
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize},
    },
};

use rustix::io::Errno;

use self::{
    finish::CacheOut,
    queue::{Queue, Task},
};
use super::{
    content::Reader,
    exclude::{Excluder, Repository},
    sink::{Batch, Sink},
    source::Source,
};
use crate::{
    error::{Error, Result},
    id::{BlobId, TreeId},
    omitted::{Omission, Reason},
    progress::Progress,
    statcache::{self, Cached, StatCache},
    store::Store,
    sys::{self, Stat},
    threads,
    tree::{self, Hole, Time},
};

/// What a walk needs.
pub struct Walk<'a> {
    /// The store whose settings and recipes are used.
    pub store: &'a Store,
    /// Where objects go.
    pub sink: &'a Sink<'a>,
    /// What is left out.
    pub excluder: &'a Excluder,
    /// What may have changed.
    pub source: &'a dyn Source,
    /// How entries were, where the content they had then is still there.
    pub cache: Option<&'a StatCache>,
    /// What the cache's checkpoint left out.
    pub base_omissions: &'a [Omission],
    /// The new stat cache.
    pub cache_out: Option<Mutex<statcache::Writer>>,
    /// Receives progress.
    pub progress: &'a dyn Progress,
    /// The workspace folder's path, for finding `.git/index`.
    pub workspace: &'a Path,
    /// Folders that are never entered: the store, by device and inode.
    pub forbidden: Vec<(u64, u64)>,
    /// Devices of mounted checkpoints, which are never entered.
    pub mounted: Vec<u64>,
    /// How many workers.
    pub threads: usize,
}

/// What a walk found.
pub struct Walked {
    /// The workspace folder; its name is `workspace`.
    pub root: Cached,
    /// Hard-linked entries.
    pub links: Vec<LinkMember>,
    /// What was left out, ordered by path.
    pub omissions: Vec<Omission>,
    /// Whether the new stat cache says anything that the old one did not.
    pub is_dirty: bool,
    /// Files whose content was read, and their bytes.
    pub read: (u64, u64),
    /// The new stat cache, to be completed.
    pub cache_out: Option<statcache::Writer>,
}

/// One name of a file that has several.
#[derive(Clone, Copy, Debug)]
pub struct LinkMember {
    /// Device and inode.
    pub file: (u64, u64),
    /// Preorder position from the folder at hand.
    pub position: u64,
}

struct Folder {
    parent: Option<(Arc<Folder>, usize)>,
    name: Vec<u8>,
    path: Vec<u8>,
    repository: Option<Arc<Repository>>,
    only_tracked: bool,
    old: Option<Cached>,
    /// Parts that are not complete yet.
    pending: AtomicUsize,
    state: Mutex<State>,
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
struct State {
    /// `None` where the folder itself is left out.
    stat: Option<(Stat, Vec<tree::Xattr>, bool)>,
    slots: Vec<Slot>,
    /// The tree that the cache had, and of how many entries.
    old: Option<(TreeId, usize)>,
    read_at: Time,
}

struct Slot {
    name: Vec<u8>,
    /// What the cache had under this name.
    old: Option<Cached>,
    /// What it is now.
    now: Now,
    dev: u64,
    links: Vec<LinkMember>,
}

/// What an entry is now.
enum Now {
    /// Left out, or not known yet.
    Nothing,
    /// What the cache had.
    AsBefore,
    /// Something else.
    New(Box<Cached>),
}

impl From<Option<Cached>> for Now {
    fn from(cached: Option<Cached>) -> Self {
        cached.map_or(Now::Nothing, |cached| Now::New(Box::new(cached)))
    }
}

type KnownLinks = HashMap<(u64, u64), (Time, BlobId, u64, Vec<Hole>)>;

struct Shared<'w, 'a> {
    walk: &'w Walk<'a>,
    queue: Queue,
    stopped: AtomicBool,
    failure: Mutex<Option<Error>>,
    omissions: Mutex<Vec<Omission>>,
    known_links: Mutex<KnownLinks>,
    files_read: AtomicU64,
    bytes_read: AtomicU64,
    dirty: AtomicBool,
    root: Mutex<Option<(Cached, Vec<LinkMember>)>>,
    root_dev: u64,
    /// Where the old cache has the workspace folder.
    root_section: u64,
    slack_nanos: i64,
    /// Files that never enter the store, by device and inode.
    secret_files: Vec<(u64, u64)>,
}

struct Worker<'a> {
    batch: Batch<'a>,
    reader: Reader<'a>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Walk<'_> {
    /// Walks the open workspace folder.
    pub fn run(mut self, root: OwnedFd) -> Result<Walked> {
        let root_stat = sys::stat_fd(&root).map_err(|e| self.root_error(e))?;
        let coarse = sys::has_coarse_time(root.as_fd());
        let cache_out = self.cache_out.take();
        let keeps_old = cache_out.as_ref().is_some_and(|out| lock(out).keeps_old);
        let shared = Shared {
            walk: &self,
            queue: Queue::default(),
            stopped: AtomicBool::new(false),
            failure: Mutex::default(),
            omissions: Mutex::default(),
            known_links: Mutex::default(),
            files_read: AtomicU64::new(0),
            bytes_read: AtomicU64::new(0),
            dirty: AtomicBool::new(self.cache.is_none() || !keeps_old),
            root: Mutex::default(),
            root_dev: root_stat.dev,
            root_section: self.cache.map_or(0, |cache| cache.trailer.root_section),
            slack_nanos: if coarse { 3_000_000_000 } else { 20_000_000 },
            secret_files: self.store.secrets().identities(),
        };
        let folder = Arc::new(Folder {
            parent: None,
            name: b"workspace".to_vec(),
            path: Vec::new(),
            repository: Repository::around(self.workspace),
            only_tracked: false,
            old: None,
            pending: AtomicUsize::new(1),
            state: Mutex::default(),
        });
        let outs = CacheOut { writer: cache_out, keeps_old };
        shared.push([Task::Enter { folder, parent: Arc::new(root) }]);
        let mut first: Option<Batch<'_>> = None;
        let batches = threads::together(self.threads.max(1) - 1, || shared.work(&outs)).into_iter().flatten();
        if let Some(error) = lock(&shared.failure).take() {
            return Err(error);
        }
        for batch in batches {
            match &mut first {
                Some(first) => first.join(batch)?,
                None => first = Some(batch),
            }
        }
        if let Some(batch) = first {
            batch.finish()?;
        }
        let found = lock(&shared.root).take();
        let (root, links) = found.ok_or_else(|| Error::Invalid(format!("{} cannot be read", self.workspace.display())))?;
        let mut omissions = std::mem::take(&mut *lock(&shared.omissions));
        omissions.sort_unstable();
        omissions.dedup();
        let read = (shared.files_read.into_inner(), shared.bytes_read.into_inner());
        let is_dirty = shared.dirty.into_inner();
        let cache_out = outs.writer.map(|out| out.into_inner().unwrap_or_else(PoisonError::into_inner));
        Ok(Walked { root, links, omissions, is_dirty, read, cache_out })
    }

    fn root_error(&self, e: Errno) -> Error {
        Error::Io { action: "read workspace", path: self.workspace.to_owned(), source: e.into() }
    }
}

impl Shared<'_, '_> {
    /// Where the old cache has a folder.
    fn old_section(&self, folder: &Folder) -> u64 {
        match &folder.parent {
            None => self.root_section,
            Some(_) => folder.old.as_ref().map_or(0, |old| old.section),
        }
    }

    /// Names the folder whose tree cannot be stored.
    fn in_folder(&self, folder: &Folder, error: Error) -> Error {
        match (&error, folder.path.is_empty()) {
            (Error::TooLong { .. }, true) => error.at(self.walk.workspace.as_os_str().as_encoded_bytes()),
            (Error::TooLong { .. }, false) => error.at(&folder.path),
            _ => error,
        }
    }

    fn omit(&self, path: Vec<u8>, reason: Reason) {
        lock(&self.omissions).push(Omission { path, reason });
    }

    /// What went away between the listing and the look is not there; anything else that fails is named.
    fn omit_failed(&self, path: Vec<u8>, errno: Errno) {
        if errno != Errno::NOENT {
            self.omit(path, Reason::Unreadable(std::io::Error::from(errno).to_string()));
        }
    }

    fn is_racy(&self, stat: &Stat, read_at: Time) -> bool {
        let stamped = stat.ctime.max(stat.mtime);
        let gap =
            (read_at.secs - stamped.secs).saturating_mul(1_000_000_000) + i64::from(read_at.nanos) - i64::from(stamped.nanos);
        gap <= self.slack_nanos
    }
}
