//! The folder that a verb works on, and the one in which it is given.

use std::path::{Path, PathBuf};

use parhelia_life::workspace::place;

use crate::exit::Result;

/// The absolute path of a workspace, symlinks resolved.
pub fn workspace(path: &Path) -> Result<PathBuf> {
    Ok(place::workspace(path)?)
}

/// The folder in which the command is given, symlinks resolved; none where it is gone.
pub fn current_folder() -> Option<PathBuf> {
    std::env::current_dir().and_then(|folder| folder.canonicalize()).ok()
}
