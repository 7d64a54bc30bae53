//! Entries that a restore did not make as they were, each with the reason.

use schemars::JsonSchema;
use serde::Serialize;

use crate::name::shown;

/// An entry that could not be restored as it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SkippedEntry {
    /// Path in the folder; empty for the folder itself.
    #[serde(serialize_with = "shown::serialize")]
    #[schemars(with = "String")]
    pub path: Vec<u8>,
    /// Reason.
    pub error: String,
    /// The kind of reason.
    #[serde(skip)]
    pub why: Why,
}

/// A kind of reason for which something is not made as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// A system call or a read from the store failed.
    Failed,
    /// It would give privileges.
    Withheld,
    /// Its name was free by the plan, and somebody else has taken it since.
    Taken,
    /// It was changed since [`Options::since`](super::Options::since).
    Changed,
    /// It cannot be changed, made or removed here, and is not what the checkpoint has.
    Held,
    /// It stays on purpose, by itself or for what is in it: a mount, or what capture left out.
    Kept,
    /// It has the checkpoint's content, and its mode, owner, time or attributes cannot be set.
    HeldAlike,
}
