//! Moves and names that outlast a power cut, in folders of the user's.

#![expect(clippy::disallowed_methods, reason = "moves files of the agent's")]

use std::{
    fs::{self, File},
    io,
    path::Path,
};

use rustix::io::Errno;

use crate::error::{IoContext, Result};

/// Has a file or a folder on the medium.
type Sync<'a> = &'a dyn Fn(&Path) -> io::Result<()>;

fn sync(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Syncs a folder, so that the names in it are durable. One that may not be listed, or lies where folders cannot be synced, is none to fail
/// for once the work is done.
pub fn sync_names(folder: &Path) -> Result<()> {
    sync_names_by(folder, &sync)
}

fn sync_names_by(folder: &Path, sync: Sync<'_>) -> Result<()> {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let is_refused = |e: &io::Error| {
        Errno::from_io_error(e).is_some_and(|e| matches!(e, Errno::ACCESS | Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS))
    };
    match sync(folder) {
        Err(e) if is_refused(&e) => Ok(()),
        other => other.at("sync folder", folder),
    }
}

/// Moves an entry to a name that nothing has, and syncs both names. A file that goes to another filesystem is copied, and removed once its
/// copy is synced.
pub fn move_durable(from: &Path, to: &Path) -> Result<()> {
    move_by(from, to, &sync)
}

fn move_by(from: &Path, to: &Path, sync: Sync<'_>) -> Result<()> {
    match fs::rename(from, to) {
        Err(e) if e.kind() == io::ErrorKind::CrossesDevices && from.is_file() => copy_by(from, to, sync)?,
        other => other.at("move aside", from)?,
    }
    [to, from].into_iter().filter_map(Path::parent).try_for_each(|folder| sync_names_by(folder, sync))
}

fn copy_by(from: &Path, to: &Path, sync: Sync<'_>) -> Result<()> {
    let copied = (|| {
        fs::copy(from, to).at("copy", from)?;
        sync(to).at("sync", to)?;
        to.parent().map_or(Ok(()), |folder| sync_names_by(folder, sync))
    })();
    if copied.is_err() {
        let _ = fs::remove_file(to);
    }
    copied?;
    fs::remove_file(from).at("remove", from)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    fn name(path: &Path) -> String {
        path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
    }

    #[test]
    fn a_file_is_moved_whole_also_to_another_filesystem() {
        let here = tempfile::tempdir().unwrap();
        for (elsewhere, is_copied) in [(here.path(), false), (Path::new("/dev/shm"), true)] {
            let folder = tempfile::tempdir_in(elsewhere).unwrap();
            let (from, to) = (here.path().join("file"), folder.path().join("moved"));
            fs::write(&from, "content").unwrap();
            let names = [name(folder.path()), name(here.path())];
            let copied = if is_copied { vec!["moved".to_owned(), names[0].clone()] } else { Vec::new() };
            if is_copied {
                let failed = move_by(&from, &to, &|_| Err(Errno::IO.into()));
                assert!(failed.is_err() && from.exists() && !to.exists());
            }
            let synced = RefCell::new(Vec::new());
            let note = |path: &Path| {
                synced.borrow_mut().push(name(path));
                sync(path)
            };
            move_by(&from, &to, &note).unwrap();
            assert_eq!(*synced.borrow(), [copied, names.to_vec()].concat());
            assert_eq!(fs::read(&to).unwrap(), b"content");
            assert!(!from.exists());
        }
        // A folder does not go to another filesystem.
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let refused = move_durable(folder.path(), &here.path().join("folder")).unwrap_err();
        assert!(refused.to_string().starts_with("cannot move aside"), "{refused}");
        let nowhere = move_durable(&here.path().join("none"), &here.path().join("moved")).unwrap_err();
        assert!(nowhere.to_string().starts_with("cannot move aside") && nowhere.to_string().contains("none"), "{nowhere}");
    }

    #[test]
    fn a_sync_fails_unless_the_folder_is_one_that_cannot_be_synced() {
        let dir = tempfile::tempdir().unwrap();
        sync_names(dir.path()).unwrap();
        sync_names_by(Path::new(""), &|path| {
            assert_eq!(path, Path::new("."));
            Ok(())
        })
        .unwrap();
        for with in [Errno::ACCESS, Errno::INVAL, Errno::OPNOTSUPP, Errno::NOSYS] {
            assert!(sync_names_by(dir.path(), &|_| Err(with.into())).is_ok(), "{with}");
        }
        for with in [Errno::IO, Errno::NOSPC] {
            assert!(sync_names_by(dir.path(), &|_| Err(with.into())).is_err(), "{with}");
        }
        assert!(sync_names(&dir.path().join("none")).is_err());
    }
}
