//! Summaries of verbs that make, compare or bring back checkpoints.

use std::collections::BTreeMap;

use jiff::Timestamp;
use parhelia_host::safety::Safety;
use parhelia_life::{
    overwrite::LiveAgent,
    rollback::{self, ConversationEffect, Look, Preview, RollbackOutcome},
};
use parhelia_store::{
    check::{self, Lack, VerifyLevel, VerifyReport},
    diff::Summary as Changes,
    id::Ulid,
    name::NameExt as _,
    record,
    restore::{Counts, SkippedEntry, SplitHardLink},
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    checkpoint::{Checkpoint, PartState, Scan},
    shown,
};

/// The outcome of `checkpoint create`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct CreateOutcome {
    /// The checkpoint: of one that was skipped, the unchanged one before it; null of a dry run.
    pub id: Option<String>,
    /// True if nothing was done.
    pub dry_run: bool,
    /// Id of the session that it belongs to.
    pub session: String,
    /// Absolute path of the folder.
    pub workspace: String,
    /// True if nothing had changed, so that no checkpoint was made.
    pub skipped: bool,
    /// Checkpoint before it; of a dry run the one that it compares with.
    pub parent: Option<String>,
    /// Regular files in the folder.
    pub files: u64,
    /// Entries of every kind.
    pub entries: u64,
    /// Bytes of the files.
    pub bytes: u64,
    /// Entries that a rule excluded.
    pub excluded: u64,
    /// Entries that could not be read.
    pub unreadable: u64,
    /// Entries that kept changing while they were read.
    pub changing: u64,
    /// Entries that are stored without some of their extended attributes, which could not be read.
    pub attributes: u64,
    /// The rest, of a checkpoint.
    #[serde(flatten)]
    pub made: Option<NewCheckpoint>,
    /// Changes since the parent, of a dry run.
    #[serde(flatten)]
    pub changes: Option<Changes>,
}

/// A checkpoint that was made.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct NewCheckpoint {
    /// Place in the chain of its ancestors, from 1.
    pub depth: u64,
    /// Epoch of the run; 0 outside runs.
    pub epoch: u64,
    /// True if a newer run had taken over the session.
    pub fenced: bool,
    /// Id of the tree that holds everything.
    pub root: String,
    /// `blake3:` and the digest of the sealed record.
    pub checksum: String,
    /// Files that were read.
    pub files_read: u64,
    /// Number of bytes that were read of these files.
    pub bytes_read: u64,
    /// Bytes of content that the store did not have.
    pub new_bytes: u64,
    /// Bytes by which the packs grew.
    pub stored_bytes: u64,
    /// State of each part, such as `conversation`.
    pub parts: BTreeMap<String, PartState>,
    /// True if everything that should be in it is.
    pub complete: bool,
    /// Outcome of the verification; null if there was none.
    pub verified: Option<bool>,
    /// Scan of what is new for secrets; null if there was none.
    pub scan: Option<Scan>,
    /// Checkpoints that retention removed.
    pub removed: u64,
    /// Milliseconds for which the store was locked.
    pub lock_held_ms: u64,
    /// Milliseconds from beginning to end.
    pub duration_ms: u64,
}

/// The outcome of `checkpoint diff`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Diff {
    /// The older checkpoint.
    pub old: String,
    /// The newer checkpoint; null for a folder.
    pub new: Option<String>,
    /// The folder.
    pub workspace: Option<String>,
    /// Numbers.
    #[serde(flatten)]
    pub changes: Changes,
}

/// The comparison of conversations (`--conversation`).
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct ConversationDiff {
    /// The older checkpoint.
    pub old: String,
    /// The newer checkpoint.
    pub new: String,
    /// Messages that are shown.
    pub messages: u64,
    /// Number of prompts of the user among these messages.
    pub turns: u64,
    /// True if the newer conversation goes on from the older one.
    pub continues: bool,
    /// Bytes of the transcript that were read.
    pub bytes: u64,
}

