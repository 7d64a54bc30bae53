//! Entering a folder: open it, list it, judge and look at its entries, read what few files have changed, make tasks of the rest.

mod entry;

use std::{
    collections::HashMap,
    os::fd::{AsFd, OwnedFd},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use self::entry::FolderContext;
use super::{
    OPEN_TRIES, Task, WalkState, Worker, lock, may_be_replaced,
    pending::{EntryUpdate, Folder, ScanContext, Slot, State},
};
use crate::{
    attributes::{self, Attributes},
    clock,
    create::{
        exclude::{Repository, Surroundings, Verdict},
        source::Scope,
    },
    errno::{self, Recheck},
    error::{Error, Result},
    format::TREE_DEPTH_MAX,
    name,
    omitted::Reason,
    restore,
    statcache::Section,
    sys::{self, Stat},
};

/// Files to be read in one folder are handed to other workers in parts of this many.
const FILES_PER_TASK: usize = 64;

/// A folder that is open, and what the cache had of it.
struct OpenFolder {
    fd: Arc<OwnedFd>,
    stat: Stat,
    attributes: Attributes,
    looked: ScanContext,
    old: Option<Section>,
}

/// The names to look at, how many of them have to be looked at, and what the cache had.
struct Listing {
    names: Vec<Vec<u8>>,
    scope: Scope,
    old: Option<Section>,
    /// True if everything below is looked at, too.
    is_full: bool,
}

impl Listing {
    /// True if the entry of this name has to be looked at.
    fn is_due(&self, entry_name: &[u8]) -> bool {
        match &self.scope {
            Scope::Everything => true,
            Scope::Names(changed) => changed.binary_search_by(|name| name.as_slice().cmp(entry_name)).is_ok(),
            Scope::Nothing => false,
        }
    }

    /// Number of the entry that the cache had under a name. `next` is where to go on: both sides are in order of names.
    fn take_old(&self, next: &mut usize, entry_name: &[u8]) -> Option<usize> {
        let olds = &self.old.as_ref()?.entries;
        while olds.get(*next).is_some_and(|old| old.node.name.as_slice() < entry_name) {
            *next += 1;
        }
        olds.get(*next).filter(|old| old.node.name == entry_name).map(|_| *next)
    }
}

/// Work that is left to do for an entry.
enum Rest {
    Nothing,
    Read,
    Enter { only_tracked: bool },
}

impl WalkState<'_, '_> {
    /// Lists a folder, looks at its entries, reads what few files have changed and makes tasks of the rest.
    pub(super) fn enter(&self, folder: &Arc<Folder>, parent: &Arc<OwnedFd>, worker: &mut Worker<'_>) -> Result<()> {
        let path = self.path_entered(folder);
        let Some((opened, listing)) = self.open_or_name(folder, &path, parent)? else { return Ok(()) };
        let names = &listing.names;
        let inner = self.repository_at(&path, names);
        let mut around =
            Surroundings { path: &path, names, repository: folder.repository.as_deref(), only_tracked: folder.only_tracked };
        if !self.stays(folder, &mut around, &opened) {
            return Ok(());
        }
        let repository = inner.or_else(|| folder.repository.clone());
        around.repository = repository.as_deref();
        let needs_paths = self.walk.excluder.needs_paths() || around.only_tracked;
        let looking =
            FolderContext { folder, path: &path, opened: &opened, around, needs_paths, secrets: self.secrets_in(&path) };

        let mut slots: Vec<Slot> = Vec::with_capacity(names.len());
        let mut links = HashMap::new();
        let (mut folders, mut to_read) = (Vec::new(), Vec::new());
        let mut next = 0;
        let mut recheck = Recheck::default();
        for entry_name in names {
            let number = listing.take_old(&mut next, entry_name);
            let old = number.and_then(|number| listing.old.as_ref()?.entries.get(number));
            let old_number = number.and_then(|n| u32::try_from(n).ok());
            let mut slot = Slot { old: old_number, now: EntryUpdate::Nothing, elsewhere: false, dev: opened.stat.dev };
            let kept = if listing.is_due(entry_name) { None } else { self.keep(folder, &path, entry_name, old, &mut slot) };
            if let Some(found) = kept {
                if !found.is_empty() {
                    links.insert(slots.len(), found);
                }
                slots.push(slot);
                continue;
            }
            match self.look_at(&looking, entry_name, old, &mut slot, &mut recheck) {
                Rest::Nothing => {}
                Rest::Read => to_read.push(slots.len()),
                Rest::Enter { only_tracked } => folders.push(Folder {
                    parent: Some((folder.clone(), slots.len())),
                    depth: folder.depth + 1,
                    name: entry_name.clone(),
                    repository: repository.clone(),
                    only_tracked: only_tracked || folder.only_tracked,
                    is_full: listing.is_full,
                    old: old.filter(|o| o.node.as_folder().is_some()).cloned(),
                    pending: AtomicUsize::new(1),
                    is_gone: AtomicBool::new(false),
                    state: Mutex::default(),
                }),
            }
            slots.push(slot);
        }
        if folder.depth == TREE_DEPTH_MAX && !folders.is_empty() {
            return Err(too_deep(&path));
        }
        let unread = opened.attributes.why_unread();
        let racy = unread.is_some() || self.is_racy(&opened.looked, folder.old.as_ref(), &opened.stat);
        self.omit_attributes(&|| path.to_vec(), unread);
        let Listing { names, old, .. } = listing;
        let OpenFolder { fd, stat, attributes, looked, .. } = opened;
        *lock(&folder.state) = State { stat: Some((stat, attributes.known, racy)), names, slots, old, looked, links };
        self.hand_out(folder, &fd, folders, to_read, worker)
    }

    /// Applies the rules that a folder's own entries decide. False if it is left out, which is then recorded.
    fn stays(&self, folder: &Folder, around: &mut Surroundings<'_>, opened: &OpenFolder) -> bool {
        if folder.parent.is_none() {
            return true;
        }
        match self.walk.excluder.judge_inside(around, &folder.name, opened.fd.as_fd()) {
            Verdict::Keep => {}
            Verdict::KeepTracked => around.only_tracked = true,
            Verdict::Exclude(rule) => {
                self.omit(around.path.to_vec(), Reason::Excluded(rule));
                return false;
            }
        }
        true
    }

    /// Opens and lists a folder. `None` where that fails, which is then recorded, or where the folder is gone.
    fn open_or_name(&self, folder: &Folder, path: &[u8], parent: &Arc<OwnedFd>) -> Result<Option<(OpenFolder, Listing)>> {
        for attempt in 1.. {
            let errno = match self.open(folder, path, parent) {
                Ok(opened) => return Ok(Some(opened)),
                Err(errno) => errno,
            };
            let Some((above, _)) = &folder.parent else { return Err(self.walk.root_error(errno)) };
            let presence = errno::presence(parent.as_fd(), &folder.name);
            if attempt < OPEN_TRIES && may_be_replaced(errno, presence) {
                continue;
            }
            self.omit_failed(above, &|| path.to_vec(), errno, presence);
            return Ok(None);
        }
        Ok(None)
    }

    fn open(&self, folder: &Folder, path: &[u8], parent: &Arc<OwnedFd>) -> rustix::io::Result<(OpenFolder, Listing)> {
        let is_root = folder.parent.is_none();
        let fd = if is_root { parent.clone() } else { Arc::new(sys::open_folder_at(parent.as_fd(), &folder.name)?) };
        let at = clock::now();
        let stat = sys::stat_fd(&fd)?;
        let filesystem = self.filesystems.of(fd.as_fd(), stat.dev);
        let old = self.walk.cache.and_then(|cache| cache.section(self.old_section(folder)));
        let is_known = old.as_ref().is_some_and(|section| section.filesystem.is_same(filesystem.id));
        let looked = ScanContext { at, filesystem, is_known };
        let unchanged = folder.old.as_ref().filter(|old| self.is_unchanged(&looked, old, &stat));
        let attributes = match unchanged {
            Some(old) => Attributes { known: old.node.meta.xattrs.clone(), unread: Vec::new() },
            None => attributes::of_open(fd.as_fd()),
        };
        let mut opened = OpenFolder { fd, stat, attributes, looked, old };
        let listing = self.list(folder, path, &mut opened)?;
        Ok((opened, listing))
    }

    /// The names in a folder.
    fn list(&self, folder: &Folder, path: &[u8], opened: &mut OpenFolder) -> rustix::io::Result<Listing> {
        let old = opened.old.take();
        let entries = old.as_ref().map_or(&[][..], |old| &old.entries);
        let mut scope = match &old {
            Some(_) if !folder.is_full && opened.looked.is_known => self.walk.source.scope(path),
            _ => Scope::Everything,
        };
        let mut names: Vec<Vec<u8>> = Vec::new();
        let mut is_full = folder.is_full;
        if scope != Scope::Everything {
            // What was left out is not in the cache; rules look at its name, and it is left out still.
            let known = entries.iter().map(|e| e.node.name.as_slice()).chain(self.left_out_in(path));
            names.extend(known.map(<[u8]>::to_vec));
            names.sort_unstable();
            names.dedup();
            if let Scope::Names(changed) = &mut scope {
                changed.sort_unstable();
                changed.dedup();
                is_full = self.changes_rules(path, &names, changed, opened.fd.as_fd());
                names.extend_from_slice(changed);
                names.sort_unstable();
                names.dedup();
            }
        }
        if is_full {
            scope = Scope::Everything;
        }
        if scope == Scope::Everything {
            names = sys::names(opened.fd.as_fd())?;
        }
        // What a restore is building here, or has left when it died, is nobody's work.
        let pins = self.walk.store.layout().pins();
        names.retain(|name| !restore::is_being_built(opened.fd.as_fd(), name, &pins));
        Ok(Listing { names, scope, old, is_full })
    }

    /// The git repository whose folder this is.
    fn repository_at(&self, path: &[u8], names: &[Vec<u8>]) -> Option<Arc<Repository>> {
        names.binary_search_by(|n| n.as_slice().cmp(b".git")).ok()?;
        let dot_git = self.walk.workspace.join(name::as_path(&name::join(path, b".git")));
        Some(Repository::new(path.to_vec(), dot_git))
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
        self.tasks.add(entered.chain(reads));
        self.read_slots(folder, fd, inline, worker)
    }
}

/// Refuses a tree that no restore could make. Of its path, only where it begins is shown.
fn too_deep(path: &[u8]) -> Error {
    let shown: Vec<&[u8]> = name::components(path).take(4).collect();
    Error::TooDeep { path: name::display(&shown.join(&b'/')) }
}
