//! Packs that are gone behind the index's back.

use parhelia_name::step::Step;
use std::{collections::HashSet, fs, io, os::unix::ffi::OsStrExt};

use super::{DamageSet, note, whole};
use crate::{
    error::{Error, IoContext, Result},
    files::Folder,
    healed,
    id::PackId,
    layout::Layout,
    name,
    pack::{Location, PackFile},
    progress::Progress,
    store::Store,
};

/// The packs that were made last are compared with their lengths, too: a file that was cut off is likely one of them, and asking for the
/// length of each of ten thousand takes longer than a checkpoint.
const LENGTHS_MAX: usize = 256;

/// Looks whether every pack has its file, and notes those that are gone, and of the last ones those that were cut off: a create that is about to
/// reuse them stores what lay there again, as far as it comes upon it. Fails where there are several and none is there: their disk may not be
/// mounted.
pub(crate) fn note_missing_packs(store: &Store, progress: &dyn Progress) -> Result<()> {
    store.refresh()?;
    if find(store)?.is_empty() {
        return Ok(());
    }
    // gc may have removed them since this view was made.
    store.reopen()?;
    let (layout, missing, known) = (store.layout(), find(store)?, DamageSet::read(store.layout()));
    ensure_any_is_there(store, &missing)?;
    let missing = missing.into_iter().filter(|id| !is_healed(layout, *id));
    let new: Vec<Location> = missing.map(whole).filter(|at| !known.has_block(*at)).collect();
    let next = format!("what this checkpoint needs of it is stored again; run {} to see what else needs it", Step::Check);
    match new.as_slice() {
        [] => return Ok(()),
        [at] => progress.warning(&format!("pack {} is missing or cut off: {next}", at.pack)),
        [at, others @ ..] => {
            progress.warning(&format!("pack {} and {} more are missing or cut off: {next}", at.pack, others.len()));
        }
    }
    note(store, new, None);
    Ok(())
}

/// Fails where a store has several packs and none of them is there: their disk may not be mounted, and nothing that is damage is to be judged
/// before it is.
pub(crate) fn ensure_packs_are_there(store: &Store) -> Result<()> {
    let missing = find(store)?;
    if ensure_any_is_there(store, &missing).is_ok() {
        return Ok(());
    }
    // gc may have put others in their place since this view was made.
    store.reopen()?;
    ensure_any_is_there(store, &find(store)?)
}

fn ensure_any_is_there(store: &Store, missing: &[PackId]) -> Result<()> {
    let layout = store.layout();
    // Of a single pack it cannot be told: the workspace may still have what it held.
    let is_all = missing.len() > 1 && missing.len() == store.view().current_packs()?.len();
    if is_all && missing.iter().all(|id| !layout.pack(*id).exists()) {
        let (packs, place) = (missing.len(), name::display(layout.packs().as_os_str().as_bytes()));
        return Err(Error::Damage(format!(
            "none of the store's {packs} packs is in {place}: if they are on a disk of their own, mount it\nIf they are lost, a second copy of the \
             store may have them: {}",
            Step::RepairFrom(None)
        )));
    }
    Ok(())
}

/// True if only so much of a pack was cut off that its parity gives all of it back.
fn is_healed(layout: &Layout, id: PackId) -> bool {
    let examined = PackFile::open_unchecked(layout, id).and_then(|file| file.examine());
    let is_healed = examined.is_ok_and(|examined| examined.is_some_and(|examined| examined.lost == 0));
    if is_healed {
        healed::note(layout, id);
    }
    is_healed
}

fn find(store: &Store) -> Result<Vec<PackId>> {
    let (layout, view) = (store.layout(), store.view());
    let names = match Folder::below(&layout.packs()).and_then(|folder| folder.names()) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Vec::new(),
        names => names.at("read folder", layout.packs())?,
    };
    let there: HashSet<PackId> = names.iter().filter_map(|name| Layout::pack_of(name::as_path(name))).collect();
    let mut packs = view.current_packs()?;
    // They are named by the time of the operation that made them.
    packs.sort_unstable();
    let is_short = |id: &PackId| match fs::symlink_metadata(layout.pack(*id)) {
        Ok(found) => view.pack_bytes(*id).map(|bytes| bytes.is_some_and(|bytes| found.len() < bytes)),
        // Whoever reads it is told why else it cannot be read.
        Err(e) => Ok(e.kind() == io::ErrorKind::NotFound),
    };
    let first_measured = packs.len().saturating_sub(LENGTHS_MAX);
    let mut missing = Vec::new();
    for (at, id) in packs.iter().enumerate() {
        if !there.contains(id) || (at >= first_measured && is_short(id)?) {
            missing.push(*id);
        }
    }
    Ok(missing)
}
