//! Durable writing: what is synced, and in which order.

#![expect(clippy::disallowed_methods, reason = "makes the store's own folder, and those above it")]

use std::{
    fs::{DirBuilder, File},
    io,
    os::unix::fs::DirBuilderExt,
    path::Path,
};

use crate::error::{Error, IoContext, Result};

/// Syncs a folder, so that the names in it are durable.
pub fn sync_folder(path: &Path) -> Result<()> {
    #[cfg(test)]
    syncs::note(path).at("sync folder", path)?;
    File::open(path).at("open folder", path)?.sync_all().at("sync folder", path)
}

/// Syncs the bytes of an open file; `action` and its path are for errors.
pub fn sync_file(file: &File, action: &'static str, path: &Path) -> Result<()> {
    #[cfg(test)]
    syncs::note(path).at(action, path)?;
    file.sync_data().at(action, path)
}

/// Makes a folder that its owner alone may enter, and the folders above it, and syncs their names.
pub fn make_folder_durable(path: &Path) -> Result<()> {
    let above = match path.parent() {
        Some(above) if !above.as_os_str().is_empty() => above,
        Some(_) => Path::new("."),
        None => return make_folder(path),
    };
    if !above.exists() {
        make_folder_durable(above)?;
    }
    make_folder(path)?;
    match sync_folder(above) {
        // Who may not list the folder above cannot have made anything in it either.
        Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        other => other,
    }
}

/// Makes a folder that its owner alone may enter; that it exists already is fine.
pub fn make_folder(path: &Path) -> Result<()> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        other => other.at("create folder", path),
    }
}

/// Syncs as unit tests see them: on the test's own thread, by the last part of the path.
#[cfg(test)]
pub(crate) mod syncs {
    use std::{
        cell::{Cell, RefCell},
        io,
        path::Path,
    };

    use rustix::io::Errno;

    thread_local! {
        static SEEN: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
        static FAILS: Cell<(usize, Errno)> = const { Cell::new((usize::MAX, Errno::IO)) };
    }

    /// Notes a sync, before it is made. An error is the sync's.
    pub(crate) fn note(path: &Path) -> io::Result<()> {
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        let number = SEEN.with_borrow_mut(|seen| {
            seen.push(name);
            seen.len() - 1
        });
        let (fails, with) = FAILS.get();
        if number == fails { Err(with.into()) } else { Ok(()) }
    }

    /// The result of some work, and what was synced by it, in order.
    pub(crate) fn of<T>(work: impl FnOnce() -> T) -> (T, Vec<String>) {
        failing(usize::MAX, Errno::IO, work)
    }

    /// The same, with the sync of this number failing, from 0.
    pub(crate) fn failing<T>(number: usize, with: Errno, work: impl FnOnce() -> T) -> (T, Vec<String>) {
        SEEN.take();
        FAILS.set((number, with));
        let done = work();
        FAILS.set((usize::MAX, Errno::IO));
        (done, SEEN.take())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rustix::io::Errno;

    use super::*;

    fn name(path: &Path) -> String {
        path.file_name().unwrap().to_string_lossy().into_owned()
    }

    #[test]
    fn a_folder_is_made_with_those_above_it_and_their_names_are_synced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b/c");
        let (made, synced) = syncs::of(|| make_folder_durable(&path));
        made.unwrap();
        assert!(path.is_dir());
        assert_eq!(synced, [&*name(dir.path()), "a", "b"]);
        // One that exists may not have been synced by whoever made it.
        assert_eq!(syncs::of(|| make_folder_durable(&path).unwrap()).1, ["b"]);
        assert!(syncs::failing(0, Errno::IO, || make_folder_durable(&path)).0.is_err());
        assert!(syncs::failing(0, Errno::ACCESS, || make_folder_durable(&path)).0.is_ok());
        make_folder_durable(Path::new("/")).unwrap();
        // Of a path without a folder, the current one is above: the crate's, in which this is.
        assert_eq!(syncs::of(|| make_folder_durable(Path::new("src")).unwrap()).1, ["."]);
    }

    #[test]
    fn a_folder_is_its_owners_and_never_a_file() {
        use std::os::unix::fs::MetadataExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        make_folder(&path).unwrap();
        assert_eq!(path.metadata().unwrap().mode() & 0o7777, 0o700);
        make_folder(&path).unwrap();
        fs::write(path.join("file"), "x").unwrap();
        assert!(make_folder(&path.join("file")).is_err());
        assert!(make_folder(&path.join("not/there")).is_err());
    }
}
