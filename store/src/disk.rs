//! Durable writing: what is synced, and in which order.

use std::{
    fs::{self, DirBuilder, File},
    os::unix::fs::DirBuilderExt,
    path::Path,
};

use crate::error::{Error, IoContext, Result};

/// Syncs a folder, so that the names in it are durable.
pub fn sync_folder(path: &Path) -> Result<()> {
    File::open(path).at("open folder", path)?.sync_all().at("sync folder", path)
}

/// As [`sync_folder`], for a folder that is the user's: one that may not be listed, or lies where folders cannot be synced, is none to fail
/// for once the work is done.
pub fn sync_names(folder: &Path) -> Result<()> {
    use rustix::io::Errno;
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    match sync_folder(folder) {
        Err(Error::Io { source, .. })
            if Errno::from_io_error(&source)
                .is_some_and(|e| matches!(e, Errno::ACCESS | Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS)) =>
        {
            Ok(())
        }
        other => other,
    }
}

/// Moves an entry to a name that nothing has, and syncs both names. A file that goes to another filesystem is copied, and removed once its
/// copy is synced.
pub fn move_durable(from: &Path, to: &Path) -> Result<()> {
    match fs::rename(from, to) {
        Err(e) if e.kind() == std::io::ErrorKind::CrossesDevices && from.is_file() => copy_durable(from, to)?,
        other => other.at("move aside", from)?,
    }
    [to, from].into_iter().filter_map(Path::parent).try_for_each(sync_names)
}

fn copy_durable(from: &Path, to: &Path) -> Result<()> {
    let copied = (|| {
        fs::copy(from, to).at("copy", from)?;
        File::open(to).at("open", to)?.sync_all().at("sync", to)?;
        to.parent().map_or(Ok(()), sync_names)
    })();
    if copied.is_err() {
        let _ = fs::remove_file(to);
    }
    copied?;
    fs::remove_file(from).at("remove", from)
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
        Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::PermissionDenied => Ok(()),
        other => other,
    }
}

/// Makes a folder that its owner alone may enter; that it exists already is fine.
pub fn make_folder(path: &Path) -> Result<()> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        other => other.at("create folder", path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_moved_whole_also_to_another_filesystem() {
        let here = tempfile::tempdir().unwrap();
        for elsewhere in [here.path(), Path::new("/dev/shm")] {
            let folder = tempfile::tempdir_in(elsewhere).unwrap();
            let (from, to) = (here.path().join("file"), folder.path().join("moved"));
            fs::write(&from, "content").unwrap();
            move_durable(&from, &to).unwrap();
            assert_eq!(fs::read(&to).unwrap(), b"content");
            assert!(!from.exists());
        }
        let nowhere = move_durable(&here.path().join("none"), &here.path().join("moved")).unwrap_err();
        assert!(nowhere.to_string().contains("none"), "{nowhere}");
    }
}
