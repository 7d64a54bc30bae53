//! A restore under way: what all its steps share, and the folders.

use std::{
    collections::HashSet,
    fs,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use rustix::{
    fs::{AtFlags, Mode, OFlags},
    io::Errno,
};

use super::{
    join::Link,
    medium::{self, Medium},
    meta::{self, Current, Handle, Refused},
    plan::Plan,
    publish::Published,
    remove::remove,
    select::Spared,
    staged,
    summary::Counts,
    table::{Action, Dirs, Stamp, entry_path, folder_path},
    target::Target,
    write::is_refusal,
};
use crate::{
    error::{Error, IoContext, Result},
    name,
    progress::{self, Progress},
    store::Store,
    sys,
    tasks::{self, Tasks},
    tree::Meta,
};

/// Something that could not be made as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// Its path from the target.
    pub path: Vec<u8>,
    /// Why.
    pub error: String,
    /// The kind of reason.
    pub why: Why,
}

/// A kind of reason for which something is not made as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Something failed.
    Failed,
    /// It would give privileges.
    Withheld,
    /// Its name was free by the plan, and somebody else has taken it since.
    Taken,
    /// It was changed since [`Options::since`](super::Options::since).
    Changed,
}

/// Work that one thread has done.
#[derive(Debug, Default)]
pub struct Done {
    /// Stamps of entries as they are now.
    pub stamps: Vec<(u32, u32, Stamp)>,
    /// Stamps of folders as they are now.
    pub folders: Vec<(u32, Stamp)>,
}

impl Done {
    /// Adds up what all threads have done.
    pub fn sum(parts: Vec<Done>) -> Self {
        let mut all = Done::default();
        parts.into_iter().for_each(|part| all.add(part));
        all
    }

    /// Adds what another thread has done.
    pub fn add(&mut self, other: Done) {
        self.stamps.extend(other.stamps);
        self.folders.extend(other.folders);
    }
}

/// Folder in which entries are built before they get their names.
pub struct Staging {
    /// The target, or the staging folder that becomes it.
    pub root: Arc<OwnedFd>,
    /// The folder that the staging folder is in, and its name there.
    pub beside: Option<(OwnedFd, Vec<u8>)>,
    /// Metadata of a file that was made with all permissions in the staging folder.
    pub created: Option<Current>,
}

impl Staging {
    /// Makes the staging folder, if the target is a new folder. Who fails says whether nothing was left.
    pub fn open(store: &Store, plan: &Plan) -> Result<Self, (Error, bool)> {
        let Some(root) = &plan.root else { return Self::make(plan) };
        let clean = |e: Error| (e, true);
        if !staged::hold(root.as_fd()).at("lock", plan.target()).map_err(clean)? {
            return Err(clean(Error::TargetBusy { path: plan.target() }));
        }
        if plan.replaces() {
            staged::check_alone(store.layout(), plan.op, &plan.target()).map_err(clean)?;
        }
        Ok(Staging { root: root.clone(), beside: None, created: None })
    }

    fn make(plan: &Plan) -> Result<Self, (Error, bool)> {
        let staged = staged::folder_name(plan.op, plan.target.name());
        let (above, path) = make_beside(plan, &staged).map_err(|e| (e, true))?;
        let set_up = || -> Result<_> {
            let opened = sys::open_folder_at(above.as_fd(), &staged).at("open folder", &path)?;
            staged::hold(opened.as_fd()).at("lock", &path)?;
            meta::make_private(opened.as_fd()).at("change mode of", &path)?;
            let created = probe(&opened).at("write to", &path)?;
            Ok((opened, created))
        };
        match set_up() {
            Ok((opened, created)) => {
                Ok(Staging { root: Arc::new(opened), beside: Some((above, staged)), created: Some(created) })
            }
            Err(e) => Err((e, remove(above.as_fd(), &staged, b"", &Spared::default()).is_ok())),
        }
    }

    /// Removes the staging folder with all that is in it. False where something of it is left.
    pub fn remove(&self) -> bool {
        let Some((above, name)) = &self.beside else { return true };
        remove(above.as_fd(), name, b"", &Spared::default()).is_ok_and(|removed| !removed.kept)
    }
}

/// Makes the folder in which a new one is built, and opens the one that it is in.
fn make_beside(plan: &Plan, staged: &[u8]) -> Result<(OwnedFd, PathBuf)> {
    let Target::Fresh { parent, .. } = &plan.target else { return Err(Error::Invalid("the target is not open".into())) };
    fs::create_dir_all(parent).at("create folder", parent)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let above = rustix::fs::open(parent, flags, Mode::empty()).at("open folder", parent)?;
    let path = parent.join(name::as_path(staged));
    rustix::fs::mkdirat(&above, staged, Mode::RWXU).at("create folder", &path)?;
    Ok((above, path))
}

