//! Files of a store. Another user may own the store and put anything into it, so an open follows no link, waits for no fifo and accepts
//! regular files only; and what root makes in such a store belongs to the store's owner.
//!
//! Only the path of the store itself may lead over links. The folders in it (`packs/`, `journal/` ...) may not be links either, at any depth
//! ([`Folder::inside`]). Whatever writes below a store's folder, in any crate, does so by this module: clippy knows no other way
//! (`disallowed-methods`), and `tests/sources.rs` lists the files that are no store's.

mod folder;

use std::{
    ffi::OsStr,
    fs::File,
    io::{self, Read},
    os::{fd::AsFd, unix::ffi::OsStrExt},
    path::{Path, PathBuf},
};

use rustix::{
    fs::{AtFlags, FileType},
    io::Errno,
};

pub use self::folder::Folder;
use crate::sys;

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

/// The folder that some filesystems make in their root. It says nothing about what the root is for.
pub(crate) const LOST_AND_FOUND: &str = "lost+found";

/// The number of entries of a folder, beside what its filesystem makes.
pub(crate) fn entries(folder: &Path) -> io::Result<usize> {
    Ok(std::fs::read_dir(folder)?.filter(|entry| !entry.as_ref().is_ok_and(|entry| entry.file_name() == LOST_AND_FOUND)).count())
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
    match Folder::below(folder).and_then(|folder| folder.remove(name)) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

/// Removes a file in the store's own folder.
pub fn remove_top(path: &Path) -> io::Result<()> {
    let (folder, name) = split(path)?;
    Folder::top(folder)?.remove(name)
}

/// Renames a file in one of the folders of a store; into another one of them, too.
pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    let ((from_folder, from), (to_folder, to)) = (split(from)?, split(to)?);
    let to_folder = Folder::below(to_folder)?;
    Ok(rustix::fs::renameat(Folder::below(from_folder)?.fd, from, to_folder.fd, to)?)
}

/// Gives a file in one of the folders of a store another name beside the first.
pub fn link(path: &Path, other: &Path) -> io::Result<()> {
    let ((folder, name), (to_folder, to)) = (split(path)?, split(other)?);
    let to_folder = Folder::below(to_folder)?;
    Ok(rustix::fs::linkat(Folder::below(folder)?.fd, name, to_folder.fd, to, AtFlags::empty())?)
}

/// Gives a file another name beside the first that no file has yet: `aside`, or that with a number behind it. A file that has one keeps it.
pub(crate) fn link_aside(path: &Path, aside: &Path) -> io::Result<PathBuf> {
    let is_same = |name: &Path| {
        let inode = |path: &Path| rustix::fs::lstat(path).map(|stat| (stat.st_dev, stat.st_ino));
        inode(name).is_ok() && inode(name) == inode(path)
    };
    first_free(aside, |name| match link(path, name) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists && is_same(name) => Ok(()),
        other => other,
    })
}

/// Gives a file such a name in place of its own.
pub(crate) fn rename_aside(path: &Path, aside: &Path) -> io::Result<PathBuf> {
    let (folder, from) = split(path)?;
    let folder = Folder::below(folder)?;
    first_free(aside, |name| folder.rename_new(from, split(name)?.1))
}

/// Writes such a file. One that has these very bytes counts.
pub(crate) fn write_aside(aside: &Path, bytes: &[u8]) -> io::Result<PathBuf> {
    let folder = Folder::below(split(aside)?.0)?;
    first_free(aside, |path| {
        let name = split(path)?.1;
        match folder.write_synced(name, bytes, true) {
            Err(e)
                if e.kind() == io::ErrorKind::AlreadyExists
                    && folder.read(name, bytes.len() as u64).is_ok_and(|there| there == bytes) =>
            {
                Ok(())
            }
            other => other,
        }
    })
}

fn first_free(aside: &Path, take: impl Fn(&Path) -> io::Result<()>) -> io::Result<PathBuf> {
    let mut number = 0u32;
    loop {
        let mut name = aside.as_os_str().to_owned();
        if number > 0 {
            name.push(format!(".{number}"));
        }
        match take(Path::new(&name)) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => number += 1,
            done => return done.map(|()| name.into()),
        }
    }
}

/// Renames a file in the store's own folder.
pub fn rename_top(from: &Path, to: &Path) -> io::Result<()> {
    let ((folder, from), (_, to)) = (split(from)?, split(to)?);
    Folder::top(folder)?.rename(from, to)
}

/// Renames an entry below a store's own folder, whichever of the folders there it is in.
pub fn rename_below(root: &Path, from: &Path, to: &Path) -> io::Result<()> {
    let ((from_folder, from), (to_folder, to)) = (Folder::around(root, from)?, Folder::around(root, to)?);
    Ok(rustix::fs::renameat(from_folder.fd, from, to_folder.fd, to)?)
}

/// Removes a folder below a store's own, with everything in it. A missing one is fine.
pub fn remove_all(root: &Path, path: &Path) -> io::Result<()> {
    match Folder::around(root, path).and_then(|(folder, name)| folder.remove_all(name)) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
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
