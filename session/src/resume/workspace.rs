//! The workspace of a session that is resumed: kept where it lives, made again where it is gone.

use std::path::{Path, PathBuf};

use parhelia_store::{
    Store,
    id::OpId,
    progress::Progress,
    record::Checkpoint,
    restore::{self, Options, Report},
};

use super::place::is_gone;
use crate::error::{Error, IoContext, Result};

/// What became of the workspace.
#[derive(Debug)]
pub enum Workspace {
    /// It is as it was found.
    Kept,
    /// It was gone, and is what it is in the checkpoint.
    Restored(Box<Report>),
    /// Its `.git` was gone or broken, and is what it is in the checkpoint.
    GitRestored {
        /// What was restored.
        report: Box<Report>,
        /// Where what was left of it lies now.
        aside: Option<PathBuf>,
    },
}

/// Sees to it that the workspace is there.
pub fn bring_back(
    store: &Store,
    checkpoint: Option<&Checkpoint>,
    workspace: &Path,
    progress: &dyn Progress,
) -> Result<Workspace> {
    let is_gone = is_gone(store, workspace)?;
    let Some(checkpoint) = checkpoint else {
        return match is_gone {
            false => Ok(Workspace::Kept),
            true if workspace.is_dir() => Ok(Workspace::Kept),
            true => Err(Error::Invalid(format!(
                "{} is gone, and the session has no checkpoint to restore it from",
                workspace.display()
            ))),
        };
    };
    if is_gone && workspace.is_dir() && checkpoint.record.workspace.entries == 0 {
        return Ok(Workspace::Kept);
    }
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
        let aside = move_aside(&git)?;
        let report = Box::new(restored(store, checkpoint, b".git", git, progress)?);
        return Ok(Workspace::GitRestored { report, aside });
    }
    Ok(Workspace::Kept)
}

/// What is left of a repository may have commits that the checkpoint has not: it is kept under another name, beside.
fn move_aside(git: &Path) -> Result<Option<PathBuf>> {
    if git.symlink_metadata().is_err() {
        return Ok(None);
    }
    let aside = git.with_file_name(format!(".git.broken-{}", OpId::generate()));
    std::fs::rename(git, &aside).at("move aside", git)?;
    Ok(Some(aside))
}

fn restored(store: &Store, checkpoint: &Checkpoint, subpath: &[u8], target: PathBuf, progress: &dyn Progress) -> Result<Report> {
    let options = Options { subpath: subpath.to_vec(), in_place: target.exists(), ..Options::new(target) };
    let plan = restore::plan(store, checkpoint, &options, progress)?;
    let report = restore::execute(store, checkpoint, plan, progress)?;
    for skipped in &report.skipped {
        progress.notice(&format!("{}: {}", parhelia_store::name::display(&skipped.path), skipped.error));
    }
    Ok(report)
}
