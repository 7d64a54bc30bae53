//! Files of a store. Another user may own the store and put anything into it, so an open follows no link, waits for no fifo and accepts
//! regular files only; and what root makes in such a store belongs to the store's owner.
//!
//! Only the path of the store itself may lead over links. The folders in it (`packs/`, `journal/` ...) may not be links either.

use std::{
    ffi::OsStr,
    fs::File,
    io::{self, Read},
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::{AtFlags, CWD, FileType, Mode, OFlags, RenameFlags},
    io::Errno,
};

use crate::{id::OpId, sys};

/// Ways to open a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// For reading. The file exists.
    Read,
    /// For reading and writing. The file exists.
    Write,
    /// For reading and writing. A missing file is made.
    Make,
    /// For reading and writing. The file is made; one that exists is an error.
    New,
}

/// Opens a file in one of the folders of a store.
pub fn open(path: &Path, how: How) -> io::Result<File> {
    let (folder, name) = split(path)?;
    Folder::below(folder)?.open(name, how)
}

/// Opens a file in the store's own folder.
pub fn open_top(path: &Path, how: How) -> io::Result<File> {
    let (folder, name) = split(path)?;
    Folder::top(folder)?.open(name, how)
}

/// Reads an open file whole. Longer than `bytes_max` is an error, so that nobody's memory is filled.
pub fn read_all(file: &File, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(bytes_max + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        return Err(io::Error::other(format!("it is longer than {bytes_max} bytes")));
    }
    Ok(bytes)
}

/// Makes a folder in the store's own folder. One that exists is fine.
pub fn make_folder(path: &Path) -> io::Result<()> {
    let (above, name) = split(path)?;
    Folder::top(above)?.make_folder(name)
}

/// The paths in one of the folders of a store; none where the folder is missing.
pub fn list(folder: &Path) -> io::Result<Vec<PathBuf>> {
    match Folder::below(folder).and_then(|opened| opened.names()) {
        Ok(names) => Ok(names.iter().map(|name| folder.join(OsStr::from_bytes(name))).collect()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(e) => Err(e),
    }
}

/// Removes a file in one of the folders of a store. A missing one is fine.
pub fn remove(path: &Path) -> io::Result<()> {
    let (folder, name) = split(path)?;
    let removed = Folder::below(folder).and_then(|folder| Ok(rustix::fs::unlinkat(folder.fd, name, AtFlags::empty())?));
    match removed {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

/// True if the path still names an open file: the same inode, and no link.
pub fn is_named(file: &File, path: &Path) -> bool {
    let named = rustix::fs::lstat(path).map(|stat| (stat.st_dev, stat.st_ino));
    named.is_ok() && named == rustix::fs::fstat(file).map(|stat| (stat.st_dev, stat.st_ino))
}

/// The owner of a store in which root is a guest. What root makes there belongs to him. Root does not have RocksDB write there: it opens its files by
/// itself, follows links and leaves files of root's.
pub fn host(root: &Path) -> Option<u32> {
    let owner = rustix::fs::stat(root).ok()?.st_uid;
    (rustix::process::geteuid().is_root() && owner != 0).then_some(owner)
}

/// Fails where a folder, or an entry in it, is not what RocksDB may open. Subfolders are not looked into.
pub fn check_plain(folder: &Path) -> io::Result<()> {
    let opened = Folder::below(folder)?;
    let fd = opened.listable()?;
    for name in sys::names(fd.as_fd())? {
        match sys::stat_at(fd.as_fd(), &name) {
            Ok(stat) if stat.is_file() || stat.is_folder() => {}
            Ok(stat) => return Err(refused(OsStr::from_bytes(&name), stat.file_type())),
            // RocksDB in another process removes files.
            Err(Errno::NOENT) => {}
            Err(e) => return Err(e.into()),
        }
    }
    Ok(())
}

fn split(path: &Path) -> io::Result<(&Path, &OsStr)> {
    match (path.parent(), path.file_name()) {
        (Some(folder), Some(name)) => Ok((if folder.as_os_str().is_empty() { Path::new(".") } else { folder }, name)),
        _ => Err(Errno::INVAL.into()),
    }
}

fn refused(name: &OsStr, kind: FileType) -> io::Error {
    let what = match kind {
        FileType::Symlink => "a symbolic link",
        FileType::Fifo => "a fifo",
        FileType::Socket => "a socket",
        FileType::Directory => "a folder",
        _ => "a device",
    };
    io::Error::other(format!("'{}' is {what}; a store holds regular files only", name.display()))
}

/// An open folder of a store.
pub struct Folder {
    fd: OwnedFd,
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
        let made = rustix::fs::mkdirat(&self.fd, name, Mode::RWXU);
        let opened = sys::open_folder_at(self.fd.as_fd(), name.as_bytes());
        match made {
            Ok(()) => {
                let opened = opened?;
                // Not one that was put into its place.
                if sys::names(opened.as_fd())?.is_empty() { self.give(opened.as_fd()) } else { Ok(()) }
            }
            Err(Errno::EXIST) => Ok(opened.map(drop)?),
            Err(e) => Err(e.into()),
        }
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
    fn host(&self) -> io::Result<Option<(u32, u32)>> {
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
        let temporary = format!("{}.{}.tmp", name.to_string_lossy(), OpId::generate());
        let temporary = OsStr::new(&temporary);
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

    fn rename_new(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
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
