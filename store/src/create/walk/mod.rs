//! The walk: every folder is a task; a folder is complete when its entries are, and then completes its parent's entry. Workers take
//! the newest task first, so that the open part of the tree stays as deep as the tree and no wider.

mod file;
mod finish;
mod folder;
mod pending;
mod scoped;

use std::{
    collections::HashMap,
    os::fd::OwnedFd,
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
};

use rustix::io::Errno;

use self::{
    finish::CacheOut,
    pending::{Folder, ScanContext},
};
use super::{
    content::Reader,
    exclude::{Excluder, Repository},
    judge::Judge,
    sink::{Batch, Sink},
    source::Source,
};
use crate::{
    clock,
    errno::{self, Call, Presence, Verdict},
    error::{Error, Result},
    filesystem::Filesystems,
    links::LinkedFolder,
    name,
    omitted::{Omission, Reason},
    progress::{self, Progress},
    record::Checkpoint,
    statcache::{self, CacheEntry, StatCache, Trust},
    store::Store,
    sys::{self, Stat},
    tasks::Tasks,
    writers::Writers,
};

/// Everything that a walk needs.
pub struct Walk<'a> {
    /// The store whose settings and recipes are used.
    pub store: &'a Store,
    /// Destination of objects.
    pub sink: &'a Sink<'a>,
    /// Rules for leaving entries out.
    pub excluder: &'a Excluder,
    /// The source that says which entries of a folder are looked at again.
    pub source: &'a dyn Source,
    /// Stat cache of entries, where the content they had then is still there.
    pub cache: Option<&'a StatCache>,
    /// Trust in that cache.
    pub trust: Trust,
    /// Omissions of the cache's checkpoint, in order.
    pub base_omissions: &'a [Omission],
    /// The judge of new content, and the session's last checkpoint, of which everything stays as it is.
    pub judge: Option<(&'a Judge, Option<&'a Checkpoint>)>,
    /// The new stat cache.
    pub cache_out: Option<Mutex<statcache::Writer>>,
    /// Receiver of counts and notices, which may ask to stop.
    pub progress: &'a dyn Progress,
    /// The workspace folder's path, for finding `.git/index`.
    pub workspace: &'a Path,
    /// Folders that are never entered: the store, by device and inode.
    pub forbidden: Vec<(u64, u64)>,
    /// Devices of mounted checkpoints, which are never entered.
    pub mounted: Vec<u64>,
    /// Number of workers.
    pub threads: usize,
}

/// Result of a walk.
pub struct WalkOutcome {
    /// The workspace folder; its name is `workspace`.
    pub root: CacheEntry,
    /// Hard-linked entries, by folder.
    pub links: Vec<LinkedFolder>,
    /// Entries that were left out, ordered by path.
    pub omissions: Vec<Omission>,
    /// True if the new stat cache, or its checkpoint, says anything that the old one did not.
    pub is_dirty: bool,
    /// Files whose content was read, and their bytes.
    pub read: (u64, u64),
    /// The new stat cache, to be completed.
    pub cache_out: Option<statcache::Writer>,
}

/// Decisions on files with several names, by device and inode. The first name that is looked at decides, so that all of them
/// show the same even where the file changes meanwhile; who comes to another name in that moment waits.
type Inodes = HashMap<(u64, u64), Arc<Mutex<Option<InodeDecision>>>>;

/// Decision on a file with several names.
struct InodeDecision {
    /// The file under the name that decided.
    cached: CacheEntry,
    /// The reason for which some of its attributes were not read.
    unread: Option<String>,
}

/// A folder and its path.
type LastFolder = (Arc<Folder>, Arc<Vec<u8>>);

/// A folder or file that is replaced in the moment in which it is opened is opened this often.
const OPEN_TRIES: u32 = 4;

/// True if a failure may be that of an entry which another one has replaced since, so that another try may succeed.
fn may_be_replaced(errno: Errno, presence: Presence) -> bool {
    matches!((errno, presence), (Errno::NOENT | Errno::STALE, Presence::There(_)))
}

