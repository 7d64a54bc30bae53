//! The workspace of a session that is resumed: kept where it lives, made again where it is gone.

#![expect(clippy::disallowed_methods, reason = "brings workspaces back")]

use std::{
    io,
    path::{Path, PathBuf},
};

use parhelia_ledger::Session;
use parhelia_store::{
    Store,
    id::OpId,
    progress::Progress,
    record::Checkpoint,
    restore::{self, Options, RestoreReport},
};

use crate::{
    template::{agent_folder, copy, copy_folder},
    workspace::place::{ensure_place, is_gone},
};
use parhelia_host::{Refusal, Result, error::IoContext};

/// The result of preparing the workspace.
#[derive(Debug)]
pub enum Workspace {
    /// It is as it was found.
    Kept,
    /// It was gone, with no checkpoint of it, and is a copy of its agent folder again.
    Copied {
        /// The agent folder.
        from: PathBuf,
    },
    /// It was gone, and was restored from the checkpoint.
    Restored(Box<RestoreReport>),
    /// Its `.git` was gone or broken, and was restored from the checkpoint.
    GitRestored {
        /// The report of the restore.
        report: Box<RestoreReport>,
        /// The path of the old `.git`, which was moved aside; none if there was none.
        aside: Option<PathBuf>,
    },
}

/// The effect of resuming on a workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is kept as it is.
    Keep,
    /// It is gone, and is restored from the checkpoint.
    Restore,
    /// It is gone, with no checkpoint of it, and is copied from its agent folder.
    Copy,
    /// Its `.git` is gone or broken, and is restored from the checkpoint.
    RestoreGit,
}

/// The effect that resuming a session from a checkpoint would have on its workspace. Fails as resuming would, where the workspace was moved, its disk is not
/// mounted, or there is nothing to restore it from. Changes nothing.
pub fn foresee(store: &Store, session: &Session, checkpoint: Option<&Checkpoint>) -> Result<Fate> {
    ensure_place(store, session)?;
    match &session.workspace {
        Some(place) => fate(store, session, checkpoint, &place.folder()),
        None => Err(Refusal::NoWorkspace { session: session.id.clone() }.into()),
    }
}

/// The same of a session whose workspace is known to be where it was, or gone.
pub(super) fn fate(store: &Store, session: &Session, checkpoint: Option<&Checkpoint>, workspace: &Path) -> Result<Fate> {
    if is_gone(store, workspace)? {
        // An empty workspace whose checkpoint is empty, too, is as it was.
        let is_empty = checkpoint.is_none_or(|checkpoint| checkpoint.record.workspace.entries == 0);
        let has_template = agent_folder(session).is_some_and(|folder| folder.is_dir());
        return match checkpoint {
            None if has_template => Ok(Fate::Copy),
            _ if is_empty && workspace.is_dir() => Ok(Fate::Keep),
            Some(_) => Ok(Fate::Restore),
            None => Err(Refusal::NothingToRestore { path: workspace.to_owned() }.into()),
        };
    }
    let git = workspace.join(".git");
    let has_git = checkpoint.is_some_and(|checkpoint| store.node_at(checkpoint, b".git/HEAD").is_ok());
    Ok(if has_git && !git.is_file() && !git.join("HEAD").exists() { Fate::RestoreGit } else { Fate::Keep })
}

/// Sees to it that the workspace is there.
pub fn bring_back(
    store: &Store,
    session: &Session,
    checkpoint: Option<&Checkpoint>,
    workspace: &Path,
    progress: &dyn Progress,
) -> Result<Workspace> {
    let fate = fate(store, session, checkpoint, workspace)?;
    if let Some(from) = agent_folder(session).filter(|_| fate == Fate::Copy) {
        copy(&from, workspace, progress)?;
        return Ok(Workspace::Copied { from });
    }
    let Some(checkpoint) = checkpoint else { return Ok(Workspace::Kept) };
    match fate {
        Fate::Copy => Ok(Workspace::Kept),
        Fate::Keep => Ok(Workspace::Kept),
        Fate::Restore => {
            if let Some(parent) = workspace.parent() {
                std::fs::create_dir_all(parent).at("create folder", parent)?;
            }
            Ok(Workspace::Restored(Box::new(restored(store, checkpoint, b"", workspace.to_owned(), progress)?)))
        }
        Fate::RestoreGit => {
            let git = workspace.join(".git");
            let aside = move_aside(&git, progress)?;
            let report = Box::new(restored(store, checkpoint, b".git", git, progress)?);
            Ok(Workspace::GitRestored { report, aside })
        }
    }
}

/// Renames a broken `.git` within its folder, as it may have commits that the checkpoint does not have. None if there is no `.git`.
fn move_aside(git: &Path, progress: &dyn Progress) -> Result<Option<PathBuf>> {
    if git.symlink_metadata().is_err() {
        return Ok(None);
    }
    let aside = git.with_file_name(format!(".git.broken-{}", OpId::generate()));
    match std::fs::rename(git, &aside) {
        // A folder of an overlay's lower layer cannot be renamed.
        Err(e) if e.kind() == io::ErrorKind::CrossesDevices => {
            copy_folder(git, &aside, progress).inspect_err(|_| _ = std::fs::remove_dir_all(&aside))?;
            std::fs::remove_dir_all(git).at("remove", git)?;
        }
        moved => moved.at("move aside", git)?,
    }
    Ok(Some(aside))
}

fn restored(
    store: &Store,
    checkpoint: &Checkpoint,
    subpath: &[u8],
    target: PathBuf,
    progress: &dyn Progress,
) -> Result<RestoreReport> {
    let options = Options { subpath: subpath.to_vec(), in_place: target.exists(), ..Options::new(target) };
    let plan = restore::plan(store, checkpoint, &options, progress)?;
    let report = restore::execute(store, checkpoint, plan, progress)?;
    for skipped in &report.skipped {
        progress.notice(&format!("{}: {}", parhelia_store::name::display(&skipped.path), skipped.error));
    }
    Ok(report)
}
