//! The folder that a verb works on.

use parhelia_store::name::Shown as _;
use std::path::{Path, PathBuf};

use crate::exit::{Failure, OPEN_WORKSPACE, Result};

/// The absolute path of a workspace, symlinks resolved.
pub fn workspace(path: &Path) -> Result<PathBuf> {
    let failed = |source| Failure::File { action: OPEN_WORKSPACE, path: path.to_owned(), source };
    let absolute = path.canonicalize().map_err(failed)?;
    if !absolute.is_dir() {
        return Err(Failure::Usage(format!("the workspace {} is not a folder", path.shown())));
    }
    Ok(absolute)
}
