//! Reasons for which a session is not given another folder.

/// The reason for which a session stays at its path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MoveRefusal {
    /// The session has no folder that could have been moved.
    #[error("session {session} has no workspace that could have been moved")]
    NothingToMove {
        /// Id of the session, such as one that was imported.
        session: String,
    },
    /// A session cannot go on in a folder that is another one than its own.
    #[error("{why}")]
    NotItsFolder {
        /// The reason.
        why: String,
        /// The folder, for messages.
        to: String,
    },
    /// The session's folder is where it was.
    #[error("session {session} works in {path}, which is there; give the folder to go on in")]
    HasNotMoved {
        /// Id of the session, whose folder is unmoved.
        session: String,
        /// Its folder, for messages.
        path: String,
    },
}
