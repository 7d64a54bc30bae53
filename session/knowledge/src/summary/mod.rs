//! Summaries of sessions: what was done, decided and tried, what failed, what is in the way, and where to go on.
//!
//! A summary is made at each checkpoint, of what tools did and of the agent's own lists, by rules alone: the same conversation gives the
//! same summary. Where the user has configured one, a model's summary stands beside it ([`model`]). It is part of the checkpoint ([`PART`]), as JSON and as Markdown. The Markdown of a session's head is kept in the store's
//! folder as well, for people ([`kept`]).
//!
//! Its quotes are one line each, bounded, without control characters, and without what looks like a secret. The conversation itself is
//! kept as it is.

mod folder;
pub mod kept;
mod made;
mod markdown;
pub mod model;
mod quote;
#[cfg(test)]
mod tests;

use parhelia_agent::transcript::story::{Approach, Command, Package};
use parhelia_store::{Store, record::Checkpoint};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::{
    made::{Sources, of},
    markdown::markdown,
    model::ModelSummary,
};
pub use self::{
    markdown::{failed, line},
    quote::quoted,
};
use parhelia_host::{
    Result,
    draft::Draft,
    state::{state_bytes, state_json},
};

/// The part of a checkpoint that holds its summary.
pub const PART: &str = "summary";
/// The summary in a checkpoint's state, as JSON.
pub const JSON_FILE: &str = "summary.json";
/// The summary in a checkpoint's state, as Markdown.
pub const MARKDOWN_FILE: &str = "summary.md";
/// Version of [`Summary`].
pub const SCHEMA: u32 = 1;

/// The way in which a summary was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GeneratedBy {
    /// By rules, from what tools did and from the agent's own lists.
    Rules,
    /// In a way that this release does not know.
    #[default]
    #[serde(other)]
    Unknown,
}

/// The summary of a session at a checkpoint. Lists are bounded, and begin with what is newest or matters most.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Summary {
    /// Version of the format: [`SCHEMA`].
    pub schema: u32,
    /// Id of the session that is summed up.
    pub session: String,
    /// The way in which it was made.
    pub generated_by: GeneratedBy,
    /// The user's last request.
    pub task: Option<String>,
    /// Tasks that are done, commits, files that were changed, and the end of the last reply.
    pub progress: Vec<String>,
    /// The user's answers, the plans that the user approved, and sentences by which the user settled or forbade something.
    pub decisions: Vec<String>,
    /// Approaches: plans, commands that failed and what made them pass, edits that were undone.
    pub approaches: Vec<Approach>,
    /// Commands that fail, tasks that are blocked, and obstacles that the last reply names.
    pub blockers: Vec<String>,
    /// Questions of the agent without an answer.
    pub open_questions: Vec<String>,
    /// Tasks that are begun or to be done.
    pub next_steps: Vec<String>,
    /// Documents and pages that were read.
    pub relevant_docs: Vec<String>,
    /// Files that were changed.
    pub files: Vec<FileChange>,
    /// The last commands that the agent ran, newest first, at most 20; long ones are shortened.
    pub recent_commands: Vec<Command>,
    /// Packages that commands installed.
    pub packages: Vec<Package>,
    /// The agent's working directory.
    pub cwd: Option<String>,
    /// The branch that was checked out; none on a detached HEAD or without git.
    pub git_branch: Option<String>,
    /// The commit of HEAD, in full; none without git or before the first commit.
    pub git_commit: Option<String>,
    /// The last summary by a model, of this checkpoint or of one that it came from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelSummary>,
}

/// The changes of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(!default)]
pub struct FileChange {
    /// Its path from the workspace folder; absolute where it lies outside.
    pub path: String,
    /// The changes in words: edited 3 times, uncommitted, deleted.
    pub change: String,
    /// Lines that edits added, as far as their texts are known.
    pub lines_added: u64,
    /// Lines that edits removed.
    pub lines_removed: u64,
}

/// Sums up an agent's session at its new checkpoint, for people who open the store's folder; and has a model asked about it, where one is configured.
pub fn renew(draft: &Draft<'_>) {
    if draft.is_agents() {
        kept::renew(draft.store, draft.request.session, draft.observer);
        model::begin(draft);
    }
}

/// The summary in a checkpoint; none in those that have none, such as checkpoints of earlier releases and of folders without an agent.
pub fn read(store: &Store, checkpoint: &Checkpoint) -> Result<Option<Summary>> {
    Ok(state_json(store, checkpoint, JSON_FILE)?.and_then(|value| serde_json::from_value(value).ok()))
}

/// The summary in a checkpoint as Markdown.
pub fn read_markdown(store: &Store, checkpoint: &Checkpoint) -> Result<Option<String>> {
    let bytes = state_bytes(store, checkpoint, MARKDOWN_FILE)?;
    Ok(bytes.and_then(|bytes| String::from_utf8(bytes).ok()))
}