/// A part of the walk that one worker does.
enum Task {
    /// Open a folder and look at its entries.
    Enter { folder: Arc<Folder>, parent: Arc<OwnedFd> },
    /// Read some of a folder's files.
    Read { folder: Arc<Folder>, fd: Arc<OwnedFd>, slots: Vec<usize> },
}

struct WalkState<'w, 'a> {
    walk: &'w Walk<'a>,
    tasks: Tasks<Task>,
    omissions: Mutex<Vec<Omission>>,
    inodes: Mutex<Inodes>,
    filesystems: Filesystems,
    writers: Writers,
    files_read: AtomicU64,
    bytes_read: AtomicU64,
    dirty: AtomicBool,
    /// The folder that was entered last, by any worker, and its path: the next one is often in it.
    entered: Mutex<Option<LastFolder>>,
    root: Mutex<Option<(CacheEntry, Vec<LinkedFolder>)>>,
    root_dev: u64,
    /// Offset of the workspace folder's section in the old cache.
    root_section: u64,
    /// Files that never enter the store, by device and inode.
    secret_files: Vec<(u64, u64)>,
}

struct Worker<'a> {
    batch: Batch<'a>,
    reader: Reader<'a>,
}

impl<'a> Worker<'a> {
    fn new(walk: &Walk<'a>) -> Result<Self> {
        Ok(Worker { batch: Batch::new(walk.sink)?, reader: Reader::new(walk.store, walk.progress) })
    }

    /// The objects that were not handed on to the sink yet. All workers come to this point together, and share the work of the last blocks.
    fn finish(self) -> Result<Batch<'a>> {
        self.batch.write_whole_blocks()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Walk<'_> {
    /// Walks the open workspace folder.
    pub fn run(mut self, root: OwnedFd) -> Result<WalkOutcome> {
        let root_stat = sys::stat_fd(&root).map_err(|e| self.root_error(e))?;
        let cache_out = self.cache_out.take();
        let keeps_old = cache_out.as_ref().is_some_and(|out| lock(out).keeps_old);
        let folder = Arc::new(Folder {
            parent: None,
            depth: 0,
            name: b"workspace".to_vec(),
            repository: Repository::around(self.workspace),
            only_tracked: false,
            is_full: false,
            old: None,
            pending: AtomicUsize::new(1),
            is_gone: AtomicBool::new(false),
            state: Mutex::default(),
        });
        let shared = WalkState {
            walk: &self,
            tasks: Tasks::new(vec![Task::Enter { folder, parent: Arc::new(root) }]),
            omissions: Mutex::default(),
            inodes: Mutex::default(),
            filesystems: Filesystems::default(),
            writers: Writers::default(),
            files_read: AtomicU64::new(0),
            bytes_read: AtomicU64::new(0),
            // After the clock was set back, the next walk is to go by the clock of this one.
            dirty: AtomicBool::new(self.cache.is_none() || !keeps_old || self.trust.is_limited()),
            entered: Mutex::default(),
            root: Mutex::default(),
            root_dev: root_stat.dev,
            root_section: self.cache.map_or(0, |cache| cache.trailer.root_section),
            secret_files: self.store.secrets().identities(),
        };
        let outs = CacheOut { writer: cache_out, keeps_old };
        let begin = || Worker::new(&self);
        let work = |worker: &mut Worker<'_>, task| shared.work(task, worker, &outs);
        let mut first: Option<Batch<'_>> = None;
        for batch in shared.tasks.run(self.threads, begin, work, Worker::finish)? {
            match &mut first {
                Some(first) => first.join(batch)?,
                None => first = Some(batch),
            }
        }
        if let Some(batch) = first {
            batch.finish()?;
        }
        let found = lock(&shared.root).take();
        let (root, mut links) = found.ok_or_else(|| Error::Invalid(format!("{} cannot be read", self.workspace.display())))?;
        links.reverse();
        let mut omissions = std::mem::take(&mut *lock(&shared.omissions));
        omissions.sort_unstable();
        omissions.dedup();
        let read = (shared.files_read.into_inner(), shared.bytes_read.into_inner());
        // The next run takes what was left out from the checkpoint that the cache is tied to.
        let is_dirty = shared.dirty.into_inner() || omissions != self.base_omissions;
        let cache_out = outs.writer.map(|out| out.into_inner().unwrap_or_else(PoisonError::into_inner));
        Ok(WalkOutcome { root, links, omissions, is_dirty, read, cache_out })
    }

