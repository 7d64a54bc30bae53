//! Walks the checkpoint's tree, and the live folder in step with it, on several threads; what fits already is not looked into further.

mod entry;
mod found;
mod live;
mod merge;

use std::{
    os::fd::{AsFd, OwnedFd},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use rustix::io::Errno;

use self::{entry::Place, live::Live};
pub use self::{
    entry::locate,
    found::{
        BlockedEntry, Extra, Group, HOLDS_FROZEN, HOLDS_HELD, HOLDS_SPARED, KeptEntry, LinkedEntry, WalkFindings, not_empty,
    },
};
use super::{
    Options,
    entries::Entries,
    held::{Hold, HoldCause},
    select::{Filter, ProtectedEntries},
    summary::Counts,
    table::{Action, Dirs, EncodedListing, Folder, Item, Stamp, folder_path},
};
use crate::{
    damaged::DamageSet,
    errno::{self, Presence},
    error::{Error, Result, TargetContext},
    filesystem::{FilesystemId, Filesystems},
    id::TreeId,
    links::{Links, LinksFolder, Member},
    name,
    progress::{self, Progress},
    statcache::{StatCache, Trust},
    store::Store,
    sys,
    tasks::Tasks,
    tree::Node,
    view::View,
    writers::Writers,
};

/// A walk under way.
pub struct Walk<'a> {
    pub store: &'a Store,
    pub view: Arc<View>,
    pub options: &'a Options,
    pub filter: &'a Filter,
    pub spared: &'a ProtectedEntries,
    pub cache: Option<&'a StatCache>,
    pub trust: Trust,
    pub filesystems: Filesystems,
    pub writers: Writers,
    /// What is known to be damaged: it is read before anything is planned with it.
    pub damaged: DamageSet,
    pub links: &'a Links,
    pub progress: &'a dyn Progress,
    /// Number of entries, by the sums of what is restored.
    pub entries_max: u64,
    /// Number of entries that were come across so far.
    pub entries_seen: AtomicU64,
    /// True if the patterns matched anything.
    pub has_matched: AtomicBool,
    pub found: Mutex<WalkFindings>,
}

/// A folder to look at.
pub struct Job {
    folder: u32,
    tree: TreeId,
    /// The folder in the table of hard links; `None` where nothing in it or below is in a group.
    links: Option<LinksFolder>,
    section: u64,
    live: bool,
    included: bool,
    device: u64,
    /// The mount that the folder is on, or is made on.
    mount: u64,
}

/// Result of one folder.
#[derive(Default)]
struct Outcome {
    items: Vec<(Item, Option<crate::id::PackId>)>,
    stamps: Vec<Stamp>,
    linked: Vec<LinkedEntry>,
    extras: Vec<Extra>,
    kept: Vec<KeptEntry>,
    blocked: Vec<BlockedEntry>,
    exchanged: Vec<((u32, u32), u64)>,
    children: Vec<(Folder, Job)>,
    counts: Counts,
    hole_bytes: u64,
    is_as_cached: bool,
    filesystem: FilesystemId,
    mount: u64,
    /// True if the live folder could not be looked into.
    is_unseen: bool,
}

impl Outcome {
    /// Notes an entry that stays as it is: what is there is not what the stat cache will call it.
    fn block(&mut self, blocked: BlockedEntry) {
        self.blocked.push(blocked);
        self.is_as_cached = false;
    }
}

