//! Bringing what was restored to the medium: by one `syncfs`, and where the filesystem is served with FUSE, whose programs the kernel does
//! not tell of that, file by file and folder by folder.

use std::{
    fs::File,
    os::{
        fd::{AsFd, BorrowedFd},
        unix::fs::MetadataExt,
    },
    path::Path,
};

use rustix::io::Errno;

use super::run::Run;
use crate::{
    error::{IoContext, Result},
    sys,
};

impl Run<'_> {
    /// Syncs a file that was written, where that is not done for all at once.
    pub fn sync_file(&self, file: BorrowedFd<'_>) -> rustix::io::Result<()> {
        if self.syncs_each { sync(file) } else { Ok(()) }
    }

    /// Writes what was restored to its medium.
    pub fn sync(&self) -> Result<()> {
        if self.syncs_each {
            return self.sync_folders();
        }
        match rustix::fs::syncfs(&self.staging.root) {
            Err(Errno::NOSYS | Errno::INVAL) => rustix::fs::sync(),
            other => other.at("sync", self.plan.target())?,
        }
        Ok(())
    }

    fn sync_folders(&self) -> Result<()> {
        for (number, line) in (0u32..).zip(&self.plan.folders).filter(|(_, line)| line.wanted) {
            let synced = match self.dirs.get(number) {
                Ok(fd) => sync(fd.as_fd()),
                // It could not be made, is gone again, or may not be opened.
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ACCESS) => Ok(()),
                Err(e) => Err(e),
            };
            synced.at("sync folder", self.path(line.parent, &line.name))?;
        }
        // Folders above a new target may be new as well.
        match (&self.staging.beside, self.plan.target().parent()) {
            (Some((above, _)), Some(parent)) => sync_above(parent, sys::stat_fd(above).at("stat", parent)?.dev),
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
        if opened.metadata().at("stat", folder)?.dev() != device {
            return Ok(());
        }
        sync(opened.as_fd()).at("sync folder", folder)?;
    }
    Ok(())
}

/// Syncs the name of the target.
pub fn sync_name(path: &Path) -> Result<()> {
    let Some(above) = path.parent() else { return Ok(()) };
    let opened = File::open(above).at("open folder", above)?;
    sync(opened.as_fd()).at("sync folder", above)
}
