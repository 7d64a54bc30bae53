//! Events: facts that were appended to the journal. Deletions, tags, decisions, what became of a session and its runs. Each names the
//! hash of the event before it, so that the list of them can be checked by itself, wherever it is copied to.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use ulid::Ulid;

/// Version of [`Event`] that this release writes.
pub const EVENT_SCHEMA: u32 = 1;

/// The field of a decision's event that is true where an agent decided in a person's name.
pub const SELF_APPROVAL: &str = "self_approval";

/// The field of a link's event that is true where no person asked for it.
pub const LINK_ASKED: &str = "asked";

/// The field of a link's event that is true where the issue was created for the session.
pub const LINK_CREATED: &str = "created";

/// The kinds that this release knows how to project into sessions, runs and marks. Any other kind is kept, and listed by `log`.
pub mod kind {
    /// A session exists. Subject: its id. Data: fields of [`crate::projection::Session`].
    pub const SESSION_CREATED: &str = "session.created";
    /// Fields of a session changed. Data: those fields.
    pub const SESSION_CHANGED: &str = "session.changed";
    /// A session's status changed. Data: `status`, `reason`, and `wanted` where that is not what the status says.
    pub const SESSION_STATUS: &str = "session.status";
    /// A session's head was moved to an older checkpoint. Data: `checkpoint`.
    pub const SESSION_HEAD: &str = "session.head";
    /// A run began. Subject: its id. Data: `session` and fields of [`crate::projection::Run`]. Its epoch is above the session's.
    pub const RUN_STARTED: &str = "run.started";
    /// Fields of a run changed. Data: those fields.
    pub const RUN_CHANGED: &str = "run.changed";
    /// A run's lease was renewed. Data: fields of [`crate::projection::Lease`].
    pub const RUN_LEASE: &str = "run.lease";
    /// A run is over. Data: `exit_reason`, `end` ([`crate::projection::End`]).
    pub const RUN_ENDED: &str = "run.ended";
    /// The agent of a session died, and there is no checkpoint to go on from. Data: `reason`.
    pub const SESSION_LOST: &str = "session.lost";
    /// The agent of a session is about to be ended, as its platform ends it anyway; it is to go on elsewhere. Data: `reason`.
    pub const SESSION_HANDOVER: &str = "session.handover";
    /// A verdict on a session's agent. Data: `attention` (`state`: `waiting`, `idle`, `left_alone`, `resume_failed`, `recovered`; `why`, `run`, `since`), or null
    /// where there is none any more.
    pub const SESSION_ATTENTION: &str = "session.attention";
    /// A person answers what the agent of a session asks, by typing into its terminal. Data: `reason` (what it waited for), `keys`, `has_text`, `run`.
    pub const SESSION_ANSWERED: &str = "session.answered";
    /// A conversation belongs to a session. Subject: the conversation's id. Data: `session`, `run`, `transcript`.
    pub const CONVERSATION_SEEN: &str = "conversation.seen";
    /// A checkpoint no longer exists. Data: `reason`, and `parent`, the checkpoint that it came from.
    pub const CHECKPOINT_DELETED: &str = "checkpoint.deleted";
    /// Data: `tag`.
    pub const CHECKPOINT_TAGGED: &str = "checkpoint.tagged";
    /// Data: `tag`.
    pub const CHECKPOINT_UNTAGGED: &str = "checkpoint.untagged";
    /// Data: `text`.
    pub const CHECKPOINT_ANNOTATED: &str = "checkpoint.annotated";
    /// Data: `tracker`, `id`, `url`.
    pub const CHECKPOINT_LINKED: &str = "checkpoint.linked";
    /// Data: `url`.
    pub const CHECKPOINT_UNLINKED: &str = "checkpoint.unlinked";
    /// Somebody, or a policy, decided. Data: `status`, `reason`, `policy`, `rule`, `definition`.
    pub const CHECKPOINT_DECIDED: &str = "checkpoint.decided";
    /// A decision was asked for and refused; it changes nothing. Data: `status`, `reason`, `why`.
    pub const CHECKPOINT_DECISION_REFUSED: &str = "checkpoint.decision_refused";
    /// Somebody who may not tried to delete checkpoints. Subject: one of them, or `store`. Data: `why`, `reason`, `session` of the caller.
    pub const DELETION_REFUSED: &str = "deletion.refused";
    /// Somebody was refused who wanted to take a mark off a checkpoint.
    pub const UNMARKING_REFUSED: &str = "unmarking.refused";
    /// An agent tried to act on a session that is not its own. Subject: the session, or `store`. Data: `why`, `session`, and `by`, the caller's session.
    pub const ACT_REFUSED: &str = "act.refused";
    /// A policy of approval decides by other rules than before, or for the first time. Subject: its name. Data: `session`, `definition`, `rules`.
    pub const POLICY_CHANGED: &str = "policy.changed";
    /// Somebody switched off what protects from a mistake. Subject: the checkpoint or session. Data: `safety`.
    pub const SAFETY_OVERRIDDEN: &str = "safety.overridden";
    /// A setting did not count: a call from inside an agent, or a project's file, would have made an option of the user's less strict. Subject: the
    /// session, or `store` where there is none. Data: `session`, `run`, `why`.
    pub const SETTING_IGNORED: &str = "setting.ignored";
    /// A restore replaced what was in a folder. Subject: the checkpoint that was restored. Data: `folder`, `safety`.
    pub const WORKSPACE_OVERWRITTEN: &str = "workspace.overwritten";
    /// The journal was found to have lost its last records, and was gone on with. Subject: `journal`. Data: `records`, their number.
    pub const JOURNAL_CUT: &str = "journal.cut";
    /// A share of the store's data was read, and the rest of it looked up. Subject: `store`. Data: `percent`, `bytes_read`, `findings`, `ok`.
    pub const STORE_CHECKED: &str = "store.checked";
    /// A checkpoint was verified. Data: `level` (`new`, `index`, `part`, `deep`), `ok`, `problems`, `read_bytes`, `unread_bytes`.
    pub const CHECKPOINT_VERIFIED: &str = "checkpoint.verified";
    /// A checkpoint's new content was scanned for secrets. Data: fields of [`crate::projection::Scan`].
    pub const CHECKPOINT_SCANNED: &str = "checkpoint.scanned";
}