impl Walk<'_> {
    fn lock(&self) -> MutexGuard<'_, WalkFindings> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters the target itself; the first thing to do.
    pub fn enter_root(&self, top: Folder) {
        self.lock().folders.push(top);
    }

    /// Notes that the target's own metadata stays as it is.
    pub fn block_root(&self, hold: Hold) {
        self.lock().blocked.push(BlockedEntry::held(0, b"", hold, Some(Action::Meta)));
    }

    /// Looks at one entry that is no folder, in an open one.
    pub fn single(&self, node: Node, member: Option<Member>, root: Option<Arc<OwnedFd>>) -> Result<()> {
        let root = root.ok_or_else(|| Error::Invalid("nowhere to restore to".into()))?;
        let seen = sys::stat_at(root.as_fd(), &node.name).map_err(|errno| (errno, errno::presence(root.as_fd(), &node.name)));
        let stat = match seen {
            Ok(stat) | Err((_, Presence::There(stat))) => Some(stat),
            Err((_, Presence::Gone | Presence::FolderGone)) => None,
            Err((errno, Presence::Unknown)) => return Err(errno).at_target("read", name::as_path(&node.name)),
        };
        let job =
            Job { folder: 0, tree: TreeId([0; 32]), links: None, section: 0, live: true, included: true, device: 0, mount: 0 };
        let live = Live::new(root, Vec::new(), &self.filesystems).at_target("read", name::as_path(&node.name))?;
        let entries = Entries { section: None, loaded: Some(vec![node.clone()]), is_known: false };
        let mut out = Outcome { stamps: vec![Stamp::default()], ..Outcome::default() };
        let at = Place { job: &job, index: 0, member, included: true };
        self.entry(&at, &node, &entries, Some(&live), stat, &mut out)?;
        self.enter(job, entries, out, &mut Vec::new());
        Ok(())
    }

    /// Walks from the target down. `root` is the open target, where it exists.
    pub fn run(&self, tree: TreeId, links: Option<LinksFolder>, section: u64, root: Option<Arc<OwnedFd>>) -> Result<()> {
        let step = |folder: u32| {
            let found = self.lock();
            let line = &found.folders[folder as usize];
            (line.parent, line.name.to_vec())
        };
        let dirs = root.map(|root| Dirs::new(root, &step));
        let live = dirs.is_some();
        let device = self.lock().folders.first().map_or(0, |top| top.device);
        let first = Job { folder: 0, tree, links, section, live, included: !self.filter.has_include(), device, mount: 0 };
        let jobs = Tasks::new(vec![first]);
        jobs.each(self.options.threads, |job| {
            let mut more = Vec::new();
            self.folder(job, dirs.as_ref(), &mut more)?;
            jobs.add(more.into_iter().rev());
            Ok(())
        })
    }

    fn folder(&self, job: Job, dirs: Option<&Dirs<'_>>, more: &mut Vec<Job>) -> Result<()> {
        progress::check(self.progress)?;
        let path = || folder_path(&self.lock().folders, job.folder);
        let mut entries = self.entries(&job).map_err(|e| e.at(&path()))?;
        self.count(job.tree, entries.len()).map_err(|e| e.at(&path()))?;
        let mut live = match dirs.filter(|_| job.live) {
            Some(dirs) => match self.look_into(dirs, job.folder) {
                Ok(live) => Some(live),
                Err(e) if job.folder == 0 || e == Errno::NOENT => return Err(e).at_target("read folder", name::as_path(&path())),
                Err(e) => {
                    self.leave_unseen(job, entries, HoldCause::unseen(e));
                    return Ok(());
                }
            },
            None => None,
        };
        let filesystem = live.as_ref().map(|live| live.filesystem.id).unwrap_or_default();
        entries.is_known = entries.section.as_ref().is_some_and(|section| section.filesystem.is_same(filesystem));
        let outcome = self.merge(&job, &entries, live.as_mut(), &path)?;
        self.progress.advance(entries.len() as u64, 0);
        self.enter(job, entries, outcome, more);
        Ok(())
    }

    fn look_into(&self, dirs: &Dirs<'_>, folder: u32) -> rustix::io::Result<Live> {
        let fd = dirs.get(folder)?;
        // Whoever may list a folder, and not enter it, sees names alone.
        sys::stat_at(fd.as_fd(), b".")?;
        let names = sys::names(fd.as_fd())?;
        Live::new(fd, names, &self.filesystems)
    }

    /// Leaves a live folder as it is, with all that is in it, since it cannot be looked into.
    fn leave_unseen(&self, job: Job, entries: Entries, held: HoldCause) {
        let (parent, name) = {
            let mut found = self.lock();
            let line = &mut found.folders[job.folder as usize];
            (line.finish, line.differs) = (false, false);
            let (parent, name) = (line.parent, line.name.clone());
            // It is named once.
            found.blocked.retain(|blocked| (blocked.folder, &blocked.name) != (parent, &name));
            (parent, name)
        };
        let mut out = Outcome { is_unseen: true, ..Outcome::default() };
        out.block(BlockedEntry::held(parent, &name, Hold::own(held), None));
        self.enter(job, entries, out, &mut Vec::new());
    }

    /// A forged tree that has a folder in it twice, and that twice, and so on, ends here and not when memory does.
    fn count(&self, tree: TreeId, entries: usize) -> Result<()> {
        let before = self.entries_seen.fetch_add(entries as u64, Ordering::Relaxed);
        if before.saturating_add(entries as u64) <= self.entries_max {
            return Ok(());
        }
        let reason = format!("with it, there are more than the {} entries that the sums say", self.entries_max);
        Err(Error::Corrupt { what: format!("tree {tree}"), place: self.store.layout().packs(), reason })
    }

    fn entries(&self, job: &Job) -> Result<Entries> {
        let section = match self.cache {
            Some(cache) if job.section != 0 => cache.section(job.section),
            _ => None,
        };
        let same = section.as_ref().is_some_and(|s| s.tree == job.tree);
        let loaded = if same { None } else { Some(self.store.folder(job.tree)?) };
        Ok(Entries { section, loaded, is_known: false })
    }

    fn enter(&self, job: Job, entries: Entries, mut out: Outcome, more: &mut Vec<Job>) {
        // The old section serves as it is, where it is right in every entry.
        let listing = (!out.is_as_cached || !out.items.is_empty())
            .then(|| EncodedListing::new((0..entries.len()).map(|i| entries.node(i)), std::mem::take(&mut out.stamps)));
        drop(entries);
        let mut found = self.lock();
        let first = found.folders.len() as u32;
        for (folder, mut child) in out.children {
            child.folder = found.folders.len() as u32;
            found.folders.push(folder);
            more.push(child);
        }
        let end = found.folders.len() as u32;
        found.is_partial |= out.is_unseen;
        let line = &mut found.folders[job.folder as usize];
        line.children = first..end;
        line.listing = listing;
        line.filesystem = out.filesystem;
        if out.mount != 0 {
            line.mount = out.mount;
        }
        for (mut item, pack) in out.items {
            if let Some(pack) = pack {
                item.pack = found.packs.number(pack);
            }
            found.items.push(item);
        }
        found.linked.extend(out.linked);
        found.extras.extend(out.extras);
        found.kept.extend(out.kept);
        found.blocked.extend(out.blocked);
        found.exchanged.extend(out.exchanged);
        found.counts.merge(&out.counts);
        found.hole_bytes += out.hole_bytes;
    }
}
