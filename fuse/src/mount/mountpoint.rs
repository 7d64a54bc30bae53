//! Folders on which a store can be mounted.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use parhelia_store::Store;

use crate::{
    error::{Error, Result},
    mount::{
        mountinfo,
        unmount::{detach_dead, resolved},
    },
};

/// The mountpoint as the kernel will know it, if it can be one.
pub(super) fn checked(store: &Store, mountpoint: &Path) -> Result<PathBuf> {
    let refuse = |reason: String| Error::Mountpoint { mountpoint: mountpoint.to_owned(), reason };
    let path = resolved(mountpoint);
    // One whose process died makes room. Its guard may be faster.
    if mountinfo::ours_at(&path)?.is_some() && !detach_dead(&path)? && mountinfo::ours_at(&path)?.is_some() {
        return Err(refuse("a parhelia mount is there already; unmount it first, or choose another folder".into()));
    }
    match fs::metadata(&path) {
        Ok(found) if found.is_dir() => {}
        Ok(_) => return Err(refuse("it is not a folder".into())),
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Err(refuse("there is no such folder; make it first".into())),
        Err(e) => return Err(refuse(e.to_string())),
    }
    let root = resolved(store.path());
    if path.starts_with(&root) {
        return Err(refuse("it is the store, or inside it; choose another folder".into()));
    }
    if root.starts_with(&path) {
        return Err(refuse("the store is inside it, and would be hidden; choose another folder".into()));
    }
    // Whoever may not list it is told by the mount itself what he may not.
    if fs::read_dir(&path).is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(refuse(
            "it is not empty, and what is in it would be hidden; choose an empty folder, such as a new one".into(),
        ));
    }
    Ok(path)
}
