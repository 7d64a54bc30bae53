//! A rejection, kept in events: it outlives the rejected checkpoint, so that deleting that one does not take the rejection back.

use parhelia_store::id::TreeId;
use serde::{Deserialize, Serialize};

/// The field of a decision, and of a deletion, that holds a [`RejectedContent`].
pub const FIELD: &str = "rejected";

/// Content that was rejected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RejectedContent {
    /// Id of the session of the rejected checkpoint.
    pub session: String,
    /// Sequence of the checkpoint's commit.
    pub sequence: u64,
    /// The tree of its workspace; none where it could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<TreeId>,
    /// Sequence of the oldest checkpoint on the way to it that has the same files: with that one came what was rejected. None where its session
    /// has had these files from the beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<u64>,
}
