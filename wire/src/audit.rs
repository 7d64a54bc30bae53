//! The audit.

use std::collections::BTreeMap;

use parhelia_oversight::review::audit;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::show::{Show, mirror};

/// An entry of the audit: an act, by whom, when and why.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Entry {
    /// Its place in the journal.
    pub sequence: u64,
    /// Id of the event.
    pub id: String,
    /// Time of recording.
    #[schemars(extend("format" = "date-time"))]
    pub at: String,
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
            id: entry.id.show(),
            at: entry.at.show(),
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

mirror! {
    /// A place at which the chain of events is broken.
    pub struct ChainBreak of audit::Break {
        /// Place in the journal of the event that does not continue it.
        pub sequence: u64,
        /// Hash that it names.
        pub names: Option<String>,
        /// Hash of the event before it.
        pub expected: Option<String>,
    }

    /// The outcome of `audit verify`.
    pub struct AuditReport of audit::AuditReport {
        /// Events that were looked at.
        pub events: u64,
        /// Entries of the audit among them.
        pub entries: u64,
        /// Time of the first event.
        #[schemars(extend("format" = "date-time"))]
        pub first_at: Option<String>,
        /// Time of the last event.
        #[schemars(extend("format" = "date-time"))]
        pub last_at: Option<String>,
        /// Hash of the last event.
        pub last: Option<String>,
        /// Places at which the chain is broken.
        pub breaks: Vec<ChainBreak>,
        /// Of a hash that was given: true if an event with it is in the chain.
        pub found_noted: Option<bool>,
        /// Records that the journal is known to have lost at its end.
        pub lost: u64,
        /// Records that were lost at some time before.
        pub lost_before: u64,
        /// Decisions about checkpoints whose records are others by now.
        pub exchanged: Vec<ReplacedCheckpoint>,
        /// Events with an earlier time than the one before.
        pub times_back: u64,
        /// Signatures of persons' decisions.
        pub signatures: Signatures,
    }

    /// A decision about a checkpoint whose record is another one by now.
    pub struct ReplacedCheckpoint of audit::ReplacedCheckpoint {
        /// Place in the journal of the decision.
        pub sequence: u64,
        /// ULID of the checkpoint that was decided about.
        pub checkpoint: String,
    }

    /// Signatures of persons' decisions.
    pub struct Signatures of audit::Signatures {
        /// Decisions with a signature that holds, by the principal whose key it is.
        pub good: BTreeMap<String, u64>,
        /// Signatures that do not hold.
        pub bad: Vec<BadSignature>,
        /// Decisions without one.
        pub unsigned: u64,
        /// Signatures that were not checked.
        pub unchecked: u64,
        /// The reason, if that is not that `approval.allowed_signers` is not set.
        pub unchecked_why: Option<String>,
    }

    /// A signature that does not hold.
    pub struct BadSignature of audit::BadSignature {
        /// Place in the journal of the decision.
        pub sequence: u64,
        /// ULID of the checkpoint that was decided about.
        pub checkpoint: String,
        /// The reason.
        pub why: String,
    }
}
