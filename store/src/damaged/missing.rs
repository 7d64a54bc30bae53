//! Packs that are gone behind the index's back.

use std::{collections::HashSet, fs, io};

use super::{Damaged, note, whole};
use crate::{
    error::{IoContext, Result},
    files::Folder,
    id::PackId,
    layout::Layout,
    name,
    pack::Location,
    progress::Progress,
    store::Store,
};

/// The packs that were made last are compared with their lengths, too: a file that was cut off is likely one of them, and asking for the
/// length of each of ten thousand takes longer than a checkpoint.
const LENGTHS_MAX: usize = 256;

/// Looks whether every pack has its file, and notes those that are gone, and of the last ones those that were cut off. No pack is opened: a create that is about to reuse them
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
