//! Removing what is in the way, deepest first, without ever following a symlink; and what a removal would come to.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::{
    fs::{AtFlags, Mode, OFlags},
    io::{Errno, Result, fcntl_dupfd_cloexec},
};

use super::{
    descent::Descent,
    held::{Hold, HoldCause, is_closed, is_mount, is_stuck},
    select::ProtectedEntries,
};
use crate::{
    errno::{self, Presence},
    name,
    sys::{self, Stat},
};

/// Result of a removal, done or foreseen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Removal {
    /// Number of entries that were removed, or would be.
    pub entries: u64,
    /// True if something was to be kept, so that the folders above it are there still.
    pub kept: bool,
    /// The first entry that is kept because it cannot be removed.
    pub held: Option<HeldEntry>,
    /// Entries that are kept on purpose.
    pub stays: Stays,
}

/// Entries that a removal leaves where they are on purpose. The store, and what other restores build, is counted and not named: it is no
/// part of what is restored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stays {
    /// The path of the first one that is named.
    first: Option<Vec<u8>>,
    /// The number of those that are no mounts; a folder that stays as a whole is one.
    pub spared: u64,
    /// The number of those that are mounts.
    pub mounted: u64,
}

impl Stays {
    fn note(&mut self, path: Vec<u8>, is_mount: bool) {
        self.first.get_or_insert(path);
        if is_mount { self.mounted += 1 } else { self.spared += 1 }
    }

    /// The path of the first one, and the number of the others.
    pub fn shown(&self) -> String {
        let first = self.first.as_deref().map_or_else(|| "the store".to_owned(), name::display);
        match (self.spared + self.mounted).saturating_sub(1) {
            0 => first,
            more => format!("{first} and {more} more"),
        }
    }

    /// The reason for which the entry at a path stays; none where nothing of it does on purpose.
    pub fn reason(&self, path: &[u8]) -> Option<String> {
        let first = self.first.as_deref()?;
        Some(match (first == path, self.spared, self.mounted) {
            (true, 0, _) => Hold::own(HoldCause::Mounted).to_string(),
            (true, ..) => "it is left alone".into(),
            (false, 0, 1) => format!("it stays, since {} in it is a mount of its own", self.shown()),
            (false, 1, 0) => format!("it stays, since {} in it is left out of checkpoints, or left alone", self.shown()),
            (false, ..) => format!("it stays, since {} in it are mounts, left out of checkpoints, or left alone", self.shown()),
        })
    }
}

/// An entry that cannot be removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldEntry {
    /// Path of the entry from the restore's target.
    pub path: Vec<u8>,
    /// The reason.
    pub hold: Hold,
}

impl HeldEntry {
    /// The reason for which the entry at a path stays: this is that entry, or one in it.
    pub fn reason(&self, path: &[u8]) -> String {
        match self.path == path {
            true => self.hold.to_string(),
            false => self.hold.around(&name::display(&self.path)),
        }
    }

    /// True if a flag of its inode, or of its folder's, holds it.
    pub fn is_by_flag(&self) -> bool {
        matches!(self.hold.0, HoldCause::Immutable | HoldCause::AppendOnly)
    }
}

/// Removes an entry and all that is in it, but for what is spared; `path` is that of the entry. What is mounted there or below is kept, and so
/// is what cannot be removed: the rest goes. Folders of this user that are read-only are made writable, and get their modes back where they
/// stay.
pub fn remove(folder: BorrowedFd<'_>, entry: &[u8], path: &[u8], spared: &ProtectedEntries) -> Removal {
    Sweep::of(folder, entry, path, spared, true)
}

/// Foresees the result of [`remove`]. A folder of this user that cannot be looked into yet counts as one entry.
pub fn foresee(folder: BorrowedFd<'_>, entry: &[u8], path: &[u8], spared: &ProtectedEntries) -> Removal {
    Sweep::of(folder, entry, path, spared, false)
}

struct Sweep<'a> {
    walk: Descent,
    /// The entry's name, which may be another one than in its path.
    entry: &'a [u8],
    path: &'a [u8],
    spared: &'a ProtectedEntries,
    removes: bool,
    is_root: bool,
    /// Device and mount of the folder where it begins.
    place: (u64, Option<u64>),
    entries: u64,
    held: Option<HeldEntry>,
    stays: Stays,
    /// The cause that holds the names in the open folder, once it was asked.
    inside: Option<Option<HoldCause>>,
}

/// The entry of a name, as it was found.
enum EntryState {
    Folder(OwnedFd, Stat, Vec<Vec<u8>>),
    Other,
    Gone,
    /// A folder of this user that cannot be looked into before its mode is changed.
    Closed,
    /// Something that stays as it is.
    Spared,
    /// The store.
    Own,
    /// Another filesystem, or another mount.
    Mounted,
    /// Something that cannot be looked at, or looked into.
    Held(Hold),
}

