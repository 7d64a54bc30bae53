//! Packs that are gone behind the index's back.

use std::fs;

use super::{Damaged, note, whole};
use crate::{error::Result, pack::Location, progress::Progress, store::Store};

/// Looks whether every pack has a file of its length, with one `statx` each, and notes those that are gone or cut off. Nothing is read: a
/// create that is about to reuse them stores what lay there again, as far as it comes upon it.
pub(crate) fn note_missing_packs(store: &Store, progress: &dyn Progress) -> Result<()> {
    let missing = find(store)?;
    if missing.is_empty() {
        return Ok(());
    }
    // gc may have removed them since this view was made.
    if store.view().is_stale()? {
        store.reopen()?;
    }
    let missing = find(store)?;
    let known = Damaged::read(store.layout());
    let new: Vec<Location> = missing.into_iter().filter(|at| !known.has_block(*at)).collect();
    for at in &new {
        progress.notice(&format!(
            "pack {} is missing or cut off: what this checkpoint needs of it is stored again; run `parhelia check` to see what else needs it",
            at.pack
        ));
    }
    note(store, new, None);
    Ok(())
}

fn find(store: &Store) -> Result<Vec<Location>> {
    let (layout, mut missing) = (store.layout(), Vec::new());
    for (id, bytes) in store.view().pack_lengths()? {
        match fs::symlink_metadata(layout.pack(id)) {
            Ok(found) if found.len() >= bytes => {}
            Ok(_) => missing.push(whole(id)),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => missing.push(whole(id)),
            // Whoever reads it is told why it cannot be read.
            Err(_) => {}
        }
    }
    Ok(missing)
}
