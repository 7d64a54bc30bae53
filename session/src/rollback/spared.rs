//! Files that a rollback leaves as they are, since its safety checkpoint has not got them, or not whole: they, or attributes of them, cannot be
//! read, or they may hold secrets.

use parhelia_store::{
    Store,
    id::Ulid,
    name,
    omitted::{Omission, Reason},
    record::Checkpoint,
};

use crate::{error::Result, scan};

/// The paths that a safety checkpoint could not read, or leaves out because of possible secrets, and the checkpoint that was gone back to does not leave out itself.
pub(super) fn by(store: &Store, safety: Ulid, target: &Checkpoint) -> Result<Vec<Vec<u8>>> {
    let safety = store.refresh()?.checkpoint(safety)?;
    of(store, safety.map(|safety| store.omissions(&safety)).transpose()?.unwrap_or_default(), target)
}

/// The same, by what the safety checkpoint leaves out, or would leave out.
pub(super) fn of(store: &Store, omitted: Vec<Omission>, target: &Checkpoint) -> Result<Vec<Vec<u8>>> {
    let theirs = store.omissions(target)?;
    let is_left_out = |path: &[u8]| theirs.iter().any(|omission| name::as_path(path).starts_with(name::as_path(&omission.path)));
    let spared = |omission: &Omission| {
        matches!(omission.reason, Reason::Unreadable(_) | Reason::Attributes(_)) || scan::is_left_out(omission)
    };
    let spared = omitted.into_iter().filter(spared);
    Ok(spared.map(|omission| omission.path).filter(|path| !is_left_out(path)).collect())
}
