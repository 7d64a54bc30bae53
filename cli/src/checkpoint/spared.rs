//! Files that a rollback leaves as they are, since they cannot be read for its safety checkpoint.

use std::path::Path;

use parhelia_session::rollback::Look;
use parhelia_store::{Store, id::Ulid, name, omitted::Reason, record::Checkpoint, restore::Change};
use rustix::fs::{Access, AtFlags, CWD, FileType, accessat, statat};

use crate::{exit::Result, human};

/// What a safety checkpoint could not read, and the checkpoint that was gone back to does not leave out itself.
pub fn by(store: &Store, safety: Ulid, target: &Checkpoint) -> Result<Vec<Vec<u8>>> {
    let Some(safety) = store.refresh()?.checkpoint(safety)? else { return Ok(Vec::new()) };
    let theirs = store.omissions(target)?;
    let is_left_out = |path: &[u8]| theirs.iter().any(|omission| name::as_path(path).starts_with(name::as_path(&omission.path)));
    let unreadable = store.omissions(&safety)?.into_iter().filter(|omission| matches!(omission.reason, Reason::Unreadable(_)));
    Ok(unreadable.map(|omission| omission.path).filter(|path| !is_left_out(path)).collect())
}

/// Takes out of a plan's changes what a safety checkpoint would not be able to read.
pub fn foreseen(look: &Look, changes: &mut Vec<(Change, Vec<u8>)>) -> Vec<Vec<u8>> {
    let (spared, rest): (Vec<_>, Vec<_>) = std::mem::take(changes).into_iter().partition(|(change, path)| {
        !matches!(change, Change::Create | Change::Keep) && is_unreadable(&look.workspace.join(name::as_path(path)))
    });
    *changes = rest;
    spared.into_iter().map(|(_, path)| path).collect()
}

/// Whether a file or folder that is there cannot be read by this process.
fn is_unreadable(path: &Path) -> bool {
    let Ok(found) = statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW) else { return false };
    let access = match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile => Access::READ_OK,
        FileType::Directory => Access::READ_OK | Access::EXEC_OK,
        _ => return false,
    };
    accessat(CWD, path, access, AtFlags::EACCESS).is_err()
}

/// Names them.
pub fn tell(spared: &[Vec<u8>], stays: &str) {
    for path in spared {
        tell!("parhelia: {}: {stays}, since it cannot be read for the safety checkpoint", human::path(path));
    }
}
