//! The folder of an older checkpoint. Anybody may have made it, so that nothing in it is followed: links, pipes and devices are refused.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs::File,
    io::Read,
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::{Path, PathBuf},
};

use parhelia_store::name::{self, NameExt as _};
use rustix::{
    fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, openat, statat},
    io::Errno,
};

use parhelia_host::{Error, Result, error::IoContext};

/// The name of the manifest.
pub(super) const MANIFEST: &str = "manifest.json";

/// Most entries of a folder, those of its folders included.
const ENTRIES_MAX: usize = 10_000;
/// Most folders above a file.
const DEPTH_MAX: usize = 8;

/// The folder of an older checkpoint.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    fd: OwnedFd,
}

impl Folder {
    pub(super) fn open(path: &Path) -> Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = openat(CWD, path, flags, Mode::empty()).at("open folder", path)?;
        Ok(Folder { path: path.to_owned(), fd })
    }

    /// The path of something in it.
    pub(super) fn place(&self, file: &str) -> PathBuf {
        self.path.join(file)
    }

    /// The error that refuses something of it.
    pub(super) fn refused(&self, file: &str, why: impl std::fmt::Display) -> Error {
        Error::Invalid(format!("cannot import {}: {why}", self.place(file).shown()))
    }

    /// Its regular files, by their paths from it, with their lengths. Anything else is refused.
    pub(super) fn files(&self) -> Result<BTreeMap<String, u64>> {
        let mut files = BTreeMap::new();
        let mut folders = vec![(String::new(), 0)];
        let mut seen = 0;
        while let Some((folder, depth)) = folders.pop() {
            let fd = self.folder(&folder)?;
            let place = || self.place(&folder);
            for entry in Dir::read_from(&fd).at("read folder", &place())? {
                let entry = entry.at("read folder", &place())?;
                let bytes = entry.file_name().to_bytes();
                if matches!(bytes, b"." | b"..") {
                    continue;
                }
                let named = String::from_utf8(name::join(folder.as_bytes(), bytes));
                let path = named.map_err(|e| {
                    let shown = name::display(e.as_bytes());
                    Error::Invalid(format!("cannot import {}: the name of {shown} is not UTF-8", self.path.shown()))
                })?;
                seen += 1;
                if seen > ENTRIES_MAX {
                    return Err(self.refused(&path, format!("the folder has more than {ENTRIES_MAX} entries")));
                }
                let stat = statat(&fd, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW).at("look at", &self.place(&path))?;
                match FileType::from_raw_mode(stat.st_mode) {
                    FileType::RegularFile => drop(files.insert(path, stat.st_size.max(0) as u64)),
                    FileType::Directory if depth < DEPTH_MAX => folders.push((path, depth + 1)),
                    FileType::Directory => return Err(self.refused(&path, "it lies too deep for a checkpoint's folder")),
                    other => return Err(self.refused(&path, kind_text(other))),
                }
            }
        }
        Ok(files)
    }

    /// A folder in it.
    fn folder(&self, path: &str) -> Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut fd = openat(&self.fd, ".", flags, Mode::empty()).at("open folder", &self.path)?;
        for part in name::components(path.as_bytes()) {
            fd = openat(&fd, OsStr::from_bytes(part), flags, Mode::empty()).at("open folder", &self.place(path))?;
        }
        Ok(fd)
    }

    /// Opens a regular file of it, however it is replaced meanwhile.
    pub(super) fn file(&self, path: &str) -> Result<File> {
        let (folder, file) = path.rsplit_once('/').unwrap_or(("", path));
        // A pipe that nobody writes to would keep its reader waiting.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let opened = match openat(self.folder(folder)?, file, flags, Mode::empty()) {
            Err(Errno::LOOP) => return Err(self.refused(path, kind_text(FileType::Symlink))),
            opened => File::from(opened.at("open", &self.place(path))?),
        };
        let metadata = opened.metadata().at("look at", &self.place(path))?;
        match metadata.is_file() {
            true => Ok(opened),
            false if metadata.is_dir() => Err(self.refused(path, kind_text(FileType::Directory))),
            false => Err(self.refused(path, kind_text(FileType::Unknown))),
        }
    }

    /// The bytes of a file of it.
    pub(super) fn read(&self, path: &str, bytes_max: u64) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let file = self.file(path)?.take(bytes_max.saturating_add(1));
        { file }.read_to_end(&mut bytes).at("read", &self.place(path))?;
        match bytes.len() as u64 > bytes_max {
            true => Err(self.refused(path, format!("it has more than {bytes_max} bytes"))),
            false => Ok(bytes),
        }
    }
}

/// The reason for refusing an entry by its kind.
fn kind_text(kind: FileType) -> &'static str {
    match kind {
        FileType::Symlink => "it is a symlink, which is not followed; put the file itself there",
        FileType::Directory => "it is a folder, where a file must be",
        _ => "it is no regular file",
    }
}
