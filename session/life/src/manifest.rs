//! `manifest.json`, schema 1.2: what a checkpoint says of itself to other programs. It is rendered from the sealed record and from what
//! events said of it since, never stored; `docs/manifest.schema.json` describes it.

use parhelia_ledger::Marks;
use parhelia_store::{
    Store,
    record::{Cause, Checkpoint, Consistency, Part, Rules, Trigger},
    tree::WORKSPACE_FOLDER,
};
use serde::Serialize;
use serde_json::{Map, Value, json};

use parhelia_knowledge::summary;

/// Version of the schema that [`Manifest`] follows.
pub const MANIFEST_VERSION: &str = "1.2";

/// A rendered manifest. What is not known is null; nothing is made up.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Manifest {
    /// Version of the format: [`MANIFEST_VERSION`].
    pub version: &'static str,
    /// Id of the checkpoint, a ULID.
    pub id: String,
    /// The session it belongs to.
    pub session_id: String,
    /// The session's run, where one is known.
    pub run_id: Option<String>,
    /// The run's epoch; 0 outside runs.
    pub epoch: u64,
    /// True if a newer run had taken over the session by then.
    pub fenced: bool,
    /// Begin of the capture (RFC 3339, UTC).
    pub started_at: String,
    /// End of the capture (RFC 3339, UTC).
    pub created_at: String,
    /// The trigger: the reason for making it.
    pub trigger: Trigger,
    /// The cause, as a word that no caller can choose; absent where it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cause>,
    /// Details of the trigger, for people.
    pub trigger_detail: Option<String>,
    /// The origin of an imported checkpoint, by its manifest there; absent of others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub imported_from: Option<Value>,
    /// The message of its maker.
    pub message: Option<String>,
    /// The session's head before it.
    pub parent_checkpoint_id: Option<String>,
    /// Its place in the chain, from 1.
    pub checkpoint_chain_depth: u64,
    /// The conversation, by its counters.
    pub conversation: Conversation,
    /// The captured folder.
    pub workspace: WorkspaceSummary,
    /// The state of git.
    pub git: Option<Value>,
    /// The session's usage up to then.
    pub metrics: Metrics,
    /// The environment, with null for what was not captured.
    pub environment: Value,
    /// The decision about it, and who made it; absent until there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval: Option<Value>,
    /// Tags that it bears, in order of their bytes.
    pub tags: Vec<String>,
    /// Annotations, in the order in which they were made.
    pub annotations: Vec<Value>,
    /// Issues that it is linked to, each with tracker, id and URL.
    pub linked_issues: Vec<Value>,
    /// Its last verification, with level, outcome and time; null before the first.
    pub verification: Option<Value>,
    /// Its last scan for secrets; absent until there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scan: Option<Value>,
    /// The summary of the session, as Markdown, where the checkpoint has one.
    pub session_summary: Option<String>,
    /// The agent's activity during the capture.
    pub consistency: Consistency,
    /// Id of the tree that holds everything.
    pub root: String,
    /// Id of the table of hard-link groups, where there are any.
    pub links: Option<String>,
    /// The state of each part.
    pub parts: std::collections::BTreeMap<String, Part>,
    /// The rules by which entries were left out.
    pub rules: Rules,
    /// The number of entries that were left out.
    pub omitted: OmittedCounts,
    /// True if everything that should be in it is.
    pub complete: bool,
    /// `blake3:` and the digest of the sealed record.
    pub checksum: String,
}

/// Counters of the conversation.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Conversation {
    /// Number of turns up to the checkpoint; null without a conversation.
    pub turn_count: Value,
    /// The API's id of the model's last message; null where none is known.
    pub last_message_id: Value,
    /// All tokens so far, read and written, those from the cache included; null without a conversation.
    pub tokens_used: Value,
    /// True if the conversation can be resumed.
    pub has_resume_token: Value,
}

/// The captured folder, by its sums.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct WorkspaceSummary {
    /// Folder of its files in the checkpoint.
    pub path: &'static str,
    /// Folder that was captured.
    pub source: String,
    /// Bytes of its regular files.
    pub size_bytes: u64,
    /// Number of regular files; each name of a hard link counts.
    pub file_count: u64,
    /// Number of folders, the captured one itself not included.
    pub folder_count: u64,
    /// Entries of every kind.
    pub entry_count: u64,
    /// Files that git knows to be changed: the first of them.
    pub uncommitted_files: Value,
    /// The number of all of them.
    pub uncommitted_count: Value,
}

/// The session's usage up to a checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Metrics {
    /// Cost, where one was reported.
    pub cost_estimate_usd: Value,
    /// Tools that were used.
    pub tools_invoked: Value,
    /// Files that were changed.
    pub files_modified: Value,
}

/// The number of entries that were left out, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct OmittedCounts {
    /// Excluded by a rule.
    pub excluded: u64,
    /// Could not be read.
    pub unreadable: u64,
    /// Kept changing while read.
    pub changing: u64,
}

fn field(value: &Option<Value>, name: &str) -> Value {
    value.as_ref().and_then(|v| v.get(name)).cloned().unwrap_or(Value::Null)
}

