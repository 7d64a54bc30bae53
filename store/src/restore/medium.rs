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
    run::Run,
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
    device: u64,
    /// A folder on it.
    folder: u32,
    /// True if each file and folder has to be synced by itself.
    syncs_each: bool,
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

impl Run<'_> {
    /// Syncs a file that was written in a folder, where that is not done for all at once.
    pub fn sync_file(&self, folder: u32, file: BorrowedFd<'_>) -> rustix::io::Result<()> {
        let device = self.plan.folders[folder as usize].device;
        let syncs_each = self.mediums.iter().any(|medium| medium.device == device && medium.syncs_each);
        if syncs_each { sync(file) } else { Ok(()) }
    }

    /// Writes what was restored to its mediums.
    pub fn sync(&self) -> Result<()> {
        for medium in &self.mediums {
            if medium.syncs_each {
                self.sync_folders(medium.device)?;
                continue;
            }
            match self.dirs.get(medium.folder).and_then(rustix::fs::syncfs) {
                Err(Errno::NOSYS | Errno::INVAL) => rustix::fs::sync(),
                other => other.at_target("sync", self.plan.target())?,
            }
        }
        Ok(())
    }

    fn sync_folders(&self, device: u64) -> Result<()> {
        let lines = (0u32..).zip(&self.plan.folders).filter(|(_, line)| line.wanted && line.device == device);
        for (number, line) in lines {
            let synced = match self.dirs.get(number) {
                Ok(fd) => sync(fd.as_fd()),
                // It could not be made, is gone again, or may not be opened.
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ACCESS) => Ok(()),
                Err(e) => Err(e),
            };
            synced.at_target("sync folder", self.path(line.parent, &line.name))?;
        }
        // Folders above a new target may be new as well.
        match (&self.staging.beside, self.plan.target().parent()) {
            (Some((above, _)), Some(parent)) => sync_above(parent, sys::stat_fd(above).at_target("stat", parent)?.dev),
            _ => Ok(()),
        }
    }
}

/// Syncs a file or a folder. Not every filesystem can do so with each.
fn sync(fd: BorrowedFd<'_>) -> rustix::io::Result<()> {
    match rustix::fs::fsync(fd) {
        Err(Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        other => other,
    }
}

/// Syncs a folder and those above it on the same filesystem.
fn sync_above(folder: &Path, device: u64) -> Result<()> {
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
