//! Files that a rollback leaves as they are, since its safety checkpoint has not got them, or not whole: they, or attributes of them, cannot be
//! read, or they may hold secrets.

use parhelia_store::{
    Store,
    id::Ulid,
    name,
    omitted::{Omission, Reason},
    record::Checkpoint,
};

use parhelia_host::Result;
use parhelia_oversight::scan;

/// Paths that a rollback must not remove, by what its safety checkpoint leaves out or lacks. Of an entry of which only attributes are lacking and which
/// the target has, the plan asks itself.
pub(super) fn kept<'o>(
    store: &'o Store,
    omitted: impl IntoIterator<Item = Omission> + 'o,
    target: Option<&'o Checkpoint>,
) -> impl Iterator<Item = Vec<u8>> + 'o {
    let is_extra = move |omission: &Omission| match &omission.reason {
        Reason::Attributes(_) => target.is_none_or(|target| store.node_at(target, &omission.path).is_err()),
        reason => reason.is_left_out(),
    };
    omitted.into_iter().filter(is_extra).map(|omission| omission.path)
}

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
    let named: Vec<Omission> = omitted.into_iter().filter(spared).collect();
    Ok(kept(store, named, Some(target)).filter(|path| !is_left_out(path)).collect())
}
