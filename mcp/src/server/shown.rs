//! The results of the tools.

use parhelia_store::diff::Summary;
use parhelia_wire::{
    checkpoint::{Checkpoint, SearchHit},
    diff::Change,
    memory::Knowledge,
};
use schemars::JsonSchema;
use serde::Serialize;

/// A checkpoint that was asked for.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CreateResult {
    /// The new checkpoint, with its tags.
    pub checkpoint: Checkpoint,
    /// Parts of the session that could not be captured, each with why; and other warnings.
    pub warnings: Vec<String>,
}

/// Checkpoints.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ListResult {
    /// Checkpoints of the session, newest first.
    pub checkpoints: Vec<Checkpoint>,
    /// True if there are more.
    pub truncated: bool,
}

impl ListResult {
    /// The id of each, and a name for people.
    pub fn names(&self) -> impl Iterator<Item = (String, String)> {
        self.checkpoints.iter().map(|one| (one.id.to_string(), format!("checkpoint of {}", one.created_at)))
    }
}

/// The differences of two checkpoints.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Differences {
    /// Older checkpoint.
    pub old: String,
    /// Newer checkpoint.
    pub new: String,
    /// Changes in order of their paths, at most as many as one answer has.
    pub changes: Vec<Change>,
    /// True if there are more changes than these.
    pub truncated: bool,
    /// Numbers of all changes.
    pub counts: Summary,
}

/// Knowledge of the project.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RecallResult {
    /// Entries, the best first. Those that contradict each other name each other.
    pub entries: Vec<Knowledge>,
}

/// Something that was remembered.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SaveResult {
    /// The entry as the memory has it now.
    pub entry: Knowledge,
    /// False if the same was known already.
    pub recorded: bool,
}

/// The result of a search.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SearchResult {
    /// Checkpoints, the best first.
    pub found: Vec<SearchHit>,
    /// Number of checkpoints that match.
    pub matching: u64,
}
