//! The files of servers, opened, written and removed. One in the workspace is reached from there step by step, and no link is followed on the
//! way: whoever can write in the workspace could put one there after the path was looked at.

use std::{
    ffi::OsString,
    fs::{File, Permissions},
    io,
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::fs::PermissionsExt,
    },
    path::{Path, PathBuf},
};

use parhelia_agent::{process::canonical, regular};
use rustix::{
    fs::{AtFlags, CWD, Mode, OFlags, mkdirat, openat, unlinkat},
    io::Errno,
};

use parhelia_host::{
    Error, Result,
    conversation::{make_parent, write_whole},
    error::IoContext,
};
use parhelia_knowledge::context;

/// Opens a file for reading. Fails for what is no regular file.
pub fn open(path: &Path, workspace: &Path) -> io::Result<File> {
    let workspace = canonical(workspace);
    match inner(path, &canonical(path), &workspace)? {
        Some(inner) => regular::ensure(context::open(&workspace, &inner)?),
        None => regular::open(path),
    }
}

/// Writes a file whole, behind a symlink that leads to it, unless it has these bytes and this mode.
pub fn write(path: &Path, workspace: &Path, bytes: &[u8], mode: Option<u32>) -> Result<()> {
    let there = open(path, workspace).and_then(|file| {
        let is_wanted = mode.is_none_or(|mode| file.metadata().is_ok_and(|now| now.permissions().mode() & 0o777 == mode & 0o777));
        Ok(is_wanted && regular::read_from(file, bytes.len() as u64)? == bytes)
    });
    if there.unwrap_or_default() {
        return Ok(());
    }
    let (real, workspace) = (canonical(path), &canonical(workspace));
    if inner(path, &real, workspace).at("write", path)?.is_none() {
        make_parent(&real)?;
    }
    let (folder, name) = folder(path, &real, workspace, true).at("open the folder of", path)?;
    let place = Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string()).join(&name);
    write_whole(&place, &mut &bytes[..]).map_err(|e| match e {
        Error::Io { action, source, .. } => Error::Io { action, path: path.to_owned(), source },
        other => other,
    })?;
    let Some(mode) = mode else { return Ok(()) };
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = openat(&folder, &name, flags, Mode::empty()).at("open", path)?;
    File::from(file).set_permissions(Permissions::from_mode(mode & 0o777)).at("set permissions of", path)
}

/// Removes a file, or the link at its path; one that is gone already is no trouble.
pub fn remove(path: &Path, workspace: &Path) -> Result<()> {
    let real = path.parent().map(canonical).unwrap_or_default().join(path.file_name().unwrap_or_default());
    let removed =
        folder(path, &real, workspace, false).and_then(|(folder, name)| Ok(unlinkat(&folder, &name, AtFlags::empty())?));
    match removed {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e).at("remove", path),
        _ => Ok(()),
    }
}

/// True of a path that comes into the workspace at any step, also over a link from elsewhere.
pub fn is_through(path: &Path, workspace: &Path) -> bool {
    is_through_real(path, &canonical(workspace))
}

/// The same with the workspace's path without links.
fn is_through_real(path: &Path, workspace: &Path) -> bool {
    // As many links as the kernel follows.
    const LINKS_MAX: usize = 40;
    let (mut at, mut links) = (PathBuf::new(), 0);
    let parts = |path: &Path| path.components().rev().map(|part| PathBuf::from(part.as_os_str())).collect::<Vec<_>>();
    let mut open = parts(path);
    while let Some(part) = open.pop() {
        if part == Path::new("..") {
            at.pop();
            continue;
        }
        match at.join(&part).read_link() {
            Ok(target) if links < LINKS_MAX => {
                links += 1;
                open.extend(parts(&target));
            }
            _ => at.push(&part),
        }
        if at.starts_with(workspace) {
            return true;
        }
    }
    false
}

/// The place in the workspace of a file there, links followed (`real`, and `workspace`); none of one that lies elsewhere.
fn inner(path: &Path, real: &Path, workspace: &Path) -> io::Result<Option<PathBuf>> {
    if !is_through_real(path, workspace) {
        return Ok(None);
    }
    match real.strip_prefix(workspace) {
        Ok(inner) => Ok(Some(inner.to_owned())),
        Err(_) => Err(io::Error::other("a link leads out of the workspace")),
    }
}