impl<'a> Sweep<'a> {
    fn of(folder: BorrowedFd<'_>, entry: &'a [u8], path: &'a [u8], spared: &'a ProtectedEntries, removes: bool) -> Removal {
        let begun = Descent::new(folder, b"", Vec::new()).and_then(|walk| {
            let place = (sys::stat_fd(folder)?.dev, sys::mount_id(folder, b"")?);
            let is_root = rustix::process::geteuid().is_root();
            let (held, stays, inside) = Default::default();
            Ok(Sweep { walk, entry, path, spared, removes, is_root, place, entries: 0, held, stays, inside })
        });
        match begun {
            Ok(sweep) => sweep.run(),
            Err(e) => {
                let held = Some(HeldEntry { path: path.to_vec(), hold: Hold::own(HoldCause::unseen(e)) });
                Removal { entries: 0, kept: true, held, stays: Stays::default() }
            }
        }
    }

    fn run(mut self) -> Removal {
        match self.spared.covers(self.path) {
            true => self.keep(self.entry, false),
            false => self.take(self.entry),
        }
        loop {
            if let Some(name) = self.walk.next_name() {
                self.visit(&name);
                continue;
            }
            let stays = self.walk.stays();
            let closes = self.walk.mode_before().filter(|_| stays);
            let closes = closes.and_then(|mode| fcntl_dupfd_cloexec(self.walk.folder(), 0).ok().map(|folder| (folder, mode)));
            let left = self.walk.leave();
            self.inside = None;
            // Not before it is left: whoever may not enter a folder does not find the way up from it.
            if let Some((folder, mode)) = closes {
                let _ = rustix::fs::fchmod(folder, Mode::from_raw_mode(mode));
            }
            let mut name = match left {
                Ok(Some(name)) => name,
                Ok(None) => return self.removed(stays),
                // There is no way back to the rest.
                Err(e) => {
                    self.note(self.path.to_vec(), Hold::own(HoldCause::after(e)));
                    return self.removed(true);
                }
            };
            if self.walk.is_first() {
                name = self.entry.to_vec();
            }
            match (stays, self.removes) {
                (true, _) => self.walk.keep(),
                (false, true) => match unlink(self.walk.folder(), &name, AtFlags::REMOVEDIR) {
                    Ok(is_gone) => self.entries += u64::from(is_gone),
                    Err(e) => self.refused(&name, e),
                },
                (false, false) => self.entries += 1,
            }
        }
    }

    fn removed(self, kept: bool) -> Removal {
        Removal { entries: self.entries, kept, held: self.held, stays: self.stays }
    }

    /// Notes that an entry of the open folder cannot be removed, and that it and the folders above stay. A mount stays on purpose.
    fn stays(&mut self, name: &[u8], hold: Hold) {
        if hold == Hold::own(HoldCause::Mounted) {
            return self.keep(name, true);
        }
        self.walk.keep();
        let path = self.path_of(name);
        self.note(path, hold);
    }

    /// Notes that an entry of the open folder stays on purpose, and with it the folders above.
    fn keep(&mut self, name: &[u8], is_mount: bool) {
        self.walk.keep();
        let path = self.path_of(name);
        self.stays.note(path, is_mount);
    }

    /// Notes that something of this program's stays in the open folder.
    fn keep_own(&mut self) {
        self.walk.keep();
        self.stays.spared += 1;
    }

    fn path_of(&mut self, name: &[u8]) -> Vec<u8> {
        match self.walk.is_first() {
            true => self.path.to_vec(),
            false => self.walk.at_path(name, <[u8]>::to_vec),
        }
    }

    fn note(&mut self, path: Vec<u8>, hold: Hold) {
        self.held.get_or_insert(HeldEntry { path, hold });
    }

    /// Notes that the system has refused to remove an entry of the open folder.
    fn refused(&mut self, name: &[u8], errno: Errno) {
        let hold = self.hold_of(name);
        self.stays(name, hold.unwrap_or(Hold::own(HoldCause::after(errno))));
    }

    fn visit(&mut self, name: &[u8]) {
        let spared = self.spared;
        if spared.is_being_built(self.walk.folder(), name) {
            return self.keep_own();
        }
        match self.walk.at_path(name, |path| spared.covers_exactly(path)) {
            true => self.keep(name, false),
            false => self.take(name),
        }
    }

    /// Removes an entry that is not spared by itself, or goes down into it.
    fn take(&mut self, name: &[u8]) {
        if !self.is_as_it_was(name) {
            return self.walk.keep();
        }
        let mut refused = Errno::ISDIR;
        if self.removes {
            match unlink(self.walk.folder(), name, AtFlags::empty()) {
                Ok(is_gone) => return self.entries += u64::from(is_gone),
                // A folder, or a file that may not be removed.
                Err(e) => refused = e,
            }
        }
        // Of a folder that cannot be removed itself, all stays.
        if let Some(hold) = self.hold_of(name) {
            return self.stays(name, hold);
        }
        match self.look(name) {
            EntryState::Folder(fd, stat, names) => self.enter(name, fd, &stat, names),
            EntryState::Spared => self.keep(name, false),
            EntryState::Own => self.keep_own(),
            EntryState::Mounted => self.keep(name, true),
            EntryState::Gone => {}
            EntryState::Held(hold) => self.stays(name, hold),
            EntryState::Other | EntryState::Closed if self.removes => self.refused(name, refused),
            EntryState::Other | EntryState::Closed => self.entries += 1,
        }
    }

