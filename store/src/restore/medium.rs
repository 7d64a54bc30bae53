//! Bringing what was restored to the medium.

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
    disk,
    error::{IoContext, Result},
    sys,
    tree::Time,
};

/// A filesystem's server may have another clock than we; entries that were changed so long before a restore began count as its own.
const CLOCK_SECONDS: i64 = 300;

impl Run<'_> {
    /// Writes what was restored to its medium.
    pub fn sync(&self) -> Result<()> {
        // The kernel tells no server of FUSE to write everything.
        if sys::is_fuse(self.staging.root.as_fd()) {
            return self.sync_each();
        }
        match rustix::fs::syncfs(&self.staging.root) {
            Err(Errno::NOSYS | Errno::INVAL) => rustix::fs::sync(),
            other => other.at("sync", self.plan.target())?,
        }
        Ok(())
    }

    /// Syncs every file and every folder that has changed, one by one.
    fn sync_each(&self) -> Result<()> {
        let folders = &self.plan.folders;
        for (number, line) in (0u32..).zip(folders).filter(|(_, line)| line.wanted) {
            let sync = || {
                let fd = self.dirs.get(number)?;
                sync_files(fd.as_fd(), self.began)?;
                rustix::fs::fsync(&fd)
            };
            if_there(sync()).at("sync", self.path(line.parent, &line.name))?;
        }
        // Folders above a new target may be new as well.
        match (&self.staging.beside, self.plan.target().parent()) {
            (Some((above, _)), Some(parent)) => sync_above(parent, sys::stat_fd(above).at("stat", parent)?.dev),
            _ => Ok(()),
        }
    }
}

/// Syncs the files of a folder that were changed since.
fn sync_files(folder: BorrowedFd<'_>, began: Time) -> rustix::io::Result<()> {
    for name in sys::names(folder)? {
        let sync = || {
            let stat = sys::stat_at(folder, &name)?;
            match stat.is_file() && stat.ctime.secs >= began.secs - CLOCK_SECONDS {
                true => rustix::fs::fsync(sys::open_file_at(folder, &name)?),
                false => Ok(()),
            }
        };
        if_there(sync())?;
    }
    Ok(())
}

/// What could not be made, is gone again or may not be opened is nothing to sync.
fn if_there(synced: rustix::io::Result<()>) -> rustix::io::Result<()> {
    match synced {
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ACCESS) => Ok(()),
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
        opened.sync_all().at("sync folder", folder)?;
    }
    Ok(())
}

/// Syncs the name of the target.
pub fn sync_name(path: &Path) -> Result<()> {
    path.parent().map_or(Ok(()), disk::sync_folder)
}
