//! The audit: who decided, deleted, went back or switched off a safety, when and why, taken from the journal's events, which are never removed.
//!
//! Each event names the hash of the one before it, so that a removed or changed one is found. That nobody cut off the end, or wrote all of it
//! anew, the chain cannot prove by itself: whoever has noted the hash of an event can.

mod chain;

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    path::Path,
};

use jiff::Timestamp;
use parhelia_ledger::kind;
use parhelia_store::{
    Store,
    event::{Actor, Event},
    id::Ulid,
    journal::{Entry as JournalEntry, Journal, Position, Raw},
    record::Checkpoint,
};
use serde_json::{Map, Value};

use self::chain::Chain;
use super::signature::{Fault, Signature};
use parhelia_host::{
    Result,
    error::IoContext,
    events::{self, Sessions},
    intent,
};
use schemars::JsonSchema;
use serde::Serialize;

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
    /// Name of the policy of approval that the act involves; none of other acts.
    pub policy: Option<String>,
    /// The rule of the policy, the safety that was switched off, the mark that was removed, or why an attempt was refused.
    pub rule: Option<String>,
    /// Everything that was recorded.
    pub data: Map<String, Value>,
    /// Hash of the event.
    pub hash: String,
    /// Hash of the event before it.
    pub previous: Option<String>,
}

/// Names of all acts.
pub const ACTIONS: [&str; 21] = [
    "checkpoint.approve",
    "checkpoint.reject",
    "checkpoint.auto_approve",
    "checkpoint.request_review",
    "checkpoint.decide",
    "checkpoint.approve_refused",
    "checkpoint.reject_refused",
    "checkpoint.delete",
    "checkpoint.delete_refused",
    "checkpoint.untag",
    "checkpoint.unlink",
    "checkpoint.untag_refused",
    "checkpoint.unlink_refused",
    "journal.cut",
    "policy.change",
    "safety.override",
    "session.act_refused",
    "session.answer",
    "session.rollback",
    "setting.ignore",
    "workspace.overwrite",
];

/// The acts of policies that nobody has to look at.
pub const AUTOMATIC: &str = "checkpoint.auto_approve";

/// Kinds of events that may record an act.
const KINDS: [&str; 15] = [
    kind::ACT_REFUSED,
    kind::CHECKPOINT_DECIDED,
    kind::CHECKPOINT_DECISION_REFUSED,
    kind::CHECKPOINT_DELETED,
    kind::DELETION_REFUSED,
    kind::CHECKPOINT_UNTAGGED,
    kind::CHECKPOINT_UNLINKED,
    kind::UNMARKING_REFUSED,
    kind::JOURNAL_CUT,
    kind::POLICY_CHANGED,
    kind::SAFETY_OVERRIDDEN,
    kind::SETTING_IGNORED,
    kind::WORKSPACE_OVERWRITTEN,
    kind::SESSION_ANSWERED,
    kind::SESSION_CHANGED,
];

