//! Sealed checkpoint records. A record is JSON; its exact bytes are what is hashed, stored and never written again.

mod brief;
mod cause;
mod named;
mod outline;
mod sentences;

use std::{collections::BTreeMap, fmt};

use jiff::Timestamp;
pub use named::{Consistency, Trigger, Word};
use serde::{Deserialize, Serialize, de};
use serde_json::{Map, Value};

use self::outline::has_failed;
pub use self::{brief::Brief, cause::Cause, outline::Outline};
use crate::{
    clock::Uptime,
    id::{BlobId, ObjectId, RecordId, TreeId, Ulid},
    keys::Ids,
};

/// State of one part of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "lowercase")]
pub enum Part {
    /// The part was read in full.
    Captured,
    /// There was nothing to capture.
    Absent,
    /// Those who have it were not asked for it.
    #[serde(rename = "not_asked")]
    NotAsked,
    /// It could not be captured.
    Failed {
        /// The cause.
        error: String,
    },
    /// A later release says how it is.
    #[serde(other)]
    Unknown,
}

/// The folder that was captured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workspace {
    /// Its absolute path, shown as [`crate::name::display`] shows it.
    pub path: String,
    /// Regular files in it.
    pub files: u64,
    /// Number of folders below it, at every depth.
    pub folders: u64,
    /// Entries of every kind.
    pub entries: u64,
    /// Bytes of its regular files.
    pub bytes: u64,
}

/// Id of the table of hard-link groups ([`crate::links`]), and its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinksTable {
    /// The table, stored as a file's content is.
    pub blob: BlobId,
    /// Its length.
    pub bytes: u64,
}

/// Counts of entries that capture left out; the table names each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OmissionCounts {
    /// The table ([`crate::omitted`]).
    pub table: ObjectId,
    /// Excluded by a rule.
    pub excluded: u64,
    /// Could not be read.
    pub unreadable: u64,
    /// Kept changing while it was read; what was read last is in the checkpoint.
    pub changing: u64,
    /// True if the list is a file in the folder `state`, and the table only names the folders.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_state: bool,
    /// Are in the checkpoint without some of their attributes; a file in the folder `state` lists them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub attributes: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The rules by which entries were left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rules {
    /// True if what can be proven to be regenerable was excluded.
    pub defaults: bool,
    /// Patterns, in gitignore syntax.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub patterns: Vec<String>,
    /// A folder that holds a file of one of these names was excluded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub if_present: Vec<String>,
    /// True if folders with a CACHEDIR.TAG were excluded even without `defaults`.
    #[serde(default)]
    pub caches: bool,
    /// True if other filesystems were not entered.
    #[serde(default)]
    pub one_file_system: bool,
    /// True if only listed paths were captured (`--files-from`).
    #[serde(default)]
    pub listed_only: bool,
}

/// A sealed checkpoint record: everything about a checkpoint that never changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Version of this structure.
    pub schema: u32,
    /// Id of the checkpoint, a ULID.
    pub id: Ulid,
    /// The session it belongs to.
    pub session: String,
    /// The session's run, where one is known.
    pub run: Option<String>,
    /// The run's epoch; 0 outside runs.
    pub epoch: u64,
    /// True if a newer run had taken over the session by then: it was kept, and did not become the session's head.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fenced: bool,
    /// The session's head before it; of a fenced one, the newest of its own epoch or an earlier one.
    pub parent: Option<Ulid>,
    /// Its place in the chain, from 1.
    pub depth: u64,
    /// The reason for which it was made.
    pub trigger: Trigger,
    /// The cause, in a word of the product; none in records of earlier releases. Ask [`Record::cause`].
    #[serde(default, rename = "cause", skip_serializing_if = "Option::is_none")]
    pub told_cause: Option<Cause>,
    /// Details of the reason, for people.
    pub trigger_detail: Option<String>,
    /// Message of its maker.
    pub message: Option<String>,
    /// The tree that holds the parts as folders: `workspace`, later `state`.
    pub root: TreeId,
    /// The table of hard-link groups under `workspace`, where there are any.
    pub links: Option<LinksTable>,
    /// The state of each part.
    pub parts: BTreeMap<String, Part>,
    /// The agent's state while the workspace was captured.
    pub consistency: Consistency,
    /// Time at which capture began.
    pub started_at: Timestamp,
    /// Time at which capture ended.
    pub created_at: Timestamp,
    /// Path and sums of the folder that was captured.
    pub workspace: Workspace,
    /// By which rules entries were left out.
    pub rules: Rules,
    /// Entries that were left out.
    pub omitted: Option<OmissionCounts>,
    /// The conversation at that moment, where one was captured.
    pub conversation: Option<Value>,
    /// The state of git.
    pub git: Option<Value>,
    /// Facts about the machine and the agent's settings; none where they were not captured.
    pub environment: Option<Value>,
    /// Tokens and cost; null unless reported.
    pub usage: Option<Value>,
    /// Fields of later versions, kept as they are.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// Name of the field that an imported checkpoint has.
