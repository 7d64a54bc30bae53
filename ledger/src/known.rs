//! The folders that sessions work in, found again wherever they are by now.

use std::{
    collections::{HashMap, HashSet},
    fs,
    os::unix::fs::{DirEntryExt, MetadataExt},
    path::{Path, PathBuf},
};

use parhelia_store::{mounts, place::Place};

use crate::session::Session;

/// Those of some folders that sessions work in, with the sessions, at whatever path they were recorded. Symlinks are no folders.
pub fn among<'a, 'p>(sessions: &'a [Session], folders: impl Iterator<Item = &'p Path>) -> Vec<(PathBuf, &'a Session)> {
    let mut by_inode: HashMap<u64, Vec<(&Place, &Session)>> = HashMap::new();
    for session in sessions {
        if let Some((inode, place)) = session.workspace.as_ref().and_then(|place| Some((place.inode?, place))) {
            by_inode.entry(inode).or_default().push((place, session));
        }
    }
    let mut found = Vec::new();
    for folder in folders {
        let Some(inode) = fs::symlink_metadata(folder).ok().filter(fs::Metadata::is_dir).map(|stat| stat.ino()) else { continue };
        // An inode's number is quick to compare, and the rest is asked for where that is known.
        let Some(known) = by_inode.get(&inode) else { continue };
        let Ok(now) = Place::of(folder) else { continue };
        let same = known.iter().filter(|(place, _)| place.is_same_folder(&now));
        found.extend(same.map(|(_, session)| (folder.to_owned(), *session)));
    }
    found
}

/// Those folders below some folders that sessions work in, with the sessions, at whatever path they were recorded. Nothing that is mounted
/// there is looked into, and no symlink is followed.
pub fn below<'a, 'p>(sessions: &'a [Session], folders: impl Iterator<Item = &'p Path>) -> Vec<(PathBuf, &'a Session)> {
    let is_folder = |path: &&Path| fs::symlink_metadata(path).is_ok_and(|stat| stat.is_dir());
    let mut left: Vec<PathBuf> = folders.filter(is_folder).map(Path::to_owned).collect();
    let inodes: HashSet<u64> = sessions.iter().filter_map(|session| session.workspace.as_ref()?.inode).collect();
    if inodes.is_empty() || left.is_empty() {
        return Vec::new();
    }
    let mountpoints: HashSet<PathBuf> = mounts::all().into_iter().flatten().map(|mount| mount.mountpoint).collect();
    let mut candidates = Vec::new();
    while let Some(folder) = left.pop() {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        for entry in entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
            let path = entry.path();
            if mountpoints.contains(&path) {
                continue;
            }
            if inodes.contains(&entry.ino()) {
                candidates.push(path.clone());
            }
            left.push(path);
        }
    }
    among(sessions, candidates.iter().map(PathBuf::as_path))
}
