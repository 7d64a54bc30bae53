//! The walk: every folder is a task; a folder is complete when its entries are, and then completes its parent's entry. Workers take
//! the newest task first, so that the open part of the tree stays as deep as the tree and no wider.

use std::{
    collections::HashMap,
    os::fd::{AsFd, OwnedFd},
    path::Path,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    thread,
};

use rustix::io::Errno;

use super::{
    content::{Failure, Reader},
    exclude::{Excluder, Repository, Surroundings, Verdict},
    sink::{Batch, Sink},
    source::{Scope, Source},
};
use crate::{
    error::{Error, Result},
    format::SINGLE_CHUNK_BYTES,
    id::{BlobId, TreeId},
    name,
    omitted::{Omission, Reason},
    progress::{self, Progress},
    recipe::ChunkRun,
    statcache::{self, Cached, Section, StatCache},
    store::Store,
    sys::{self, Stat},
    tree::{self, Hole, Kind, Node, Time, Totals, features},
};

/// Files to be read in one folder are handed to other workers in parts of this many.
const FILES_PER_TASK: usize = 64;

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

enum Task {
    Enter { folder: Arc<Folder>, parent: Arc<OwnedFd> },
    Read { folder: Arc<Folder>, fd: Arc<OwnedFd>, slots: Vec<usize> },
}

#[derive(Default)]
struct Queue {
    tasks: Mutex<(Vec<Task>, usize)>,
    changed: Condvar,
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
    slack_nanos: i64,
}

struct Worker<'a> {
    batch: Batch<'a>,
    reader: Reader,
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
        let old_root = self.cache.map(|cache| cache.trailer.root_section);
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
            slack_nanos: if coarse { 3_000_000_000 } else { 20_000_000 },
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
        lock(&shared.queue.tasks).0.push(Task::Enter { folder, parent: Arc::new(root) });
        let mut first: Option<Batch<'_>> = None;
        let batches = thread::scope(|scope| {
            let workers: Vec<_> =
                (0..self.threads.max(1)).map(|_| scope.spawn(|| shared.work(&outs, old_root.unwrap_or(0)))).collect();
            workers.into_iter().filter_map(|worker| worker.join().ok().flatten()).collect::<Vec<_>>()
        });
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

struct CacheOut {
    writer: Option<Mutex<statcache::Writer>>,
    keeps_old: bool,
}

impl CacheOut {
    fn append(&self, section: &Section) -> Result<u64> {
        self.writer.as_ref().map_or(Ok(0), |out| lock(out).append(section))
    }
}