/// Learns by a file what the process's umask and owner make of one.
fn probe(folder: &OwnedFd) -> rustix::io::Result<Current> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let file = rustix::fs::openat(folder, "probe", flags, Mode::from_raw_mode(0o777))?;
    let stat = sys::stat_fd(&file)?;
    rustix::fs::unlinkat(folder, "probe", AtFlags::empty())?;
    Ok(Current { mode: stat.mode & 0o777, uid: stat.uid, gid: stat.gid, xattrs: Vec::new() })
}

/// The name under which an entry is built in a folder that exists.
pub fn temporary(plan: &Plan, folder: u32, index: u32) -> Vec<u8> {
    staged::entry_name(plan.op, folder, index)
}

/// A restore under way.
pub struct Run<'a> {
    pub store: &'a Store,
    pub plan: &'a Plan,
    pub progress: &'a dyn Progress,
    pub staging: &'a Staging,
    pub dirs: Dirs<'a>,
    /// Entries of existing folders that are written, not only found or joined.
    pub written: HashSet<(u32, u32)>,
    /// Entries that could not be made.
    pub not_made: Mutex<HashSet<(u32, u32)>>,
    pub skipped: Mutex<Vec<Skipped>>,
    pub foreign: AtomicU64,
    /// The filesystems that the target lies on.
    pub mediums: Vec<Medium>,
}

impl<'a> Run<'a> {
    /// A restore that begins now.
    pub fn new(
        store: &'a Store,
        plan: &'a Plan,
        progress: &'a dyn Progress,
        staging: &'a Staging,
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
            foreign: AtomicU64::new(0),
        })
    }
}