/// The act that an event records; none where it is none of the audit's.
fn action(event: &Event) -> Option<&'static str> {
    // An act of no other kind would ever be shown.
    if !KINDS.contains(&event.kind.as_str()) {
        return None;
    }
    let status = event.data.get("status").and_then(Value::as_str);
    match (event.kind.as_str(), status) {
        (kind::CHECKPOINT_DECIDED, Some("approved")) => Some("checkpoint.approve"),
        (kind::CHECKPOINT_DECIDED, Some("rejected")) => Some("checkpoint.reject"),
        (kind::CHECKPOINT_DECIDED, Some("auto_approved")) => Some(AUTOMATIC),
        (kind::CHECKPOINT_DECIDED, Some("pending")) => Some("checkpoint.request_review"),
        // Of a later release.
        (kind::CHECKPOINT_DECIDED, _) => Some("checkpoint.decide"),
        (kind::CHECKPOINT_DECISION_REFUSED, Some("approved")) => Some("checkpoint.approve_refused"),
        (kind::CHECKPOINT_DECISION_REFUSED, _) => Some("checkpoint.reject_refused"),
        (kind::CHECKPOINT_DELETED, _) => Some("checkpoint.delete"),
        (kind::ACT_REFUSED, _) => Some("session.act_refused"),
        (kind::DELETION_REFUSED, _) => Some("checkpoint.delete_refused"),
        // Retention removes what nobody marks any more.
        (kind::CHECKPOINT_UNTAGGED, _) => Some("checkpoint.untag"),
        (kind::CHECKPOINT_UNLINKED, _) => Some("checkpoint.unlink"),
        (kind::UNMARKING_REFUSED, _) if event.data.contains_key("tag") => Some("checkpoint.untag_refused"),
        (kind::UNMARKING_REFUSED, _) => Some("checkpoint.unlink_refused"),
        (kind::JOURNAL_CUT, _) => Some("journal.cut"),
        (kind::POLICY_CHANGED, _) => Some("policy.change"),
        (kind::SAFETY_OVERRIDDEN, _) => Some("safety.override"),
        (kind::SETTING_IGNORED, _) => Some("setting.ignore"),
        (kind::SESSION_ANSWERED, _) => Some("session.answer"),
        (kind::WORKSPACE_OVERWRITTEN, _) => Some("workspace.overwrite"),
        (kind::SESSION_CHANGED, _) if event.data.get(intent::LAST).is_some_and(|last| !last.is_null()) => {
            Some("session.rollback")
        }
        _ => None,
    }
}

impl Entry {
    fn of(sequence: u64, event: Event, hash: String, action: &'static str, session: Option<String>) -> Self {
        let text = |name: &str| event.data.get(name).and_then(Value::as_str).map(str::to_owned);
        Entry {
            sequence,
            id: event.id,
            at: event.at,
            action,
            session,
            reason: text("reason"),
            policy: text("policy").or((action == "policy.change").then(|| event.subject.clone())),
            rule: ["rule", "why", "safety", "tag", "url"].into_iter().find_map(text),
            host: event.host,
            subject: event.subject,
            actor: event.actor,
            data: event.data,
            hash,
            previous: event.previous,
        }
    }
}

/// The entries to be listed.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Of this session alone.
    pub session: Option<String>,
    /// Acts that begin so.
    pub action: Option<String>,
    /// Recorded at this time or later.
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

/// The entries of the audit that fit, oldest first; of a number that are wanted, the last. They are read from the journal, not from the index,
/// which could be made anew without one of them.
pub fn entries(store: &Store, filter: &Filter, wanted: Option<usize>) -> Result<Vec<Entry>> {
    let view = store.view();
    events::last(store, 0, wanted, |after| {
        let mut sessions = Sessions::new(store, &view, after);
        let (mut records, mut found) = (Vec::new(), Vec::new());
        Journal::of(store.layout()).look_after(after, |raw| {
            if raw.event().is_none_or(|head| KINDS.contains(&head.kind.as_ref())) {
                records.push(raw.decode()?);
            }
            Ok(())
        })?;
        for logged in records {
            match (logged.entry, logged.event_hash) {
                (JournalEntry::Commit { record, .. }, _) => sessions.committed(logged.sequence, record),
                (entry @ (JournalEntry::Event(_) | JournalEntry::RemoteEvent { .. }), hash) => {
                    let hash = hash.or_else(|| entry.remote_hash(store.ids()));
                    let (Some((event, _)), Some(hash)) = (entry.any_event(), hash) else { continue };
                    let event = event.into_owned();
                    let Some(action) = action(&event) else { continue };
                    let session = sessions.of(&event)?;
                    found.push(Entry::of(logged.sequence, event, hash, action, session));
                }
                _ => {}
            }
        }
        found.retain(|entry| filter.fits(entry));
        Ok(found)
    })
}

/// A place at which the chain of events is broken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "ChainBreak")]
pub struct Break {
    /// Place in the journal of the event that does not continue it.
    pub sequence: u64,
    /// Hash that it names.
    pub names: Option<String>,
    /// Hash of the event before it.
    pub expected: Option<String>,
}

/// A signature that does not hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct BadSignature {
    /// Place in the journal of the decision.
    pub sequence: u64,
    /// ULID of the checkpoint that was decided about.
    pub checkpoint: String,
    /// The reason.
    pub why: String,
}

