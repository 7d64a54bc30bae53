//! Differences of checkpoints: entries, conversations, and checkpoints as a whole.

use jiff::Timestamp;
use parhelia_agent::environment::diff::EnvironmentChange;
use parhelia_ledger::Marks;
use parhelia_store::{
    diff::{ChangeKind, Text, TreeChange},
    record,
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::{checkpoint::Approval, shown, tree::Entry};

/// An entry that differs between two trees.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Change {
    /// Path from the compared folders, on the new side unless it was deleted; empty for these folders themselves.
    pub path: String,
    /// added, deleted, modified, metadata, type_changed, renamed.
    pub change: String,
    /// Path on the old side of what was renamed.
    pub from: Option<String>,
    /// Metadata that differ, by name; none of what only one side has.
    pub metadata: Vec<String>,
    /// The entry on the old side.
    pub old: Option<Entry>,
    /// The entry on the new side.
    pub new: Option<Entry>,
    /// Lines that came, where lines were counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lines_added: Option<u64>,
    /// Lines that went, where lines were counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lines_removed: Option<u64>,
    /// text, binary, too_large, where contents were compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// Unified diff of a text file, where that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
}

impl From<&TreeChange> for Change {
    fn from(change: &TreeChange) -> Self {
        let from = match &change.kind {
            ChangeKind::Renamed { from } => Some(shown(from)),
            _ => None,
        };
        Change {
            path: shown(&change.path),
            change: change.kind.name().into(),
            from,
            metadata: change.fields().names().map(str::to_owned).collect(),
            old: change.old.as_ref().map(|node| Entry::of(change.old_path(), node)),
            new: change.new.as_ref().map(|node| Entry::of(&change.path, node)),
            lines_added: None,
            lines_removed: None,
            content: None,
            diff: None,
        }
    }
}

impl Change {
    /// The change with its numbers of lines, added and removed.
    pub fn with_lines(mut self, lines: &Text<(u64, u64)>) -> Self {
        match lines {
            Text::Lines((added, removed)) => (self.lines_added, self.lines_removed) = (Some(*added), Some(*removed)),
            other => self.content = Some(content(other).into()),
        }
        self
    }

    /// The change with the difference of the contents, as a unified diff.
    pub fn with_diff(mut self, difference: Text<String>) -> Self {
        self.content = Some(content(&difference).into());
        if let Text::Lines(unified) = difference {
            self.diff = Some(unified);
        }
        self
    }
}

/// A name for how contents can be compared.
fn content<T>(text: &Text<T>) -> &'static str {
    match text {
        Text::Lines(_) => "text",
        Text::Binary => "binary",
        Text::TooLarge => "too_large",
    }
}

/// Two checkpoints beside each other.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Comparison {
    /// The older one.
    pub old: ComparisonSide,
    /// The newer one.
    pub new: ComparisonSide,
    /// Time from the one to the other.
    pub seconds: i64,
    /// Differences of their environments.
    pub environment: Vec<EnvironmentChange>,
    /// Parts of the environment that one of them did not capture.
    pub environment_unknown: Vec<String>,
}

/// One of two checkpoints that are compared.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ComparisonSide {
    /// The checkpoint.
    pub id: String,
    /// End of its capture.
    pub created_at: Timestamp,
    /// Turns of its conversation.
    pub turn_count: Option<u64>,
    /// Tokens that the conversation had used.
    pub tokens_used: Option<u64>,
    /// Cost, where one was reported.
    pub cost_estimate_usd: Option<f64>,
    /// Last decision about it.
    pub approval: Option<Approval>,
}

impl ComparisonSide {
    /// A checkpoint with what events said of it.
    pub fn of(checkpoint: &record::Checkpoint, marks: &Marks) -> Self {
        let record = &checkpoint.record;
        let number = |name: &str| record.conversation.as_ref()?.get(name)?.as_u64();
        ComparisonSide {
            id: checkpoint.id(),
            created_at: record.created_at,
            turn_count: number("turn_count"),
            tokens_used: number("tokens_used"),
            cost_estimate_usd: record.usage.as_ref().and_then(|usage| usage.get("cost_estimate_usd")).and_then(Value::as_f64),
            approval: marks.approval.as_ref().map(Approval::from),
        }
    }
}