pub(crate) const IMPORTED: &str = "imported";

/// Name of the field that says what an imported checkpoint was where it comes from.
pub(crate) const IMPORTED_FROM: &str = "imported_from";

/// Name of the field that a checkpoint has whose folder was not its session's.
pub(crate) const ANOTHER_FOLDER: &str = "another_folder";

/// Name of the field with the reading of the clock that nobody can set.
pub(crate) const UPTIME: &str = "uptime";

/// The `trigger_detail` of a checkpoint that was made before something was overwritten. It is for people: the cause decides.
pub const SAFETY: &str = "safety";

impl Record {
    /// Its cause. Of a record that an earlier release made, the one that its details tell; none where they do not.
    pub fn cause(&self) -> Option<Cause> {
        sentences::cause_of(self.told_cause, self.trigger, self.trigger_detail.as_deref(), self.message.as_deref())
    }

    /// True if it was made before something was overwritten: it holds what that replaced.
    pub fn is_safety(&self) -> bool {
        self.cause().is_some_and(Cause::is_safety)
    }

    /// True if it was made because a signal that nobody of the product sent had ended the agent.
    pub fn tells_of_signal(&self) -> bool {
        self.cause() == Some(Cause::Killed)
    }

    /// True if `latest` may name it. Nobody means a safety checkpoint who asks for the newest work, nor one of a run that was taken over from,
    /// nor one of another folder.
    pub fn may_be_latest(&self) -> bool {
        !self.fenced && !self.is_safety() && !self.is_of_another_folder()
    }

    /// True if another folder was captured, which was at the path of its session's workspace, while that was elsewhere.
    pub fn is_of_another_folder(&self) -> bool {
        self.extra.get(ANOTHER_FOLDER).is_some_and(|value| value == true)
    }

    /// The time for which the machine had run when it was made; none where that was not recorded.
    pub fn uptime(&self) -> Option<Uptime> {
        Uptime::deserialize(self.extra.get(UPTIME)?).ok()
    }

    /// True if it was made from an archive, of which nobody knows who wrote it.
    pub fn is_imported(&self) -> bool {
        self.extra.get(IMPORTED).is_some_and(|value| value == true)
    }

    /// The manifest of an imported checkpoint, in short, from where it comes. Nobody here has witnessed it.
    pub fn imported_from(&self) -> Option<&Value> {
        self.extra.get(IMPORTED_FROM).filter(|_| self.is_imported())
    }
}

/// Version of [`Record`] that this release writes, and the only one that it reads.
pub const RECORD_SCHEMA: u32 = 1;

/// The version of a sealed record, which is asked first: fields of another one may mean something else.
fn check_schema(sealed: &[u8]) -> Result<(), serde_json::Error> {
    #[derive(Deserialize)]
    struct SchemaField {
        schema: u64,
    }
    match serde_json::from_slice(sealed)? {
        SchemaField { schema } if schema == u64::from(RECORD_SCHEMA) => Ok(()),
        SchemaField { schema } => Err(de::Error::custom(format_args!("its record has the schema {schema}"))),
    }
}

/// A committed checkpoint: the sealed record, where it stands in the journal, and its exact bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct Checkpoint {
    /// Sequence of its commit; `latest` goes by this.
    pub sequence: u64,
    /// The record as this release decodes it.
    pub record: Record,
    /// Digest of the sealed bytes: the checkpoint's checksum.
    pub digest: RecordId,
    /// The record as it was sealed: JSON, byte for byte.
    pub sealed: String,
    /// The machine that made it, where that is another one. The session of its record bears the machine's name then.
    pub machine: Option<String>,
}