/// Signatures of persons' decisions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Signatures {
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

impl Signatures {
    fn count(&mut self, sequence: u64, event: &Event, seen: &mut Evidence<'_>) {
        if event.kind != kind::CHECKPOINT_DECIDED || event.actor.user.is_none() {
            return;
        }
        let signer = match (Signature::of(&event.data), seen.allowed) {
            (None, _) => return self.unsigned += 1,
            (Some(_), None) => return self.unchecked += 1,
            (Some(Err(why)), _) => Err(Fault::Bad(why)),
            (Some(Ok(signature)), Some(allowed)) => match seen.records.get(&event.subject) {
                None => Err(Fault::Bad("its checkpoint is not in the journal".into())),
                Some(record) => signature.signer(event, &seen.store, record, allowed, &mut seen.statements),
            },
        };
        match signer {
            Ok(principal) => *self.good.entry(principal).or_default() += 1,
            Err(Fault::Bad(why)) => self.bad.push(BadSignature { sequence, checkpoint: event.subject.clone(), why }),
            Err(Fault::Unchecked(why)) => {
                self.unchecked += 1;
                self.unchecked_why.get_or_insert(why);
            }
        }
    }
}

/// Everything that decisions are checked against.
struct Evidence<'a> {
    store: String,
    allowed: Option<&'a Path>,
    /// Digests of the records of the checkpoints so far.
    records: HashMap<String, String>,
    /// Statements that were signed so far.
    statements: HashSet<Vec<u8>>,
}

/// A decision about a checkpoint whose record is another one by now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ReplacedCheckpoint {
    /// Place in the journal of the decision.
    pub sequence: u64,
    /// ULID of the checkpoint that was decided about.
    pub checkpoint: String,
}

/// The outcome of `audit verify`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct AuditReport {
    /// Events that were looked at.
    pub events: u64,
    /// Entries of the audit among them.
    pub entries: u64,
    /// Events of other machines, of which a remote has told, each in its machine's own chain.
    pub remote_events: u64,
    /// Number of those machines.
    pub machines: u64,
    /// Time of the first event.
    pub first_at: Option<Timestamp>,
    /// Time of the last event.
    pub last_at: Option<Timestamp>,
    /// Hash of the last event.
    // A person who notes it can tell later whether anything up to here was removed or changed.
    pub last: Option<String>,
    /// Places at which the chain is broken.
    pub breaks: Vec<Break>,
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

impl AuditReport {
    /// True if nothing was removed or changed inside the chain, what was noted is in it, and every signature that was checked holds.
    pub fn is_ok(&self) -> bool {
        self.breaks.is_empty()
            && self.lost == 0
            && self.found_noted != Some(false)
            && self.exchanged.is_empty()
            && self.signatures.bad.is_empty()
    }
}

/// Verifies the chain of all events, and the signatures of decisions by a file of allowed signers. Damage of the journal itself is an error.
/// `noted` is the hash of an event, or its beginning.
pub fn verify(store: &Store, noted: Option<&str>, allowed: Option<&Path>) -> Result<AuditReport> {
    if let Some(path) = allowed {
        // Without it, every signature would count as that of a stranger.
        std::fs::File::open(path).at("read the allowed signers", path)?;
    }
    let (records, statements) = Default::default();
    let seen = Evidence { store: store.config().id.to_string(), allowed, records, statements };
    let verified = AuditReport { found_noted: noted.map(|_| false), ..AuditReport::default() };
    let mut verification =
        Verification { store, noted, seen, verified, chain: Chain::default(), others: BTreeMap::new(), hashes: HashSet::new() };
    let tail = Journal::of(store.layout()).look_through(&Position::start(), |raw| verification.look(raw))?;
    let Verification { verified, mut chain, others, hashes, .. } = verification;
    let machines = others.len() as u64;
    // A machine that takes a new id, as a copy of it does, goes on behind what it recorded under the old one; and chains come in no order.
    for (sequence, names) in others.into_values().flatten() {
        if let Some(names) = names.filter(|names| !hashes.contains(names)) {
            chain.breaks.push(Break { sequence, names: Some(names), expected: None });
        }
    }
    let lost_for_good: u64 = tail.lost.iter().map(|(first, last)| last - first + 1).sum();
    let lost_before = verified.lost_before + lost_for_good;
    Ok(AuditReport { lost: tail.missing, lost_before, last: chain.last, breaks: chain.breaks, machines, ..verified })
}