/// The cause of an event.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Actor {
    /// The user, where one is known.
    #[serde(default)]
    pub user: Option<String>,
    /// By which way: `cli`, `hook`, `api`, `retention`, `policy`, `service`, `tracker`.
    #[serde(default)]
    pub via: String,
    /// The number of the user, as the kernel says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// The user who logged in, as the kernel says, where that is another one: of `sudo`, who called it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub login: Option<String>,
}

impl Actor {
    /// A program that acts without being asked by a person.
    pub fn program(via: &str) -> Self {
        Actor { via: via.to_owned(), ..Actor::default() }
    }
}

/// A fact that was appended. Fields that this release does not know are kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Its id.
    pub id: Ulid,
    /// Time of recording.
    pub at: Timestamp,
    /// On which machine.
    pub host: String,
    /// Version of this structure.
    pub schema: u32,
    /// Kind of the event; see [`kind`].
    pub kind: String,
    /// The thing that it happened to, such as a checkpoint's id.
    pub subject: String,
    /// The person or program that caused it.
    pub actor: Actor,
    /// The session's epoch that its author acted in; 0 where it concerns no session.
    pub epoch: u64,
    /// A second event with the same key is not appended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// Hash of the event before it, in hex; absent in the first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<String>,
    /// Fields of its kind.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub data: Map<String, Value>,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// An event to be appended.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NewEvent {
    /// Kind of the event; see [`kind`].
    pub kind: String,
    /// The thing that it happened to.
    pub subject: String,
    /// The person or program that causes it.
    pub actor: Actor,
    /// The epoch of the run that its author belongs to; `None` outside runs, which is never out of date.
    pub epoch: Option<u64>,
    /// A second event with the same key is not appended; the first one is returned.
    pub idempotency_key: Option<String>,
    /// Fields of its kind.
    pub data: Map<String, Value>,
}

impl NewEvent {
    /// An event of a kind about a subject.
    pub fn new(kind: &str, subject: impl Into<String>, actor: Actor) -> Self {
        NewEvent { kind: kind.to_owned(), subject: subject.into(), actor, ..NewEvent::default() }
    }

    /// The same event with one more field of data.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.data.insert(name.to_owned(), value.into());
        self
    }

    /// The same event, appended at most once under this key.
    #[must_use]
    pub fn once(mut self, key: impl Into<String>) -> Self {
        self.idempotency_key = Some(key.into());
        self
    }

    /// The same event, by a run of this epoch.
    #[must_use]
    pub fn in_epoch(mut self, epoch: u64) -> Self {
        self.epoch = Some(epoch);
        self
    }
}

/// An event that is in the journal.
#[derive(Clone, Debug, PartialEq)]
pub struct Appended {
    /// The event.
    pub event: Event,
    /// True if it was there already, under the same idempotency key.
    pub existed: bool,
}

/// The name of this machine.
pub(crate) fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
