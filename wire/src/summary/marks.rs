//! Summaries of verbs that mark checkpoints: tags, annotations, links.

use parhelia_ledger::{Annotation, Issue};
use schemars::JsonSchema;
use serde::Serialize;

/// The tags of a checkpoint, some of which are new.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct TagOutcome {
    /// The checkpoint.
    pub id: String,
    /// Tags that it did not have before.
    pub added: Vec<String>,
    /// All tags that it has now.
    pub tags: Vec<String>,
}

/// The tags of a checkpoint, without those that were removed.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct UntagOutcome {
    /// The checkpoint.
    pub id: String,
    /// Tags that were removed.
    pub removed: Vec<String>,
    /// Tags that it has now.
    pub tags: Vec<String>,
}

/// The annotation that was made.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct AnnotateOutcome {
    /// The checkpoint.
    pub id: String,
    /// The new annotation, with its time and person.
    pub annotation: Annotation,
    /// Number of annotations that it has now.
    pub annotations: u64,
}

/// The links of a checkpoint, some of which are new.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct LinkOutcome {
    /// The checkpoint.
    pub id: String,
    /// Links that it did not have before.
    pub added: Vec<Issue>,
    /// All links that it has now.
    pub links: Vec<Issue>,
    /// Those of them that no person has asked for, or confirmed.
    pub asked: Vec<Issue>,
}

/// The links of a checkpoint, without those that were removed.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct UnlinkOutcome {
    /// The checkpoint.
    pub id: String,
    /// Links that were removed.
    pub removed: Vec<Issue>,
    /// Links that it has now.
    pub links: Vec<Issue>,
}
