//! Gives entries other names, whatever the filesystem can do at once.

use std::os::fd::BorrowedFd;

use rustix::{fs::RenameFlags, io::Errno};

use crate::sys;

/// Renames an entry of a folder, and fails where the new name is taken. Not every filesystem can tell.
pub(super) fn rename_new(folder: BorrowedFd<'_>, old: &[u8], new: &[u8]) -> rustix::io::Result<()> {
    match rustix::fs::renameat_with(folder, old, folder, new, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS) => rename_where_free(folder, old, new),
        other => other,
    }
}

/// The same in two steps: a name that is taken between them is replaced.
pub(super) fn rename_where_free(folder: BorrowedFd<'_>, old: &[u8], new: &[u8]) -> rustix::io::Result<()> {
    match sys::stat_at(folder, new) {
        Err(Errno::NOENT) => rustix::fs::renameat(folder, old, folder, new),
        Ok(_) => Err(Errno::EXIST),
        Err(e) => Err(e),
    }
}

/// Gives an entry the name of another one, and says under which name that is now. Where a filesystem cannot exchange two at once, the old
/// one is put aside right before.
pub(super) fn swap(folder: BorrowedFd<'_>, temporary: &[u8], aside: &[u8], name: &[u8]) -> rustix::io::Result<Vec<u8>> {
    match rustix::fs::renameat_with(folder, temporary, folder, name, RenameFlags::EXCHANGE) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => put_aside(folder, temporary, aside, name).map(|()| aside.to_vec()),
        other => other.map(|()| temporary.to_vec()),
    }
}

/// Gives an entry the name of another one, which is put aside. Where that fails, the other one keeps its name.
pub(super) fn put_aside(folder: BorrowedFd<'_>, temporary: &[u8], aside: &[u8], name: &[u8]) -> rustix::io::Result<()> {
    rustix::fs::renameat(folder, name, folder, aside)?;
    rename_new(folder, temporary, name).inspect_err(|_| _ = rename_new(folder, aside, name))
}

/// Takes a [`swap`] back. False where that fails.
pub(super) fn put_back(folder: BorrowedFd<'_>, old: &[u8], temporary: &[u8], name: &[u8]) -> bool {
    let back = || match old == temporary {
        true => rustix::fs::renameat_with(folder, old, folder, name, RenameFlags::EXCHANGE),
        false => {
            rustix::fs::renameat(folder, name, folder, temporary)?;
            rustix::fs::renameat(folder, old, folder, name)
        }
    };
    back().is_ok()
}

#[cfg(test)]
mod tests;
