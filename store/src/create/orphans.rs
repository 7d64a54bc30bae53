//! Taking up what an interrupted run left: its whole packs are renamed to be this run's, so that nothing in them is written again.

use std::{
    collections::{HashMap, HashSet},
    fs,
};

use crate::{
    error::{IoContext, Result},
    id::{ObjectKey, OpId, PackId},
    layout::Layout,
    pack::{Location, PackFile, PackInfo},
    pin,
    progress::Progress,
    store::Store,
};

/// What was taken up.
#[derive(Default)]
pub struct Adopted {
    /// The packs, under their new names.
    pub packs: Vec<PackInfo>,
    /// Their objects.
    pub objects: HashMap<ObjectKey, Location>,
    /// What the caller should know.
    pub notices: Vec<String>,
}

/// Takes up the packs of dead runs for the operation `op`. Every block of them is checked; a torn pack is left to gc.
pub fn adopt(store: &Store, op: OpId, progress: &dyn Progress) -> Result<Adopted> {
    let layout = store.layout();
    let mut adopted = Adopted::default();
    let dead: Vec<OpId> = pin::list(&layout.pins())?.into_iter().filter(|p| !p.alive && p.text.writer).map(|p| p.op).collect();
    if dead.is_empty() {
        return Ok(adopted);
    }
    // Held while their packs are taken up: gc does not remove them meanwhile, and a run that was only just beginning waits.
    let mut seized = Vec::new();
    for op in &dead {
        seized.extend(pin::seize(&layout.pins(), *op)?.map(|file| (*op, file)));
    }
    // In this order: a run that is over has committed by now, or never will. What it has committed is no longer its to take up.
    let known: HashSet<PackId> = store.refresh()?.packs()?.into_keys().collect();
    let dead: Vec<OpId> = seized.iter().map(|(op, _)| *op).collect();
    let mut torn = HashSet::new();
    for pack in packs_of(layout, &dead)? {
        if known.contains(&pack) {
            continue;
        }
        let mut objects = Vec::new();
        let scanned = PackFile::open(&layout.pack(pack), pack).and_then(|file| {
            file.scan(true, |location, directory| {
                objects.extend(directory.entries.iter().map(|e| (e.id.key(), location)));
                Ok(())
            })
        });
        let Ok(info) = scanned else {
            torn.insert(pack.op());
            continue;
        };
        let ours = PackId::new(op, adopted.packs.len() as u32);
        // The rename decides between two runs that want the same pack, and against gc.
        if fs::rename(layout.pack(pack), layout.pack(ours)).is_err() {
            continue;
        }
        adopted.objects.extend(objects.into_iter().map(|(key, at)| (key, Location { pack: ours, ..at })));
        adopted.packs.push(PackInfo { id: ours, ..info });
    }
    for op in dead.iter().filter(|op| !torn.contains(op)) {
        pin::remove_dead(&layout.pins(), *op)?;
    }
    if !adopted.packs.is_empty() {
        let text = format!("took up {} packs of an interrupted run", adopted.packs.len());
        progress.notice(&text);
        adopted.notices.push(text);
    }
    Ok(adopted)
}

fn packs_of(layout: &Layout, ops: &[OpId]) -> Result<Vec<PackId>> {
    let folder = layout.packs();
    let mut found = Vec::new();
    for entry in fs::read_dir(&folder).at("read folder", &folder)? {
        let path = entry.at("read folder", &folder)?.path();
        found.extend(Layout::pack_of(&path).filter(|pack| ops.contains(&pack.op())));
    }
    found.sort_unstable();
    Ok(found)
}
