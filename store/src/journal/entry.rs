//! Entries of the journal.

use std::{borrow::Cow, collections::BTreeMap};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    error::{Error, Result},
    event::{EVENT_SCHEMA, Event},
    id::{OpId, PackId},
    keys::Ids,
    pack::PackInfo,
};

/// The bytes that an event's record begins with.
const EVENT_BEGINS: &[u8] = br#"{"type":"event","#;
/// The type of the record that a journal may begin with one day, in place of all before it.
const SNAPSHOT: &str = "snapshot";

/// The content of a journal record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Entry {
    /// A checkpoint exists from here on.
    Commit {
        /// The operation that wrote its packs.
        op: OpId,
        /// The sealed record, byte for byte; behind a line `@MACHINE` where another machine has made it.
        record: String,
        /// The packs that the operation added.
        packs: Vec<PackInfo>,
        /// The machine that made it, where it came from a remote.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        machine: Option<String>,
        /// True if this machine is that one in a later life: what it made is its own.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_own: bool,
    },
    /// Something happened that is worth keeping: a deletion, a tag, a decision.
    Event(Box<Event>),
    /// Garbage collection moved what lives into new packs; the condemned ones hold nothing that anything refers to.
    Condemn {
        /// The operation that wrote the new packs.
        op: OpId,
        /// New packs.
        added: Vec<PackInfo>,
        /// Packs whose bytes may go once every operation of `waits_for` is over.
        condemned: Vec<PackId>,
        /// Writers that were running.
        waits_for: Vec<OpId>,
    },
    /// The bytes of condemned packs are gone.
    Dropped {
        /// Ids of the packs whose files were removed.
        packs: Vec<PackId>,
    },
    /// An event of another machine came from a remote. It is no link of this journal's chain of events.
    RemoteEvent {
        /// The machine that recorded it.
        machine: String,
        /// The body of that machine's journal record, byte for byte.
        event: String,
        /// True if this machine is that one in a later life: what it recorded is its own.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_own: bool,
        /// True if it is about what that machine has not made: it changes nothing here.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_void: bool,
    },
    /// Everything that a remote had was taken in, up to here.
    Fetched {
        /// Id of the remote's store, in hex.
        remote: String,
        /// Of each machine, the number of the last segment that was taken in.
        heads: BTreeMap<String, u64>,
        /// Packs that were taken in under another name, because gc had used up the one that they have there.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        renamed: BTreeMap<PackId, PackId>,
    },
    /// A kind of record that this release does not know.
    #[serde(skip)]
    Unknown(Value),
}

/// A record as it was read.
#[derive(Clone, Debug, PartialEq)]
pub struct JournalRecord {
    /// Number of the record in the whole journal, from 1.
    pub sequence: u64,
    /// Its content.
    pub entry: Entry,
    /// Of an event: its hash, by which the next event names it.
    pub event_hash: Option<String>,
}

/// A record whose content is not decoded yet, for whoever looks at many of them for a few.
pub struct Raw<'a> {
    /// Number of the record in the whole journal, from 1.
    pub sequence: u64,
    /// Its content.
    pub body: &'a [u8],
    /// The store's, by which events are hashed.
    pub ids: &'a Ids,
}

/// The fields of an event by which it is told from others, as this release reads them.
#[derive(Deserialize)]
pub struct Head<'a> {
    /// Kind of the event; see [`crate::event::kind`].
    #[serde(borrow)]
    pub kind: Cow<'a, str>,
    /// Time of recording.
    pub at: Timestamp,
    /// Hash of the event before it.
    #[serde(borrow, default)]
    pub previous: Option<Cow<'a, str>>,
    schema: u32,
}

impl<'a> Raw<'a> {
    /// The head of an event; `None` of what is none, or one of another schema.
    pub fn event(&self) -> Option<Head<'a>> {
        let head = self.body.starts_with(EVENT_BEGINS).then(|| serde_json::from_slice::<Head<'a>>(self.body).ok())?;
        head.filter(|head| head.schema == EVENT_SCHEMA)
    }

    /// The hash by which the next event names this one.
    pub fn event_hash(&self) -> String {
        self.ids.event(self.body)
    }

    /// The record with its content.
    pub fn decode(&self) -> Result<JournalRecord, serde_json::Error> {
        decode_entry(self.sequence, self.body, self.ids)
    }
}

