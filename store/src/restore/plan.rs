//! Plan of a restore, found out before anything is touched.

use std::{
    collections::{HashMap, HashSet},
    os::{
        fd::{AsFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::PathBuf,
    sync::{
        Arc, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use rustix::fs::{Mode, OFlags};

use super::{
    Options,
    frozen::Frozen,
    join::{self, Joined, Link, Parted},
    run::{Skipped, Why},
    select::{Filter, Spared},
    summary::{RestoreChange, Summary},
    table::{Action, Folder, Item, Packs, entry_path},
    target::{self, Target},
    walk::{Blocked, Extra, Found, Walk},
};
use crate::{
    clock::Clock,
    error::{Error, IoContext, Result},
    filesystem::{FilesystemId, Filesystems},
    id::{OpId, TreeId},
    links::Links,
    mounts, name,
    pin::{Leaves, Pin},
    progress::{Phase, Progress},
    record::Checkpoint,
    statcache::{StatCache, Trust},
    store::Store,
    sys,
    tree::{Kind, Meta, Node, Time},
    writers::Writers,
};

/// Plan of a restore. It holds the checkpoint's content in the store until it is dropped.
#[derive(Debug)]
pub struct Plan {
    /// Held until the plan is dropped; none on a medium that cannot be written, where nothing is collected either.
    pub(super) pin: Option<Pin>,
    /// The operation, as temporary names give it.
    pub(super) op: OpId,
    pub(super) options: Options,
    pub(super) target: Target,
    /// The open target where it exists; of a single entry, the folder that it goes to.
    pub(super) root: Option<Arc<OwnedFd>>,
    pub(super) folders: Vec<Folder>,
    pub(super) items: Vec<Item>,
    pub(super) links: Vec<Link>,
    pub(super) extras: Vec<Extra>,
    pub(super) blocked: Vec<Blocked>,
    pub(super) exchanged: HashMap<(u32, u32), u64>,
    pub(super) packs: Packs,
    pub(super) spared: Spared,
    pub(super) cache: Option<StatCache>,
    /// True if the whole workspace is restored, so that a stat cache can be left.
    pub(super) is_whole: bool,
    /// In short.
    pub summary: Summary,
    /// Hard-linked files that are restored without some of their names.
    pub(super) parted: Vec<Parted>,
}

impl Plan {
    /// The target of the restore.
    pub fn target(&self) -> PathBuf {
        self.target.path()
    }

    /// Calls `visit` with every path that something happens to, from the target, in no order.
    pub fn each_change(&self, visit: &mut dyn FnMut(RestoreChange, &[u8])) -> Result<()> {
        for (folder, line) in self.folders.iter().enumerate().filter(|(_, line)| line.wanted) {
            let path = super::table::folder_path(&self.folders, folder as u32);
            match (line.is_new, line.differs) {
                (true, _) if folder > 0 => visit(RestoreChange::Create, &path),
                (false, true) => visit(RestoreChange::Metadata, &path),
                _ => {}
            }
        }
        for item in &self.items {
            let node = self.node(item.folder, item.index)?;
            let change = match item.action {
                Action::Create => RestoreChange::Create,
                Action::Replace | Action::Exchange => RestoreChange::Replace,
                Action::Meta => RestoreChange::Metadata,
            };
            let path = entry_path(&self.folders, item.folder, &node.name);
            if self.exchanged.contains_key(&(item.folder, item.index)) {
                visit(RestoreChange::Delete, &path);
            }
            visit(change, &path);
        }
        for link in &self.links {
            let path = entry_path(&self.folders, link.folder, &self.node(link.folder, link.index)?.name);
            if self.exchanged.contains_key(&(link.folder, link.index)) {
                visit(RestoreChange::Delete, &path);
            }
            visit(RestoreChange::Link, &path);
        }
        for extra in &self.extras {
            let change = if self.options.delete { RestoreChange::Delete } else { RestoreChange::Keep };
            visit(change, &entry_path(&self.folders, extra.folder, &extra.name));
        }
        Ok(())
    }

    /// Calls `visit` with the path, from the target, of everything that is there and does not stay as it is: content, type, metadata, name.
    /// A folder of which the metadata alone changes does not count: its time changes with every entry that is made in it.
    pub fn each_overwritten(&self, visit: &mut dyn FnMut(&[u8])) -> Result<()> {
        for item in self.items.iter().filter(|item| item.action != Action::Create) {
            visit(&entry_path(&self.folders, item.folder, &self.node(item.folder, item.index)?.name));
        }
        for link in self.links.iter().filter(|link| link.action != Action::Create) {
            visit(&entry_path(&self.folders, link.folder, &self.node(link.folder, link.index)?.name));
        }
        for extra in self.extras.iter().filter(|_| self.options.delete) {
            visit(&entry_path(&self.folders, extra.folder, &extra.name));
        }
        Ok(())
    }

    /// The folder that the paths of changes begin from: the target, or of a single entry the folder that it goes to.
    pub fn base(&self) -> PathBuf {
        match &self.target {
            Target::Entry { parent, .. } => parent.clone(),
            target => target.path(),
        }
    }

    /// Entries that cannot be made, changed or removed, because something has to stay.
    pub fn blocked(&self) -> impl Iterator<Item = Skipped> {
        self.blocked.iter().map(|blocked| Skipped {
            path: entry_path(&self.folders, blocked.folder, &blocked.name),
            error: blocked.reason.to_owned(),
            why: Why::Failed,
        })
    }

    pub(super) fn node(&self, folder: u32, index: u32) -> Result<Node> {
        let line = self.folders.get(folder as usize).and_then(|line| line.listing.as_ref());
        line.ok_or_else(|| Error::Invalid("an entry of no listing".into()))?.node(index)
    }
}

impl Plan {
    /// The filesystem that a folder is on, or will be.
    pub(super) fn filesystem_of(&self, folder: usize) -> FilesystemId {
        let mut at = folder;
        while at != 0 && self.folders[at].is_new {
            at = self.folders[at].parent as usize;
        }
        self.folders[at].filesystem
    }

    /// Leaves, and names, what is changed at this time or later, as [`Options::since`] does. The plan is older.
    pub fn guard(&mut self, since: Time) {
        self.options.since = Some(since);
        self.spared = std::mem::take(&mut self.spared).and_since(Some(since));
    }

    /// True if what is there may be replaced.
    pub(super) fn replaces(&self) -> bool {
        matches!(self.target, Target::InPlace(_) | Target::Entry { replace: true, .. })
    }

    /// Folders in which things are built, as a pin keeps them, so that they are found if this process dies.
    pub(super) fn leaves(&self) -> Leaves {
        let (folder, below) = match &self.target {
            Target::InPlace(path) => (path, true),
            Target::Fresh { parent, .. } | Target::Entry { parent, .. } => (parent, false),
        };
        let is_mounted = |line: &&Folder| !line.is_new && line.device != self.folders[line.parent as usize].device;
        let mounted = self.folders.iter().filter(is_mounted);
        let entry = match &self.target {
            Target::Entry { name, replace: true, .. } => Some(&**name),
            _ => None,
        };
        Leaves::new(folder.as_os_str().as_bytes(), below)
            .and_entry(entry)
            .and_mounts(mounted.map(|line| entry_path(&self.folders, line.parent, &line.name)))
    }
}

/// Finds out what restoring a checkpoint will do.
pub fn plan(store: &Store, checkpoint: &Checkpoint, options: &Options, progress: &dyn Progress) -> Result<Plan> {
    let spare = [options.spare.clone(), mounted_below(options, progress)].concat();
    let filter = Filter::new(&options.include, &options.exclude, &spare)?;
    let is_distrusted = is_distrusted(store, checkpoint, options, progress);
    let options = &Options { preserve_special: !is_distrusted, spare, ..options.clone() };
    let pin = pin(store, checkpoint, progress)?;
    let node = store.node_at(checkpoint, &options.subpath)?;
    let entry = node.as_folder().is_none().then_some(&*node.name);
    let target = target::find(store, &options.target, entry, options.in_place)?;
    progress.phase(Phase::Plan, node.as_folder().map(|(_, totals)| totals.entries), None);
    let root = open_root(&target)?;
    let spared = match &root {
        Some(_) => spared(store, checkpoint, options, &target)?,
        None => Spared::default(),
    };
    let cache = cache_of(store, &target, options);
    let links = store.links(checkpoint)?;
    let walk = Walk {
        store,
        view: store.view(),
        options,
        filter: &filter,
        spared: &spared,
        cache: cache.as_ref(),
        trust: Trust::new(cache.as_ref(), &Clock::now()),
        filesystems: Filesystems::default(),
        writers: Writers::default(),
        links: &links,
        progress,
        entries_max: node.as_folder().map_or(1, |(_, totals)| totals.entries),
        entries_seen: Default::default(),
        has_matched: AtomicBool::new(!filter.has_include()),
        found: Default::default(),
    };
    let mut found = walk_from(walk, checkpoint, &node, &target, root.clone())?;
    let (joined, parted) = settle(store, &mut found, &links, cache.as_ref(), options.delete)?;
    let summary = Summary {
        target: target.path().to_string_lossy().into_owned(),
        checkpoint: checkpoint.id(),
        in_place: root.is_some(),
        counts: found.counts,
    };
    Ok(Plan {
        op: pin.as_ref().map_or_else(OpId::generate, |pin| pin.op),
        pin,
        options: options.clone(),
        target,
        root,
        folders: found.folders,
        items: found.items,
        links: joined.links,
        extras: found.extras,
        blocked: found.blocked,
        exchanged: found.exchanged,
        packs: found.packs,
        spared,
        cache,
        is_whole: name::components(&options.subpath).next().is_none() && filter.is_all() && options.untouched.is_empty(),
        summary,
        parted,
    })
}

/// True if the checkpoint is not trusted with privileges, of which a notice then tells.
fn is_distrusted(store: &Store, checkpoint: &Checkpoint, options: &Options, progress: &dyn Progress) -> bool {
    let distrusted = store.distrusts(checkpoint).filter(|_| !options.preserve_special);
    if let Some(reason) = &distrusted {
        progress.notice(&format!(
            "{reason}: setuid and setgid bits, devices, and attributes that give privileges are left out; \
             `checkpoint restore --to DIR --preserve-special` restores them"
        ));
    }
    distrusted.is_some()
}

/// Everything in an existing target that the restore leaves alone.
fn spared(store: &Store, checkpoint: &Checkpoint, options: &Options, target: &Target) -> Result<Spared> {
    Ok(Spared::new(store.omissions(checkpoint)?, &options.subpath)
        .and(&options.spare)
        .and_names(&options.untouched)
        .and_secrets(store.secrets(), &target.path())
        .and_store(target::store_folders(store)?)
        .and_since(options.since)
        .and_pinned(store.layout().pins()))
}

/// The target's stat cache. None for a restore that verifies, which compares content byte by byte.
fn cache_of(store: &Store, target: &Target, options: &Options) -> Option<StatCache> {
    match target {
        Target::InPlace(path) if !options.verify => StatCache::open(store.layout(), path),
        _ => None,
    }
}

/// Joins hard links, drops folders in which nothing happens, and sums up. Returns the links, and the hard-linked files that lose names.
fn settle(
    store: &Store,
    found: &mut Found,
    links: &Links,
    cache: Option<&StatCache>,
    delete: bool,
) -> Result<(Joined, Vec<Parted>)> {
    let joined = join::join(store, found, cache)?;
    let parted = join::parted(links, &joined);
    prune(found)?;
    mark_unfinished(found, &joined.links, delete);
    sum_up(found, &joined.links, delete);
    found.items.sort_unstable();
    Ok((joined, parted))
}

/// The paths of mounted checkpoints below a folder that is to be changed. Nothing can be changed in them.
fn mounted_below(options: &Options, progress: &dyn Progress) -> Vec<Vec<u8>> {
    let Some(target) = options.in_place.then(|| options.target.canonicalize().ok()).flatten() else { return Vec::new() };
    let mounts = mounts::ours_below(&target);
    let below = mounts.iter().filter_map(|mount| mount.mountpoint.strip_prefix(&target).ok());
    let paths: Vec<Vec<u8>> = below.map(|path| path.as_os_str().as_bytes().to_vec()).collect();
    for path in &paths {
        progress.notice(&format!("{}: a mounted checkpoint is left as it is", name::display(path)));
    }
    paths
}

/// Pins the checkpoint first, and then looks whether it is there still.
fn pin(store: &Store, checkpoint: &Checkpoint, progress: &dyn Progress) -> Result<Option<Pin>> {
    let pin = store.pin_for_reading([checkpoint.record.id], "restore", |text| progress.notice(text));
    match store.refresh()?.checkpoint(checkpoint.record.id)? {
        Some(_) => Ok(pin),
        None => Err(Error::NoCheckpoint { selector: checkpoint.id() }),
    }
}

fn open_root(target: &Target) -> Result<Option<Arc<OwnedFd>>> {
    let path = match target {
        Target::Fresh { .. } => return Ok(None),
        Target::InPlace(path) => path,
        Target::Entry { parent, .. } => parent,
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).map(|fd| Some(Arc::new(fd))).at("open folder", path)
}

/// Walks what is to be restored. A single entry is looked at as one of a folder that has no other.
/// Also says whether the patterns matched anything.
fn walk_from(walk: Walk<'_>, checkpoint: &Checkpoint, node: &Node, target: &Target, root: Option<Arc<OwnedFd>>) -> Result<Found> {
    let section = walk.cache.map_or(0, |cache| cache.trailer.root_section);
    let mut top = Folder {
        parent: 0,
        index: 0,
        name: Box::default(),
        meta: node.meta.clone(),
        tree: TreeId([0; 32]),
        is_new: root.is_none(),
        selected: true,
        wanted: true,
        finish: root.is_none(),
        differs: false,
        device: root.as_ref().map_or(Ok(0), |root| sys::stat_fd(root).map(|stat| stat.dev)).at("read", target.path())?,
        old_section: section,
        children: 0..0,
        listing: None,
        stamp: None,
        filesystem: FilesystemId::default(),
    };
    match (&node.kind, target) {
        (Kind::Folder { tree, .. }, _) => {
            top.tree = *tree;
            if let Some(root) = &root {
                top.differs = differs(root, walk.options, &top.meta).at("read", target.path())?;
                if let Some(frozen) = Frozen::of(root.as_fd(), b"").filter(|_| top.differs) {
                    walk.block_root(frozen.reason());
                    top.differs = false;
                }
                top.finish = top.differs;
            }
            walk.enter_root(top);
            walk.run(*tree, walk.links.folder(&walk.options.subpath), section, root)?;
        }
        (_, Target::Entry { name, .. }) => {
            top.selected = false;
            walk.enter_root(top);
            // The patterns are about its name in the checkpoint, whatever it is called here.
            if walk.filter.wants_file(&node.name) {
                let path: Vec<&[u8]> = name::components(&walk.options.subpath).collect();
                let member = if node.links > 1 { walk.links.member_at(&path.join(&b'/')) } else { None };
                walk.single(Node { name: name.clone(), ..node.clone() }, member, root)?;
            } else {
                walk.has_matched.store(false, Ordering::Relaxed);
            }
        }
        _ => return Err(Error::Invalid("a file cannot be restored as a folder".into())),
    }
    if !walk.has_matched.into_inner() {
        let (include, exclude) = (walk.options.include.clone(), walk.options.exclude.clone());
        return Err(Error::NoMatch { checkpoint: checkpoint.id(), include, exclude });
    }
    Ok(walk.found.into_inner().unwrap_or_else(PoisonError::into_inner))
}

fn differs(root: &OwnedFd, options: &Options, meta: &Meta) -> rustix::io::Result<bool> {
    let live = sys::stat_fd(root)?;
    Ok(live.meta(options.decided(sys::xattrs_fd(root.as_fd())?)) != *options.meta_of(meta))
}

/// Drops the folders in which the patterns want nothing.
fn prune(found: &mut Found) -> Result<()> {
    let (mut in_the_way, mut busy) = (HashSet::new(), Vec::new());
    for item in &found.items {
        let line = &found.folders[item.folder as usize];
        match line.listing.as_ref().map(|listing| listing.node(item.index)).transpose()? {
            Some(node) if node.as_folder().is_some() => _ = in_the_way.insert((item.folder, item.index)),
            _ => busy.push(item.folder),
        }
    }
    for folder in busy {
        found.folders[folder as usize].wanted = true;
    }
    for folder in (1..found.folders.len()).rev() {
        let (parent, index, wanted) = (found.folders[folder].parent, found.folders[folder].index, found.folders[folder].wanted);
        if wanted {
            found.folders[parent as usize].wanted = true;
            in_the_way.remove(&(parent, index));
        }
    }
    // What is left lies in the way of folders that are not made.
    found.items.retain(|item| !in_the_way.contains(&(item.folder, item.index)));
    Ok(())
}

/// Marks the existing folders whose time will change because something in them does.
fn mark_unfinished(found: &mut Found, links: &[Link], delete: bool) {
    let changed = found.items.iter().filter(|item| item.action != Action::Meta).map(|item| item.folder);
    let removed = found.extras.iter().filter(|_| delete).map(|extra| extra.folder);
    let made = found.folders.iter().skip(1).filter(|line| line.is_new && line.wanted).map(|line| line.parent);
    let all: Vec<u32> = changed.chain(removed).chain(made).chain(links.iter().map(|link| link.folder)).collect();
    for folder in all {
        let line = &mut found.folders[folder as usize];
        line.finish |= line.selected;
    }
}

fn sum_up(found: &mut Found, links: &[Link], delete: bool) {
    let counts = &mut found.counts;
    counts.linked = links.len() as u64;
    counts.folders_created = found.folders.iter().filter(|line| line.is_new && line.wanted).count() as u64;
    counts.metadata_changed += found.folders.iter().filter(|line| line.differs).count() as u64;
    let extras: u64 = found.extras.iter().map(|extra| extra.entries).sum();
    (counts.deleted, counts.kept) = if delete { (extras, 0) } else { (0, extras) };
    // Of an entry that the patterns do not want, nothing goes.
    let made = found.items.iter().map(|item| (item.folder, item.index)).chain(links.iter().map(|link| (link.folder, link.index)));
    let made: HashSet<(u32, u32)> = made.collect();
    found.exchanged.retain(|place, _| made.contains(place));
    counts.deleted += found.exchanged.values().sum::<u64>();
}
