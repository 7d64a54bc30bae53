//! Things to say about rollbacks that were interrupted.

use parhelia_store::id::Ulid;

/// A rollback that was interrupted, and what becomes of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InterruptedRollback {
    /// A rollback was interrupted.
    #[error("session {session}: a rollback to {target} was interrupted, and files of two states are in its workspace")]
    RollbackInterrupted {
        /// Id of the session that was to be rolled back.
        session: String,
        /// The checkpoint that was gone back to.
        target: Ulid,
    },
    /// A rollback that was interrupted would be finished first.
    #[error("a rollback to {target} was interrupted, and would be finished first")]
    FinishedFirst {
        /// The checkpoint that was gone back to.
        target: Ulid,
    },
    /// A rollback that was interrupted is given up, as work has gone on since.
    #[error(
        "a rollback to {target} was interrupted, and is not finished: {why}; what was there before it is in safety checkpoint {safety}"
    )]
    RollbackGivenUp {
        /// The checkpoint that was gone back to.
        target: Ulid,
        /// The checkpoint of what was there before.
        safety: Ulid,
        /// The reason.
        why: String,
    },
    /// A rollback that was interrupted cannot be finished, as its checkpoints are gone.
    #[error(
        "a rollback to {target} was interrupted, and is not finished: neither that checkpoint nor {safety}, which has what was there before, is \
         in the store any more; the workspace is left as it is"
    )]
    RollbackLost {
        /// The checkpoint that was gone back to.
        target: Ulid,
        /// The checkpoint of what was there before.
        safety: Ulid,
    },
    /// The workspace as an interrupted rollback has left it was captured.
    #[error("what is there now, after a rollback that was interrupted, is in safety checkpoint {safety}")]
    SavedBeforeFinishing {
        /// The checkpoint.
        safety: Ulid,
    },
    /// Files that were changed behind an interrupted rollback are left.
    #[error("left as it is, for it was changed since the rollback was interrupted: {paths}")]
    ChangedSince {
        /// The first of them.
        paths: String,
    },
    /// A rollback that had failed is taken back.
    #[error("a rollback to {target} that had failed is taken back now; everything is as it was before")]
    RollbackTakenBack {
        /// The checkpoint that was gone back to.
        target: Ulid,
    },
    /// A rollback that was interrupted is finished.
    #[error("a rollback to {target} that was interrupted is finished now")]
    RollbackFinished {
        /// The checkpoint that was gone back to.
        target: Ulid,
    },
}