/// An entry of a type that this release does not know, or an event of another schema. What else does not decode is damaged: a commit must
/// not be passed over. Neither must a snapshot, which stands for records that are not there any more.
fn unknown(body: &[u8], error: serde_json::Error) -> Result<Entry, serde_json::Error> {
    let fields: Map<String, Value> = serde_json::from_slice(body)?;
    match fields.get("type").and_then(Value::as_str) {
        None | Some("commit" | "condemn" | "dropped" | "remote_event" | "fetched") => Err(error),
        Some("event") if fields.get("schema").and_then(Value::as_u64).is_none_or(|schema| schema == u64::from(EVENT_SCHEMA)) => {
            Err(error)
        }
        Some(SNAPSHOT) => Err(serde::de::Error::custom("a snapshot, which needs a newer parhelia")),
        Some(_) => Ok(Entry::Unknown(Value::Object(fields))),
    }
}

impl Entry {
    /// The event of this entry, and the machine that recorded it, where that is another one. None of what is no event, or one that this release
    /// cannot read.
    pub fn any_event(&self) -> Option<(Cow<'_, Event>, Option<&str>)> {
        match self {
            Entry::Event(event) => Some((Cow::Borrowed(event), None)),
            Entry::RemoteEvent { event, .. } => Some((Cow::Owned(read_event(event.as_bytes())?), self.machine())),
            _ => None,
        }
    }

    /// The event of this entry, where it changes anything, as [`Entry::any_event`] gives it.
    pub fn told_event(&self) -> Option<(Cow<'_, Event>, Option<&str>)> {
        self.any_event().filter(|_| !matches!(self, Entry::RemoteEvent { is_void: true, .. }))
    }

    /// Of another machine's event, the hash by which that machine's next event names it.
    pub fn remote_hash(&self, ids: &Ids) -> Option<String> {
        match self {
            Entry::RemoteEvent { event, .. } => Some(ids.event(event.as_bytes())),
            _ => None,
        }
    }

    /// The machine that made or recorded it, where that is another one.
    pub fn machine(&self) -> Option<&str> {
        match self {
            Entry::Commit { machine, is_own: false, .. } => machine.as_deref(),
            Entry::RemoteEvent { machine, is_own: false, .. } => Some(machine),
            _ => None,
        }
    }
}

/// The event in the body of a journal record; none where it is none of this release's schema.
pub(crate) fn read_event(body: &[u8]) -> Option<Event> {
    let mut event: Event = serde_json::from_slice(body).ok().filter(|event: &Event| event.schema == EVENT_SCHEMA)?;
    event.extra.remove("type");
    event.extra.remove("joined");
    Some(event)
}

/// An entry of a type that this release knows.
fn known(body: &[u8]) -> Result<Entry, serde_json::Error> {
    // Most records are events. Serde copies what stands behind a tag before it looks at it, which costs as much again.
    if !body.starts_with(EVENT_BEGINS) {
        return serde_json::from_slice(body);
    }
    let mut event: Box<Event> = serde_json::from_slice(body)?;
    event.extra.remove("type");
    Ok(Entry::Event(event))
}

fn decode_entry(sequence: u64, body: &[u8], ids: &Ids) -> Result<JournalRecord, serde_json::Error> {
    let mut entry = match known(body) {
        // Fields of another schema may mean something else.
        Ok(Entry::Event(event)) if event.schema != EVENT_SCHEMA => Entry::Unknown(serde_json::from_slice(body)?),
        Ok(entry) => entry,
        Err(e) => unknown(body, e)?,
    };
    if let Entry::Event(event) = &mut entry {
        // It is of the record, not of the event.
        event.extra.remove("joined");
    }
    let is_event = match &entry {
        Entry::Event(_) => true,
        // An event of another schema is still a link of the chain.
        Entry::Unknown(value) => value.get("type").is_some_and(|kind| kind == "event"),
        _ => false,
    };
    Ok(JournalRecord { sequence, entry, event_hash: is_event.then(|| ids.event(body)) })
}

/// The bytes of an entry, as they stand in the journal behind `joined` others of the same append.
pub(crate) fn encode_entry(entry: &Entry, joined: usize) -> Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec(entry).map_err(|e| Error::Invalid(format!("cannot encode a journal record: {e}")))?;
    if joined > 0 && bytes.pop_if(|last| *last == b'}').is_some() {
        bytes.extend_from_slice(format!(",\"joined\":{joined}}}").as_bytes());
    }
    Ok(bytes)
}
