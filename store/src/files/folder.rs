//! An open folder of a store, and files in it.

use std::{
    ffi::OsStr,
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
