//! Removing what is in the way, deepest first, without ever following a symlink; and what a removal would come to.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::{
    fs::{AtFlags, Mode, OFlags},
    io::{Errno, Result, fcntl_dupfd_cloexec},
};

use super::{descent::Descent, frozen::Frozen, select::Spared};
use crate::sys::{self, Stat};

/// Result of a removal, done or foreseen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// Entries removed.
    pub entries: u64,
    /// True if something was to be kept, so that the folders above it are there still.
    pub kept: bool,
    /// The flag of what was kept because nobody may remove it; of the last one, where they are several.
    pub frozen: Option<Frozen>,
}

/// Removes an entry and all that is in it, but for what is spared; `path` is that of the entry. What is mounted there or below is kept.
/// Folders of this user that are read-only are made writable, and get their modes back where they stay.
pub fn remove(folder: BorrowedFd<'_>, entry: &[u8], path: &[u8], spared: &Spared) -> Result<Removed> {
    Sweep::begin(folder, entry, path, spared, true)?.run()
}

/// Foresees the result of [`remove`]. A folder that cannot be looked into counts as one entry.
pub fn foresee(folder: BorrowedFd<'_>, entry: &[u8], path: &[u8], spared: &Spared) -> Result<Removed> {
    Sweep::begin(folder, entry, path, spared, false)?.run()
}

struct Sweep<'a> {
    walk: Descent,
    /// The entry's name, which may be another one than in its path.
    entry: &'a [u8],
    path: &'a [u8],
    spared: &'a Spared,
    removes: bool,
    /// Device and mount of the folder where it begins.
    place: (u64, Option<u64>),
    entries: u64,
    frozen: Option<Frozen>,
}

/// The entry of a name, as it was found.
enum Found {
    Folder(OwnedFd, Stat, Vec<Vec<u8>>),
    Other,
    Gone,
    /// A folder that may not be looked into.
    Closed,
    /// Something that stays as it is.
    Kept,
}

impl<'a> Sweep<'a> {
    fn begin(folder: BorrowedFd<'_>, entry: &'a [u8], path: &'a [u8], spared: &'a Spared, removes: bool) -> Result<Self> {
        let walk = Descent::new(folder, b"", Vec::new())?;
        let place = (sys::stat_fd(folder)?.dev, sys::mount_id(folder, b""));
        Ok(Sweep { walk, entry, path, spared, removes, place, entries: 0, frozen: None })
    }

    fn run(mut self) -> Result<Removed> {
        match self.spared.covers(self.path) {
            true => self.walk.keep(),
            false => self.take(self.entry)?,
        }
        loop {
            if let Some(name) = self.walk.next_name() {
                self.visit(&name)?;
                continue;
            }
            let stays = self.walk.stays();
            let closes = self.walk.mode_before().filter(|_| stays);
            let closes =
                closes.map(|mode| fcntl_dupfd_cloexec(self.walk.folder(), 0).map(|folder| (folder, mode))).transpose()?;
            let left = self.walk.leave()?;
            // Not before it is left: whoever may not enter a folder does not find the way up from it.
            if let Some((folder, mode)) = closes {
                rustix::fs::fchmod(folder, Mode::from_raw_mode(mode))?;
            }
            let Some(mut name) = left else {
                return Ok(Removed { entries: self.entries, kept: stays, frozen: self.frozen });
            };
            if self.walk.is_first() {
                name = self.entry.to_vec();
            }
            match (stays, self.removes) {
                (true, _) => self.walk.keep(),
                (false, true) => self.entries += u64::from(unlink(self.walk.folder(), &name, AtFlags::REMOVEDIR)?),
                (false, false) => self.entries += 1,
            }
        }
    }

    fn visit(&mut self, name: &[u8]) -> Result<()> {
        let spared = self.spared;
        if spared.is_being_built(self.walk.folder(), name) || self.walk.at_path(name, |path| spared.covers_exactly(path)) {
            self.walk.keep();
            return Ok(());
        }
        self.take(name)
    }