impl<'a> Shared<'_, 'a> {
    fn work(&self, out: &CacheOut, root_section: u64) -> Option<Batch<'a>> {
        let made = Batch::new(self.walk.sink);
        let batch = match made {
            Ok(batch) => batch,
            Err(e) => {
                self.fail(e);
                return None;
            }
        };
        let mut worker = Worker { batch, reader: Reader::new(self.walk.store.config().chunking) };
        while let Some(task) = self.next_task() {
            let folder = match &task {
                Task::Enter { folder, .. } | Task::Read { folder, .. } => folder.clone(),
            };
            let done = progress::check(self.walk.progress).and_then(|()| match task {
                Task::Enter { folder, parent } => self.enter(&folder, &parent, root_section, &mut worker),
                Task::Read { folder, fd, slots } => self.read_slots(&folder, &fd, &slots, &mut worker),
            });
            if let Err(e) = done.and_then(|()| self.complete(folder, &mut worker, out)) {
                self.fail(e);
            }
            self.task_done();
        }
        Some(worker.batch)
    }

    fn next_task(&self) -> Option<Task> {
        let mut tasks = lock(&self.queue.tasks);
        loop {
            if self.stopped.load(Ordering::Relaxed) {
                return None;
            }
            if let Some(task) = tasks.0.pop() {
                tasks.1 += 1;
                return Some(task);
            }
            if tasks.1 == 0 {
                return None;
            }
            tasks = self.queue.changed.wait(tasks).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn task_done(&self) {
        let mut tasks = lock(&self.queue.tasks);
        tasks.1 -= 1;
        if tasks.1 == 0 && tasks.0.is_empty() {
            self.queue.changed.notify_all();
        }
    }

    fn push(&self, new: impl IntoIterator<Item = Task>) {
        let mut tasks = lock(&self.queue.tasks);
        tasks.0.extend(new);
        self.queue.changed.notify_all();
    }

    fn fail(&self, error: Error) {
        lock(&self.failure).get_or_insert(error);
        self.stopped.store(true, Ordering::Relaxed);
        let _tasks = lock(&self.queue.tasks);
        self.queue.changed.notify_all();
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

    /// Lists a folder, looks at its entries, reads what few files have changed and makes tasks of the rest.
    fn enter(&self, folder: &Arc<Folder>, parent: &Arc<OwnedFd>, root_section: u64, worker: &mut Worker<'_>) -> Result<()> {
        let is_root = folder.parent.is_none();
        let opened = if is_root { Ok(parent.clone()) } else { sys::open_folder_at(parent.as_fd(), &folder.name).map(Arc::new) };
        let listed = opened.and_then(|fd| {
            let stat = sys::stat_fd(&fd)?;
            let unchanged = folder.old.as_ref().filter(|old| old.is_unchanged(&stat));
            let xattrs = match unchanged {
                Some(old) => old.node.meta.xattrs.clone(),
                None => sys::xattrs_fd(fd.as_fd())?,
            };
            Ok((fd, stat, xattrs))
        });
        let (fd, stat, xattrs) = match listed {
            Ok(listed) => listed,
            Err(errno) if is_root => return Err(self.walk.root_error(errno)),
            Err(errno) => {
                self.omit_failed(folder.path.clone(), errno);
                return Ok(());
            }
        };
        let offset = if is_root { root_section } else { folder.old.as_ref().map_or(0, |old| old.section) };
        let old = self.walk.cache.and_then(|cache| cache.section(offset));
        let scope = if old.is_some() { self.walk.source.scope(&folder.path) } else { Scope::Everything };
        let names = match &scope {
            Scope::Everything => match sys::names(fd.as_fd()) {
                Ok(names) => names,
                Err(errno) if is_root => return Err(self.walk.root_error(errno)),
                Err(errno) => {
                    self.omit_failed(folder.path.clone(), errno);
                    return Ok(());
                }
            },
            Scope::Names(changed) => {
                let kept = old.iter().flat_map(|o| &o.entries).map(|e| e.node.name.clone());
                let mut names: Vec<_> = changed.iter().cloned().chain(kept).collect();
                names.sort_unstable();
                names.dedup();
                names
            }
            Scope::Nothing => old.iter().flat_map(|o| &o.entries).map(|e| e.node.name.clone()).collect(),
        };
        let mut repository = folder.repository.clone();
        if names.binary_search_by(|n| n.as_slice().cmp(b".git")).is_ok() {
            let dot_git = self.walk.workspace.join(name::as_path(&name::join(&folder.path, b".git")));
            repository = Some(Repository::new(folder.path.clone(), dot_git));
        }
        let mut around = Surroundings {
            path: &folder.path,
            names: &names,
            repository: folder.repository.as_deref(),
            only_tracked: folder.only_tracked,
        };
        if !is_root && scope == Scope::Everything {
            match self.walk.excluder.judge_inside(&around, &folder.name, fd.as_fd()) {
                Verdict::Keep => {}
                Verdict::KeepTracked => around.only_tracked = true,
                Verdict::Exclude(rule) => {
                    self.omit(folder.path.clone(), Reason::Excluded(rule));
                    return Ok(());
                }
            }
        }
        around.repository = repository.as_deref();
        let read_at = sys::now();
        let mut slots: Vec<Slot> = Vec::with_capacity(names.len());
        let old_tree = old.as_ref().map(|o| (o.tree, o.entries.len()));
        let mut olds = old.map_or_else(Vec::new, |o| o.entries).into_iter().peekable();
        let needs_paths = self.walk.excluder.needs_paths() || around.only_tracked;
        let (mut folders, mut to_read) = (Vec::new(), Vec::new());
        for entry_name in &names {
            while olds.next_if(|o| o.node.name < *entry_name).is_some() {}
            let old_entry = olds.next_if(|o| o.node.name == *entry_name);
            let is_named = match &scope {
                Scope::Everything => true,
                Scope::Names(changed) => changed.contains(entry_name),
                Scope::Nothing => false,
            };
            let old_entry = match (is_named, old_entry) {
                (false, Some(old)) => {
                    slots.push(self.keep(&folder.path, old, stat.dev));
                    continue;
                }
                (_, old_entry) => old_entry,
            };
            let path = || name::join(&folder.path, entry_name);
            let entry = match sys::stat_at(fd.as_fd(), entry_name) {
                Ok(entry) => entry,
                Err(errno) => {
                    self.omit_failed(path(), errno);
                    continue;
                }
            };
            if self.walk.forbidden.contains(&(entry.dev, entry.ino)) {
                self.omit(path(), Reason::Excluded("the store itself".into()));
                continue;
            }
            if self.walk.mounted.contains(&entry.dev) {
                self.omit(path(), Reason::Excluded("a mounted checkpoint".into()));
                continue;
            }
            if self.walk.excluder.rules().one_file_system && entry.dev != self.root_dev {
                self.omit(path(), Reason::Excluded("another filesystem".into()));
                continue;
            }
            let judged_path = if needs_paths || entry.is_folder() { path() } else { Vec::new() };
            let only_tracked = match self.walk.excluder.judge(&around, entry_name, &judged_path, entry.is_folder()) {
                Verdict::Keep => false,
                Verdict::KeepTracked => true,
                Verdict::Exclude(rule) => {
                    self.omit(path(), Reason::Excluded(rule));
                    continue;
                }
            };
            let mut slot =
                Slot { name: entry_name.clone(), old: old_entry, now: Now::Nothing, dev: entry.dev, links: Vec::new() };
            if entry.is_folder() {
                folders.push((slots.len(), judged_path, only_tracked));
            } else if slot.old.as_ref().is_some_and(|old| old.is_unchanged(&entry) && old.node.links == entry.links) {
                slot.now = Now::AsBefore;
            } else if entry.is_file() {
                to_read.push(slots.len());
            } else {
                slot.now = self.look(&fd, entry_name, &entry, read_at, path()).into();
            }
            slots.push(slot);
        }
        let olds_of_folders: Vec<Option<Cached>> = folders.iter().map(|(i, ..)| slots[*i].old.clone()).collect();
        let batches: Vec<Vec<usize>> = match to_read.len() {
            0..=FILES_PER_TASK => Vec::new(),
            _ => to_read.chunks(FILES_PER_TASK).map(<[usize]>::to_vec).collect(),
        };
        folder.pending.fetch_add(folders.len() + batches.len(), Ordering::Relaxed);
        {
            let mut state = lock(&folder.state);
            let racy = self.is_racy(&stat, read_at);
            *state = State { stat: Some((stat, xattrs, racy)), slots, old: old_tree, read_at };
        }
        let inline = if batches.is_empty() { to_read } else { Vec::new() };
        let entered = folders.into_iter().zip(olds_of_folders).rev().map(|((slot, path, only_tracked), old)| Task::Enter {
            folder: Arc::new(Folder {
                parent: Some((folder.clone(), slot)),
                name: path.rsplit(|b| *b == b'/').next().unwrap_or_default().to_vec(),
                path,
                repository: repository.clone(),
                only_tracked: only_tracked || folder.only_tracked,
                old: old.filter(|o| o.node.as_folder().is_some()),
                pending: AtomicUsize::new(1),
                state: Mutex::default(),
            }),
            parent: fd.clone(),
        });
        let reads = batches.into_iter().rev().map(|slots| Task::Read { folder: folder.clone(), fd: fd.clone(), slots });
        self.push(entered.chain(reads));
        self.read_slots(folder, &fd, &inline, worker)
    }

    /// An entry that the source says did not change, with everything below it.
    fn keep(&self, folder: &[u8], old: Cached, dev: u64) -> Slot {
        let path = name::join(folder, &old.node.name);
        let mut links = Vec::new();
        self.cached_links(&old, dev, &mut 0, &mut links);
        links.retain(|member| member.position > 0);
        let below = |o: &&Omission| o.path.strip_prefix(path.as_slice()).is_some_and(|rest| rest.is_empty() || rest[0] == b'/');
        lock(&self.omissions).extend(self.walk.base_omissions.iter().filter(below).cloned());
        Slot { name: old.node.name.clone(), old: Some(old), now: Now::AsBefore, dev, links }
    }

    /// The hard-linked entries at and below a cached one; `position` is the entry's own.
    fn cached_links(&self, entry: &Cached, dev: u64, position: &mut u64, links: &mut Vec<LinkMember>) {
        match &entry.node.kind {
            Kind::Folder { totals, .. } if totals.features & features::HARD_LINK != 0 => {
                let section = self.walk.cache.and_then(|cache| cache.section(entry.section));
                for below in section.iter().flat_map(|s| &s.entries) {
                    *position += 1;
                    self.cached_links(below, dev, position, links);
                }
            }
            Kind::Folder { totals, .. } => *position += totals.entries,
            _ if entry.node.links > 1 => links.push(LinkMember { file: (dev, entry.ino), position: *position }),
            _ => {}
        }
    }

    /// A symlink, fifo, socket or device.
    fn look(&self, fd: &OwnedFd, entry_name: &[u8], stat: &Stat, read_at: Time, path: Vec<u8>) -> Option<Cached> {
        let kind = match stat.special_kind() {
            Some(kind) => Ok(kind),
            None => sys::readlink_at(fd.as_fd(), entry_name).map(|target| Kind::Symlink { target }),
        };
        let looked = kind.and_then(|kind| Ok((kind, sys::xattrs_at(fd.as_fd(), entry_name)?)));
        match looked {
            Ok((kind, xattrs)) => {
                let node = Node { name: entry_name.to_vec(), meta: stat.meta(xattrs), links: stat.links, kind };
                let racy = self.is_racy(stat, read_at);
                Some(Cached { node, ino: stat.ino, ctime: stat.ctime, racy, section: 0 })
            }
            Err(errno) => {
                self.omit_failed(path, errno);
                None
            }
        }
    }

    fn read_slots(&self, folder: &Arc<Folder>, fd: &OwnedFd, slots: &[usize], worker: &mut Worker<'_>) -> Result<()> {
        for &i in slots {
            if self.stopped.load(Ordering::Relaxed) {
                return Ok(());
            }
            let (entry_name, old, read_at) = {
                let mut state = lock(&folder.state);
                let read_at = state.read_at;
                let slot = &mut state.slots[i];
                (slot.name.clone(), slot.old.take(), read_at)
            };
            let path = name::join(&folder.path, &entry_name);
            let now = match self.read_file(fd, &entry_name, old.as_ref(), read_at, &path, worker) {
                Ok(now) => Some(now),
                Err(Failure::Unreadable(errno)) => {
                    self.omit_failed(path, errno);
                    None
                }
                Err(Failure::Store(error)) => return Err(error),
            };
            let mut state = lock(&folder.state);
            state.slots[i].old = old;
            state.slots[i].now = now.into();
        }
        Ok(())
    }

    fn read_file(
        &self,
        folder: &OwnedFd,
        entry_name: &[u8],
        old: Option<&Cached>,
        read_at: Time,
        path: &[u8],
        worker: &mut Worker<'_>,
    ) -> Result<Cached, Failure> {
        let fd = sys::open_file_at(folder.as_fd(), entry_name)?;
        let stat = sys::stat_fd(&fd)?;
        if !stat.is_file() {
            return Err(Failure::Unreadable(Errno::AGAIN));
        }
        let xattrs = sys::xattrs_fd(fd.as_fd())?;
        let cached = |stat: &Stat, blob, holes, changing: bool| Cached {
            node: Node {
                name: entry_name.to_vec(),
                meta: stat.meta(xattrs.clone()),
                links: stat.links,
                kind: Kind::File { size: stat.size, blob, holes },
            },
            ino: stat.ino,
            ctime: stat.ctime,
            racy: changing || self.is_racy(stat, read_at),
            section: 0,
        };
        let file = (stat.dev, stat.ino);
        if stat.links > 1 {
            let known = lock(&self.known_links).get(&file).cloned();
            if let Some((ctime, blob, size, holes)) = known
                && ctime == stat.ctime
                && size == stat.size
            {
                return Ok(cached(&stat, blob, holes, false));
            }
        }
        let before = || self.chunks_before(old, &stat);
        let content = worker.reader.read(&fd, entry_name, &before, &mut worker.batch)?;
        self.files_read.fetch_add(1, Ordering::Relaxed);
        self.bytes_read.fetch_add(content.stat.size, Ordering::Relaxed);
        self.walk.progress.advance(1, content.stat.size);
        if content.changing {
            self.omit(path.to_vec(), Reason::Changing);
        } else if stat.links > 1 {
            let known = (content.stat.ctime, content.blob, content.stat.size, content.holes.clone());
            lock(&self.known_links).insert(file, known);
        }
        Ok(cached(&content.stat, content.blob, content.holes, content.changing))
    }

    /// The chunks of what a large file held before, if it is likely that it still begins with them.
    fn chunks_before(&self, old: Option<&Cached>, stat: &Stat) -> Vec<ChunkRun> {
        let Some(Cached { node: Node { kind: Kind::File { size, blob, .. }, .. }, .. }) = old else { return Vec::new() };
        if *size as usize <= SINGLE_CHUNK_BYTES || *size > stat.size || !self.walk.sink.keeps_content() {
            return Vec::new();
        }
        self.walk.store.blob(*blob, *size).map(|reader| reader.runs().to_vec()).unwrap_or_default()
    }

    /// Counts one part of a folder as complete; completes the folder, and what that completes in turn.
    fn complete(&self, folder: Arc<Folder>, worker: &mut Worker<'_>, out: &CacheOut) -> Result<()> {
        let mut current = folder;
        while current.pending.fetch_sub(1, Ordering::AcqRel) == 1 {
            let finished = self.finish(&current, worker, out)?;
            let Some((parent, slot)) = current.parent.clone() else {
                *lock(&self.root) = finished;
                break;
            };
            if let Some((now, links)) = finished {
                let mut state = lock(&parent.state);
                let slot = &mut state.slots[slot];
                slot.now = if slot.old.as_ref() == Some(&now) { Now::AsBefore } else { Now::New(Box::new(now)) };
                slot.links = links;
            }
            current = parent;
        }
        Ok(())
    }

    /// Makes a folder's node from its entries. `None` where the folder is left out.
    fn finish(&self, folder: &Folder, worker: &mut Worker<'_>, out: &CacheOut) -> Result<Option<(Cached, Vec<LinkMember>)>> {
        let State { stat, slots, old, .. } = std::mem::take(&mut *lock(&folder.state));
        let Some((stat, xattrs, racy)) = stat else { return Ok(None) };
        let mut totals = Totals::default();
        let mut links = Vec::new();
        let mut entries = Vec::with_capacity(slots.len());
        let mut unchanged = true;
        for slot in slots {
            let now = match (slot.now, slot.old) {
                (Now::AsBefore, Some(old)) => old,
                (Now::New(now), old) => {
                    unchanged &= old.as_ref() == Some(&*now);
                    *now
                }
                _ => continue,
            };
            let position = totals.entries + 1;
            totals.add(&now.node);
            if now.node.as_folder().is_none() && now.node.links > 1 {
                links.push(LinkMember { file: (slot.dev, now.ino), position });
            }
            links.extend(slot.links.iter().map(|l| LinkMember { position: l.position + position, ..*l }));
            entries.push(now);
        }
        let old_section = folder.old.as_ref().map_or(0, |o| o.section);
        let old_offset =
            if folder.parent.is_none() { self.walk.cache.map_or(0, |c| c.trailer.root_section) } else { old_section };
        let (tree, section) = match old {
            Some((tree, count)) if unchanged && count == entries.len() => {
                let offset = if out.keeps_old { old_offset } else { out.append(&Section { tree, entries })? };
                (tree, offset)
            }
            _ => {
                self.dirty.store(true, Ordering::Relaxed);
                let (tree, _) = tree::encode_folder(&entries, |encoded| worker.batch.meta(encoded))?;
                let section = Section { tree, entries };
                (tree, out.append(&section)?)
            }
        };
        let node = Node { name: folder.name.clone(), meta: stat.meta(xattrs), links: 1, kind: Kind::Folder { tree, totals } };
        Ok(Some((Cached { node, ino: stat.ino, ctime: stat.ctime, racy, section }, links)))
    }
}
