//! The audit.

use jiff::Timestamp;
use parhelia_oversight::review::audit;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

/// An entry of the audit: an act, by whom, when and why.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Entry {
    /// Its place in the journal.
    pub sequence: u64,
    /// Id of the event.
    pub id: String,
    /// Time of recording.
    pub at: Timestamp,
    /// Name of the machine.
    pub host: String,
    /// The act.
    #[schemars(extend("description" = format!("The act: {}.", audit::ACTIONS.join(", "))))]
    pub action: String,
    /// The checkpoint, session or policy that it was done to.
    pub subject: String,
    /// Session that it concerns.
    pub session: Option<String>,
    /// The user; null of a program.
    pub user: Option<String>,
    /// Number of the user, as the kernel says.
    pub uid: Option<u32>,
    /// User who logged in, where that is another one.
    pub login: Option<String>,
    /// cli, agent, hook, retention, policy.
    pub via: String,
    /// Reason that was given.
    pub reason: Option<String>,
    /// Name of the policy of approval that the act involves; null of other acts.
    pub policy: Option<String>,
    /// Rule of the policy, the safety that was switched off, the mark that was removed, or why an attempt was refused.
    pub rule: Option<String>,
    /// Everything that was recorded.
    pub data: Map<String, Value>,
    /// Hash of the event, in hex.
    pub hash: String,
    /// Hash of the event before it.
    pub previous: Option<String>,
}

impl From<&audit::Entry> for Entry {
    fn from(entry: &audit::Entry) -> Self {
        Entry {
            sequence: entry.sequence,
            id: entry.id.to_string(),
            at: entry.at,
            host: entry.host.clone(),
            action: entry.action.to_owned(),
            subject: entry.subject.clone(),
            session: entry.session.clone(),
            user: entry.actor.user.clone(),
            uid: entry.actor.uid,
            login: entry.actor.login.clone(),
            via: entry.actor.via.clone(),
            reason: entry.reason.clone(),
            policy: entry.policy.clone(),
            rule: entry.rule.clone(),
            data: entry.data.clone(),
            hash: entry.hash.clone(),
            previous: entry.previous.clone(),
        }
    }
}
