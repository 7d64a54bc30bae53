//! A session's folder in the store's, `sessions/<session>`.

use std::{
    ffi::OsStr,
    io::{self, Write},
    path::{Path, PathBuf},
};

use parhelia_store::{Store, files::Folder, name::session_file};

/// No summary is longer, in bytes.
const BYTES_MAX: u64 = 1 << 20;

/// The folder of the sessions' folders in the store's.
pub(super) const FOLDER: &str = "sessions";

/// The path of a session's folder from the store's.
fn below(session: &str) -> PathBuf {
    Path::new(FOLDER).join(&*session_file(session))
}

/// The folder of a session.
pub(super) fn path(store: &Store, session: &str) -> PathBuf {
    store.path().join(below(session))
}

/// The open folder of a session, which is made where it is missing.
pub(super) fn made(store: &Store, session: &str) -> io::Result<Folder> {
    Folder::made_inside(store.path(), below(session))
}

/// Reads a file in the folder of a session.
pub(super) fn read_file(store: &Store, session: &str, name: &str, bytes_max: u64) -> io::Result<Vec<u8>> {
    Folder::inside(store.path(), below(session))?.read(OsStr::new(name), bytes_max)
}

/// Replaces a file in the folder of a session.
pub(super) fn write(store: &Store, session: &str, name: &str, text: &[u8]) -> io::Result<()> {
    if read_file(store, session, name, BYTES_MAX).is_ok_and(|bytes| bytes == text) {
        return Ok(());
    }
    made(store, session)?.replace(OsStr::new(name), |file| file.write_all(text))
}

/// Removes a file in the folder of a session, and the folder once it is empty. A missing one is fine.
pub(super) fn remove(store: &Store, session: &str, name: &str) -> io::Result<()> {
    let is_fine = |e: &io::Error| matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::DirectoryNotEmpty);
    let removed = Folder::inside(store.path(), below(session)).and_then(|folder| folder.remove(OsStr::new(name)));
    let all = match removed {
        Err(e) if !is_fine(&e) => return Err(e),
        _ => Folder::inside(store.path(), FOLDER),
    };
    match all.and_then(|all| all.remove_folder(OsStr::new(&*session_file(session)))) {
        Err(e) if !is_fine(&e) => Err(e),
        _ => Ok(()),
    }
}
