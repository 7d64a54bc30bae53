//! The arguments of the tools.

use schemars::JsonSchema;
use serde::Deserialize;

/// Arguments of `create_checkpoint`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Create {
    /// A message for whoever looks at it later: what was reached, or what comes next.
    pub message: Option<String>,
    /// Tags by which it is found again.
    #[serde(default)]
    pub tags: Vec<String>,
}

/// Arguments of `list_checkpoints`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct List {
    /// Id or name of another session.
    pub session: Option<String>,
    /// At most so many; 20 unless given.
    pub limit: Option<usize>,
}

/// Arguments of `show_checkpoint`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Show {
    /// The checkpoint: its id, a part of it, `latest`, or `tag:NAME`.
    pub checkpoint: String,
}

/// Arguments of `diff_checkpoints`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Diff {
    /// The older checkpoint.
    pub old: String,
    /// The newer one; the latest unless given.
    pub new: Option<String>,
    /// A file, of which the differing lines are wanted.
    pub path: Option<String>,
}

/// Arguments of `search_checkpoints`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Search {
    /// Words that a checkpoint must have, all of them; a phrase in double quotes; a beginning as word*.
    pub query: String,
    /// At most so many; 10 unless given.
    pub limit: Option<usize>,
}

/// Arguments of `save_memory`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Save {
    /// Section and name: conventions.testing, architecture, gotchas; anything else is the name of a note.
    pub key: String,
    /// The text: a fact that later sessions should have, in a sentence or two.
    pub text: String,
    /// Files that matter for it, from the workspace folder.
    #[serde(default)]
    pub files: Vec<String>,
}

/// Arguments of `recall_memory`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Recall {
    /// Words; entries with most of them come first. Nothing gives all that is known.
    #[serde(default)]
    pub words: String,
}

/// Arguments of `read_file`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Read {
    /// The checkpoint: its id, a part of it, `latest`, or `tag:NAME`.
    pub checkpoint: String,
    /// The path from the workspace folder.
    pub path: String,
}
