//! Entering a folder: open it, list it, judge and look at its entries, read what few files have changed, make tasks of the rest.

use std::{
    iter::Peekable,
    os::fd::{AsFd, OwnedFd},
    sync::{Arc, Mutex, atomic::AtomicUsize, atomic::Ordering},
    vec,
};

use super::{Folder, LinkMember, Now, Shared, Slot, State, Worker, lock, queue::Task};
use crate::{
    create::{
        exclude::{Repository, Surroundings, Verdict},
        source::Scope,
    },
    error::Result,
    name,
    omitted::{Omission, Reason},
    restore, secrets,
    statcache::{Cached, Section},
    sys::{self, Stat},
    tree::{Kind, Time, Xattr, features},
};

/// Files to be read in one folder are handed to other workers in parts of this many.
const FILES_PER_TASK: usize = 64;

/// A folder that is open.
struct Opened {
    fd: Arc<OwnedFd>,
    stat: Stat,
    xattrs: Vec<Xattr>,
}

/// The names to look at, how many of them have to be looked at, and what the cache had.
struct Listing {
    names: Vec<Vec<u8>>,
    scope: Scope,
    old: Option<Section>,
}

/// What the entries are judged by, and looked at with.
struct Looking<'f> {
    folder: &'f Folder,
    opened: &'f Opened,
    around: Surroundings<'f>,
    needs_paths: bool,
    read_at: Time,
    /// Names that never enter the store from this folder.
    secrets: Vec<String>,
}

/// What is left to do for an entry.
enum Rest {
    Nothing,
    Read,
    Enter { path: Vec<u8>, only_tracked: bool },
}

impl Shared<'_, '_> {
    /// Lists a folder, looks at its entries, reads what few files have changed and makes tasks of the rest.
    pub(super) fn enter(&self, folder: &Arc<Folder>, parent: &Arc<OwnedFd>, worker: &mut Worker<'_>) -> Result<()> {
        let Some(opened) = self.open(folder, parent)? else { return Ok(()) };
        let Some(Listing { names, scope, old }) = self.list(folder, &opened)? else { return Ok(()) };
        let inner = self.repository_at(folder, &names);
        let mut around = Surroundings {
            path: &folder.path,
            names: &names,
            repository: folder.repository.as_deref(),
            only_tracked: folder.only_tracked,
        };
        if folder.parent.is_some() && scope == Scope::Everything {
            match self.walk.excluder.judge_inside(&around, &folder.name, opened.fd.as_fd()) {
                Verdict::Keep => {}
                Verdict::KeepTracked => around.only_tracked = true,
                Verdict::Exclude(rule) => {
                    self.omit(folder.path.clone(), Reason::Excluded(rule));
                    return Ok(());
                }
            }
        }
        let repository = inner.or_else(|| folder.repository.clone());
        around.repository = repository.as_deref();
        let needs_paths = self.walk.excluder.needs_paths() || around.only_tracked;
        let secrets = self.secrets_in(folder);
        let looking = Looking { folder, opened: &opened, around, needs_paths, read_at: sys::now(), secrets };

        let old_tree = old.as_ref().map(|o| (o.tree, o.entries.len()));
        let mut olds = old.map_or_else(Vec::new, |o| o.entries).into_iter().peekable();
        let mut slots: Vec<Slot> = Vec::with_capacity(names.len());
        let (mut folders, mut to_read) = (Vec::new(), Vec::new());
        for entry_name in &names {
            let old = take_old(&mut olds, entry_name);
            let slot = match old {
                Some(old) if !scope.has(entry_name) => self.keep(&folder.path, old, opened.stat.dev),
                old => {
                    let Some((slot, rest)) = self.look_at(&looking, entry_name, old) else { continue };
                    match rest {
                        Rest::Nothing => {}
                        Rest::Read => to_read.push(slots.len()),
                        Rest::Enter { path, only_tracked } => folders.push(Folder {
                            parent: Some((folder.clone(), slots.len())),
                            name: entry_name.clone(),
                            path,
                            repository: repository.clone(),
                            only_tracked: only_tracked || folder.only_tracked,
                            old: slot.old.clone().filter(|o| o.node.as_folder().is_some()),
                            pending: AtomicUsize::new(1),
                            state: Mutex::default(),
                        }),
                    }
                    slot
                }
            };
            slots.push(slot);
        }
        let read_at = looking.read_at;
        let racy = self.is_racy(&opened.stat, read_at);
        *lock(&folder.state) = State { stat: Some((opened.stat, opened.xattrs, racy)), slots, old: old_tree, read_at };
        self.hand_out(folder, &opened.fd, folders, to_read, worker)
    }

