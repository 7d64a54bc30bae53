//! Events: facts that were appended to the journal. Each names the
//! hash of the event before it, so that the list of them can be checked by itself, wherever it is copied to.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use ulid::Ulid;

/// Version of [`Event`] that this release writes.
pub const EVENT_SCHEMA: u32 = 1;

/// The kinds of events that a store records of itself, or reads. Any other kind is kept, and means something to its [fold](crate::fold) alone.
pub mod kind {
    /// A checkpoint no longer exists. Data: `reason`, and `parent`, the checkpoint that it came from.
    pub const CHECKPOINT_DELETED: &str = "checkpoint.deleted";
    /// The journal was found to have lost its last records, and was gone on with. Subject: `journal`. Data: `records`, their number.
    pub const JOURNAL_CUT: &str = "journal.cut";
    /// A share of the store's data was read, and the rest of it looked up. Subject: `store`. Data: `percent`, `bytes_read`, `findings`, `ok`.
    pub const STORE_CHECKED: &str = "store.checked";
    /// A checkpoint was verified. Data: `level` (`new`, `index`, `part`, `deep`), `ok`, `problems`, `read_bytes`, `unread_bytes`.
    pub const CHECKPOINT_VERIFIED: &str = "checkpoint.verified";
}

/// The cause of an event.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(!default)]
pub struct Actor {
    /// The user, where one is known.
    pub user: Option<String>,
    /// cli, agent, hook, api, retention, policy, service, tracker.
    pub via: String,
    /// Number of the user, as the kernel says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// User who logged in, where that is another one.
    // The caller of `sudo`, for instance.
    #[serde(skip_serializing_if = "Option::is_none")]
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
    /// Id of the event, a ULID that is made when it is appended.
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
pub struct AppendOutcome {
    /// The event as the journal has it, with id, time and hash of the one before.
    pub event: Event,
    /// True if it was there already, under the same idempotency key.
    pub existed: bool,
}

/// The name of this machine.
pub(crate) fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