    fn enter(&mut self, name: &[u8], fd: OwnedFd, stat: &Stat, names: Vec<Vec<u8>>) {
        self.inside = None;
        match self.walk.is_first() {
            true => self.walk.enter_at(self.path, fd, stat, names),
            false => self.walk.enter(name, fd, stat, names),
        }
        // Where that fails, what is in it is refused one by one.
        let opens = self.removes && is_closed(stat);
        let mode = |mode| Mode::from_raw_mode(mode);
        if opens && rustix::fs::fchmod(self.walk.folder(), mode(stat.mode & 0o7777 | 0o700)).is_ok() {
            self.walk.note_mode(stat.mode & 0o7777);
        }
    }

    /// The reason for which an entry of the open folder cannot be removed, as far as that can be asked.
    fn hold_of(&mut self, name: &[u8]) -> Option<Hold> {
        let folder = self.walk.folder();
        if let Some(own) = HoldCause::of(folder, name) {
            return Some(Hold::own(own));
        }
        let inside = *self.inside.get_or_insert_with(|| HoldCause::inside(folder));
        let sticks = || !self.is_root && sys::stat_at(folder, name).is_ok_and(|stat| is_stuck(folder, &stat));
        inside.map(Hold::inside).or_else(|| sticks().then_some(Hold::own(HoldCause::NotPermitted)))
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

    fn look(&self, name: &[u8]) -> EntryState {
        let above = self.walk.folder();
        let looked = match sys::open_folder_at(above, name) {
            Err(Errno::NOTDIR | Errno::LOOP) => return EntryState::Other,
            Err(Errno::NOENT) if is_gone(above, name) => return EntryState::Gone,
            Err(Errno::ACCESS) => self.look_closed(name),
            Err(e) => Err(e),
            Ok(fd) => sys::stat_fd(&fd).and_then(|stat| self.look_into(fd, stat)),
        };
        match looked {
            Ok(found) => found,
            // A mount whose server is dead is a mount all the same.
            Err(_) if is_mount(above, name) => EntryState::Mounted,
            Err(e) => EntryState::Held(Hold::own(HoldCause::unseen(e))),
        }
    }

    /// Looks at a folder that may not be read. One of this user's is made readable before it is removed.
    fn look_closed(&self, name: &[u8]) -> Result<EntryState> {
        let above = self.walk.folder();
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let found = rustix::fs::openat(above, name, flags, Mode::empty())?;
        let stat = sys::stat_fd(&found)?;
        if !is_closed(&stat) {
            return Err(Errno::ACCESS);
        }
        if !self.removes {
            return Ok(EntryState::Closed);
        }
        sys::chmod_found(found.as_fd(), stat.mode & 0o7777 | 0o700)?;
        let looked = sys::open_folder_at(above, name).and_then(|fd| self.look_into(fd, stat));
        if !matches!(looked, Ok(EntryState::Folder(..))) {
            sys::chmod_found(found.as_fd(), stat.mode & 0o7777)?;
        }
        looked
    }

    fn look_into(&self, fd: OwnedFd, stat: Stat) -> Result<EntryState> {
        if self.spared.is_store(&stat) {
            return Ok(EntryState::Own);
        }
        if (stat.dev, sys::mount_id(fd.as_fd(), b"")?) != self.place {
            return Ok(EntryState::Mounted);
        }
        // Whoever may not enter a folder does not find the way back up either.
        match sys::stat_at(fd.as_fd(), b".") {
            Err(Errno::ACCESS) if is_closed(&stat) && !self.removes => return Ok(EntryState::Closed),
            Err(e) if !(is_closed(&stat) && e == Errno::ACCESS) => return Err(e),
            _ => {}
        }
        let names = sys::names(fd.as_fd())?;
        match self.spared.covers_one_of(&names) {
            true => Ok(EntryState::Spared),
            false => Ok(EntryState::Folder(fd, stat, names)),
        }
    }
}

fn unlink(folder: BorrowedFd<'_>, name: &[u8], flags: AtFlags) -> Result<bool> {
    match rustix::fs::unlinkat(folder, name, flags) {
        Ok(()) => Ok(true),
        Err(Errno::NOENT) if is_gone(folder, name) => Ok(false),
        Err(e) => Err(e),
    }
}

/// True if a second look finds nothing of a name for which a call has answered that there is no such entry.
fn is_gone(folder: BorrowedFd<'_>, name: &[u8]) -> bool {
    matches!(errno::presence(folder, name), Presence::Gone | Presence::FolderGone)
}

#[cfg(test)]
mod tests;
