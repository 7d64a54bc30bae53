//! Durable writing: what is synced, and in which order.

use std::{
    fs::{self, DirBuilder, File},
    io::Write,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::Path,
};

use crate::{
    error::{Error, IoContext, Result},
    id::OpId,
};

/// Syncs a folder, so that the names in it are durable.
pub fn sync_folder(path: &Path) -> Result<()> {
    File::open(path).at("open folder", path)?.sync_all().at("sync folder", path)
}

/// Writes a file whole or not at all, and syncs it and its name. Readable by the owner alone.
pub fn write_file_synced(path: &Path, bytes: &[u8]) -> Result<()> {
    let temporary = path.with_extension(format!("{}.tmp", OpId::generate()));
    let written = (|| {
        let mut file = File::options().write(true).create_new(true).mode(0o600).open(&temporary).at("create file", &temporary)?;
        file.write_all(bytes).at("write", &temporary)?;
        file.sync_all().at("sync", &temporary)?;
        fs::rename(&temporary, path).at("rename into place", path)
    })();
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written?;
    path.parent().map_or(Ok(()), sync_folder)
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
