//! Packs that are gone behind the index's back.

use std::{collections::HashSet, fs};

use super::{Damaged, note, whole};
use crate::{
    error::{IoContext, Result},
    files,
    id::PackId,
    layout::Layout,
    pack::Location,
    progress::Progress,
    store::Store,
};

/// Of more packs than this, the names in their folder are read once, and lengths are not looked at.
const LENGTHS_MAX: usize = 2000;

/// Looks whether every pack has its file, and notes those that are gone or cut off. No pack is opened: a create that is about to reuse them
/// stores what lay there again, as far as it comes upon it.
pub(crate) fn note_missing_packs(store: &Store, progress: &dyn Progress) -> Result<()> {
    store.refresh()?;
    if find(store)?.is_empty() {
        return Ok(());
    }
    // gc may have removed them since this view was made.
    store.reopen()?;
    let (missing, known) = (find(store)?, Damaged::read(store.layout()));
    let new: Vec<Location> = missing.into_iter().map(whole).filter(|at| !known.has_block(*at)).collect();
    let next = "what this checkpoint needs of it is stored again; run `parhelia check` to see what else needs it";
    match new.as_slice() {
        [] => return Ok(()),
        [at] => progress.notice(&format!("pack {} is missing or cut off: {next}", at.pack)),
        [at, others @ ..] => {
            progress.notice(&format!("pack {} and {} more are missing or cut off: {next}", at.pack, others.len()));
        }
    }
    note(store, new, None);
    Ok(())
}

fn find(store: &Store) -> Result<Vec<PackId>> {
    let (layout, packs) = (store.layout(), store.view().current_packs()?);
    if packs.len() > LENGTHS_MAX {
        let names = files::list(&layout.packs()).at("read folder", layout.packs())?;
        let there: HashSet<PackId> = names.iter().filter_map(|path| Layout::pack_of(path)).collect();
        return Ok(packs.into_iter().filter(|id| !there.contains(id)).collect());
    }
    let lengths = store.view().packs()?;
    let is_missing = |id: &PackId| match fs::symlink_metadata(layout.pack(*id)) {
        Ok(found) => lengths.get(id).is_some_and(|state| found.len() < state.bytes),
        // Whoever reads it is told why else it cannot be read.
        Err(e) => e.kind() == std::io::ErrorKind::NotFound,
    };
    Ok(packs.into_iter().filter(is_missing).collect())
}
