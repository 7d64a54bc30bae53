//! Leaves a stat cache behind, so that a checkpoint right after a restore reads no content.

use super::{plan::Plan, run::Stamps, table::Stamp};
use crate::{
    clock::Clock,
    error::{Error, Result},
    filesystem::FilesystemId,
    record::Checkpoint,
    statcache::{CacheEntry, Section, Writer},
    store::Store,
    tree::{Kind, Node},
};

/// Enters how everything looks now, and the filesystem that the target is on.
pub fn enter(plan: &mut Plan, done: Stamps, filesystem: FilesystemId) {
    if let Some(top) = plan.folders.first_mut() {
        top.filesystem = filesystem;
    }
    for (folder, index, stamp) in done.stamps {
        let listing = plan.folders.get_mut(folder as usize).and_then(|line| line.listing.as_mut());
        if let Some(slot) = listing.and_then(|listing| listing.stamps.get_mut(index as usize)) {
            *slot = stamp;
        }
    }
    for (folder, stamp) in done.folders {
        if let Some(line) = plan.folders.get_mut(folder as usize) {
            line.stamp = Some(stamp);
        }
    }
}

fn cached(node: Node, stamp: Stamp) -> CacheEntry {
    // What was not made is in the section all the same, so that nobody takes the folder for whole.
    CacheEntry { node, ino: stamp.ino, ctime: stamp.ctime, racy: stamp.racy || stamp.ino == 0, section: 0 }
}

/// The entries of a folder as they are now; the sections of the folders in it are not yet known.
fn entries(plan: &Plan, folder: usize) -> Result<Vec<CacheEntry>> {
    let line = &plan.folders[folder];
    if let Some(listing) = &line.listing {
        return (0..listing.len())
            .map(|i| Ok(cached(listing.node(i as u32)?, listing.stamps.get(i).copied().unwrap_or_default())))
            .collect();
    }
    let section = plan.cache.as_ref().and_then(|cache| cache.section(line.old_section));
    section.map(|section| section.entries).ok_or_else(|| Error::Invalid("the stat cache changed during the restore".into()))
}

/// Writes the stat cache of the target, folders below first. `began` are the clocks before anything was made.
pub fn write(store: &Store, checkpoint: &Checkpoint, plan: &Plan, began: &Clock) -> Result<()> {
    let target = std::fs::canonicalize(plan.target()).unwrap_or_else(|_| plan.target());
    let old = plan.cache.as_ref();
    let mut writer = Writer::create(store.layout(), &target, old)?;
    let mut offsets = vec![0; plan.folders.len()];
    for folder in (0..plan.folders.len()).rev() {
        let line = &plan.folders[folder];
        let child_changed = |child: u32| {
            let below = &plan.folders[child as usize];
            below.stamp.is_some() || offsets[child as usize] != below.old_section
        };
        let keeps = writer.keeps_old && line.old_section != 0 && line.listing.is_none();
        if keeps && !line.children.clone().any(child_changed) {
            offsets[folder] = line.old_section;
            continue;
        }
        let mut entries = entries(plan, folder)?;
        for child in line.children.clone() {
            let below = &plan.folders[child as usize];
            let Some(entry) = entries.get_mut(below.index as usize) else { continue };
            debug_assert!(matches!(entry.node.kind, Kind::Folder { .. }));
            entry.section = offsets[child as usize];
            if let Some(stamp) = below.stamp {
                (entry.ino, entry.ctime, entry.racy) = (stamp.ino, stamp.ctime, stamp.racy || stamp.ino == 0);
            }
        }
        offsets[folder] = writer.append(&Section { tree: line.tree, filesystem: plan.filesystem_of(folder), entries })?;
    }
    let read_all_at_secs = old.map_or(began.time.secs, |old| old.trailer.read_all_at_secs);
    writer.finish(offsets.first().copied().unwrap_or(0), checkpoint.record.id, checkpoint.record.root, began, read_all_at_secs)
}
