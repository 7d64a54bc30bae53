//! The socket of a service: in the user's runtime folder, by the store's id, so that programs find it.

use std::{
    fs, io,
    os::unix::fs::{DirBuilderExt, FileTypeExt, PermissionsExt},
    path::{Path, PathBuf},
};

use parhelia_store::id::Ulid;
use tokio::net::UnixListener;

use crate::serve::Error;

/// The socket of a store's service: below the user's runtime folder, or, where there is none, below the folder for what can be found out again.
pub fn socket_path(runtime: Option<&Path>, cache: Option<&Path>, store: Ulid) -> Option<PathBuf> {
    let name = format!("{store}.sock");
    runtime.map(|folder| folder.join("parhelia").join(&name)).or_else(|| cache.map(|folder| folder.join("service").join(name)))
}

/// Binds it. The caller has the store's service lock, so that one which is there was left by a service that is gone.
pub fn bind(path: &Path) -> Result<UnixListener, Error> {
    let failed = |action, path: &Path| {
        let path = path.to_owned();
        move |source| Error::Socket { action, path, source }
    };
    if let Some(folder) = path.parent() {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed("create folder", folder))?;
    }
    match fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() => fs::remove_file(path).map_err(failed("remove the old socket", path))?,
        Ok(_) => return Err(failed("listen at", path)(io::Error::other("there is a file, and no socket"))),
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        Err(e) => return Err(failed("look at", path)(e)),
    }
    let listener = UnixListener::bind(path).map_err(failed("listen at", path))?;
    // The folder is the user's alone as a rule; somebody may have named another one.
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).map_err(failed("protect", path))?;
    Ok(listener)
}

/// Removes it, at the end.
pub fn remove(path: &Path) {
    let _ = fs::remove_file(path);
}
