//! Summaries of verbs about a project's memory.

use schemars::JsonSchema;
use serde::Serialize;

/// Something that was remembered.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct SaveOutcome {
    /// Id of the entry, by which it is forgotten.
    pub id: String,
    /// Name of the project that knows it now.
    pub project: String,
    /// False if the same was known already.
    pub recorded: bool,
}

/// What is known, by words.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct RecallOutcome {
    /// Name of the project that was searched.
    pub project: String,
    /// Entries that were found.
    pub entries: u64,
}

/// What is known.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct ListOutcome {
    /// The project; null where all are listed.
    pub project: Option<String>,
    /// All projects, where these are listed.
    pub projects: Vec<String>,
    /// Number of entries that are listed.
    pub entries: u64,
    /// Sessions whose result a person decided about.
    pub sessions: u64,
}

/// What was forgotten.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct ForgetOutcome {
    /// Name of the project that has forgotten.
    pub project: String,
    /// Entries.
    pub forgotten: u64,
}

/// Knowledge that was taken over from another project.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct AdoptOutcome {
    /// Name of the project that knows more now.
    pub project: String,
    /// The other one.
    pub from: String,
    /// Entries that were not known before.
    pub entries: u64,
    /// Sessions whose result was not known before.
    pub sessions: u64,
}

/// A folder that is of a project from now on.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct ConfirmOutcome {
    /// Name of the project that the folder is of.
    pub project: String,
    /// The folder; null where it was of the project already.
    pub folder: Option<String>,
}

/// What is worth remembering.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct SuggestOutcome {
    /// Name of the project whose sessions were looked at.
    pub project: String,
    /// Number of suggestions that are listed.
    pub suggestions: u64,
}