    fn root_error(&self, e: Errno) -> Error {
        Error::Io { action: "read workspace", path: self.workspace.to_owned(), source: e.into() }
    }
}

impl WalkState<'_, '_> {
    fn work(&self, task: Task, worker: &mut Worker<'_>, out: &CacheOut) -> Result<()> {
        progress::check(self.walk.progress)?;
        let folder = match task {
            Task::Enter { folder, parent } => {
                self.enter(&folder, &parent, worker)?;
                folder
            }
            Task::Read { folder, fd, slots } => {
                self.read_slots(&folder, &fd, &slots, worker)?;
                folder
            }
        };
        self.complete(folder, worker, out)
    }

    /// The path of a folder that is entered.
    fn path_entered(&self, folder: &Arc<Folder>) -> Arc<Vec<u8>> {
        let above = match (&folder.parent, &*lock(&self.entered)) {
            (Some((parent, _)), Some((last, path))) if Arc::ptr_eq(parent, last) => Some(path.clone()),
            _ => None,
        };
        let path = Arc::new(above.map_or_else(|| folder.path(), |above| name::join(&above, &folder.name)));
        let before = lock(&self.entered).replace((folder.clone(), path.clone()));
        drop(before);
        path
    }

    /// Offset of a folder's section in the old cache.
    fn old_section(&self, folder: &Folder) -> u64 {
        match &folder.parent {
            None => self.root_section,
            Some(_) => folder.old.as_ref().map_or(0, |old| old.section),
        }
    }

    /// Names the folder whose tree cannot be stored.
    fn in_folder(&self, folder: &Folder, error: Error) -> Error {
        match (&error, folder.parent.is_none()) {
            (Error::TooLong { .. }, true) => error.at(self.walk.workspace.as_os_str().as_encoded_bytes()),
            (Error::TooLong { .. }, false) => error.at(&folder.path()),
            _ => error,
        }
    }

    fn omit(&self, path: Vec<u8>, reason: Reason) {
        lock(&self.omissions).push(Omission { path, reason });
    }

    /// Names an entry as left out for an error. One that went away between the listing and the look is not there, and is not named: a
    /// second look says so, never the error.
    fn omit_failed(&self, folder: &Folder, path: &dyn Fn() -> Vec<u8>, errno: Errno, presence: Presence) {
        if presence == Presence::FolderGone {
            folder.is_gone.store(true, Ordering::Relaxed);
        }
        match errno::verdict(Call::Read, errno, presence) {
            Verdict::Gone => {}
            Verdict::None | Verdict::Skip | Verdict::Fatal => {
                self.omit(path(), Reason::Unreadable(std::io::Error::from(errno).to_string()));
            }
        }
    }

    /// Names an entry of which some attributes were not read.
    fn omit_attributes(&self, path: &dyn Fn() -> Vec<u8>, unread: Option<String>) {
        if let Some(why) = unread {
            self.omit(path(), Reason::Attributes(why));
        }
    }

    /// True if an entry may be changed later without a new stamp, as far as its stamps tell. `old` is what the cache had.
    fn is_racy(&self, looked: &ScanContext, old: Option<&CacheEntry>, stat: &Stat) -> bool {
        match looked.filesystem.is_stamped_here {
            true => clock::is_racy(stat.ctime, looked.at),
            // By its clock, it may have been changed a moment ago, unless it looked the same long enough ago.
            false => !(looked.is_known && old.is_some_and(|old| self.walk.trust.is_past_doubt(old, stat))),
        }
    }

    /// True if an entry is what the cache had.
    fn is_unchanged(&self, looked: &ScanContext, old: &CacheEntry, stat: &Stat) -> bool {
        looked.is_known && self.walk.trust.is_unchanged(old, stat)
    }
}
