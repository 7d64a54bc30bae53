//! Removing what is in the way, deepest first, without ever following a symlink.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::{
    fs::{AtFlags, Mode, OFlags},
    io::{Errno, Result},
};

use super::select::Spared;
use crate::{name, sys};

/// What a removal came to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Removed {
    /// Entries removed.
    pub entries: u64,
    /// Whether something was to be kept, so that the folders above it are there still.
    pub kept: bool,
}

struct Level {
    name: Vec<u8>,
    path: Vec<u8>,
    left: Vec<Vec<u8>>,
    id: (u64, u64),
    kept: bool,
}

/// A folder that is removed from the last of its names on. One that is spared with all that is in it has none to begin with.
fn level(fd: &OwnedFd, name: &[u8], path: Vec<u8>, spared: &Spared) -> Result<Level> {
    let stat = sys::stat_fd(fd)?;
    let names = sys::names(fd.as_fd())?;
    let kept = spared.covers_one_of(&names);
    let left = if kept { Vec::new() } else { names };
    Ok(Level { name: name.to_vec(), path, left, id: (stat.dev, stat.ino), kept })
}

fn unlink(folder: BorrowedFd<'_>, name: &[u8], flags: AtFlags) -> Result<bool> {
    match rustix::fs::unlinkat(folder, name, flags) {
        Ok(()) => Ok(true),
        Err(Errno::NOENT) => Ok(false),
        Err(e) => Err(e),
    }
}

/// Removes an entry and all that is in it, but for what is spared; `path` is that of the entry. Other filesystems that are mounted there or
/// below are kept.
pub fn remove(folder: BorrowedFd<'_>, entry: &[u8], path: &[u8], spared: &Spared) -> Result<Removed> {
    let mut done = Removed::default();
    if spared.covers(path) {
        return Ok(Removed { kept: true, ..done });
    }
    match unlink(folder, entry, AtFlags::empty()) {
        Err(Errno::ISDIR | Errno::PERM) => {}
        other => return other.map(|gone| Removed { entries: u64::from(gone), ..done }),
    }
    let mut fd = sys::open_folder_at(folder, entry)?;
    let device = sys::stat_fd(folder)?.dev;
    if sys::stat_fd(&fd)?.dev != device {
        return Ok(Removed { kept: true, ..done });
    }
    // One folder is open at a time: a tree may be deeper than there are file descriptors.
    let mut levels = vec![level(&fd, entry, path.to_vec(), spared)?];
    while let Some(top) = levels.last_mut() {
        let Some(next) = top.left.pop() else {
            let Some(finished) = levels.pop() else { break };
            done.kept |= finished.kept;
            let Some(above) = levels.last_mut() else {
                if !finished.kept {
                    done.entries += u64::from(unlink(folder, entry, AtFlags::REMOVEDIR)?);
                }
                break;
            };
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            fd = rustix::fs::openat(&fd, "..", flags, Mode::empty())?;
            let stat = sys::stat_fd(&fd)?;
            if (stat.dev, stat.ino) != above.id {
                return Err(Errno::STALE);
            }
            above.kept |= finished.kept;
            if !finished.kept {
                done.entries += u64::from(unlink(fd.as_fd(), &finished.name, AtFlags::REMOVEDIR)?);
            }
            continue;
        };
        let path = name::join(&top.path, &next);
        if spared.covers(&path) {
            top.kept = true;
            continue;
        }
        match unlink(fd.as_fd(), &next, AtFlags::empty()) {
            Err(Errno::ISDIR | Errno::PERM) => {
                let below = sys::open_folder_at(fd.as_fd(), &next)?;
                let lower = level(&below, &next, path, spared)?;
                if lower.id.0 == device {
                    fd = below;
                    levels.push(lower);
                } else {
                    top.kept = true;
                }
            }
            other => done.entries += u64::from(other?),
        }
    }
    Ok(done)
}

/// How many entries a removal would look at to remove them: none where all of it is spared.
pub fn count(folder: BorrowedFd<'_>, entry: &[u8], path: &[u8], spared: &Spared) -> u64 {
    if spared.covers(path) {
        return 0;
    }
    let Ok(fd) = sys::open_folder_at(folder, entry) else { return 1 };
    let device = |fd: BorrowedFd<'_>| sys::stat_fd(fd).map(|stat| stat.dev);
    if device(fd.as_fd()) != device(folder) {
        return 0;
    }
    let Ok(names) = sys::names(fd.as_fd()) else { return 1 };
    if spared.covers_one_of(&names) {
        return 0;
    }
    1 + names.iter().map(|inner| count(fd.as_fd(), inner, &name::join(path, inner), spared)).sum::<u64>()
}
