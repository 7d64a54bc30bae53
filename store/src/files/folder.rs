//! An open folder of a store, and files in it.

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
};

use rustix::{
    fs::{AtFlags, CWD, FileType, Mode, OFlags, RenameFlags},
    io::Errno,
};

use super::{How, refused};
use crate::{id::OpId, sys};

/// An open folder of a store.
#[derive(Debug)]
pub struct Folder {
    pub(super) fd: OwnedFd,
}

impl Folder {
    /// The store's own folder. Its path may lead over links.
    pub fn top(path: &Path) -> io::Result<Self> {
        let fd = rustix::fs::openat(CWD, path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Folder { fd })
    }

    /// A folder in the store's folder, which is no link.
    pub fn below(path: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::openat(CWD, path, flags, Mode::empty()) {
            Ok(fd) => Ok(Folder { fd }),
            Err(e @ (Errno::NOTDIR | Errno::LOOP)) => match rustix::fs::lstat(path) {
                Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink => Err(io::Error::other(format!(
                    "the folder {} is a symbolic link, which a store's folders may not be",
                    path.display()
                ))),
                _ => Err(e.into()),
            },
            Err(e) => Err(e.into()),
        }
    }

    /// A folder at a path below the store's own, which leads over no link.
    pub fn inside(root: &Path, below: impl AsRef<Path>) -> io::Result<Self> {
        below.as_ref().iter().try_fold(Folder::top(root)?, |folder, name| folder.folder(name))
    }