/// A verification on its way through the journal.
struct Verification<'a> {
    store: &'a Store,
    noted: Option<&'a str>,
    seen: Evidence<'a>,
    verified: AuditReport,
    chain: Chain,
    /// What machines of which a remote has told say of the event before each of theirs.
    others: BTreeMap<String, Vec<(u64, Option<String>)>>,
    /// Hashes of all events.
    hashes: HashSet<String>,
}

impl Verification<'_> {
    fn look(&mut self, raw: &Raw<'_>) -> serde_json::Result<()> {
        // Of most events no more is needed than their heads.
        if let Some(head) = raw.event().filter(|head| !KINDS.contains(&head.kind.as_ref())) {
            self.timed(head.at);
            self.linked(raw.sequence, head.previous.as_deref(), raw.event_hash());
            return Ok(());
        }
        let logged = raw.decode()?;
        let previous = match &logged.entry {
            JournalEntry::Commit { record, .. } => {
                if let Ok(checkpoint) = Checkpoint::decode(logged.sequence, record.clone(), self.store.ids()) {
                    self.seen.records.insert(checkpoint.id(), checkpoint.digest.to_string());
                }
                None
            }
            JournalEntry::Event(event) => {
                self.timed(event.at);
                self.decided(logged.sequence, event);
                event.previous.as_deref()
            }
            JournalEntry::Unknown(value) => value.get("previous").and_then(Value::as_str),
            JournalEntry::RemoteEvent { machine, .. } => {
                self.told_elsewhere(logged.sequence, machine, &logged.entry);
                None
            }
            _ => None,
        };
        if let Some(hash) = logged.event_hash {
            self.linked(logged.sequence, previous, hash);
        }
        Ok(())
    }

    /// Takes in the next event of another machine's chain. Whether a signature in it holds is asked in that machine's store.
    fn told_elsewhere(&mut self, sequence: u64, machine: &str, entry: &JournalEntry) {
        let Some(hash) = entry.remote_hash(self.store.ids()) else { return };
        if self.noted.is_some_and(|noted| hash.starts_with(noted)) {
            self.verified.found_noted = Some(true);
        }
        self.verified.remote_events += 1;
        // One of a later schema is a link as well.
        let names = entry.any_event().and_then(|(event, _)| event.previous.clone());
        self.others.entry(machine.to_owned()).or_default().push((sequence, names));
        self.hashes.insert(hash);
    }

    fn timed(&mut self, at: Timestamp) {
        let verified = &mut self.verified;
        verified.times_back += u64::from(verified.last_at.is_some_and(|last| at < last));
        verified.first_at = verified.first_at.or(Some(at));
        verified.last_at = Some(at);
    }

    fn decided(&mut self, sequence: u64, event: &Event) {
        let verified = &mut self.verified;
        verified.entries += u64::from(action(event).is_some());
        verified.signatures.count(sequence, event, &mut self.seen);
        let record = event.data.get("record").and_then(Value::as_str);
        if record.is_some_and(|decided| self.seen.records.get(&event.subject).is_some_and(|now| now != decided)) {
            verified.exchanged.push(ReplacedCheckpoint { sequence, checkpoint: event.subject.clone() });
        }
        if event.kind == kind::JOURNAL_CUT {
            verified.lost_before += event.data.get("records").and_then(Value::as_u64).unwrap_or(0);
        }
    }

    /// Takes in the next event of the chain.
    fn linked(&mut self, sequence: u64, previous: Option<&str>, hash: String) {
        if self.noted.is_some_and(|noted| hash.starts_with(noted)) {
            self.verified.found_noted = Some(true);
        }
        self.verified.events += 1;
        self.hashes.insert(hash.clone());
        self.chain.goes_on(sequence, previous, hash);
    }
}
