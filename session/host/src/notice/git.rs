//! Things to say about a workspace's repositories.

use std::path::PathBuf;

use parhelia_store::name::NameExt as _;

/// The state of a repository that a workflow has met.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Git {
    /// A workspace's `.git` names a folder that is gone.
    #[error("the workspace's .git names {}, which is gone: git does not work here until it is there again", git.shown())]
    Gone {
        /// The folder.
        git: PathBuf,
    },
    /// Git could not be asked.
    #[error("git could not be asked: {why}")]
    Silent {
        /// The reason.
        why: String,
    },
    /// HEAD is at another commit than in the checkpoint, and stays there.
    #[error("HEAD ({now}) is {relation} the checkpoint's ({then}), and stays: files go back, branches and commits do not")]
    HeadStays {
        /// The first 12 hex digits of the commit that HEAD is at.
        now: String,
        /// The commit in the checkpoint.
        then: String,
        /// The relation of the one to the other.
        relation: String,
    },
    /// A repository that the checkpoint does not have is kept.
    #[error("{path}: a repository that the checkpoint does not have; it is kept")]
    RepositoryKept {
        /// The folder, from the workspace.
        path: String,
    },
}
