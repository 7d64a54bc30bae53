//! The folder that a verb works on, and the one in which it is given.

use parhelia_store::name::Shown as _;
use std::path::{Path, PathBuf};

use crate::exit::{Failure, OPEN_WORKSPACE, Result};

/// The absolute path of a workspace, symlinks resolved.
pub fn workspace(path: &Path) -> Result<PathBuf> {
    let failed = |source| Failure::File { action: OPEN_WORKSPACE, path: path.to_owned(), source };
    let absolute = path.canonicalize().map_err(failed)?;
    if !absolute.metadata().map_err(failed)?.is_dir() {
        return Err(Failure::Usage(format!("the workspace {} is not a folder", path.shown())));
    }
    Ok(absolute)
}

/// The folder in which the command is given, symlinks resolved; none where it is gone.
pub fn current_folder() -> Option<PathBuf> {
    std::env::current_dir().and_then(|folder| folder.canonicalize()).ok()
}
