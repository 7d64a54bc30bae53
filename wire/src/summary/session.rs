//! Summaries of verbs about sessions.

use std::collections::BTreeMap;

use jiff::Timestamp;
use parhelia_agent::trouble::Trouble;
use schemars::JsonSchema;
use serde::Serialize;

use crate::checkpoint::Approval;

/// The end of an agent that this process has started; in tmux its start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RunOutcome {
    /// The session.
    pub id: String,
    /// ULID of the run; null where none was begun.
    pub run: Option<String>,
    /// Exit code of the agent; null if it goes on, in tmux or in another process.
    pub exit_code: Option<i32>,
    /// True if it goes on.
    pub alive: bool,
    /// Process of one that goes on already.
    pub process: Option<i32>,
    /// Reason for which it waits for somebody, in tmux.
    #[schemars(with = "Option<String>")]
    pub waits: Option<Trouble>,
}

impl RunOutcome {
    /// An agent that was started in tmux, and the reason for which it waits for somebody.
    pub fn in_tmux(id: String, run: String, alive: bool, waits: Option<Trouble>) -> Self {
        RunOutcome { id, run: Some(run), alive, waits, ..RunOutcome::default() }
    }
}

/// The outcome of `session approve` and `session reject`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Decision {
    /// The checkpoint.
    pub id: String,
    /// Id of the session that it belongs to.
    pub session: String,
    /// The decision that holds.
    pub approval: Approval,
    /// The decision before it.
    pub before: Option<Approval>,
    /// False if somebody had decided the same, so that nothing was recorded.
    pub recorded: bool,
    /// Of a rejection the newest checkpoint behind it that counts as good.
    pub previous_approved: Option<String>,
    /// Of a rejection the number of newer checkpoints of the session that build on it, and wait for a review now.
    pub builds_on_it: u64,
}

/// The outcome of `session resume --all`: sessions by their fate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ResumedAll {
    /// Sessions that go on.
    pub resumed: Vec<String>,
    /// Sessions that could not be resumed.
    pub failed: Vec<NotResumed>,
    /// Sessions that were left alone.
    pub left: Vec<String>,
    /// Sessions that another machine or container may have.
    pub elsewhere: Vec<RemoteSession>,
}

/// A session that could not be resumed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct NotResumed {
    /// The session.
    pub id: String,
    /// The failure; none where the process that was to resume it was killed.
    pub error: Option<String>,
}

/// A session that another machine or container may have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RemoteSession {
    /// The session.
    pub id: String,
    /// The machine or container.
    pub host: String,
    /// Time until which it is waited for.
    pub until: Timestamp,
}

/// The outcome of `session pause` and `session end`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SetAside {
    /// The session.
    pub id: String,
    /// paused, ended.
    pub status: String,
    /// Last checkpoint that was made.
    pub checkpoint: Option<String>,
    /// True if the agent is alive all the same.
    pub alive: bool,
    /// A sentence about a process that has the conversation open.
    pub open_in: Option<String>,
    /// Sentences about what failed.
    pub failed: Vec<String>,
}

/// The outcome of `session label`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LabelOutcome {
    /// The session.
    pub id: String,
    /// False if nothing was recorded.
    pub changed: bool,
    /// Its labels: a value for each key.
    pub labels: BTreeMap<String, String>,
}

/// The outcome of `session prompt`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PromptOutcome {
    /// The session.
    pub id: String,
}

/// The outcome of `session prune`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PruneOutcome {
    /// True if nothing was done.
    pub dry_run: bool,
    /// Checkpoints that went, or would go.
    pub removed: u64,
    /// Of these, checkpoints that go only because of the store's size: all other rules keep them.
    pub overruled: u64,
    /// Checkpoints that stay.
    pub kept: u64,
    /// Of these, checkpoints that stay even in a store that is too large.
    pub protected: u64,
    /// Bytes that were freed; of a dry run an estimate.
    pub freed_bytes: u64,
    /// Bytes of the store, before a dry run and after another one.
    pub store_bytes: u64,
    /// Bytes that it may have; 0 for any number.
    pub max_store_bytes: u64,
    /// Bytes over that which stay.
    pub excess_bytes: u64,
    /// Reason for which no more was removed.
    pub failed: Option<String>,
}
