//! The audit: who decided, deleted, went back or switched off a safety, when and why, taken from the journal's events, which are never removed.
//!
//! Each event names the hash of the one before it, so that a removed or changed one is found. That nobody cut off the end, or wrote all of it
//! anew, the chain cannot prove by itself: whoever has noted the hash of an event can.

use std::collections::HashMap;

use jiff::Timestamp;
use parhelia_store::{
    Store,
    event::{Actor, Event, kind},
    id::Ulid,
    journal::{Entry as JournalEntry, Journal, Position},
    record::Checkpoint,
};
use serde_json::{Map, Value};

use crate::{error::Result, intent};

/// An entry of the audit.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Its place in the journal.
    pub sequence: u64,
    /// Id of the event.
    pub id: Ulid,
    /// Time of recording.
    pub at: Timestamp,
    /// Name of the machine.
    pub host: String,
    /// The act, such as `checkpoint.approve`.
    pub action: &'static str,
    /// The checkpoint, session or policy that it was done to.
    pub subject: String,
    /// The session that it concerns.
    pub session: Option<String>,
    /// The person or program.
    pub actor: Actor,
    /// The reason that was given.
    pub reason: Option<String>,
    /// The policy.
    pub policy: Option<String>,
    /// The rule of the policy, the safety that was switched off, or why an attempt was refused.
    pub rule: Option<String>,
    /// Everything that was recorded.
    pub data: Map<String, Value>,
    /// Hash of the event.
    pub hash: String,
    /// Hash of the event before it.
    pub previous: Option<String>,
}

/// Names of all acts.
pub const ACTIONS: [&str; 11] = [
    "checkpoint.approve",
    "checkpoint.reject",
    "checkpoint.auto_approve",
    "checkpoint.request_review",
    "checkpoint.approve_refused",
    "checkpoint.reject_refused",
    "checkpoint.delete",
    "policy.change",
    "safety.override",
    "session.rollback",
    "workspace.overwrite",
];

/// The acts of policies that nobody has to look at.
pub const AUTOMATIC: &str = "checkpoint.auto_approve";

/// The act that an event records; none where it is none of the audit's.
fn action(event: &Event) -> Option<&'static str> {
    let status = event.data.get("status").and_then(Value::as_str);
    match (event.kind.as_str(), status) {
        (kind::CHECKPOINT_DECIDED, Some("approved")) => Some("checkpoint.approve"),
        (kind::CHECKPOINT_DECIDED, Some("rejected")) => Some("checkpoint.reject"),
        (kind::CHECKPOINT_DECIDED, Some("auto_approved")) => Some(AUTOMATIC),
        (kind::CHECKPOINT_DECIDED, _) => Some("checkpoint.request_review"),
        (kind::CHECKPOINT_DECISION_REFUSED, Some("approved")) => Some("checkpoint.approve_refused"),
        (kind::CHECKPOINT_DECISION_REFUSED, _) => Some("checkpoint.reject_refused"),
        (kind::CHECKPOINT_DELETED, _) => Some("checkpoint.delete"),
        (kind::POLICY_CHANGED, _) => Some("policy.change"),
        (kind::SAFETY_OVERRIDDEN, _) => Some("safety.override"),
        (kind::WORKSPACE_OVERWRITTEN, _) => Some("workspace.overwrite"),
        (kind::SESSION_CHANGED, _) if event.data.get(intent::LAST).is_some_and(|last| !last.is_null()) => {
            Some("session.rollback")
        }
        _ => None,
    }
}

impl Entry {
    fn of(sequence: u64, event: Event, hash: String, sessions: &HashMap<String, String>) -> Option<Self> {
        let action = action(&event)?;
        let text = |name: &str| event.data.get(name).and_then(Value::as_str).map(str::to_owned);
        let session = match event.kind.split_once('.') {
            Some(("session", _)) => Some(event.subject.clone()),
            _ => text("session").or_else(|| sessions.get(&event.subject).cloned()),
        };
        Some(Entry {
            sequence,
            id: event.id,
            at: event.at,
            action,
            session,
            reason: text("reason"),
            policy: text("policy").or((action == "policy.change").then(|| event.subject.clone())),
            rule: text("rule").or_else(|| text("why")).or_else(|| text("safety")),
            host: event.host,
            subject: event.subject,
            actor: event.actor,
            data: event.data,
            hash,
            previous: event.previous,
        })
    }
}

