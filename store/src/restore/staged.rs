//! Entries that a restore builds under temporary names, and clearing them away where its process died.
//!
//! A restore holds a lock (flock) on the folder in which it builds, and a pin in the store that names that folder. Both end with the
//! process. What a dead pin leads to is removed by the next restore, `create` or gc. Nothing is removed for its name alone, and nothing that
//! is locked.

use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::Path,
};

use rustix::{
    fs::{FlockOperation, Mode, OFlags, flock},
    io::Errno,
};

use super::{
    building::{Form, operation},
    descent::Descent,
    remove::remove,
    select::ProtectedEntries,
};
use crate::{
    error::{Error, Result, TargetContext},
    id::OpId,
    layout::Layout,
    name,
    pin::{self, Leaves},
    sys,
};

/// Takes the lock of a folder in which something is built. False where another restore has it; a filesystem without locks has none.
pub fn hold(folder: BorrowedFd<'_>) -> rustix::io::Result<bool> {
    match flock(folder, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOLCK | Errno::NOSYS | Errno::INVAL) => Ok(true),
        Err(Errno::WOULDBLOCK | Errno::INTR) => Ok(false),
        Err(e) => Err(e),
    }
}

/// Fails where another restore of this store changes the folder, or one above or below it: both would go by what they had found there.
pub fn check_alone(layout: &Layout, own: OpId, target: &Path) -> Result<()> {
    // A folder of pins that cannot be read keeps nobody from restoring.
    let others = pin::builders(&layout.pins()).unwrap_or_default();
    for (op, leaves) in others.into_iter().filter(|(op, _)| *op != own) {
        let Some(path) = leaves.replaced() else { continue };
        let path = name::as_path(&path);
        if (path.starts_with(target) || target.starts_with(path)) && pin::is_held(&layout.pins(), op) {
            return Err(Error::TargetBusy { path: path.to_owned() });
        }
    }
    Ok(())
}

/// Clears what restores into this store's checkpoints left when they died, and their pins. A pin that leads to something that cannot be
/// cleared now stays for the next time.
pub fn clear_dead(layout: &Layout) -> Result<()> {
    for (op, _) in pin::builders(&layout.pins())? {
        let Some(_held) = pin::seize(&layout.pins(), op)? else { continue };
        // It may have written more before it died.
        let now = pin::builders(&layout.pins())?.into_iter().find(|(found, _)| *found == op);
        if now.is_some_and(|(_, leaves)| clear(&leaves, op).unwrap_or(false)) {
            pin::remove_dead(&layout.pins(), op)?;
        }
    }
    Ok(())
}

/// Removes what the operation built in a folder, and gives folders back their modes. False where another restore is at work there, so that
/// it has to wait.
fn clear(leaves: &Leaves, op: OpId) -> Result<bool> {
    // What leads nowhere now leads nowhere later.
    let Some(path) = leaves.folder() else { return Ok(true) };
    let path = name::as_path(&path);
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = match rustix::fs::open(path, flags, Mode::empty()) {
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(true),
        other => other.at_target("open folder", path)?,
    };
    // A copy of the store has the pin of a restore that may be alive in the original. That one holds its lock.
    let is_free = hold(folder.as_fd()).at_target("lock", path)?;
    if leaves.below && !is_free {
        return Ok(false);
    }
    let mut is_clear = clear_in(folder.as_fd(), op, leaves.below, is_free).at_target("clear", path)?;
    for mounted in leaves.mounts() {
        match open_below(&folder, &mounted) {
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
            Err(e) => return Err(e).at_target("open folder", path.join(name::as_path(&mounted))),
            Ok(below) => is_clear &= clear_in(below.as_fd(), op, true, is_free).at_target("clear", path)?,
        }
    }
    for (below, mode) in leaves.opened() {
        put_mode_back(&folder, &below, mode).at_target("change mode of", path.join(name::as_path(&below)))?;
    }
    Ok(is_clear)
}

/// Removes what the operation built in a folder, or in those below on the same filesystem as well. False where some of it is in use.
fn clear_in(folder: BorrowedFd<'_>, op: OpId, below: bool, is_free: bool) -> rustix::io::Result<bool> {
    let device = sys::stat_fd(folder)?.dev;
    let mut walk = Descent::new(folder, b"", sys::names(folder)?)?;
    let mut is_clear = true;
    loop {
        let Some(found) = walk.next_name() else {
            if walk.leave()?.is_none() {
                return Ok(is_clear);
            }
            continue;
        };
        if let Some((_, form)) = operation(&found).filter(|(found, _)| *found == op) {
            is_clear &= match form {
                Form::Entry => is_free,
                Form::Folder => is_abandoned(walk.folder(), &found)?,
            } && !remove(walk.folder(), &found, b"", &ProtectedEntries::default()).kept;
            continue;
        }
        if !below || !sys::stat_at(walk.folder(), &found).is_ok_and(|stat| stat.is_folder() && stat.dev == device) {
            continue;
        }
        // What may not be looked into, nothing was built in.
        let Ok(fd) = sys::open_folder_at(walk.folder(), &found) else { continue };
        let (stat, names) = (sys::stat_fd(&fd)?, sys::names(fd.as_fd()));
        if let (true, Ok(names)) = (sys::stat_at(fd.as_fd(), b".").is_ok(), names) {
            walk.enter(&found, fd, &stat, names);
        }
    }
}

/// True if nobody builds the folder of this name any more.
fn is_abandoned(above: BorrowedFd<'_>, name: &[u8]) -> rustix::io::Result<bool> {
    let fd = match sys::open_folder_at(above, name) {
        // Its mode is the new folder's already, and does not let anybody lock it.
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ACCESS) => return Ok(true),
        other => other?,
    };
    if !hold(fd.as_fd())? {
        return Ok(false);
    }
    // It may have got its own name before the lock was free.
    let (held, now) = (sys::stat_fd(&fd)?, sys::stat_at(above, name));
    Ok(now.is_ok_and(|now| (now.dev, now.ino) == (held.dev, held.ino)))
}

/// Opens a folder by its path from an open one, link by link.
fn open_below(folder: &OwnedFd, path: &[u8]) -> rustix::io::Result<OwnedFd> {
    let mut fd = rustix::io::fcntl_dupfd_cloexec(folder, 0)?;
    for part in name::components(path) {
        fd = sys::open_folder_at(fd.as_fd(), part)?;
    }
    Ok(fd)
}

/// Gives a folder the mode back that it had, unless somebody has given it another one since.
fn put_mode_back(folder: &OwnedFd, path: &[u8], mode: u32) -> rustix::io::Result<()> {
    let fd = match open_below(folder, path) {
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(()),
        other => other?,
    };
    match sys::stat_fd(&fd)?.mode & 0o7777 == opened_mode(mode) {
        true => rustix::fs::fchmod(&fd, Mode::from_raw_mode(mode)),
        false => Ok(()),
    }
}

/// The mode that a folder has while something in it is changed.
pub fn opened_mode(mode: u32) -> u32 {
    mode | 0o700
}

#[cfg(test)]
mod tests;
