//! Checkpoints.

use std::collections::BTreeMap;

use jiff::Timestamp;
use parhelia_ledger::{self as ledger, Annotation, ApprovalStatus, Issue, Marks, PossibleSecret, UnscannedCounts, Verification};
use parhelia_life::retention::{KeepReason, RemovalReason};
use parhelia_oversight::{review::tag::InUse, search};
use parhelia_store::{
    id::{TreeId, Ulid},
    omitted::{Omission as StoreOmission, Reason},
    record::{self, Cause, Outline, Part},
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, value::RawValue};

use crate::shown;

/// A sealed record of a workspace and of the session in it, with what was said of it since.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Checkpoint {
    /// ULID.
    #[schemars(with = "String")]
    pub id: Ulid,
    /// Session that it belongs to.
    pub session: String,
    /// Run of the session that made it.
    pub run: Option<String>,
    /// The run's epoch; 0 outside runs.
    pub epoch: u64,
    /// True if a newer run had taken over the session by then: it did not become the session's head.
    pub fenced: bool,
    /// Sequence of its commit in the journal.
    pub sequence: u64,
    /// Checkpoint before it.
    #[schemars(with = "Option<String>")]
    pub parent: Option<Ulid>,
    /// Place in the chain of its ancestors, from 1.
    pub depth: u64,
    /// Reason: periodic, detach, error, complete, shutdown, manual; later releases may have others.
    pub trigger: String,
    /// Cause, as a word that no caller can choose; null in checkpoints of earlier releases whose details do not tell it.
    #[schemars(extend("description" = causes()))]
    pub cause: Option<String>,
    /// More about the reason, for people.
    pub trigger_detail: Option<String>,
    /// Message of its maker.
    pub message: Option<String>,
    /// End of capture.
    pub created_at: Timestamp,
    /// Absolute path of the folder that was captured.
    pub workspace: String,
    /// Regular files in it.
    pub files: u64,
    /// Bytes of these files.
    pub bytes: u64,
    /// Id of the tree that holds everything.
    pub root: TreeId,
    /// True if everything that should be in it is.
    pub complete: bool,
    /// The agent's conversation: its id and counters.
    pub conversation: Option<Value>,
    /// Tokens and cost of the session until then, where they were reported.
    pub usage: Option<Value>,
    /// Last decision about it.
    pub approval: Option<Approval>,
    /// Last verification of it.
    pub verification: Option<Verification>,
    /// Last scan of it for secrets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scan: Option<Scan>,
    /// Tags that it bears, in order of their bytes.
    pub tags: Vec<String>,
    /// Annotations, in the order in which they were made.
    pub annotations: Vec<Annotation>,
    /// Issues that it is linked to.
    pub links: Vec<Issue>,
}

/// JSON that the record has undecoded.
fn value(json: &RawValue) -> Value {
    serde_json::from_str(json.get()).unwrap_or_default()
}

/// The description of causes.
fn causes() -> String {
    let names: Vec<String> = Cause::ALL.iter().map(|cause| cause.name().to_owned()).collect();
    format!(
        "Cause, as a word that no caller can choose: {}; later releases may have others. Null in checkpoints of earlier releases whose \
         details do not tell it.",
        names.join(", ")
    )
}

impl Checkpoint {
    /// A checkpoint with what events said of it since.
    pub fn of(checkpoint: &Outline, marks: &Marks) -> Self {
        let lacks_a_part = marks.verification.as_ref().is_some_and(|verification| !verification.incomplete.is_empty());
        Checkpoint {
            id: checkpoint.id,
            session: checkpoint.session.clone(),
            run: checkpoint.run.clone(),
            epoch: checkpoint.epoch,
            fenced: checkpoint.fenced,
            sequence: checkpoint.sequence,
            parent: checkpoint.parent,
            depth: checkpoint.depth,
            trigger: checkpoint.trigger.name().to_owned(),
            cause: checkpoint.cause().map(|cause| cause.name().to_owned()),
            trigger_detail: checkpoint.trigger_detail.clone(),
            message: checkpoint.message.clone(),
            created_at: checkpoint.created_at,
            workspace: checkpoint.workspace.path.clone(),
            files: checkpoint.workspace.files,
            bytes: checkpoint.workspace.bytes,
            root: checkpoint.root,
            complete: checkpoint.is_complete() && !lacks_a_part,
            conversation: checkpoint.conversation.as_deref().map(value),
            usage: checkpoint.usage.as_deref().map(value),
            approval: marks.approval.as_ref().map(Approval::from),
            verification: marks.verification.clone(),
            scan: marks.scan.as_ref().map(Scan::from),
            tags: marks.tags.iter().cloned().collect(),
            annotations: marks.annotations.clone(),
            links: marks.links.iter().cloned().collect(),
        }
    }
}