/// The entries to be listed.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Of this session alone.
    pub session: Option<String>,
    /// Acts that begin so.
    pub action: Option<String>,
    /// Recorded since then.
    pub since: Option<Timestamp>,
    /// True if what policies approved by themselves is left out.
    pub without_automatic: bool,
}

impl Filter {
    fn fits(&self, entry: &Entry) -> bool {
        self.session.as_ref().is_none_or(|session| entry.session.as_ref() == Some(session))
            && self.action.as_ref().is_none_or(|action| entry.action.starts_with(action.as_str()))
            && self.since.is_none_or(|since| entry.at >= since)
            && !(self.without_automatic && entry.action == AUTOMATIC)
    }
}

/// The entries of the audit that fit, oldest first. Reads the whole journal.
pub fn entries(store: &Store, filter: &Filter) -> Result<Vec<Entry>> {
    let mut sessions = HashMap::new();
    let mut found = Vec::new();
    for logged in Journal::of(store.layout()).read(&Position::start())?.records {
        match (logged.entry, logged.event_hash) {
            (JournalEntry::Commit { record, .. }, _) => {
                if let Ok(checkpoint) = Checkpoint::decode(logged.sequence, record, store.ids()) {
                    sessions.insert(checkpoint.id(), checkpoint.record.session.clone());
                }
            }
            (JournalEntry::Event(event), Some(hash)) => {
                found.extend(Entry::of(logged.sequence, *event, hash, &sessions).filter(|entry| filter.fits(entry)));
            }
            _ => {}
        }
    }
    Ok(found)
}

/// A break in a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Break {
    /// Place in the journal of the event that does not continue it.
    pub sequence: u64,
    /// The hash that it names.
    pub names: Option<String>,
    /// The hash of the event before it.
    pub expected: Option<String>,
}

/// The outcome of a verification.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Events that were looked at.
    pub events: u64,
    /// Entries of the audit among them.
    pub entries: u64,
    /// Time of the first event.
    pub first_at: Option<Timestamp>,
    /// Time of the last event.
    pub last_at: Option<Timestamp>,
    /// Hash of the last event: whoever notes it can tell later whether anything up to here was removed or changed.
    pub last: Option<String>,
    /// Places at which the chain is broken.
    pub breaks: Vec<Break>,
    /// Of a hash that was noted before: true if an event with it is in the chain.
    pub found_noted: Option<bool>,
    /// Records that the journal is known to have lost at its end.
    pub lost: u64,
}

impl Verified {
    /// True if nothing was removed or changed inside the chain, and what was noted is in it.
    pub fn is_ok(&self) -> bool {
        self.breaks.is_empty() && self.lost == 0 && self.found_noted != Some(false)
    }
}

/// Verifies the chain of all events. Damage of the journal itself is an error. `noted` is the hash of an event, or its beginning.
pub fn verify(store: &Store, noted: Option<&str>) -> Result<Verified> {
    let tail = Journal::of(store.layout()).read(&Position::start())?;
    let mut verified = Verified { found_noted: noted.map(|_| false), lost: tail.missing, ..Verified::default() };
    let mut has_begun = false;
    for logged in tail.records {
        let Some(hash) = logged.event_hash else { continue };
        let previous = match &logged.entry {
            JournalEntry::Event(event) => {
                verified.entries += u64::from(action(event).is_some());
                verified.first_at = verified.first_at.or(Some(event.at));
                verified.last_at = Some(event.at);
                event.previous.clone()
            }
            JournalEntry::Unknown(value) => value.get("previous").and_then(Value::as_str).map(str::to_owned),
            _ => None,
        };
        verified.events += 1;
        // Events of the first releases name none.
        has_begun |= previous.is_some();
        if has_begun && previous != verified.last {
            verified.breaks.push(Break { sequence: logged.sequence, names: previous, expected: verified.last.clone() });
        }
        if noted.is_some_and(|noted| hash.starts_with(noted)) {
            verified.found_noted = Some(true);
        }
        verified.last = Some(hash);
    }
    Ok(verified)
}
