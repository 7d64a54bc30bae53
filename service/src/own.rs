//! Files that the service makes for its own time, in folders that others use as well, and files that it is told to read.

#![expect(clippy::disallowed_methods, reason = "files of the service are in the user's runtime folder")]

use std::{
    fs::{self, File, OpenOptions},
    io::{self, ErrorKind},
    os::{fd::OwnedFd, unix::fs::OpenOptionsExt},
    path::{Path, PathBuf},
};

use rustix::fs::{CWD, Mode, OFlags, Stat, fstat, lstat, openat};

/// A file of the service, which is removed when this is dropped, unless another one has taken its place.
#[derive(Debug)]
pub struct OwnFile {
    path: PathBuf,
    /// Held open, so that its inode number is given to no other file.
    handle: OwnedFd,
}

impl OwnFile {
    /// The file that is at a path now.
    pub fn at(path: &Path) -> std::io::Result<Self> {
        let handle = openat(CWD, path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
        Ok(OwnFile { path: path.to_owned(), handle })
    }

    /// Path at which the file was made or moved to.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The same file, moved to another path.
    pub fn moved_to(mut self, path: &Path) -> std::io::Result<Self> {
        fs::rename(&self.path, path)?;
        self.path = path.to_owned();
        Ok(self)
    }
}

impl Drop for OwnFile {
    fn drop(&mut self) {
        let id = |stat: Stat| (stat.st_dev, stat.st_ino);
        let (own, there) = (fstat(&self.handle).map(id), lstat(&self.path).map(id));
        if own.is_ok() && own == there {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Opens a regular file to read it, and waits for no writer of a FIFO.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::new(ErrorKind::InvalidInput, "it is no regular file")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_removed_only_while_it_is_the_own_one() {
        let folder = tempfile::tempdir().unwrap();
        let (one, two) = (folder.path().join("one"), folder.path().join("two"));
        fs::write(&one, "own").unwrap();
        let own = OwnFile::at(&one).unwrap().moved_to(&two).unwrap();
        drop(own);
        assert!(!one.exists() && !two.exists());
        fs::write(&one, "own").unwrap();
        let own = OwnFile::at(&one).unwrap();
        fs::remove_file(&one).unwrap();
        fs::write(&one, "another's").unwrap();
        drop(own);
        assert_eq!(fs::read_to_string(&one).unwrap(), "another's");
    }
}
