//! Files that others have put where they are read. Only regular ones are: a fifo that nobody writes to would keep its reader waiting.

#![expect(clippy::disallowed_methods, reason = "reads files of the user's and of agents")]

use std::{
    fs::{self, File, OpenOptions},
    io::{self, ErrorKind, Read},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use serde_json::Value;

use crate::error::{IoContext, Result};

/// Longest JSON file of the agent's that is read.
const JSON_BYTES_MAX: u64 = 64 << 20;

/// Opens a file for reading. Fails for what is no regular file.
pub fn open(path: &Path) -> io::Result<File> {
    ensure(open_any(path)?)
}

/// An open file, if it is a regular one.
pub fn ensure(file: File) -> io::Result<File> {
    length(&file).map(|_| file)
}

/// A file's bytes. Fails for what is no regular file, and for one of more than `bytes_max`.
pub fn read(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    read_from(open_any(path)?, bytes_max)
}

/// A JSON file; none where there is none.
pub(crate) fn read_json(path: &Path) -> Result<Option<Value>, String> {
    let shown = path.display();
    match fs::metadata(path) {
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(None),
        Err(e) => return Err(format!("cannot read {shown}: {e}")),
        Ok(metadata) if !metadata.is_file() || metadata.len() > JSON_BYTES_MAX => {
            return Err(format!("{shown} is no file of settings"));
        }
        Ok(_) => {}
    }
    let bytes = read(path, JSON_BYTES_MAX).map_err(|e| format!("cannot read {shown}: {e}"))?;
    let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(&bytes);
    serde_json::from_slice(bytes).map(Some).map_err(|e| format!("{shown} is not valid JSON: {e}"))
}

fn open_any(path: &Path) -> io::Result<File> {
    let flags = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}

/// The length of a regular file, in bytes.
fn length(file: &File) -> io::Result<u64> {
    let metadata = file.metadata()?;
    if metadata.is_file() { Ok(metadata.len()) } else { Err(io::Error::other("it is no file")) }
}

/// The bytes of an open file. Fails for what is no regular file, and if there are more than `bytes_max`.
pub fn read_from(file: File, bytes_max: u64) -> io::Result<Vec<u8>> {
    let length = length(&file)?;
    // One byte more than the file has: its end is seen without growing.
    let mut bytes = Vec::with_capacity(length.min(bytes_max).saturating_add(1) as usize);
    file.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        return Err(io::Error::other(format!("it is longer than {bytes_max} bytes")));
    }
    Ok(bytes)
}

/// The entries of a folder, sorted; none where there is no folder.
pub(crate) fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let found = match fs::read_dir(folder) {
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(Vec::new()),
        found => found.at("read folder", folder)?,
    };
    let mut paths =
        found.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>().at("read folder", folder)?;
    paths.sort();
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    #[test]
    fn what_is_no_file_or_too_long_is_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let (fifo, file) = (folder.path().join("fifo"), folder.path().join("file"));
        mknodat(CWD, &fifo, FileType::Fifo, Mode::from(0o600), 0).unwrap();
        std::fs::write(&file, "1234").unwrap();
        for path in [&*fifo, folder.path(), Path::new("/dev/zero")] {
            assert!(open(path).is_err() && read(path, 4).is_err(), "{}", path.display());
        }
        assert_eq!(read(&file, 4).unwrap(), b"1234");
        assert!(read(&file, 3).is_err());
    }
}