/// A value's fields, without those that are not known.
fn told(value: &impl Serialize) -> Value {
    let mut value = serde_json::to_value(value).unwrap_or_default();
    if let Value::Object(fields) = &mut value {
        fields.retain(|_, field| !field.is_null());
    }
    value
}

/// The environment as captured, with null for every field of the schema that was not.
fn environment(captured: &Option<Value>) -> Value {
    let mut fields = match captured {
        Some(Value::Object(fields)) => fields.clone(),
        _ => Map::new(),
    };
    for name in ["claude_code", "plugins", "mcp_servers", "python_version", "python_packages", "pip_freeze_hash", "captured_at"] {
        fields.entry(name).or_insert(Value::Null);
    }
    Value::Object(fields)
}

/// The state of git without the files that were not committed: these are in the workspace's summary, and all that some imported ones have.
fn git(captured: &Value) -> Value {
    let Value::Object(fields) = captured else { return captured.clone() };
    let kept = fields.iter().filter(|(name, _)| !name.starts_with("uncommitted_"));
    Value::Object(kept.map(|(name, value)| (name.clone(), value.clone())).collect())
}

impl Manifest {
    /// The manifest of a checkpoint, with what was said of it since it was sealed.
    pub fn with(store: &Store, checkpoint: &Checkpoint, marks: &Marks) -> Self {
        Manifest::sealed(store, checkpoint).marked(marks)
    }

    /// The manifest of a checkpoint as it was sealed. A summary that cannot be read is left out.
    pub fn sealed(store: &Store, checkpoint: &Checkpoint) -> Self {
        let session_summary = summary::read_markdown(store, checkpoint).ok().flatten();
        Manifest { session_summary, ..Manifest::of(checkpoint) }
    }

    fn marked(self, marks: &Marks) -> Self {
        Manifest {
            approval: marks.approval.as_ref().map(told),
            tags: marks.tags.iter().cloned().collect(),
            annotations: marks.annotations.iter().map(told).collect(),
            linked_issues: marks.links.iter().map(told).collect(),
            verification: marks.verification.as_ref().map(told),
            scan: marks.scan.as_ref().map(told),
            ..self
        }
    }

    /// The manifest of a checkpoint by its record alone.
    fn of(checkpoint: &Checkpoint) -> Self {
        let record = &checkpoint.record;
        Manifest {
            version: MANIFEST_VERSION,
            id: checkpoint.id(),
            session_id: record.session.clone(),
            run_id: record.run.clone(),
            epoch: record.epoch,
            fenced: record.fenced,
            started_at: record.started_at.to_string(),
            created_at: record.created_at.to_string(),
            trigger: record.trigger,
            cause: record.cause(),
            trigger_detail: record.trigger_detail.clone(),
            imported_from: record.imported_from().cloned(),
            message: record.message.clone(),
            parent_checkpoint_id: record.parent.map(|id| id.to_string()),
            checkpoint_chain_depth: record.depth,
            conversation: Conversation {
                turn_count: field(&record.conversation, "turn_count"),
                last_message_id: field(&record.conversation, "last_message_id"),
                tokens_used: field(&record.conversation, "tokens_used"),
                has_resume_token: field(&record.conversation, "has_resume_token"),
            },
            workspace: WorkspaceSummary {
                path: WORKSPACE_FOLDER,
                source: record.workspace.path.clone(),
                size_bytes: record.workspace.bytes,
                file_count: record.workspace.files,
                folder_count: record.workspace.folders,
                entry_count: record.workspace.entries,
                uncommitted_files: field(&record.git, "uncommitted_files"),
                uncommitted_count: field(&record.git, "uncommitted_count"),
            },
            git: record.git.as_ref().map(git).filter(|git| *git != json!({})),
            metrics: Metrics {
                cost_estimate_usd: field(&record.usage, "cost_estimate_usd"),
                tools_invoked: field(&record.usage, "tools_invoked"),
                files_modified: field(&record.usage, "files_modified_count"),
            },
            environment: environment(&record.environment),
            approval: None,
            tags: Vec::new(),
            annotations: Vec::new(),
            linked_issues: Vec::new(),
            verification: None,
            scan: None,
            session_summary: None,
            consistency: record.consistency,
            root: record.root.to_string(),
            links: record.links.map(|table| table.blob.to_string()),
            parts: record.parts.clone(),
            rules: record.rules.clone(),
            omitted: record.omitted.as_ref().map_or_else(OmittedCounts::default, |o| OmittedCounts {
                excluded: o.excluded,
                unreadable: o.unreadable,
                changing: o.changing,
            }),
            complete: checkpoint.is_complete(),
            checksum: checkpoint.checksum(),
        }
    }

    /// The manifest as the text of a file.
    pub fn to_text(&self) -> Vec<u8> {
        let mut text = serde_json::to_vec_pretty(&self.to_json()).unwrap_or_default();
        text.push(b'\n');
        text
    }

    /// The manifest as a JSON object.
    pub fn to_json(&self) -> Value {
        serde_json::to_value(self).unwrap_or_else(|_| json!({ "version": self.version, "id": self.id }))
    }
}

#[cfg(test)]
mod tests;
