//! Plan of a restore, found out before anything is touched.

mod changes;
mod room;
mod settle;
mod walk;

use parhelia_name::step::Step;
use std::{
    collections::HashMap,
    os::{
        fd::{AsFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::PathBuf,
    sync::{Arc, atomic::AtomicBool},
};

use self::{
    settle::settle,
    walk::{open_root, walk_from},
};
use super::{
    Options,
    link_plan::{Link, SplitGroup},
    select::{Filter, ProtectedEntries},
    summary::Summary,
    table::{Folder, Item, Packs, entry_path},
    target::{self, Target},
    walk::{BlockedEntry, Extra, KeptEntry, Walk, WalkFindings},
};
use crate::{
    clock::Clock,
    damaged::DamageSet,
    error::{Error, Result},
    filesystem::{FilesystemId, Filesystems},
    id::OpId,
    mounts, name,
    pin::{Leaves, Pin},
    progress::{Phase, Progress},
    record::Checkpoint,
    statcache::{StatCache, Trust},
    store::Store,
    tree::{Node, Time},
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
    pub(super) kept: Vec<KeptEntry>,
    pub(super) blocked: Vec<BlockedEntry>,
    pub(super) exchanged: HashMap<(u32, u32), u64>,
    pub(super) packs: Packs,
    pub(super) spared: ProtectedEntries,
    pub(super) cache: Option<StatCache>,
    /// True if the whole workspace is restored, so that a stat cache can be left.
    pub(super) is_whole: bool,
    /// In short.
    pub summary: Summary,
    /// Hard-linked files that are restored without some of their names.
    pub(super) parted: Vec<SplitGroup>,
}

impl Plan {
    /// The target of the restore.
    pub fn target(&self) -> PathBuf {
        self.target.path()
    }

    /// The folder that the paths of changes begin from: the target, or of a single entry the folder that it goes to.
    pub fn base(&self) -> PathBuf {
        match &self.target {
            Target::Entry { parent, .. } => parent.clone(),
            target => target.path(),
        }
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
    let above = room::open_above(&target)?;
    let spared = root.as_ref().map(|_| spared(store, checkpoint, options, &target)).transpose()?.unwrap_or_default();
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
        damaged: DamageSet::read(store.layout()),
        links: &links,
        progress,
        entries_max: node.as_folder().map_or(1, |(_, totals)| totals.entries),
        entries_seen: Default::default(),
        has_matched: AtomicBool::new(!filter.has_include()),
        found: Default::default(),
    };
    let mut found = walk_from(walk, checkpoint, &node, &target, root.clone())?;
    let (joined, parted) = settle(store, &mut found, &links, cache.as_ref(), options.delete)?;
    if let Some(folder) = root.as_ref().map(|root| root.as_fd()).or(above.as_ref().map(|above| above.as_fd())) {
        room::ensure_room(&target, folder, &found)?;
    }
    tell_apart(&found, &joined.apart, progress)?;
    let summary = Summary {
        target: target.path().to_string_lossy().into_owned(),
        checkpoint: checkpoint.id(),
        in_place: options.in_place,
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
        kept: found.kept,
        blocked: found.blocked,
        exchanged: found.exchanged,
        packs: found.packs,
        spared,
        cache,
        is_whole: name::components(&options.subpath).next().is_none()
            && filter.is_all()
            && options.untouched.is_empty()
            && !found.is_partial,
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
             {} restores them",
            Step::RestorePrivileged
        ));
    }
    distrusted.is_some()
}

/// Names the hard links that cannot be made across mounts.
fn tell_apart(found: &WalkFindings, apart: &[(u32, u32)], progress: &dyn Progress) -> Result<()> {
    for (folder, index) in apart {
        let listing = found.folders[*folder as usize].listing.as_ref();
        let node = listing.ok_or_else(|| Error::Invalid("an entry of no listing".into()))?.node(*index)?;
        let path = name::display(&entry_path(&found.folders, *folder, &node.name));
        progress.notice(&format!("{path}: it is on another mount than what it is linked to, and becomes a file of its own"));
    }
    Ok(())
}

/// Everything in an existing target that the restore leaves alone.
fn spared(store: &Store, checkpoint: &Checkpoint, options: &Options, target: &Target) -> Result<ProtectedEntries> {
    Ok(ProtectedEntries::new(store.omissions(checkpoint)?, &options.subpath)
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
