//! Notifications: what people are told of sessions, and what of it is still to be delivered.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A notification, as webhooks get it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Notification {
    /// Its id, the same each time that it is sent.
    pub id: String,
    /// Its event: session.started, session.resumed, session.completed, session.error, session.waiting, session.idle, session.left_alone, store.full, store.has_room,
    /// session.resume_failed, session.recovered, session.lost, session.handover, session.long_running, checkpoint.created,
    /// checkpoint.failed, checkpoint.needs_review, checkpoint.approved, checkpoint.rejected, escalation.triggered, budget.threshold_reached,
    /// budget.exceeded, security.secret_found, security.decision_refused, security.deletion_refused, security.act_refused, security.journal_cut, security.damage_found, test.
    pub event: String,
    /// info, notice, warning, critical.
    pub priority: String,
    /// Time of the event.
    #[schemars(extend("format" = "date-time"))]
    pub at: String,
    /// The event in a few words.
    pub title: String,
    /// Id of the session.
    pub session: Option<String>,
    /// Name of the session.
    pub session_name: Option<String>,
    /// Id of the checkpoint.
    pub checkpoint: Option<String>,
    /// Recorded status of the session.
    pub status: Option<String>,
    /// Cost of the session in US dollars, where one was reported.
    pub cost_usd: Option<f64>,
    /// Time that was worked in the session, in seconds.
    pub duration_seconds: Option<u64>,
    /// Files that changed since the last checkpoint that a person approved, or else since the session's first one.
    pub files_changed: Option<u64>,
    /// More about it.
    pub reason: Option<String>,
    /// The command to go on with.
    pub command: Option<String>,
    /// The place on the service's page, where its address is configured.
    pub link: Option<String>,
    /// Number of the same of this session that were not sent since the last one.
    pub repeated: u64,
}

/// Something that is to be delivered, or could not be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Delivery {
    /// Id by which it is retried or dropped; unique in the outbox.
    pub id: String,
    /// Name of the channel; of an act on an issue `tracker:` and the tracker, such as tracker:github.
    pub channel: String,
    /// True if it is not tried again by itself.
    pub has_failed: bool,
    /// Time since which it waits.
    pub since: Timestamp,
    /// Time before which it is not tried, by itself; its channel or what waits of its session may hold it for longer.
    pub not_before: Timestamp,
    /// Times that it was tried.
    pub attempts: u32,
    /// Reason for which the last try failed.
    pub error: Option<String>,
    /// The notification, as it is sent.
    pub notification: Notification,
    /// The act on an issue that is to be done instead of sending the notification.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub act: Option<Act>,
    /// True if its last try failed for a reason of the channel's: nothing is sent there before it is tried again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub holds_channel: bool,
    /// Process that lacked something of its own for the last try, such as a secret; another process tries at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lacking: Option<String>,
}

/// An act on an issue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Act {
    /// Id of the issue; none where one is to be created.
    pub issue: Option<String>,
    /// Its address, where there is an issue.
    pub url: Option<String>,
    /// The place of the issue: a repository of GitHub, the key of a team of Linear, the folder of a workspace with Beads.
    pub place: String,
    /// Title of an issue that is to be created.
    pub title: Option<String>,
    /// Text of the comment, or of the new issue.
    pub text: Option<String>,
    /// The state to move it to: running, review, failed, done.
    #[schemars(extend("enum" = ["running", "review", "failed", "done", null]))]
    pub state: Option<String>,
}