    /// The same, made where it is missing.
    pub fn made_inside(root: &Path, below: impl AsRef<Path>) -> io::Result<Self> {
        below.as_ref().iter().try_fold(Folder::top(root)?, |folder, name| match folder.folder(name) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                folder.make_folder(name)?;
                folder.folder(name)
            }
            found => found,
        })
    }

    /// The folder of an entry at a path below the store's own, and the entry's name.
    pub(super) fn around<'p>(root: &Path, path: &'p Path) -> io::Result<(Self, &'p OsStr)> {
        let below = path.strip_prefix(root).map_err(|_| io::Error::from(Errno::INVAL))?;
        let name = below.file_name().ok_or(Errno::INVAL)?;
        Ok((Folder::inside(root, below.parent().unwrap_or(Path::new("")))?, name))
    }

    /// A folder in it, which is no link.
    pub fn folder(&self, name: &OsStr) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::openat(&self.fd, name, flags, Mode::empty()) {
            Ok(fd) => Ok(Folder { fd }),
            Err(e @ (Errno::NOTDIR | Errno::LOOP)) => match sys::stat_at(self.fd.as_fd(), name.as_bytes()) {
                Ok(stat) if stat.file_type() == FileType::Symlink => Err(io::Error::other(format!(
                    "the folder '{}' is a symbolic link, which a store's folders may not be",
                    name.display()
                ))),
                _ => Err(e.into()),
            },
            Err(e) => Err(e.into()),
        }
    }

    /// Opens a file in it.
    pub fn open(&self, name: &OsStr, how: How) -> io::Result<File> {
        let file = match how {
            How::Read => self.open_existing(name, OFlags::RDONLY)?,
            How::Write => self.open_existing(name, OFlags::RDWR)?,
            How::New => return self.make(name),
            How::Make => loop {
                match self.open_existing(name, OFlags::RDWR) {
                    Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                    other => break other?,
                }
                match self.make(name) {
                    // Another process was faster, or has removed it again.
                    Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                    other => return other,
                }
            },
        };
        if how != How::Read {
            self.check_owner(file.as_fd())?;
        }
        Ok(file)
    }

    fn open_existing(&self, name: &OsStr, access: OFlags) -> io::Result<File> {
        let flags = access | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let kind_of = |name: &OsStr| sys::stat_at(self.fd.as_fd(), name.as_bytes()).map(|stat| stat.file_type());
        let fd = match rustix::fs::openat(&self.fd, name, flags, Mode::empty()) {
            Ok(fd) => fd,
            Err(e @ (Errno::LOOP | Errno::NXIO | Errno::ISDIR)) => {
                return Err(kind_of(name).map_or(e.into(), |kind| refused(name, kind)));
            }
            Err(e) => return Err(e.into()),
        };
        let stat = sys::stat_fd(&fd)?;
        if stat.is_file() { Ok(File::from(fd)) } else { Err(refused(name, stat.file_type())) }
    }

    fn make(&self, name: &OsStr) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::openat(&self.fd, name, flags, Mode::RUSR | Mode::WUSR)?);
        if let Err(e) = self.give(file.as_fd()) {
            let _ = rustix::fs::unlinkat(&self.fd, name, AtFlags::empty());
            return Err(e);
        }
        Ok(file)
    }

    /// Makes a folder in it.
    pub fn make_folder(&self, name: &OsStr) -> io::Result<()> {
        match rustix::fs::mkdirat(&self.fd, name, Mode::RWXU) {
            Ok(()) => {
                let opened = sys::open_folder_at(self.fd.as_fd(), name.as_bytes())?;
                // Not one that was put into its place.
                if sys::names(opened.as_fd())?.is_empty() { self.give(opened.as_fd()) } else { Ok(()) }
            }
            Err(Errno::EXIST) => self.folder(name).map(drop),
            Err(e) => Err(e.into()),
        }
    }

    /// Reads a file in it whole. A longer one is an error.
    pub fn read(&self, name: &OsStr, bytes_max: u64) -> io::Result<Vec<u8>> {
        super::read_all(&self.open(name, How::Read)?, bytes_max)
    }

    /// Removes a file in it.
    pub fn remove(&self, name: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.fd, name, AtFlags::empty())?)
    }

    /// Removes an empty folder in it.
    pub fn remove_folder(&self, name: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.fd, name, AtFlags::REMOVEDIR)?)
    }

    /// Removes an entry in it; of a folder, first everything in that. A link goes, and what it leads to stays.
    pub fn remove_all(&self, name: &OsStr) -> io::Result<()> {
        if !sys::stat_at(self.fd.as_fd(), name.as_bytes())?.is_folder() {
            return self.remove(name);
        }
        let inner = self.folder(name)?;
        for name in inner.names()? {
            match inner.remove_all(OsStr::from_bytes(&name)) {
                // Somebody else removes it, too.
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                removed => removed?,
            }
        }
        self.remove_folder(name)
    }

    /// Renames a file in it.
    pub fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.fd, from, &self.fd, to)?)
    }

    /// The fields of `stat` for an entry in it; of a link itself.
    pub fn stat(&self, name: &OsStr) -> io::Result<sys::Stat> {
        Ok(sys::stat_at(self.fd.as_fd(), name.as_bytes())?)
    }

    /// Syncs the names in it.
    pub fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::fsync(self.listable()?)?)
    }

    /// Writes a file whole or not at all, in the place of the one that has its name. It is not synced: a reader has to know a torn one.
    pub fn replace(&self, name: &OsStr, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
        let temporary = temporary(name);
        let mut file = self.make(&temporary)?;
        let placed = write(&mut file).and_then(|()| self.rename(&temporary, name));
        placed.inspect_err(|_| drop(self.remove(&temporary)))
    }

    /// Gives the folder's owner what root has just made in it.
    fn give(&self, made: BorrowedFd<'_>) -> io::Result<()> {
        let Some((owner, group)) = self.host()? else { return Ok(()) };
        if sys::stat_fd(made)?.uid == owner {
            return Ok(());
        }
        let (uid, gid) = (rustix::fs::Uid::from_raw(owner), rustix::fs::Gid::from_raw(group));
        rustix::fs::fchown(made, Some(uid), Some(gid)).map_err(|e| {
            let said = io::Error::from(e);
            io::Error::new(
                said.kind(),
                format!("cannot give it to the store's owner, uid {owner}: {said}; run this as that user"),
            )
        })
    }

    /// Fails where root would write to a file that does not belong to the folder's owner: he may have linked or moved it here, to have
    /// it overwritten. It is not given to him either.
    fn check_owner(&self, file: BorrowedFd<'_>) -> io::Result<()> {
        let (Some((owner, _)), found) = (self.host()?, sys::stat_fd(file)?.uid) else { return Ok(()) };
        match found == owner {
            true => Ok(()),
            false => Err(io::Error::other(format!(
                "it belongs to uid {found}, and the folder to uid {owner}; if it is the store's own, give it to that user with chown"
            ))),
        }
    }

    /// The folder's owner and group, where that is another user and this is root.
    pub(super) fn host(&self) -> io::Result<Option<(u32, u32)>> {
        if !rustix::process::geteuid().is_root() {
            return Ok(None);
        }
        let stat = sys::stat_fd(&self.fd)?;
        Ok((stat.uid != 0).then_some((stat.uid, stat.gid)))
    }

    /// It, opened to be listed, locked or synced.
    pub fn listable(&self) -> io::Result<OwnedFd> {
        Ok(rustix::fs::openat(&self.fd, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
    }

    /// The names in it, in order.
    pub fn names(&self) -> io::Result<Vec<Vec<u8>>> {
        Ok(sys::names(self.listable()?.as_fd())?)
    }

    /// Writes a file whole or not at all, and syncs it and its name. With `is_new`, a file that exists under this name is an error.
    pub fn write_synced(&self, name: &OsStr, bytes: &[u8], is_new: bool) -> io::Result<()> {
        let temporary = &*temporary(name);
        let mut file = self.make(temporary)?;
        let sync = |file: &File| {
            #[cfg(test)]
            crate::disk::syncs::note(Path::new(name))?;
            file.sync_all()
        };
        let written = io::Write::write_all(&mut file, bytes).and_then(|()| sync(&file)).and_then(|()| match is_new {
            true => self.rename_new(temporary, name),
            false => Ok(rustix::fs::renameat(&self.fd, temporary, &self.fd, name)?),
        });
        if written.is_err() {
            let _ = rustix::fs::unlinkat(&self.fd, temporary, AtFlags::empty());
        }
        written?;
        #[cfg(test)]
        crate::disk::syncs::note(Path::new("."))?;
        Ok(rustix::fs::fsync(self.listable()?)?)
    }

    /// Renames a file in it to a name that no file has yet.
    pub(super) fn rename_new(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        match rustix::fs::renameat_with(&self.fd, from, &self.fd, to, RenameFlags::NOREPLACE) {
            // A filesystem that cannot tell; most of those have hard links.
            Err(Errno::INVAL | Errno::NOSYS) => match rustix::fs::linkat(&self.fd, from, &self.fd, to, AtFlags::empty()) {
                Ok(()) => Ok(rustix::fs::unlinkat(&self.fd, from, AtFlags::empty())?),
                Err(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS)
                    if sys::stat_at(self.fd.as_fd(), to.as_bytes()) == Err(Errno::NOENT) =>
                {
                    Ok(rustix::fs::renameat(&self.fd, from, &self.fd, to)?)
                }
                Err(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS) => Err(Errno::EXIST.into()),
                Err(e) => Err(e.into()),
            },
            other => Ok(other?),
        }
    }
}

/// A name under which a file is written that is to have this one.
fn temporary(name: &OsStr) -> OsString {
    format!("{}.{}.tmp", name.to_string_lossy(), OpId::generate()).into()
}

#[cfg(test)]
mod tests {
    use std::{fs, io::Write, os::unix::fs::symlink};

    use super::*;

    #[test]
    fn no_folder_on_the_way_is_a_link_and_nothing_is_changed_behind_one() {
        let folder = tempfile::tempdir().unwrap();
        let (root, outside) = (folder.path().join("store"), folder.path().join("outside"));
        for path in [root.join("a/b"), outside.join("b/c")] {
            fs::create_dir_all(path).unwrap();
        }
        fs::write(outside.join("b/file"), "theirs").unwrap();
        fs::rename(root.join("a"), folder.path().join("aside")).unwrap();
        symlink(&outside, root.join("a")).unwrap();
        for below in ["a", "a/b", "a/b/c", "a/new"] {
            for opened in [Folder::inside(&root, below), Folder::made_inside(&root, below)] {
                assert!(opened.unwrap_err().to_string().contains("symbolic link"), "{below}");
            }
        }
        let (file, there) = (root.join("a/b/file"), folder.path().join("aside/b"));
        assert!(crate::files::rename_below(&root, &file, &root.join("file")).is_err());
        assert!(crate::files::remove_all(&root, &root.join("a/b")).is_err());
        // The link goes by itself, and what stands behind it stays.
        crate::files::remove_all(&root, &root.join("a")).unwrap();
        assert_eq!(fs::read_to_string(outside.join("b/file")).unwrap(), "theirs");
        symlink(&outside, there.join("link")).unwrap();
        fs::write(there.join("plain"), "").unwrap();
        crate::files::remove_all(folder.path(), &folder.path().join("aside")).unwrap();
        crate::files::remove_all(folder.path(), &folder.path().join("aside")).unwrap();
        assert!(outside.join("b/c").is_dir() && !there.exists());
    }

    #[test]
    fn what_is_replaced_is_no_link_any_more() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("theirs"), "theirs").unwrap();
        symlink("theirs", folder.path().join("name")).unwrap();
        let opened = Folder::made_inside(folder.path(), "").unwrap();
        assert!(opened.read(OsStr::new("name"), 10).is_err());
        opened.replace(OsStr::new("name"), |file| file.write_all(b"ours")).unwrap();
        assert_eq!(opened.read(OsStr::new("name"), 10).unwrap(), b"ours");
        assert!(opened.read(OsStr::new("name"), 3).is_err(), "it is longer");
        assert_eq!(fs::read_to_string(folder.path().join("theirs")).unwrap(), "theirs");
        assert!(opened.replace(OsStr::new("name"), |_| Err(io::Error::other("no"))).is_err());
        assert_eq!(opened.names().unwrap(), [b"name".to_vec(), b"theirs".to_vec()]);
    }
}