/// A decision about a checkpoint.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Approval {
    /// pending, approved, rejected, auto_approved.
    #[schemars(with = "String", extend("enum" = ["pending", "approved", "rejected", "auto_approved"]))]
    pub status: ApprovalStatus,
    /// Person who decided.
    pub user: Option<String>,
    /// Present, and true, if an agent decided in that person's name.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub by_agent: bool,
    /// Time of the decision.
    pub timestamp: Timestamp,
    /// Reason that was given; null without one.
    pub reason: Option<String>,
    /// Policy that decided; of a person's decision, the one that had asked for it.
    pub policy: Option<String>,
    /// Rule of the policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Digest of the rules by which the policy decided then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub definition: Option<String>,
}

impl From<&ledger::Approval> for Approval {
    fn from(approval: &ledger::Approval) -> Self {
        let ledger::Approval { status, user, by_agent, timestamp, reason, policy, rule, definition, .. } = approval.clone();
        Approval { status, user, by_agent, timestamp, reason, policy, rule, definition }
    }
}

/// A scan for secrets of what a checkpoint has and its parent does not.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Scan {
    /// Time of the scan.
    pub at: Timestamp,
    /// Number of possible secrets.
    pub found: u64,
    /// The first of them.
    pub findings: Vec<PossibleSecret>,
    /// Files that were left out because of them.
    pub left_out: u64,
    /// Secrets that a comment beside them allows.
    pub allowed: u64,
    /// Files that were scanned.
    pub files: u64,
    /// Files that were not.
    pub unscanned: UnscannedCounts,
}

impl From<&ledger::Scan> for Scan {
    fn from(scan: &ledger::Scan) -> Self {
        let ledger::Scan { at, found, findings, left_out, allowed, files, unscanned } = scan.clone();
        Scan { at, found, findings, left_out, allowed, files, unscanned }
    }
}

/// A tag in use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Tag {
    /// The tag itself, such as release/1.2.
    pub tag: String,
    /// The newest checkpoint that bears it, which `tag:` and the tag selects.
    #[schemars(with = "String")]
    pub checkpoint: Ulid,
    /// Id of the session of that checkpoint.
    pub session: String,
    /// End of its capture.
    pub created_at: Timestamp,
    /// Number of checkpoints that bear the tag.
    pub checkpoints: u64,
}

impl Tag {
    /// A tag in use, and the newest checkpoint that bears it.
    pub fn of(tag: &InUse, newest: &record::Record) -> Self {
        Tag {
            tag: tag.tag.clone(),
            checkpoint: newest.id,
            session: newest.session.clone(),
            created_at: newest.created_at,
            checkpoints: tag.checkpoints as u64,
        }
    }
}

/// An annotation and its checkpoint.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CheckpointAnnotation {
    /// ULID of the checkpoint that bears it.
    #[schemars(with = "String")]
    pub checkpoint: Ulid,
    /// Text, time and person of the remark.
    #[serde(flatten)]
    pub annotation: Annotation,
}

impl CheckpointAnnotation {
    /// An annotation of a checkpoint.
    pub fn of(checkpoint: Ulid, annotation: &Annotation) -> Self {
        CheckpointAnnotation { checkpoint, annotation: annotation.clone() }
    }
}

/// A checkpoint that a search by words has found.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SearchHit {
    /// ULID of the checkpoint that was found.
    #[schemars(with = "String")]
    pub checkpoint: Ulid,
    /// Id of the session that it belongs to.
    pub session: String,
    /// End of its capture.
    pub created_at: Timestamp,
    /// Message of its maker.
    pub message: Option<String>,
    /// Rank: the best one has the highest. Scores of two searches cannot be compared.
    pub score: f64,
    /// Places in its text that match, at most three of a field.
    pub matches: Vec<Excerpt>,
}

