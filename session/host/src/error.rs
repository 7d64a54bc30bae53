//! The one error type of this crate. Every variant names the thing, the cause and, where there is one, the next step.

use parhelia_store::name::NameExt as _;
use std::{
    io,
    path::{Path, PathBuf},
};

use parhelia_store::{ErrorKind, id::Ulid};

pub use crate::refusal::{DecisionRefusal, KnowledgeRefusal, MarkRefusal, MoveRefusal, Refusal, RunRefusal};

/// An error of a session.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The store said so.
    #[error(transparent)]
    Store(#[from] parhelia_store::Error),
    /// The agent, its files or its processes.
    #[error(transparent)]
    Agent(#[from] parhelia_agent::Error),
    /// A system call failed.
    #[error("cannot {action} {}: {source}", path.shown())]
    Io {
        /// The action that failed, as an infinitive ("read", "create folder").
        action: &'static str,
        /// The path that it failed on.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// A workspace cannot be opened.
    #[error("cannot open the workspace {}: {source}", path.shown())]
    Workspace {
        /// Its folder.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// A configuration that cannot be used.
    #[error("{place}: {reason}")]
    Config {
        /// The file and line, or the environment variable.
        place: String,
        /// The fault, and how to correct it.
        reason: String,
    },
    /// A program in the background ended before it answered; its own words.
    #[error("{0}")]
    Background(String),
    /// Stored bytes that this needs are damaged.
    #[error("{0}")]
    Damaged(String),
    /// Somebody else has it at the moment.
    #[error("{0}")]
    Busy(String),
    /// Nothing of a restore could be done.
    #[error(
        "cannot restore {checkpoint} to {}: nothing could be restored: {path}: {reason}{}",
        target.shown(),
        if *more > 0 { format!(" (and {more} more)") } else { String::new() }
    )]
    NothingRestored {
        /// Id of the checkpoint that was to be restored.
        checkpoint: Ulid,
        /// Folder that was to be written to.
        target: PathBuf,
        /// The first path that could not be restored.
        path: String,
        /// Cause of the failure at that path.
        reason: String,
        /// The number of others.
        more: usize,
    },
    /// A rollback could not restore some paths.
    #[error("{path}: {reason} ({entries} entries could not be restored)")]
    NotRestored {
        /// The first such path.
        path: String,
        /// The system's answer.
        reason: String,
        /// The number of such paths.
        entries: usize,
    },
    /// A rollback failed, and was taken back.
    #[error("the rollback to {target} failed, and everything is as it was before: {why}")]
    RollbackFailed {
        /// The checkpoint that was gone back to.
        target: Ulid,
        /// The reason why it failed.
        why: Box<Error>,
    },
    /// A rollback failed, and could not be taken back.
    #[error(
        "the rollback of {} to {target} failed: {why}; and so did going back to the safety checkpoint {safety}: {back}",
        workspace.shown()
    )]
    HalfRolledBack {
        /// The checkpoint that was gone back to.
        target: Ulid,
        /// The checkpoint of what was there before.
        safety: Ulid,
        /// Folder that now has files of two states.
        workspace: PathBuf,
        /// The reason why the rollback failed.
        why: Box<Error>,
        /// The reason why taking it back failed.
        back: Box<Error>,
    },
    /// A state is against it, or it makes no sense as put.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The request makes no sense as put.
    #[error("{0}")]
    Invalid(String),
}

impl From<DecisionRefusal> for Error {
    fn from(refusal: DecisionRefusal) -> Self {
        Refusal::from(refusal).into()
    }
}

impl From<RunRefusal> for Error {
    fn from(refusal: RunRefusal) -> Self {
        Refusal::from(refusal).into()
    }
}

impl Error {
    /// The class of this error.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::Store(error) => error.kind(),
            Error::Config { .. } | Error::Invalid(_) | Error::Agent(parhelia_agent::Error::Invalid(_)) => ErrorKind::Usage,
            Error::Refused(refusal) => refusal.kind(),
            Error::Damaged(_) => ErrorKind::Corrupt,
            Error::Busy(_) => ErrorKind::Locked,
            Error::Workspace { source, .. } if source.kind() == io::ErrorKind::NotFound => ErrorKind::NotFound,
            // Nothing is half done: who interrupted it has what was asked for.
            Error::RollbackFailed { why, .. } if why.kind() == ErrorKind::Cancelled => ErrorKind::Cancelled,
            _ => ErrorKind::Failed,
        }
    }
}

/// Results of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Adds to a system error what was being done, to what.
pub trait IoContext<T> {
    /// `action` is an infinitive.
    fn at(self, action: &'static str, path: &Path) -> Result<T>;
}

impl<T, E: Into<io::Error>> IoContext<T> for Result<T, E> {
    fn at(self, action: &'static str, path: &Path) -> Result<T> {
        self.map_err(|source| Error::Io { action, path: path.to_owned(), source: source.into() })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use parhelia_store::OpenOptions;

    use super::*;

    #[test]
    fn the_class_of_an_error_is_that_of_its_cause() {
        let failed = |why: Error| Error::RollbackFailed { target: Ulid::nil(), why: Box::new(why) }.kind();
        let not_restored = || Error::NotRestored { path: "a".into(), reason: "no space".into(), entries: 1 };
        assert_eq!(failed(not_restored()), ErrorKind::Failed);
        assert_eq!(failed(Error::Invalid("x".into())), ErrorKind::Failed);
        assert_eq!(failed(parhelia_store::Error::Cancelled.into()), ErrorKind::Cancelled);
        let half = |why: Error| Error::HalfRolledBack {
            target: Ulid::nil(),
            safety: Ulid::nil(),
            workspace: "/w".into(),
            why: Box::new(why),
            back: Box::new(not_restored()),
        };
        assert_eq!(half(parhelia_store::Error::Cancelled.into()).kind(), ErrorKind::Failed);
        assert!(half(not_restored()).to_string().contains("the rollback of /w"));
        assert_eq!(Error::Damaged("x".into()).kind(), ErrorKind::Corrupt);
        assert_eq!(Error::Invalid("x".into()).kind(), ErrorKind::Usage);
    }

    #[test]
    fn a_turn_that_somebody_has_is_busy() {
        let folder = tempfile::tempdir().unwrap();
        let store = parhelia_ledger::open(
            &folder.path().join("s"),
            &OpenOptions { create: true, lock_timeout: Duration::ZERO, ..Default::default() },
        )
        .unwrap();
        let held = |session: &str| crate::intent::held(&store, session, &());
        let _turn = held("a").unwrap();
        assert_eq!(held("a").unwrap_err().kind(), ErrorKind::Locked);
        assert!(held("b").is_ok());
    }
}
