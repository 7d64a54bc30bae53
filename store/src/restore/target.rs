//! Target of a restore, and the checks whether it may be one.

use std::{
    collections::HashSet,
    fs,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::{Path, PathBuf},
};

use crate::{
    error::{Error, IoContext, Result, TargetContext},
    store::Store,
};

/// Target of a restore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A folder that does not exist: built beside it and renamed.
    Fresh {
        /// The folder that it will be in.
        parent: PathBuf,
        /// Name that it will have in that folder.
        name: Vec<u8>,
    },
    /// A folder that is changed into the checkpoint; an empty one, whoever has it open or mounted elsewhere, is filled.
    InPlace(PathBuf),
    /// One entry that is no folder.
    Entry {
        /// The folder that it goes to.
        parent: PathBuf,
        /// Name that it will have in that folder.
        name: Vec<u8>,
        /// True if what is there may be replaced.
        replace: bool,
    },
}

impl Target {
    /// The path as one, of the folder or entry to be made or changed.
    pub fn path(&self) -> PathBuf {
        match self {
            Target::InPlace(path) => path.clone(),
            Target::Fresh { parent, name, .. } | Target::Entry { parent, name, .. } => parent.join(crate::name::as_path(name)),
        }
    }
}

impl Target {
    /// The target's name in the folder that it is in; none of a folder that is changed.
    pub fn name(&self) -> &[u8] {
        match self {
            Target::InPlace(_) => b"",
            Target::Fresh { name, .. } | Target::Entry { name, .. } => name,
        }
    }
}

/// The absolute path of something that need not exist, with the symlinks on the way resolved.
fn resolve(path: &Path) -> Result<PathBuf> {
    let absolute = std::path::absolute(path).at_target("resolve", path)?;
    let mut missing = Vec::new();
    let mut at = absolute.as_path();
    loop {
        match fs::canonicalize(at) {
            Ok(found) => return Ok(missing.iter().rev().fold(found, |path, name| path.join(name))),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound && fs::symlink_metadata(at).is_err() => {}
            Err(e) => return Err(e).at_target("resolve", at),
        }
        match (at.file_name(), at.parent()) {
            (Some(name), Some(parent)) => {
                missing.push(name.to_owned());
                at = parent;
            }
            _ => return Err(Error::Invalid(format!("{} is no place for a restore", path.display()))),
        }
    }
}

fn is_empty(folder: &Path) -> Result<bool> {
    let first = fs::read_dir(folder).and_then(|mut entries| entries.next().transpose());
    Ok(first.at_target("read folder", folder)?.is_none())
}

/// The place of an entry that is no folder: below a folder that is there, else what the path itself names. A symlink there is replaced,
/// and not followed.
fn resolve_entry(path: &Path, name: &[u8]) -> Result<PathBuf> {
    let absolute = std::path::absolute(path).at_target("resolve", path)?;
    let is_folder = fs::symlink_metadata(&absolute).is_ok_and(|found| found.is_dir());
    match (absolute.parent(), absolute.file_name()) {
        (Some(parent), Some(name)) if !is_folder => Ok(resolve(parent)?.join(name)),
        _ => Ok(resolve(path)?.join(crate::name::as_path(name))),
    }
}

/// Device and inode of the store's folder and of those in it: a bind mount may show any of them anywhere.
pub fn store_folders(store: &Store) -> Result<HashSet<(u64, u64)>> {
    let id = |found: &fs::Metadata| (found.dev(), found.ino());
    let top = fs::metadata(store.path()).at("read", store.path())?;
    let inside = fs::read_dir(store.path()).at("read folder", store.path())?.flatten();
    let folders = inside.filter_map(|entry| entry.metadata().ok()).filter(fs::Metadata::is_dir);
    Ok(folders.map(|found| id(&found)).chain([id(&top)]).collect())
}

/// Fails where a path is the store or lies in it. A folder that contains the store may be changed: the store in it is left alone.
fn check_outside(store: &Store, path: &Path) -> Result<()> {
    let own = store_folders(store)?;
    let is_own = |folder: &&Path| fs::metadata(folder).is_ok_and(|found| own.contains(&(found.dev(), found.ino())));
    match path.ancestors().find(is_own) {
        None => Ok(()),
        Some(found) => {
            let how = if found == path { "is" } else { "lies in" };
            Err(Error::Invalid(format!("{} {how} the store itself; choose another place", path.display())))
        }
    }
}

/// Decides how to restore to `path`: a folder, or an entry of this name that is none.
pub fn find(store: &Store, path: &Path, entry: Option<&[u8]>, in_place: bool) -> Result<Target> {
    let (is_folder, path) = match entry {
        None => (true, resolve(path)?),
        Some(name) => (false, resolve_entry(path, name)?),
    };
    check_outside(store, &path)?;
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return if in_place && is_folder {
            Ok(Target::InPlace(path))
        } else {
            Err(Error::TargetNotEmpty { path, is_folder: true })
        };
    };
    let (parent, name) = (parent.to_owned(), name.as_bytes().to_vec());
    let found = match fs::symlink_metadata(&path) {
        Ok(found) => Some(found),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => None,
        Err(e) => return Err(e).at_target("read", &path),
    };
    match found {
        None if is_folder => Ok(Target::Fresh { parent, name }),
        Some(found) if !is_folder && !in_place => Err(Error::TargetNotEmpty { path, is_folder: found.is_dir() }),
        _ if !is_folder => Ok(Target::Entry { parent, name, replace: in_place }),
        Some(found) if !found.is_dir() => Err(Error::Refused(format!("{} exists and is no folder", path.display()))),
        Some(_) if in_place => Ok(Target::InPlace(path)),
        Some(_) if !is_empty(&path)? => Err(Error::TargetNotEmpty { path, is_folder: true }),
        // Another folder in its place would not be the one that a shell stands in, or a container has mounted.
        Some(_) => Ok(Target::InPlace(path)),
        None => Err(Error::TargetNotEmpty { path, is_folder: true }),
    }
}
