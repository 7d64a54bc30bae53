//! Removing what is in the way, deepest first, without ever following a symlink; and what a removal would come to.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

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
        let path = format!("/proc/self/fd/{}", found.as_raw_fd());
        rustix::fs::chmod(&path, Mode::from_raw_mode(stat.mode & 0o7777 | 0o700))?;
        let looked = sys::open_folder_at(above, name).and_then(|fd| self.look_into(fd, stat));
        if !matches!(looked, Ok(Found::Folder(..))) {
            rustix::fs::chmod(&path, Mode::from_raw_mode(stat.mode & 0o7777))?;
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
mod tests {
    use std::{
        fs::{self, File},
        os::unix::fs::{MetadataExt, PermissionsExt},
        path::Path,
    };

    use rustix::process::Uid;

    use super::*;

    /// Does something in a folder as a user who is not root, and who owns it. In it is a closed one of whoever runs the tests.
    fn as_ordinary(work: impl FnOnce(&Path) + Send) {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("theirs")).unwrap();
        fs::set_permissions(dir.path().join("theirs"), fs::Permissions::from_mode(0o000)).unwrap();
        let work = || {
            if rustix::process::geteuid().is_root() {
                let nobody = Uid::from_raw(65534);
                rustix::fs::chown(dir.path(), Some(nobody), None).unwrap();
                // Of this thread alone.
                rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
            }
            work(dir.path());
        };
        std::thread::scope(|scope| scope.spawn(work).join().unwrap());
    }

    /// Makes folders with a file in each, and then sets the modes of some.
    fn make(top: &Path, folders: &[&str], modes: &[(&str, u32)]) {
        for folder in folders {
            fs::create_dir_all(top.join(folder)).unwrap();
            fs::write(top.join(folder).join("file"), "x").unwrap();
        }
        for (folder, mode) in modes {
            fs::set_permissions(top.join(folder), fs::Permissions::from_mode(*mode)).unwrap();
        }
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o7777
    }

    fn removed(entries: u64, kept: bool) -> Result<Removed> {
        Ok(Removed { entries, kept, frozen: None })
    }

    #[test]
    fn closed_folders_of_their_owner_go_with_what_is_in_them() {
        as_ordinary(|dir| {
            let modes = [("a/read-only", 0o500), ("a/closed", 0o000), ("a/listed", 0o400)];
            make(dir, &["a/read-only/inner", "a/closed/inner", "a/listed", "a/open"], &modes);
            let top = File::open(dir).unwrap();
            // What is in the closed ones cannot be counted.
            assert_eq!(foresee(top.as_fd(), b"a", b"a", &Spared::default()), removed(8, false));
            assert_eq!((mode(&dir.join("a/read-only")), mode(&dir.join("a/closed"))), (0o500, 0o000));
            assert_eq!(remove(top.as_fd(), b"a", b"a", &Spared::default()), removed(11, false));
            assert!(!dir.join("a").exists());
            assert_eq!(remove(top.as_fd(), b"a", b"a", &Spared::default()), removed(0, false));
        });
    }

    #[test]
    fn folders_that_stay_get_their_modes_back() {
        as_ordinary(|dir| {
            let modes = [("a/read-only", 0o1511), ("a/closed/inner", 0o000), ("a/closed", 0o1000), ("a/named", 0o000)];
            make(dir, &["a/read-only", "a/closed/inner", "a/named"], &modes);
            let top = File::open(dir).unwrap();
            let spared = Spared::default().and(&[b"a/read-only/file".to_vec(), b"a/closed/inner/file".to_vec()]);
            assert_eq!(remove(top.as_fd(), b"a", b"a", &spared), removed(2, true));
            for (folder, mode) in modes.iter().filter(|(folder, _)| *folder == "a/read-only" || *folder == "a/closed") {
                assert_eq!(self::mode(&dir.join(folder)), *mode, "{folder}");
            }
            make(dir, &[], &[("a/closed", 0o700)]);
            assert_eq!(mode(&dir.join("a/closed/inner")), 0o000);
            make(dir, &[], &[("a/closed/inner", 0o700)]);
            assert!(dir.join("a/closed/inner/file").exists() && dir.join("a/read-only/file").exists());
            // One that holds a name that is left alone is closed again at once.
            make(dir, &["b/named"], &[("b/named", 0o300)]);
            assert_eq!(remove(top.as_fd(), b"b", b"b", &Spared::default().and_names(&[b"file".to_vec()])), removed(0, true));
            assert_eq!(mode(&dir.join("b/named")), 0o300);
            make(dir, &[], &[("b/named", 0o700)]);
            assert!(dir.join("b/named/file").exists());
        });
    }

    #[test]
    fn only_folders_of_this_user_that_lack_a_right_are_closed() {
        as_ordinary(|_| {
            let uid = rustix::process::geteuid().as_raw();
            let of = |uid, mode| is_closed(&Stat { uid, mode, ..stat() });
            assert!(of(uid, 0o500) && of(uid, 0o077) && of(uid, 0o600));
            assert!(!of(uid, 0o700) && !of(uid, 0o777) && !of(uid + 1, 0o500));
        });
        if rustix::process::geteuid().is_root() {
            assert!(!is_closed(&Stat { uid: 0, mode: 0o000, ..stat() }));
        }
    }

    fn stat() -> Stat {
        sys::stat_fd(File::open("/").unwrap()).unwrap()
    }

    #[test]
    fn a_closed_folder_of_somebody_else_is_left_and_told() {
        as_ordinary(|dir| {
            let top = File::open(dir).unwrap();
            let is_ours = top.metadata().unwrap().uid() == fs::metadata(dir.join("theirs")).unwrap().uid();
            assert_eq!(foresee(top.as_fd(), b"theirs", b"", &Spared::default()), removed(1, false));
            let expected = if is_ours { removed(1, false) } else { Err(Errno::ACCESS) };
            assert_eq!(remove(top.as_fd(), b"theirs", b"", &Spared::default()), expected);
        });
    }

    #[test]
    fn a_file_that_may_not_be_removed_is_told() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("file"), "x").unwrap();
        // Of somebody else's files in such a folder, a user can remove none.
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o1777)).unwrap();
        let is_root = rustix::process::geteuid().is_root();
        let work = || {
            if is_root {
                let nobody = Uid::from_raw(65534);
                rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
            }
            let top = File::open(dir.path()).unwrap();
            let expected = if is_root { Err(Errno::PERM) } else { removed(1, false) };
            assert_eq!(remove(top.as_fd(), b"file", b"file", &Spared::default()), expected);
        };
        std::thread::scope(|scope| scope.spawn(work).join().unwrap());
        assert_eq!(dir.path().join("file").exists(), is_root);
    }
}
