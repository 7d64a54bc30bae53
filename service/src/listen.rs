//! The socket of a service: in the user's runtime folder, by the store's id, so that programs find it.

#![expect(clippy::disallowed_methods, reason = "its socket is in the user's runtime folder")]

use parhelia_store::name::step::Step;
use std::{
    fs,
    io::{self, ErrorKind},
    os::unix::fs::{DirBuilderExt, FileTypeExt, PermissionsExt},
    path::{Path, PathBuf},
};

use parhelia_store::id::Ulid;
use tokio::net::{UnixListener, UnixStream};

use crate::{error::Error, own::OwnFile};

/// The socket of a store's service: below the user's runtime folder, or, where there is none, below the folder for what can be found out again.
pub fn socket_path(runtime: Option<&Path>, cache: Option<&Path>, store: Ulid) -> Option<PathBuf> {
    let name = format!("{store}.sock");
    runtime.map(|folder| folder.join("parhelia").join(&name)).or_else(|| cache.map(|folder| folder.join("service").join(name)))
}

/// Binds it. A socket that nobody listens at was left behind, and is replaced.
pub async fn bind(path: &Path) -> Result<(UnixListener, OwnFile), Error> {
    let failed = |action, path: &Path| {
        let path = path.to_owned();
        move |source| Error::Socket { action, path, source }
    };
    if let Some(folder) = path.parent() {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed("create folder", folder))?;
    }
    match fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() => {
            is_abandoned(path).await.map_err(failed("listen at", path))?;
            fs::remove_file(path).map_err(failed("remove the old socket", path))?;
        }
        Ok(_) => return Err(failed("listen at", path)(io::Error::other("there is a file, and no socket"))),
        Err(e) if e.kind() == ErrorKind::NotFound => {}
        Err(e) => return Err(failed("look at", path)(e)),
    }
    let listener = UnixListener::bind(path).map_err(failed("listen at", path))?;
    let own = OwnFile::at(path).map_err(failed("look at", path))?;
    // The folder is the user's alone as a rule; somebody may have named another one.
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).map_err(failed("protect", path))?;
    Ok((listener, own))
}

/// Fails unless a socket's listener is gone.
async fn is_abandoned(path: &Path) -> io::Result<()> {
    match UnixStream::connect(path).await {
        Err(e) if e.kind() == ErrorKind::ConnectionRefused => Ok(()),
        // One whose queue is full does not accept, and is there.
        Err(e) if e.kind() != ErrorKind::WouldBlock => Err(e),
        _ => Err(io::Error::other(format!(
            "another program listens there; end it, or choose another socket with {} PATH",
            Step::Socket
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_socket_is_taken_over_only_from_the_dead() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/socket");
        let (listener, own) = bind(&path).await.unwrap();
        let error = bind(&path).await.unwrap_err().to_string();
        assert!(error.contains("another program listens there; end it, or choose another socket"), "{error}");
        assert!(path.exists());
        // Its file stays when it dies, as by a signal.
        drop(listener);
        let (listener, second) = bind(&path).await.unwrap();
        drop(own);
        assert!(path.exists(), "the other one's");
        drop(second);
        assert!(!path.exists());
        drop(listener);
        fs::write(&path, "").unwrap();
        assert!(bind(&path).await.is_err());
    }
}
