//! Sealed checkpoint records. A record is JSON; its exact bytes are what is hashed, stored and never written again.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::id::{ObjectId, RecordId, TreeId, Ulid};

/// Why a checkpoint was made. The set is closed; `trigger_detail` says more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Trigger {
    /// At intervals, or between turns.
    Periodic,
    /// The user detached from the terminal.
    Detach,
    /// Something failed.
    Error,
    /// The task is done.
    Complete,
    /// The machine or container is about to stop.
    Shutdown,
    /// Somebody asked for it.
    #[default]
    Manual,
}

impl Trigger {
    /// All of them.
    pub const ALL: [Trigger; 6] =
        [Trigger::Periodic, Trigger::Detach, Trigger::Error, Trigger::Complete, Trigger::Shutdown, Trigger::Manual];

    /// Its name, as stored.
    pub fn name(self) -> &'static str {
        match self {
            Trigger::Periodic => "periodic",
            Trigger::Detach => "detach",
            Trigger::Error => "error",
            Trigger::Complete => "complete",
            Trigger::Shutdown => "shutdown",
            Trigger::Manual => "manual",
        }
    }
}

/// Whether one part of a checkpoint is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "lowercase")]
pub enum Part {
    /// It was captured.
    Captured,
    /// There was nothing to capture.
    Absent,
    /// It could not be captured.
    Failed {
        /// Why.
        error: String,
    },
}

/// What the agent was doing while the workspace was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Consistency {
    /// Nothing: the checkpoint lies between two turns.
    TurnBoundary,
    /// A tool was running.
    MidTool,
    /// Not known.
    #[default]
    Unknown,
}

/// The folder that was captured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workspace {
    /// Its absolute path, shown as [`crate::name::display`] shows it.
    pub path: String,
    /// Regular files in it.
    pub files: u64,
    /// Folders in it.
    pub folders: u64,
    /// Entries of every kind.
    pub entries: u64,
    /// Bytes of its regular files.
    pub bytes: u64,
}

/// What capture left out, by count; the table names each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Omitted {
    /// The table ([`crate::omitted`]).
    pub table: ObjectId,
    /// Excluded by a rule.
    pub excluded: u64,
    /// Could not be read.
    pub unreadable: u64,
    /// Kept changing while it was read; what was read last is in the checkpoint.
    pub changing: u64,
}

/// The rules by which entries were left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rules {
    /// Whether what can be proven to be regenerable was excluded.
    pub defaults: bool,
    /// Patterns, in gitignore syntax.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub patterns: Vec<String>,
    /// A folder that holds a file of one of these names was excluded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub if_present: Vec<String>,
    /// Whether folders with a CACHEDIR.TAG were excluded even without `defaults`.
    #[serde(default)]
    pub caches: bool,
    /// Whether other filesystems were not entered.
    #[serde(default)]
    pub one_file_system: bool,
    /// Whether only listed paths were captured (`--files-from`).
    #[serde(default)]
    pub listed_only: bool,
}

/// A sealed checkpoint record: everything about a checkpoint that never changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Version of this structure.
    pub schema: u32,
    /// The checkpoint's id.
    pub id: Ulid,
    /// The session it belongs to.
    pub session: String,
    /// The session's run, where one is known.
    pub run: Option<String>,
    /// The run's epoch; 0 outside runs.
    pub epoch: u64,
    /// The session's head before it.
    pub parent: Option<Ulid>,
    /// Its place in the chain, from 1.
    pub depth: u64,
    /// Why it was made.
    pub trigger: Trigger,
    /// More about why.
    pub trigger_detail: Option<String>,
    /// What its maker said of it.
    pub message: Option<String>,
    /// The tree that holds the parts as folders: `workspace`, later `state`.
    pub root: TreeId,
    /// The table of hard-link groups under `workspace`, where there are any.
    pub links: Option<ObjectId>,
    /// The state of each part.
    pub parts: BTreeMap<String, Part>,
    /// What the agent did meanwhile.
    pub consistency: Consistency,
    /// When capture began.
    pub started_at: Timestamp,
    /// When capture ended.
    pub created_at: Timestamp,
    /// What was captured.
    pub workspace: Workspace,
    /// By which rules entries were left out.
    pub rules: Rules,
    /// What was left out.
    pub omitted: Option<Omitted>,
    /// The conversation at that moment, where one was captured.
    pub conversation: Option<Value>,
    /// The state of git.
    pub git: Option<Value>,
    /// The environment.
    pub environment: Option<Value>,
    /// Tokens and cost; null unless reported.
    pub usage: Option<Value>,
    /// Fields of later versions, kept as they are.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// Version of [`Record`] that this release writes.
pub const RECORD_SCHEMA: u32 = 1;

/// A committed checkpoint: the sealed record, where it stands in the journal, and its exact bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct Checkpoint {
    /// Sequence of its commit; `latest` goes by this.
    pub sequence: u64,
    /// The record.
    pub record: Record,
    /// Digest of the sealed bytes: the checkpoint's checksum.
    pub digest: RecordId,
    /// The sealed bytes.
    pub sealed: String,
}

impl Checkpoint {
    /// Reads a sealed record. Fails with the JSON parser's words.
    pub fn decode(sequence: u64, sealed: String) -> Result<Self, serde_json::Error> {
        let record = serde_json::from_str(&sealed)?;
        Ok(Checkpoint { sequence, record, digest: RecordId::of(sealed.as_bytes()), sealed })
    }

    /// The checkpoint's id as text.
    pub fn id(&self) -> String {
        self.record.id.to_string()
    }

    /// `blake3:` and the digest, as manifests give it.
    pub fn checksum(&self) -> String {
        format!("blake3:{}", self.digest)
    }

    /// Whether everything that should be in it is.
    pub fn is_complete(&self) -> bool {
        let unread = self.record.omitted.as_ref().is_some_and(|o| o.unreadable + o.changing > 0);
        !unread && !self.record.parts.values().any(|part| matches!(part, Part::Failed { .. }))
    }
}
