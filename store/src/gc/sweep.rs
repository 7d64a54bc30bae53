//! Removing bytes: of condemned packs whose time has come, and of what crashed runs left behind.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    fs,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use super::{GcReport, UnexplainedPacks, room::Room, unexplained};
use crate::{
    clock, disk,
    error::{Error, IoContext, Result},
    files,
    id::{OpId, PackId},
    journal::Entry,
    layout::{Layout, NEW_INDEX},
    pin,
    progress::Progress,
    store::Store,
    view::PackState,
};

/// A cache that was neither read nor written for so long is of a workspace or a conversation that is gone. Without it, the next capture of
/// one that is not reads more, and nothing else.
const UNUSED: Duration = Duration::from_secs(60 * 24 * 3600);
/// Endings of the names of caches.
const CACHES: [&str; 4] = [".stat", ".grown", ".conversation", ".settled"];

/// A pack that the journal does not know and whose writer is over.
pub(super) struct Orphan {
    id: PackId,
    pub(super) bytes: u64,
}

/// Removes whatever may go now. Files that cannot be removed keep no other from going; each is named, the last one by the error.
pub(super) fn sweep(store: &Store, own: OpId, room: &mut Room, report: &mut GcReport, progress: &dyn Progress) -> Result<()> {
    let mut stuck = RemovalErrors::default();
    let gone = drop_condemned(store, report, &mut stuck, progress)?;
    let lock = store.lock(progress)?;
    let view = store.latest(&lock)?.0;
    let known = view.packs()?;
    let dropped: Vec<PackId> = gone.into_iter().filter(|id| known.get(id).is_some_and(|s| s.condemned.is_some())).collect();
    if !dropped.is_empty() {
        let entry = Entry::Dropped { packs: dropped };
        room.make(|| store.append(&lock, std::slice::from_ref(&entry)))?;
    }
    drop_orphans(store, own, report, &mut stuck)?;
    view.sweep_fold()?;
    drop_leftovers(store.layout(), own, &mut stuck)?;
    stuck.told(progress)
}

/// Files that could not be removed.
#[derive(Default)]
struct RemovalErrors(Vec<Error>);

impl RemovalErrors {
    /// Removes a file, and says whether it is gone.
    fn removes(&mut self, path: &Path) -> bool {
        files::remove(path).at("remove", path).map_err(|e| self.0.push(e)).is_ok()
    }

    /// Fails with the last one, once the others are named.
    fn told(mut self, progress: &dyn Progress) -> Result<()> {
        let last = self.0.pop();
        self.0.iter().for_each(|e| progress.notice(&e.to_string()));
        last.map_or(Ok(()), Err)
    }
}

/// Removes the condemned packs for which no writer waits any more, and nothing else.
pub(crate) fn sweep_condemned(store: &Store, progress: &dyn Progress) -> Result<()> {
    let mut stuck = RemovalErrors::default();
    let gone = drop_condemned(store, &mut GcReport::default(), &mut stuck, progress)?;
    let lock = store.lock(progress)?;
    let known = store.latest(&lock)?.0.packs()?;
    let dropped: Vec<PackId> = gone.into_iter().filter(|id| known.get(id).is_some_and(|s| s.condemned.is_some())).collect();
    if !dropped.is_empty() {
        store.append(&lock, &[Entry::Dropped { packs: dropped }])?;
    }
    stuck.told(progress)
}

/// Removes the files of condemned packs for which no writer waits any more.
fn drop_condemned(
    store: &Store,
    report: &mut GcReport,
    stuck: &mut RemovalErrors,
    progress: &dyn Progress,
) -> Result<Vec<PackId>> {
    // A pack whose condemnation a power cut might take back is needed then.
    let packs = store.view_under(&store.lock(progress)?)?.packs()?;
    let live = pin::live_ops(&pin::list(&store.layout().pins())?);
    let mut gone = Vec::new();
    let mut waits_for = BTreeSet::new();
    for (id, state) in packs {
        let Some(waits) = state.condemned else { continue };
        let running: Vec<OpId> = waits.into_iter().filter(|op| live.contains(op)).collect();
        if running.is_empty() {
            if !stuck.removes(&store.layout().pack(id)) {
                continue;
            }
            report.dropped_packs += 1;
            report.dropped_bytes += state.bytes;
            gone.push(id);
        } else {
            report.waiting_packs += 1;
            report.waiting_bytes += state.bytes;
            waits_for.extend(running);
        }
    }
    report.waits_for = waits_for.into_iter().collect();
    if !gone.is_empty() {
        store.close_packs(&gone);
        disk::sync_folder(&store.layout().packs())?;
    }
    Ok(gone)
}

/// Packs that the journal does not know and whose writers are over. None while it lacks records: they may be about any pack.
pub(super) fn orphans(store: &Store, own: Option<OpId>) -> Result<Vec<Orphan>> {
    let view = store.refresh()?;
    if view.lacks_records() {
        return Ok(Vec::new());
    }
    let (forgotten, kept) = forgotten(store.layout(), || store.refresh()?.packs())?;
    let goes = forgotten.into_iter().filter(|id| !kept.packs.contains(id) && Some(id.op()) != own);
    let length = |id| fs::symlink_metadata(store.layout().pack(id)).map_or(0, |meta| meta.len());
    Ok(goes.map(|id| Orphan { id, bytes: length(id) }).collect())
}