/// The outcome of `checkpoint restore`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RestoreOutcome {
    /// The checkpoint.
    pub id: String,
    /// True if nothing was done.
    pub dry_run: bool,
    /// Folder that is written to.
    pub target: String,
    /// True if an existing folder is changed.
    pub in_place: bool,
    /// Numbers.
    #[serde(flatten)]
    pub counts: Counts,
    /// Entries that could not be restored as they were.
    pub skipped: u64,
    /// True if what was written was read again; null of a dry run.
    pub verified: Option<bool>,
    /// First of the safety checkpoints.
    pub safety: Option<String>,
    /// Safety checkpoints that were made first.
    pub safeties: Vec<Safety>,
    /// Agents that are alive in the folder.
    pub live_agents: Vec<LiveAgent>,
    /// Entries that are overwritten and that no safety checkpoint has.
    pub unsecured: u64,
    /// Entries that belong to the caller instead of their owner.
    pub foreign_owners: u64,
    /// Hard-linked files that were restored without some of their names.
    pub parted: Vec<SplitHardLink>,
    /// All the names of these that lie outside of what was restored.
    pub links_outside: Vec<String>,
}

/// The outcome of `checkpoint rollback` and `checkpoint undo`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct RolledBack {
    /// Checkpoint that the folder goes back to.
    pub target: String,
    /// True if it was only shown.
    pub dry_run: bool,
    /// True if something was done.
    pub changed: bool,
    /// The session; null if it was called off.
    pub session: Option<String>,
    /// Safety checkpoint that was made first.
    pub safety: Option<String>,
    /// Entry of git's stash.
    pub stash: Option<Stash>,
    /// Paths that are changed.
    pub changes: u64,
    /// Files that were written.
    pub files: Option<u64>,
    /// Entries that went.
    pub deleted: Option<u64>,
    /// True if the conversation goes back as well.
    pub with_conversation: bool,
    /// The conversation's way back, of a dry run.
    pub conversation: Option<ConversationEffect>,
    /// Sentences that the user should know.
    pub notices: Vec<String>,
    /// Files that were kept aside of the conversation.
    pub moved: Vec<String>,
    /// Paths that stay as they are, because the safety checkpoint does not have them.
    pub spared: Vec<String>,
    /// Entries that stay, because they cannot be put back, hold what is left alone, or are mounts, or because that was asked for.
    pub left: Vec<SkippedEntry>,
    /// Command that lets the agent go on.
    pub next: Option<String>,
    /// A sentence about a process that has the conversation open.
    pub open_in: Option<String>,
}

impl RolledBack {
    /// A rollback that is only shown, with sentences that the user should know.
    pub fn of_preview(target: &record::Checkpoint, look: &Look, preview: &Preview, notices: Vec<String>) -> Self {
        RolledBack {
            target: target.id(),
            dry_run: true,
            session: Some(look.session.id.clone()),
            changes: preview.changes.len() as u64,
            with_conversation: look.conversation.is_some(),
            conversation: preview.spoken.clone(),
            notices,
            spared: preview.spared.iter().map(|path| shown(path)).collect(),
            left: preview.left.clone(),
            ..RolledBack::default()
        }
    }

    /// A rollback that was done.
    pub fn of(rolled: &RollbackOutcome) -> Self {
        let RollbackOutcome { session, done, spared, left, .. } = rolled;
        RolledBack {
            target: done.target.to_string(),
            changed: true,
            session: Some(session.id.clone()),
            safety: Some(done.safety.to_string()),
            stash: Stash::of(&done.stash),
            changes: done.changes.len() as u64,
            files: Some(done.report.counts.files),
            deleted: Some(done.report.counts.deleted),
            with_conversation: done.with_conversation,
            moved: done.moved.iter().map(|path| path.shown()).collect(),
            spared: spared.iter().flatten().map(|path| shown(path)).collect(),
            left: left.clone(),
            ..RolledBack::default()
        }
    }
}

