//! Notices of live sessions that share something with one that begins or goes on.

use parhelia_ledger::Session;
use parhelia_store::name::NameExt as _;

use super::Notice;

impl Notice {
    /// The word that a live session works in the same files.
    pub fn of_same_files(other: &Session) -> Self {
        let folder = other.workspace.as_ref().map(|place| place.folder().shown()).unwrap_or_default();
        Notice::Beside(Overlap::Files { session: other.id.clone(), folder })
    }
}

/// Another session that one is begun or resumed beside.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Overlap {
    /// It has the same conversation.
    #[error("the conversation is also session {session}'s")]
    Conversation {
        /// Id of the session that is in the same conversation.
        session: String,
    },
    /// Its agent lives and works in the same files.
    #[error(
        "the agent of session {session} is alive in {folder}: both change the same files, and checkpoints of each have what the other did"
    )]
    Files {
        /// Id of the session that works in the same files.
        session: String,
        /// Its workspace.
        folder: String,
    },
    /// It has the same name, and its agent lives.
    #[error("session {session} has the name {name} as well, and its agent is alive: the name alone may mean either from now on")]
    Name {
        /// Id of the session that has the name already.
        session: String,
        /// The name that both sessions have.
        name: String,
    },
}
