//! Folders of this user that are read-only, such as those of Go's module cache: they are made writable while something in them changes, and
//! get their modes back. Which ones is in the pin before, so that they get them back also where the process dies.

use std::collections::BTreeSet;

use rustix::{
    fs::{Mode, fchmod},
    io::Errno,
};

use super::{
    held::is_closed,
    run::Run,
    staged::opened_mode,
    table::{Action, folder_path},
};
use crate::{
    error::{Result, TargetContext},
    sys,
};

/// A folder by its number, and its permission bits before.
pub type FolderMode = (u32, u32);

impl Run<'_> {
    /// The existing folders in which something changes, and which do not let this user change it.
    pub fn closed_folders(&self) -> Result<Vec<FolderMode>> {
        if rustix::process::geteuid().is_root() {
            return Ok(Vec::new());
        }
        let mut closed = Vec::new();
        for folder in self.changing() {
            let path = || self.plan.target().join(crate::name::as_path(&folder_path(&self.plan.folders, folder)));
            let stat = self.dirs.get(folder).and_then(sys::stat_fd).at_target("read folder", path())?;
            if is_closed(&stat) {
                closed.push((folder, stat.mode & 0o7777));
            }
        }
        Ok(closed)
    }

    /// The existing folders in which something is made or removed, or whose own metadata is set.
    fn changing(&self) -> BTreeSet<u32> {
        let plan = self.plan;
        let items = plan.items.iter().filter(|item| item.action != Action::Meta).map(|item| item.folder);
        let links = plan.links.iter().map(|link| link.folder);
        let removed = plan.extras.iter().filter(|_| plan.options.delete).map(|extra| extra.folder);
        let made = plan.folders.iter().skip(1).filter(|line| line.is_new && line.wanted).map(|line| line.parent);
        let set = (0u32..).zip(&plan.folders).filter(|(_, line)| line.differs).map(|(folder, _)| folder);
        let all = items.chain(links).chain(removed).chain(made).chain(set);
        all.filter(|folder| !plan.folders[*folder as usize].is_new).collect()
    }

    /// Paths from the target, with the permission bits before.
    pub fn paths_of(&self, folders: &[FolderMode]) -> impl Iterator<Item = (Vec<u8>, u32)> {
        folders.iter().map(|(folder, mode)| (folder_path(&self.plan.folders, *folder), *mode))
    }

    /// Makes folders writable.
    pub fn open_up(&self, folders: &[FolderMode]) -> Result<()> {
        for (folder, mode) in folders {
            let opened = self.dirs.get(*folder).and_then(|fd| fchmod(fd, Mode::from_raw_mode(opened_mode(*mode))));
            let line = &self.plan.folders[*folder as usize];
            opened.at_target("change mode of", self.path(line.parent, &line.name))?;
        }
        Ok(())
    }

    /// Gives folders their modes back, but for those that have got their final one. False where one could not be had.
    pub fn close(&self, folders: &[FolderMode], is_done: bool) -> bool {
        let has_final = |folder: u32| {
            let line = &self.plan.folders[folder as usize];
            is_done && line.finish && line.wanted
        };
        let put_back = |folder: u32, mode: u32| {
            let fd = self.dirs.get(folder)?;
            match sys::stat_fd(&fd)?.mode & 0o7777 == opened_mode(mode) {
                true => fchmod(fd, Mode::from_raw_mode(mode)),
                false => Ok(()),
            }
        };
        let left = folders.iter().filter(|(folder, _)| !has_final(*folder));
        // One that is gone needs no mode.
        left.map(|(folder, mode)| matches!(put_back(*folder, *mode), Ok(()) | Err(Errno::NOENT | Errno::NOTDIR)))
            .fold(true, |all, done| all & done)
    }
}
