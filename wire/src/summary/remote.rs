//! The outcomes of verbs of `remote`.

use jiff::Timestamp;
use parhelia_store::exchange::TakenIn;
use schemars::JsonSchema;
use serde::Serialize;

/// The outcome of `remote add`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct JoinedRemote {
    /// URL of the bucket.
    pub url: String,
    /// Id of the store in it.
    pub bucket: String,
    /// True if it is encrypted.
    pub encrypted: bool,
    /// Name of this machine's slot, where it is encrypted.
    pub slot: Option<String>,
    /// True if it was made.
    pub made: bool,
    /// Of a new encrypted bucket, the phrase that opens it when everything else is lost. It is kept nowhere.
    pub recovery_phrase: Option<String>,
}

/// The outcome of `remote status`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RemoteStatus {
    /// URL of the bucket.
    pub url: String,
    /// Id of the store in it.
    pub bucket: String,
    /// True if it is encrypted.
    pub encrypted: bool,
    /// This machine's id in it; null before its first push.
    pub machine: Option<String>,
    /// Checkpoints that it does not have yet.
    pub waiting_checkpoints: u64,
    /// Events that it does not have yet.
    pub waiting_events: u64,
    /// Time of the oldest of them.
    pub oldest_waiting_at: Option<Timestamp>,
    /// True if no answer came to the last write, so that nobody knows whether it took effect.
    pub is_not_known: bool,
    /// Time of the last push.
    pub last_push_at: Option<Timestamp>,
    /// The reason for which it failed.
    pub last_push_error: Option<String>,
    /// Since when pushes have failed.
    pub failing_since: Option<Timestamp>,
    /// Checkpoints that were sent without parts which are damaged in the local store.
    pub damaged: Vec<String>,
}

/// A machine that writes to a remote.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RemoteMachine {
    /// Its id in the bucket, 32 hex digits.
    pub id: String,
    /// Its name, as its newest event says.
    pub host: Option<String>,
    /// Checkpoints that it has made and that exist.
    pub checkpoints: u64,
    /// Segments of its chain.
    pub segments: u64,
    /// Time of its newest event.
    pub last_at: Option<Timestamp>,
    /// True if it is this one.
    pub is_this: bool,
}

/// The outcome of `remote push`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PushOutcome {
    /// Packs that were uploaded.
    pub packs: u64,
    /// Segments that were written.
    pub segments: u64,
    /// Checkpoints that were sent without parts which are damaged in the local store.
    pub damaged: Vec<String>,
}

/// The outcome of `remote clone`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CloneOutcome {
    /// Path of the store's folder.
    pub store: String,
    /// Numbers of what was taken in.
    #[serde(flatten)]
    pub fetched: TakenIn,
}

/// The outcome of `remote gc`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RemoteCollection {
    /// Packs that this round condemned.
    pub condemned_packs: u64,
    /// Packs of condemnations that turned out to be needed.
    pub kept_packs: u64,
    /// Packs that were deleted.
    pub deleted_packs: u64,
    /// Their length, in bytes.
    pub deleted_bytes: u64,
}

/// A slot that opens an encrypted remote.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct KeySlot {
    /// Its name.
    pub name: String,
    /// passphrase, key (of a machine) or recovery phrase.
    pub kind: String,
    /// True if it is this machine's.
    pub is_this: bool,
}