    /// Opens a folder. `None` where it cannot be, which is then recorded.
    fn open(&self, folder: &Folder, parent: &Arc<OwnedFd>) -> Result<Option<Opened>> {
        let is_root = folder.parent.is_none();
        let fd = if is_root { Ok(parent.clone()) } else { sys::open_folder_at(parent.as_fd(), &folder.name).map(Arc::new) };
        let opened = fd.and_then(|fd| {
            let stat = sys::stat_fd(&fd)?;
            let unchanged = folder.old.as_ref().filter(|old| old.is_unchanged(&stat));
            let xattrs = match unchanged {
                Some(old) => old.node.meta.xattrs.clone(),
                None => sys::xattrs_fd(fd.as_fd())?,
            };
            Ok(Opened { fd, stat, xattrs })
        });
        match opened {
            Ok(opened) => Ok(Some(opened)),
            Err(errno) if is_root => Err(self.walk.root_error(errno)),
            Err(errno) => {
                self.omit_failed(folder.path.clone(), errno);
                Ok(None)
            }
        }
    }

    /// The names in a folder. `None` where they cannot be read, which is then recorded.
    fn list(&self, folder: &Folder, opened: &Opened) -> Result<Option<Listing>> {
        let old = self.walk.cache.and_then(|cache| cache.section(self.old_section(folder)));
        let scope = if old.is_some() { self.walk.source.scope(&folder.path) } else { Scope::Everything };
        let kept = || old.iter().flat_map(|o| &o.entries).map(|e| e.node.name.clone());
        let mut names = match &scope {
            Scope::Everything => match sys::names(opened.fd.as_fd()) {
                Ok(names) => names,
                Err(errno) if folder.parent.is_none() => return Err(self.walk.root_error(errno)),
                Err(errno) => {
                    self.omit_failed(folder.path.clone(), errno);
                    return Ok(None);
                }
            },
            Scope::Names(changed) => {
                let mut names: Vec<_> = changed.iter().cloned().chain(kept()).collect();
                names.sort_unstable();
                names.dedup();
                names
            }
            Scope::Nothing => kept().collect(),
        };
        // What a restore is building here, or has left when it died, is nobody's work.
        names.retain(|name| !restore::is_staged(name));
        Ok(Some(Listing { names, scope, old }))
    }

    /// The git repository whose folder this is.
    fn repository_at(&self, folder: &Folder, names: &[Vec<u8>]) -> Option<Arc<Repository>> {
        names.binary_search_by(|n| n.as_slice().cmp(b".git")).ok()?;
        let dot_git = self.walk.workspace.join(name::as_path(&name::join(&folder.path, b".git")));
        Some(Repository::new(folder.path.clone(), dot_git))
    }