/// The open folder of a file, and the file's name in it. Folders of the workspace that are missing on the way are made, if that is wanted.
fn folder(path: &Path, real: &Path, workspace: &Path, makes: bool) -> io::Result<(OwnedFd, OsString)> {
    const FOLDER: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
    let name = real.file_name().ok_or_else(|| io::Error::other("it is no file"))?.to_owned();
    let inner = inner(path, real, workspace)?;
    let Some(parent) = inner.as_deref().map(|inner| inner.parent().unwrap_or(inner)) else {
        let parent = real.parent().unwrap_or(Path::new("/"));
        return Ok((openat(CWD, parent, FOLDER, Mode::empty())?, name));
    };
    let mut folder = openat(CWD, workspace, FOLDER, Mode::empty())?;
    for part in parent {
        match makes.then(|| mkdirat(&folder, part, Mode::RWXU)) {
            Some(Err(e)) if e != Errno::EXIST => return Err(e.into()),
            _ => {}
        }
        folder = openat(&folder, part, FOLDER, Mode::empty())?;
    }
    Ok((folder, name))
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    #[test]
    fn files_are_written_read_and_removed_in_folders_that_are_made_and_behind_links() {
        let folder = tempfile::tempdir().unwrap();
        let (work, other) = (folder.path().join("work"), folder.path().join("other"));
        fs::create_dir(&work).unwrap();
        let text = |path: &Path| regular::read_from(open(path, &work).unwrap(), 100).unwrap();
        for place in [work.join("a/b/file"), other.join("c/file")] {
            write(&place, &work, b"1", Some(0o640)).unwrap();
            assert_eq!((text(&place), place.metadata().unwrap().permissions().mode() & 0o777), (b"1".to_vec(), 0o640));
            write(&place, &work, b"1", Some(0o600)).unwrap();
            assert_eq!(place.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        }
        symlink("a/b/file", work.join("link")).unwrap();
        write(&work.join("link"), &work, b"2", None).unwrap();
        assert_eq!((text(&work.join("link")), text(&work.join("a/b/file"))), (b"2".to_vec(), b"2".to_vec()));
        remove(&work.join("link"), &work).unwrap();
        assert!(work.join("a/b/file").exists() && !work.join("link").exists());
        for gone in [work.join("link"), work.join("none/file"), other.join("none/file")] {
            remove(&gone, &work).unwrap();
        }
        assert!(!work.join("none").exists());
    }

    #[test]
    fn a_link_that_leads_out_is_not_followed_also_where_it_is_put_there_in_between() {
        let folder = tempfile::tempdir().unwrap();
        let (work, outside) = (folder.path().join("work"), folder.path().join("outside"));
        fs::create_dir_all(&outside).unwrap();
        fs::create_dir_all(&work).unwrap();
        fs::write(outside.join("file"), "secret").unwrap();
        symlink(&outside, work.join("state")).unwrap();
        let path = work.join("state/file");
        assert!(open(&path, &work).is_err());
        assert!(write(&path, &work, b"1", None).is_err() && remove(&path, &work).is_err());
        // The path as it was before the folder became a link.
        assert!(folder_of(&path, &work).is_err());
        assert!(context::open(&work, Path::new("state/file")).is_err());
        assert_eq!(fs::read(outside.join("file")).unwrap(), b"secret");
    }

    #[test]
    fn a_path_into_the_workspace_is_one_however_it_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let root = canonical(folder.path());
        let work = root.join("real/work");
        for place in [work.join("state"), root.join("outside")] {
            fs::create_dir_all(&place).unwrap();
        }
        fs::write(root.join("outside/file"), "secret").unwrap();
        symlink("real", root.join("home")).unwrap();
        symlink(work.join("state"), root.join("linked")).unwrap();
        symlink("../../../outside/file", work.join("state/out")).unwrap();
        for path in ["home/work/state/out", "linked/out", "real/work/state/out", "outside/../home/work/state/out"] {
            let path = root.join(path);
            assert!(is_through(&path, &work) && open(&path, &work).is_err(), "{}", path.display());
            assert!(write(&path, &work, b"1", None).is_err());
            assert!(is_through(&path, &root.join("home/work")));
        }
        assert_eq!(fs::read(root.join("outside/file")).unwrap(), b"secret");
        assert!(!is_through(&root.join("outside/file"), &work));
        write(&root.join("home/work/new"), &work, b"1", None).unwrap();
        assert!(work.join("new").exists());
        symlink("round", root.join("round")).unwrap();
        assert!(!is_through(&root.join("round/x"), &work));
    }

    /// The open folder of a file of which the path was looked at too early.
    fn folder_of(path: &Path, workspace: &Path) -> io::Result<(OwnedFd, OsString)> {
        let workspace = canonical(workspace);
        super::folder(path, &workspace.join("state/file"), &workspace, true)
    }
}
