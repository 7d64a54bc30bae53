//! Where a restore goes, and whether it may.

use std::{
    fs,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::{Path, PathBuf},
};

use crate::{
    error::{Error, IoContext, Result},
    store::Store,
};

/// Where a restore goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A folder that does not exist, or is empty: built beside it and renamed.
    Fresh {
        /// The folder that it is, or will be, in.
        parent: PathBuf,
        /// Its name there.
        name: Vec<u8>,
        /// Whether an empty folder is there.
        exists: bool,
    },
    /// A folder that is changed into the checkpoint.
    InPlace(PathBuf),
    /// One entry that is no folder.
    Entry {
        /// The folder that it goes to.
        parent: PathBuf,
        /// Its name there.
        name: Vec<u8>,
        /// Whether what is there may be replaced.
        replace: bool,
    },
}

impl Target {
    /// The target's path.
    pub fn path(&self) -> PathBuf {
        match self {
            Target::InPlace(path) => path.clone(),
            Target::Fresh { parent, name, .. } | Target::Entry { parent, name, .. } => parent.join(crate::name::as_path(name)),
        }
    }
}

/// The absolute path of something that need not exist, with the symlinks on the way resolved.
fn resolve(path: &Path) -> Result<PathBuf> {
    let absolute = std::path::absolute(path).at("resolve", path)?;
    let mut missing = Vec::new();
    let mut at = absolute.as_path();
    loop {
        match fs::canonicalize(at) {
            Ok(found) => return Ok(missing.iter().rev().fold(found, |path, name| path.join(name))),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound && fs::symlink_metadata(at).is_err() => {}
            Err(e) => return Err(e).at("resolve", at),
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
    Ok(fs::read_dir(folder).at("read folder", folder)?.next().is_none())
}

/// Decides how to restore a folder (or another entry) to `path`.
pub fn find(store: &Store, path: &Path, is_folder: bool, in_place: bool) -> Result<Target> {
    let path = resolve(path)?;
    let own = fs::canonicalize(store.path()).at("resolve", store.path())?;
    if path.starts_with(&own) || own.starts_with(&path) {
        let how = if path == own {
            "is"
        } else if path.starts_with(&own) {
            "lies in"
        } else {
            "contains"
        };
        return Err(Error::Invalid(format!("{} {how} the store itself; choose another place", path.display())));
    }
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return if in_place && is_folder { Ok(Target::InPlace(path)) } else { Err(Error::TargetNotEmpty { path }) };
    };
    let (parent, name) = (parent.to_owned(), name.as_bytes().to_vec());
    let found = match fs::symlink_metadata(&path) {
        Ok(found) => Some(found),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => None,
        Err(e) => return Err(e).at("read", &path),
    };
    match found {
        None if is_folder => Ok(Target::Fresh { parent, name, exists: false }),
        Some(_) if !is_folder && !in_place => Err(Error::TargetNotEmpty { path }),
        _ if !is_folder => Ok(Target::Entry { parent, name, replace: in_place }),
        Some(found) if !found.is_dir() => Err(Error::Invalid(format!("{} exists and is no folder", path.display()))),
        Some(_) if in_place => Ok(Target::InPlace(path)),
        Some(_) if !is_empty(&path)? => Err(Error::TargetNotEmpty { path }),
        Some(found) => {
            let above = fs::metadata(&parent).at("read", &parent)?;
            let writable = rustix::fs::access(&parent, rustix::fs::Access::WRITE_OK).is_ok();
            // A mount point, or a folder in one that is not ours to change, cannot be replaced.
            if above.dev() != found.dev() || !writable {
                return Ok(Target::InPlace(path));
            }
            Ok(Target::Fresh { parent, name, exists: true })
        }
        None => Err(Error::TargetNotEmpty { path }),
    }
}