impl SearchHit {
    /// A checkpoint that was found.
    pub fn of(hit: &search::Hit) -> Self {
        let record = &hit.checkpoint.record;
        SearchHit {
            checkpoint: record.id,
            session: record.session.clone(),
            created_at: record.created_at,
            message: record.message.clone(),
            score: hit.score,
            matches: hit.matches.iter().map(Excerpt::of).collect(),
        }
    }
}

/// A place in a checkpoint's text that matches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Excerpt {
    /// The part of the text: tags, message, annotations, links, session, files, summary, conversation.
    #[schemars(extend("enum" = ["tags", "message", "annotations", "links", "session", "files", "summary", "conversation"]))]
    pub field: String,
    /// The place and some words around it, in one line.
    pub text: String,
    /// The words in it that match, in order.
    pub matched: Vec<String>,
}

impl Excerpt {
    fn of(found: &search::Match) -> Self {
        let matched = found.pieces.iter().filter(|piece| piece.is_match);
        Excerpt {
            field: found.field.name().to_owned(),
            text: found.pieces.iter().map(|piece| piece.text.as_str()).collect(),
            matched: matched.map(|piece| piece.text.trim().to_owned()).collect(),
        }
    }
}

/// The state of one part of a checkpoint, such as its conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PartState {
    /// captured, absent, not_asked, failed; unknown if a later release has written another.
    #[schemars(extend("enum" = ["captured", "absent", "not_asked", "failed", "unknown"]))]
    pub status: String,
    /// Reason of a failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl PartState {
    /// The states of all parts of a checkpoint, by name.
    pub fn of_all(record: &record::Record) -> BTreeMap<String, PartState> {
        record.parts.iter().map(|(name, part)| (name.clone(), PartState::from(part))).collect()
    }
}

impl From<&Part> for PartState {
    fn from(part: &Part) -> Self {
        let (status, error) = match part {
            Part::Captured => ("captured", None),
            Part::Absent => ("absent", None),
            Part::NotAsked => ("not_asked", None),
            Part::Failed { error } => ("failed", Some(error.clone())),
            Part::Unknown => ("unknown", None),
        };
        PartState { status: status.into(), error }
    }
}

/// An entry that capture left out, or has not as it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Omission {
    /// Path in the workspace.
    pub path: String,
    /// excluded, unreadable, changing, attributes (it is in the checkpoint, without some of its attributes).
    pub reason: String,
    /// The rule that excluded it, or the error.
    pub detail: Option<String>,
}

impl From<&StoreOmission> for Omission {
    fn from(omission: &StoreOmission) -> Self {
        let (reason, detail) = match &omission.reason {
            Reason::Excluded(rule) => ("excluded", Some(rule)),
            Reason::Unreadable(error) => ("unreadable", Some(error)),
            Reason::Changing => ("changing", None),
            Reason::Attributes(error) => ("attributes", Some(error)),
        };
        Omission { path: shown(&omission.path), reason: reason.into(), detail: detail.cloned() }
    }
}

/// A decision of retention about a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Retention {
    /// The checkpoint.
    pub id: String,
    /// Id of the session that it belongs to.
    pub session: String,
    /// `removed`; of a dry run `remove` or `keep`.
    pub action: String,
    /// The rule: too_old, no_rule, thinned, store_too_large; of one that is kept latest, parent, approved, tagged, linked, resumed_from,
    /// rolled_back, in_use, message, complete, error, safety, recent, calendar, young, thinned, not_periodic.
    #[schemars(with = "String")]
    pub reason: RetentionReason,
}

/// The rule of retention that decided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum RetentionReason {
    /// The rule that removes it.
    Removal(RemovalReason),
    /// The rule that keeps it.
    Keep(KeepReason),
}

impl Retention {
    fn new(action: &str, checkpoint: &record::Checkpoint, reason: RetentionReason) -> Self {
        let session = checkpoint.record.session.clone();
        Retention { id: checkpoint.id(), session, action: action.into(), reason }
    }

    /// A checkpoint that goes: `removed`, or in a dry run `remove`.
    pub fn goes(action: &str, checkpoint: &record::Checkpoint, reason: RemovalReason) -> Self {
        Self::new(action, checkpoint, RetentionReason::Removal(reason))
    }

    /// A checkpoint that stays.
    pub fn stays(checkpoint: &record::Checkpoint, reason: KeepReason) -> Self {
        Self::new("keep", checkpoint, RetentionReason::Keep(reason))
    }
}