    /// Removes an entry that is not spared by itself, or goes down into it.
    fn take(&mut self, name: &[u8]) -> Result<()> {
        let mut refused = Errno::ISDIR;
        if !self.is_as_it_was(name) {
            self.walk.keep();
            return Ok(());
        }
        if !self.removes && self.is_frozen(name) {
            self.walk.keep();
            return Ok(());
        }
        if self.removes {
            match unlink(self.walk.folder(), name, AtFlags::empty()) {
                Err(Errno::ISDIR | Errno::PERM) if self.is_frozen(name) => {
                    self.walk.keep();
                    return Ok(());
                }
                // A file that may not be removed, or a folder.
                Err(e @ (Errno::ISDIR | Errno::PERM)) => refused = e,
                other => {
                    self.entries += u64::from(other?);
                    return Ok(());
                }
            }
        }
        match self.look(name)? {
            Found::Folder(fd, stat, names) => {
                match self.walk.is_first() {
                    true => self.walk.enter_at(self.path, fd, &stat, names),
                    false => self.walk.enter(name, fd, &stat, names),
                }
                if self.removes && is_closed(&stat) {
                    rustix::fs::fchmod(self.walk.folder(), Mode::from_raw_mode(stat.mode & 0o7777 | 0o700))?;
                    self.walk.note_mode(stat.mode & 0o7777);
                }
            }
            Found::Kept => self.walk.keep(),
            Found::Gone => {}
            Found::Other if self.removes => return Err(refused),
            Found::Closed if self.removes => return Err(Errno::ACCESS),
            Found::Other | Found::Closed => self.entries += 1,
        }
        Ok(())
    }

    /// True if nobody may remove an entry; that is noted. What is in an immutable folder stays with it.
    fn is_frozen(&mut self, name: &[u8]) -> bool {
        let folder = self.walk.folder();
        let frozen = Frozen::of(folder, name).or_else(|| Frozen::of(folder, b""));
        self.frozen = frozen.or(self.frozen);
        frozen.is_some()
    }

    /// False where an entry was changed so lately that it has to stay; that is noted.
    fn is_as_it_was(&mut self, name: &[u8]) -> bool {
        let Some(guard) = self.spared.guard() else { return true };
        let Ok(stat) = sys::stat_at(self.walk.folder(), name) else { return true };
        if guard.allows(self.walk.folder(), &stat) {
            if self.removes && stat.links > 1 && !stat.is_folder() {
                guard.touch(&stat);
            }
            return true;
        }
        match self.walk.is_first() {
            true => guard.leave(self.path.to_vec()),
            false => self.walk.at_path(name, |path| guard.leave(path.to_vec())),
        }
        false
    }

    fn look(&self, name: &[u8]) -> Result<Found> {
        let above = self.walk.folder();
        let fd = match sys::open_folder_at(above, name) {
            Err(Errno::NOTDIR | Errno::LOOP) => return Ok(Found::Other),
            Err(Errno::NOENT) => return Ok(Found::Gone),
            Err(Errno::ACCESS) if self.removes => return self.look_by_force(name),
            Err(Errno::ACCESS) => return Ok(Found::Closed),
            other => other?,
        };
        let stat = sys::stat_fd(&fd)?;
        self.look_into(fd, stat)
    }

    /// Looks at a folder of this user that may not be read, after making it readable.
    fn look_by_force(&self, name: &[u8]) -> Result<Found> {
        let above = self.walk.folder();
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let found = rustix::fs::openat(above, name, flags, Mode::empty())?;
        let stat = sys::stat_fd(&found)?;
        if !is_closed(&stat) {
            return Ok(Found::Closed);
        }
        sys::chmod_found(found.as_fd(), stat.mode & 0o7777 | 0o700)?;
        let looked = sys::open_folder_at(above, name).and_then(|fd| self.look_into(fd, stat));
        if !matches!(looked, Ok(Found::Folder(..))) {
            sys::chmod_found(found.as_fd(), stat.mode & 0o7777)?;
        }
        looked
    }

    fn look_into(&self, fd: OwnedFd, stat: Stat) -> Result<Found> {
        if self.spared.is_store(&stat) || (stat.dev, sys::mount_id(fd.as_fd(), b"")) != self.place {
            return Ok(Found::Kept);
        }
        // Whoever may not enter a folder does not find the way back up either.
        if !self.removes && sys::stat_at(fd.as_fd(), b".") == Err(Errno::ACCESS) {
            return Ok(Found::Closed);
        }
        let names = sys::names(fd.as_fd())?;
        match self.spared.covers_one_of(&names) {
            true => Ok(Found::Kept),
            false => Ok(Found::Folder(fd, stat, names)),
        }
    }
}

/// True if a folder is this user's, who yet may not change what is in it.
pub fn is_closed(stat: &Stat) -> bool {
    let user = rustix::process::geteuid();
    !user.is_root() && stat.uid == user.as_raw() && stat.mode & 0o700 != 0o700
}

fn unlink(folder: BorrowedFd<'_>, name: &[u8], flags: AtFlags) -> Result<bool> {
    match rustix::fs::unlinkat(folder, name, flags) {
        Ok(()) => Ok(true),
        Err(Errno::NOENT) => Ok(false),
        Err(e) => Err(e),
    }
}

#[cfg(test)]
mod tests;