/// An entry of git's stash.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Stash {
    /// Id of the stash entry's commit, in full; null where there is none.
    pub commit: Option<String>,
    /// Its name.
    #[serde(rename = "ref")]
    pub reference: Option<String>,
    /// Reason for which there is none.
    pub error: Option<String>,
}

impl Stash {
    /// The stash of a rollback; none where there was nothing to stash.
    pub fn of(stash: &rollback::Stash) -> Option<Self> {
        match stash {
            rollback::Stash::Made(commit) => {
                Some(Stash { commit: Some(commit.clone()), reference: Some("stash@{0}".into()), error: None })
            }
            rollback::Stash::Nothing => None,
            rollback::Stash::Not(reason) => Some(Stash { error: Some(reason.clone()), ..Stash::default() }),
        }
    }
}

/// The outcome of `checkpoint verify`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct VerifyOutcome {
    /// The checkpoint.
    #[schemars(with = "String")]
    pub id: Ulid,
    /// True if nothing is damaged.
    pub ok: bool,
    /// True if every part that should be there is.
    pub complete: bool,
    /// Parts that are not.
    pub incomplete: Vec<Lack>,
    /// index, part, deep.
    #[schemars(with = "String")]
    pub level: VerifyLevel,
    /// True if every byte was read.
    pub deep: bool,
    /// `blake3:` and the digest of the sealed record.
    pub checksum: String,
    /// Regular files in its workspace.
    pub files: u64,
    /// Length of these files in bytes, holes included.
    pub bytes: u64,
    /// Tree nodes that were read.
    pub trees: u64,
    /// Bytes of different content that were read and hashed.
    pub read_bytes: u64,
    /// Bytes of different content that were not: it was only looked up, or is damaged or out of reach.
    pub unread_bytes: u64,
    /// Paths that are damaged.
    pub problems: u64,
}

impl From<&VerifyReport> for VerifyOutcome {
    fn from(report: &VerifyReport) -> Self {
        VerifyOutcome {
            id: report.checkpoint,
            ok: report.is_ok(),
            complete: report.is_complete(),
            incomplete: report.lacks.clone(),
            level: report.level,
            deep: report.level == VerifyLevel::Deep,
            checksum: report.checksum.clone(),
            files: report.files,
            bytes: report.bytes,
            trees: report.trees,
            read_bytes: report.read_bytes,
            unread_bytes: report.unread_bytes,
            problems: report.problems.len() as u64 + report.problems_more,
        }
    }
}

/// A check of the whole store that read data.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LastCheck {
    /// Its time.
    pub at: Timestamp,
    /// The share of the data that it read, in percent.
    pub percent: u8,
    /// Stored bytes that it read and hashed.
    pub bytes_read: u64,
    /// Problems that were found last: by it, by a check since that read no data, or by a verification.
    pub findings: u64,
    /// All data that the store had at this time have been read since; null until as much was read.
    #[schemars(with = "Option<String>")]
    pub all_read_since: Option<Timestamp>,
}

impl From<&check::LastCheck> for LastCheck {
    fn from(last: &check::LastCheck) -> Self {
        LastCheck {
            at: last.at,
            percent: last.percent,
            bytes_read: last.bytes_read,
            findings: last.findings,
            all_read_since: last.all_read_since,
        }
    }
}

/// The outcome of `status`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Status {
    /// The folder.
    pub workspace: String,
    /// Sessions that work in it.
    pub sessions: Vec<String>,
    /// Checkpoint at which it stands: its last one, or the one that was gone back to since.
    pub checkpoint: Option<Checkpoint>,
    /// Newer checkpoint, which was left by going back; null if there is none.
    pub newer: Option<String>,
    /// Sentences that the user should know.
    pub warnings: Vec<String>,
    /// The last check of the store that read data; null if there was none.
    pub checked: Option<LastCheck>,
    /// True if it could be compared with that.
    pub compared: bool,
    /// Numbers of changes since that checkpoint; all 0 where it could not be compared.
    #[serde(flatten)]
    pub changes: Changes,
}
