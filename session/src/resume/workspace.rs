//! The workspace of a session that is resumed: kept where it lives, made again where it is gone.

use std::path::{Path, PathBuf};

use parhelia_store::{
    Store,
    progress::Progress,
    record::Checkpoint,
    restore::{self, Options, Report},
};

use crate::error::{Error, Result};

/// What became of the workspace.
#[derive(Debug)]
pub enum Workspace {
    /// It is as it was found.
    Kept,
    /// It was gone, and is what it is in the checkpoint.
    Restored(Box<Report>),
    /// Its `.git` was gone or broken, and is what it is in the checkpoint.
    GitRestored(Box<Report>),
}

/// Sees to it that the workspace is there.
pub fn bring_back(
    store: &Store,
    checkpoint: Option<&Checkpoint>,
    workspace: &Path,
    progress: &dyn Progress,
) -> Result<Workspace> {
    let is_gone = match std::fs::read_dir(workspace) {
        Ok(mut entries) => entries.next().is_none(),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => true,
        Err(source) => return Err(Error::Io { action: "open the workspace", path: workspace.to_owned(), source }),
    };
    let Some(checkpoint) = checkpoint else {
        return match is_gone {
            false => Ok(Workspace::Kept),
            true => Err(Error::Invalid(format!(
                "{} is gone, and the session has no checkpoint to restore it from",
                workspace.display()
            ))),
        };
    };
    if is_gone {
        if let Some(parent) = workspace.parent() {
            std::fs::create_dir_all(parent).map_err(|source| Error::Io {
                action: "create folder",
                path: parent.to_owned(),
                source,
            })?;
        }
        return Ok(Workspace::Restored(Box::new(restored(store, checkpoint, b"", workspace.to_owned(), progress)?)));
    }
    let git = workspace.join(".git");
    let has_git = store.node_at(checkpoint, b".git/HEAD").is_ok();
    if has_git && !git.is_file() && !git.join("HEAD").exists() {
        return Ok(Workspace::GitRestored(Box::new(restored(store, checkpoint, b".git", git, progress)?)));
    }
    Ok(Workspace::Kept)
}

fn restored(store: &Store, checkpoint: &Checkpoint, subpath: &[u8], target: PathBuf, progress: &dyn Progress) -> Result<Report> {
    let options = Options { subpath: subpath.to_vec(), in_place: target.exists(), ..Options::new(target) };
    let plan = restore::plan(store, checkpoint, &options, progress)?;
    Ok(restore::execute(store, checkpoint, plan, progress)?)
}
