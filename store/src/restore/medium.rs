//! Bringing what was restored to the medium: by one `syncfs` for each filesystem, and on one that is served with FUSE, whose programs the
//! kernel does not tell of that, file by file and folder by folder.

use std::{
    fs::File,
    os::{
        fd::{AsFd, BorrowedFd},
        unix::fs::MetadataExt,
    },
    path::Path,
};

use rustix::io::Errno;

use super::{
    plan::Plan,
    table::{Dirs, folder_path},
};
use crate::{
    error::{Result, TargetContext},
    name, sys,
};

/// A filesystem that the target, or a folder in it, lies on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Medium {
    /// Its device, as the plan's folders have it.
    pub(super) device: u64,
    /// A folder on it.
    pub(super) folder: u32,
    /// True if each file and folder has to be synced by itself.
    pub(super) syncs_each: bool,
}

/// The filesystems that the target lies on. All of them: something on one of them may not be synced yet that an earlier restore has put there.
pub fn mediums(plan: &Plan, dirs: &Dirs<'_>) -> Result<Vec<Medium>> {
    let mut found: Vec<Medium> = Vec::new();
    for (folder, line) in (0u32..).zip(&plan.folders).filter(|(folder, line)| *folder == 0 || line.wanted && !line.is_new) {
        if found.iter().all(|medium| medium.device != line.device) {
            let path = || plan.target().join(name::as_path(&folder_path(&plan.folders, folder)));
            let fd = match dirs.get(folder) {
                // Nothing is changed in what may not be looked into.
                Err(_) if folder != 0 => continue,
                other => other.at_target("open folder", path())?,
            };
            found.push(Medium { device: line.device, folder, syncs_each: sys::is_fuse(fd.as_fd()) });
        }
    }
    Ok(found)
}

/// Syncs a file or a folder. Not every filesystem can do so with each.
pub(super) fn sync(fd: BorrowedFd<'_>) -> rustix::io::Result<()> {
    match rustix::fs::fsync(fd) {
        Err(Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        other => other,
    }
}

/// Syncs a folder and those above it on the same filesystem.
pub(super) fn sync_above(folder: &Path, device: u64) -> Result<()> {
    for folder in folder.ancestors() {
        let Ok(opened) = File::open(folder) else { return Ok(()) };
        if opened.metadata().at_target("stat", folder)?.dev() != device {
            return Ok(());
        }
        sync(opened.as_fd()).at_target("sync folder", folder)?;
    }
    Ok(())
}

/// Syncs the name of the target.
pub fn sync_name(path: &Path) -> Result<()> {
    let Some(above) = path.parent() else { return Ok(()) };
    let opened = File::open(above).at_target("open folder", above)?;
    sync(opened.as_fd()).at_target("sync folder", above)
}