/// A committed checkpoint whose record this release cannot read. It exists, and nothing of it is shown but this.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// Sequence of its commit.
    pub sequence: u64,
    /// Its id, where the record tells one.
    pub id: Option<Ulid>,
    /// The reason for which it cannot be read.
    pub reason: String,
}

impl Unreadable {
    /// Says why a record cannot be read; `None` where it can.
    pub fn of(sequence: u64, sealed: &str) -> Option<Self> {
        let reason = Record::decode(sealed).err()?.to_string();
        Some(Unreadable { sequence, id: Self::told_id(sealed), reason })
    }

    /// The id that a record tells, whatever else is in it.
    pub(crate) fn told_id(stored: &str) -> Option<Ulid> {
        let (_, sealed) = origin(stored);
        #[derive(Deserialize)]
        struct IdField {
            id: Ulid,
        }
        serde_json::from_str(sealed).ok().map(|IdField { id }| id)
    }
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.id {
            Some(id) => write!(f, "checkpoint {id}")?,
            None => write!(f, "the checkpoint of journal record {}", self.sequence)?,
        }
        write!(f, " cannot be read by this release: {}; use a newer parhelia", self.reason)
    }
}

fn is_complete(omitted: Option<&OmissionCounts>, has_failed_part: bool) -> bool {
    !has_failed_part && omitted.is_none_or(|o| o.unreadable == 0 && o.changing == 0 && o.attributes == 0)
}

/// The machine that made a checkpoint, where it came from a remote, and its sealed record: the line `@MACHINE` stands before such a record in the
/// journal and in the index.
pub(crate) fn origin(stored: &str) -> (Option<&str>, &str) {
    match stored.strip_prefix('@').and_then(|told| told.split_once('\n')) {
        Some((machine, sealed)) => (Some(machine), sealed),
        None => (None, stored),
    }
}

/// A sealed record as it is stored of another machine's checkpoint.
pub(crate) fn of_machine(machine: &str, sealed: &str) -> String {
    format!("@{machine}\n{sealed}")
}

/// The name here of another machine's session: no session that is made here can have it.
pub fn session_of_machine(session: &str, machine: &str) -> String {
    format!("{session}+{}", machine.get(..8).unwrap_or(machine))
}

impl Record {
    /// Reads a record as it is stored. Fails with the JSON parser's words.
    pub fn decode(stored: &str) -> Result<Self, serde_json::Error> {
        let (machine, sealed) = origin(stored);
        check_schema(sealed.as_bytes())?;
        let mut record: Record = serde_json::from_str(sealed)?;
        if let Some(machine) = machine {
            record.session = session_of_machine(&record.session, machine);
        }
        Ok(record)
    }
}

impl Checkpoint {
    /// Reads a record as it is stored. Fails with the JSON parser's words.
    pub fn decode(sequence: u64, stored: String, ids: &Ids) -> Result<Self, serde_json::Error> {
        let record = Record::decode(&stored)?;
        let (machine, sealed) = match origin(&stored) {
            (Some(machine), sealed) => (Some(machine.to_owned()), sealed.to_owned()),
            (None, _) => (None, stored),
        };
        Ok(Checkpoint { sequence, record, digest: ids.record(sealed.as_bytes()), sealed, machine })
    }

    /// The record as it is stored.
    pub(crate) fn stored(&self) -> std::borrow::Cow<'_, str> {
        match &self.machine {
            Some(machine) => of_machine(machine, &self.sealed).into(),
            None => self.sealed.as_str().into(),
        }
    }

    /// The checkpoint's id as text.
    pub fn id(&self) -> String {
        self.record.id.to_string()
    }

    /// `blake3:` and the digest, as manifests give it.
    pub fn checksum(&self) -> String {
        format!("blake3:{}", self.digest)
    }

    /// True if everything that should be in it is.
    pub fn is_complete(&self) -> bool {
        is_complete(self.record.omitted.as_ref(), has_failed(&self.record.parts))
    }
}

#[cfg(test)]
mod tests;