impl Run<'_> {
    /// True if nothing has to be built.
    pub fn is_empty(&self) -> bool {
        self.written.is_empty() && self.plan.links.is_empty() && !self.plan.folders.iter().any(|line| line.is_new)
    }

    /// Number of threads.
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
        self.add_skipped(folder, name, error.to_string(), Why::Failed);
    }

    fn add_skipped(&self, folder: u32, name: &[u8], error: String, why: Why) {
        let path = entry_path(&self.plan.folders, folder, name);
        let skipped = Skipped { path, error, why };
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

    /// True if an entry could not be made.
    pub fn is_skipped(&self, folder: u32, index: u32) -> bool {
        self.not_made.lock().unwrap_or_else(PoisonError::into_inner).contains(&(folder, index))
    }

    /// Notes what of an entry's metadata could not be set, or was not because it would give privileges.
    pub fn note(&self, folder: u32, name: &[u8], wanted: &Meta, refused: &Refused) {
        for xattr in self.plan.options.withheld(wanted) {
            self.add_skipped(folder, name, format!("attribute {}: it is not restored", name::display(xattr)), Why::Withheld);
        }
        if refused.owner {
            self.foreign.fetch_add(1, Ordering::Relaxed);
        }
        for (xattr, error) in &refused.xattrs {
            self.skip(folder, name, format!("attribute {}: {error}", name::display(xattr)));
        }
    }

    /// Makes the new folders, those above first.
    pub fn make_folders(&self) -> Result<()> {
        let folders = &self.plan.folders;
        let is_top = |line: &super::table::Folder| line.is_new && line.wanted && !folders[line.parent as usize].is_new;
        let mut first: Vec<u32> = (1..folders.len() as u32).filter(|i| is_top(&folders[*i as usize])).collect();
        if folders.first().is_some_and(|top| top.is_new) {
            first.extend(folders[0].children.clone());
        }
        let new = Tasks::new(first);
        new.each(self.threads(), |folder| {
            let line = &folders[folder as usize];
            if !line.wanted {
                return Ok(());
            }
            progress::check(self.progress)?;
            let now = self.name_now(line.parent, line.index, &line.name);
            let made = self.dirs.get(line.parent).and_then(|above| {
                rustix::fs::mkdirat(&above, now.as_slice(), Mode::RWXU)?;
                match folders[line.parent as usize].is_new {
                    true => Ok(()),
                    false => meta::make_private(sys::open_folder_at(above.as_fd(), &now)?.as_fd()),
                }
            });
            made.at("create folder", self.path(line.parent, &line.name))?;
            new.add(line.children.clone().rev());
            Ok(())
        })
    }

    /// Sets the metadata of new or of existing folders, those below first.
    pub fn finish_folders(&self, new: bool) -> Result<Done> {
        let folders = &self.plan.folders;
        let due = |i: &u32| {
            let line = &folders[*i as usize];
            line.finish && line.wanted && line.is_new == new
        };
        let all: Vec<u32> = (0..folders.len() as u32).rev().filter(due).collect();
        // Whoever is not root cannot reach into a folder once its mode says so.
        let is_root = rustix::process::geteuid().is_root();
        let (open, closed): (Vec<u32>, Vec<u32>) =
            all.into_iter().partition(|i| is_root || folders[*i as usize].meta.mode & 0o700 == 0o700);
        let set = |list: &[u32], threads: usize| {
            tasks::in_order(threads, list.len(), |i, done: &mut Done| self.finish_folder(list[i], done))
        };
        let mut done = Done::sum(set(&open, self.threads())?);
        done.add(Done::sum(set(&closed, 1)?));
        Ok(done)
    }

    fn finish_folder(&self, folder: u32, done: &mut Done) -> Result<()> {
        let line = &self.plan.folders[folder as usize];
        let set = || -> rustix::io::Result<(Refused, Stamp)> {
            let fd = self.dirs.get(folder)?;
            let stat = sys::stat_fd(&fd)?;
            let options = &self.plan.options;
            let xattrs = if line.is_new { Vec::new() } else { options.decided(sys::xattrs_fd(fd.as_fd())?) };
            let current = Current { mode: stat.mode & 0o7777, uid: stat.uid, gid: stat.gid, xattrs };
            let refused = meta::apply(&Handle::Open(fd.as_fd()), &options.meta_of(&line.meta), &current)?;
            let mut stamp = Stamp::private(&sys::stat_fd(&fd)?);
            stamp.racy |= !refused.is_nothing();
            Ok((refused, stamp))
        };
        let (refused, stamp) = match set() {
            // It became immutable after the plan.
            Err(e) if !line.is_new && is_refusal(e) => {
                self.skip(line.parent, &line.name, e);
                return Ok(());
            }
            other => other.at("set metadata of", self.path(line.parent, &line.name))?,
        };
        self.note(line.parent, &line.name, &line.meta, &refused);
        done.folders.push((folder, stamp));
        Ok(())
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
                Ok(fd) => remove(fd.as_fd(), &temporary(plan, folder, index), b"", &Spared::default()).is_ok_and(|r| !r.kept),
                Err(e) => e == Errno::NOENT,
            };
        }
        is_clear
    }

    /// The counts of what was made: those of the plan, but for what was skipped.
    pub fn made(&self, published: &Published) -> Result<Counts> {
        let plan = self.plan;
        let mut counts = plan.summary.counts.clone();
        (counts.deleted, counts.metadata_changed) = (published.deleted, published.metadata);
        let lost = self.lost();
        if lost.is_nothing() {
            return Ok(counts);
        }
        let gone = plan.folders.iter().zip(&lost.folders).filter(|(line, is_lost)| **is_lost && line.wanted);
        counts.folders_created -= gone.count() as u64;
        let is_lost = |folder: u32, index: u32| lost.has(folder, index);
        for item in plan.items.iter().filter(|item| item.action != Action::Meta && is_lost(item.folder, item.index)) {
            let node = plan.node(item.folder, item.index)?;
            if node.as_folder().is_none() && !plan.options.withholds(&node) {
                counts.take(item.action, &node);
            }
        }
        let is_parted = |link: &&Link| is_lost(link.folder, link.index) || is_lost(link.from_folder, link.from_index);
        counts.linked -= plan.links.iter().filter(is_parted).count() as u64;
        Ok(counts)
    }

    /// The entries that were not made, by now.
    pub fn lost(&self) -> Lost {
        let entries = self.not_made.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut folders = vec![false; self.plan.folders.len()];
        for (folder, line) in self.plan.folders.iter().enumerate().skip(1).filter(|(_, line)| line.is_new) {
            folders[folder] = folders[line.parent as usize] || entries.contains(&(line.parent, line.index));
        }
        Lost { entries, folders }
    }

    /// The folder's path from the target, for what is spared.
    pub fn inside(&self, folder: u32, name: &[u8]) -> Vec<u8> {
        name::join(&folder_path(&self.plan.folders, folder), name)
    }
}

/// Entries that a restore could not make.
pub struct Lost {
    entries: HashSet<(u32, u32)>,
    /// Of each folder, whether it is a new one that was not made, or is in one.
    folders: Vec<bool>,
}

impl Lost {
    fn is_nothing(&self) -> bool {
        self.entries.is_empty()
    }

    /// True if an entry is among it, or is in a folder that is.
    pub fn has(&self, folder: u32, index: u32) -> bool {
        self.folders[folder as usize] || self.entries.contains(&(folder, index))
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
