//! Bringing what was restored to its mediums.

use std::os::fd::{AsFd, BorrowedFd};

use rustix::io::Errno;

use super::Run;
use crate::{
    error::{Result, TargetContext},
    restore::medium::{sync, sync_above},
    sys,
};

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
