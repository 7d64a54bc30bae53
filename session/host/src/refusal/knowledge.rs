//! Reasons for which nothing is known that was asked for: phases and memories.

use parhelia_store::name::step::Step;
use std::path::PathBuf;

use parhelia_store::name::NameExt as _;

/// The reason for which a phase or a memory is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KnowledgeRefusal {
    /// No phase checkpoint has an id.
    #[error("no phase checkpoint {id} in {}", folder.shown())]
    NoPhase {
        /// The id that was given, of which no file is found.
        id: String,
        /// The folder of phase checkpoints.
        folder: PathBuf,
    },
    /// Nothing is remembered of a project that somebody has named.
    #[error("nothing is remembered of a project '{project}'\n{} lists those of which something is", Step::Projects)]
    NoMemory {
        /// Its name.
        project: String,
    },
    /// Nothing is remembered under an id or a key.
    #[error("nothing is remembered of this project under '{which}'\n{} shows ids and names", Step::Memories)]
    NotRemembered {
        /// The id or the key.
        which: String,
    },
    /// Nothing is suggested under an id.
    #[error("there is no suggestion {id}")]
    NotSuggested {
        /// The id that was given.
        id: String,
    },
}
