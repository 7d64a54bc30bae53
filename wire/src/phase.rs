//! Phase checkpoints: how far an algorithm has come with a task.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

/// A phase checkpoint, and the file that has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Phase {
    /// Id by which it is loaded: short, random.
    pub id: String,
    /// The session's name, as the program that made it has it.
    pub session: String,
    /// The phase's name.
    pub phase: String,
    /// Its number, from 1 to 7.
    pub number: u8,
    /// Time at which it was made.
    pub created_at: Timestamp,
    /// True once the task is finished.
    pub completed: bool,
    /// The task, in a few words.
    pub task: String,
    /// What the task is measured by.
    pub criteria: Vec<Criterion>,
    /// Whatever was to be found again.
    pub metadata: Map<String, Value>,
    /// Path of the JSON file.
    pub file: String,
}

/// Something that a task is measured by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Criterion {
    /// Id that the author of the phase gave it.
    pub id: String,
    /// What it asks for.
    pub subject: String,
    /// pending, in_progress or completed.
    pub status: String,
}