    /// Judges an entry and looks at it. `None` where it is left out.
    fn look_at(&self, looking: &Looking<'_>, entry_name: &[u8], old: Option<Cached>) -> Option<(Slot, Rest)> {
        let path = || name::join(&looking.folder.path, entry_name);
        let fd = &looking.opened.fd;
        let stat = match sys::stat_at(fd.as_fd(), entry_name) {
            Ok(stat) => stat,
            Err(errno) => {
                self.omit_failed(path(), errno);
                return None;
            }
        };
        if let Some(rule) = self.is_foreign(&stat) {
            self.omit(path(), Reason::Excluded(rule.into()));
            return None;
        }
        if !stat.is_folder() && self.is_secret(looking, entry_name, &stat) {
            self.omit(path(), Reason::Excluded(self.walk.store.secrets().reason.clone()));
            return None;
        }
        let judged_path = if looking.needs_paths || stat.is_folder() { path() } else { Vec::new() };
        let only_tracked = match self.walk.excluder.judge(&looking.around, entry_name, &judged_path, stat.is_folder()) {
            Verdict::Keep => false,
            Verdict::KeepTracked => true,
            Verdict::Exclude(rule) => {
                self.omit(path(), Reason::Excluded(rule));
                return None;
            }
        };
        let mut slot = Slot { name: entry_name.to_vec(), old, now: Now::Nothing, dev: stat.dev, links: Vec::new() };
        if stat.is_folder() {
            return Some((slot, Rest::Enter { path: judged_path, only_tracked }));
        }
        if slot.old.as_ref().is_some_and(|old| old.is_unchanged(&stat) && old.node.links == stat.links) {
            slot.now = Now::AsBefore;
            return Some((slot, Rest::Nothing));
        }
        if stat.is_file() {
            return Some((slot, Rest::Read));
        }
        slot.now = self.look(fd, entry_name, &stat, looking.read_at, path()).into();
        Some((slot, Rest::Nothing))
    }

    /// Names that never enter the store from a folder, beside those that do from none.
    fn secrets_in(&self, folder: &Folder) -> Vec<String> {
        let secrets = self.walk.store.secrets();
        if secrets.folders.is_empty() {
            return Vec::new();
        }
        let path = self.walk.workspace.join(name::as_path(&folder.path));
        secrets.names_in(&path, &secrets::beside(&path))
    }

    fn is_secret(&self, looking: &Looking<'_>, entry_name: &[u8], stat: &Stat) -> bool {
        self.walk.store.secrets().has_name(entry_name)
            || secrets::matches_one_of(&looking.secrets, entry_name)
            || self.secret_files.contains(&(stat.dev, stat.ino))
    }

    /// Why an entry belongs to something else than the workspace.
    fn is_foreign(&self, stat: &Stat) -> Option<&'static str> {
        if self.walk.forbidden.contains(&(stat.dev, stat.ino)) {
            return Some("the store itself");
        }
        if self.walk.mounted.contains(&stat.dev) {
            return Some("a mounted checkpoint");
        }
        (self.walk.excluder.rules().one_file_system && stat.dev != self.root_dev).then_some("another filesystem")
    }

    /// Reads the files at once where they are few; else makes tasks of them, as of the folders.
    fn hand_out(
        &self,
        folder: &Arc<Folder>,
        fd: &Arc<OwnedFd>,
        folders: Vec<Folder>,
        to_read: Vec<usize>,
        worker: &mut Worker<'_>,
    ) -> Result<()> {
        let (inline, batches): (&[usize], Vec<&[usize]>) = match to_read.len() {
            0..=FILES_PER_TASK => (&to_read, Vec::new()),
            _ => (&[], to_read.chunks(FILES_PER_TASK).collect()),
        };
        folder.pending.fetch_add(folders.len() + batches.len(), Ordering::Relaxed);
        let entered = folders.into_iter().rev().map(|below| Task::Enter { folder: Arc::new(below), parent: fd.clone() });
        let reads =
            batches.into_iter().rev().map(|slots| Task::Read { folder: folder.clone(), fd: fd.clone(), slots: slots.to_vec() });
        self.push(entered.chain(reads));
        self.read_slots(folder, fd, inline, worker)
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
                    *position = position.saturating_add(1);
                    self.cached_links(below, dev, position, links);
                }
            }
            Kind::Folder { totals, .. } => *position = position.saturating_add(totals.entries),
            _ if entry.node.links > 1 => links.push(LinkMember { file: (dev, entry.ino), position: *position }),
            _ => {}
        }
    }
}

/// What the cache had under a name; both sides are in order of names.
fn take_old(olds: &mut Peekable<vec::IntoIter<Cached>>, entry_name: &[u8]) -> Option<Cached> {
    while olds.next_if(|old| old.node.name.as_slice() < entry_name).is_some() {}
    olds.next_if(|old| old.node.name == entry_name)
}