/// Packs that `known` does not have and whose writers are over, and what of them is kept all the same.
pub(crate) fn forgotten(
    layout: &Layout,
    known: impl FnOnce() -> Result<BTreeMap<PackId, PackState>>,
) -> Result<(Vec<PackId>, UnexplainedPacks)> {
    // In this order: a file that is seen has a pin that is older, and a writer that is over has committed or never will.
    let files = folder(&layout.packs())?;
    let pins = pin::list(&layout.pins())?;
    let (known, live) = (known()?, pin::live_ops(&pins));
    let ids = files.iter().filter_map(|path| Layout::pack_of(path));
    let forgotten: Vec<PackId> = ids.filter(|id| !known.contains_key(id) && !live.contains(&id.op())).collect();
    // A dead pin proves that its operation ended without a commit, or right behind it.
    let unpinned: Vec<PackId> = forgotten.iter().filter(|id| pins.iter().all(|pin| pin.op != id.op())).copied().collect();
    let kept = unexplained::find(layout, &unpinned)?;
    Ok((forgotten, kept))
}

/// The writer lock is held, so that nobody commits them now; whoever takes up a dead run's packs holds its pin.
fn drop_orphans(store: &Store, own: OpId, report: &mut GcReport, stuck: &mut RemovalErrors) -> Result<()> {
    let layout = store.layout();
    if store.view().lacks_records() {
        // The pins of dead runs stay as well: whose packs are whose is told by them.
        return Ok(());
    }
    let orphans = orphans(store, Some(own))?;
    let mut taken_up = HashSet::new();
    let (mut seized, mut left) = (Vec::new(), HashSet::new());
    // A live pin cannot be seized. One that still leads to what a dead restore has built stays until that is gone.
    for pin in pin::list(&layout.pins())?.into_iter().filter(|pin| pin.text.leaves.is_none()) {
        match pin::seize(&layout.pins(), pin.op)? {
            Some(file) => seized.push((pin.op, file)),
            None => {
                taken_up.insert(pin.op);
            }
        }
    }
    for orphan in orphans.iter().filter(|orphan| !taken_up.contains(&orphan.id.op())) {
        if !stuck.removes(&layout.pack(orphan.id)) {
            // It has to keep its pin: without one, it would look like a pack that a lost record was about.
            left.insert(orphan.id.op());
            continue;
        }
        report.orphans += 1;
        report.orphan_bytes += orphan.bytes;
    }
    if report.orphans > 0 {
        // A pack that came back without its pin might be taken for one that a lost record was about.
        disk::sync_folder(&layout.packs())?;
    }
    for (op, _file) in seized.into_iter().filter(|(op, _)| !left.contains(op)) {
        pin::remove_dead(&layout.pins(), op)?;
    }
    Ok(())
}

/// Removes tables and temporary files whose writers are over. Under the writer lock nobody else writes in the journal's folder.
fn drop_leftovers(layout: &Layout, own: OpId, stuck: &mut RemovalErrors) -> Result<()> {
    let found = folder(&layout.cache())?;
    let mut live = pin::live_ops(&pin::list(&layout.pins())?);
    live.remove(&own);
    let name = |path: &Path| path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
    for path in found {
        let name = name(&path);
        let writer = name.strip_suffix(".sst").and_then(OpId::from_hex);
        let is_old_index = name.ends_with(".view.tmp") || name.starts_with("view.") && name.ends_with(".old");
        if is_old_index {
            // A move aside that was cut off, or is being done by someone who holds the index's lock and removes it himself.
            let _ = files::remove_all(&layout.root, &path);
            continue;
        }
        if let Some(op) = name.strip_suffix(NEW_INDEX).and_then(OpId::from_hex) {
            if !live.contains(&op) {
                let _ = files::remove_all(&layout.root, &path);
            }
            continue;
        }
        let is_left = writer.is_some_and(|op| !live.contains(&op)) || live.is_empty() && name.ends_with(".tmp");
        if is_left && path.symlink_metadata().is_ok_and(|found| found.is_dir()) {
            // A folder for a program's temporary files.
            let _ = files::remove_all(&layout.root, &path);
            continue;
        }
        if is_left || CACHES.iter().any(|end| name.ends_with(end)) && is_unused(&path) {
            stuck.removes(&path);
        }
    }
    // A store is made, and the journal written, under the writer lock.
    let root = fs::read_dir(&layout.root).at("read folder", &layout.root)?;
    let in_root = root.flatten().map(|entry| entry.path()).filter(|path| name(path).starts_with("store."));
    for path in folder(&layout.journal())?.into_iter().chain(in_root).filter(|path| name(path).ends_with(".tmp")) {
        stuck.removes(&path);
    }
    Ok(())
}

fn is_unused(path: &Path) -> bool {
    let Ok(meta) = fs::symlink_metadata(path) else { return false };
    let used = [meta.accessed(), meta.modified()].into_iter().flatten().max();
    used.and_then(|used| SystemTime::from(clock::timestamp()).duration_since(used).ok()).is_some_and(|age| age > UNUSED)
}

fn folder(path: &Path) -> Result<Vec<PathBuf>> {
    files::list(path).at("read folder", path)
}
