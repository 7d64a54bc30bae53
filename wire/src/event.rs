//! Events of the journal.

use jiff::Timestamp;
use parhelia_store::{
    event::{self, Actor},
    record,
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

/// An entry of the journal: a checkpoint that was made, or an event.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Event {
    /// Its place in the journal.
    pub sequence: u64,
    /// Its kind, such as checkpoint.created.
    pub kind: String,
    /// Id of the thing to which it happened.
    pub subject: String,
    /// Session that it concerns.
    pub session: Option<String>,
    /// Its time.
    pub at: Timestamp,
    /// Run of a checkpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// Epoch in which its author acted.
    pub epoch: u64,
    /// Data of its kind.
    pub data: Map<String, Value>,
    /// Id of an event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Machine that recorded the event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Version of the event's structure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema: Option<u32>,
    /// Cause of the event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actor: Option<Actor>,
    /// Key of an event that is appended once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// Hash of the event before it, in hex.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous: Option<String>,
}

impl Event {
    /// A checkpoint that was made.
    pub fn of_commit(checkpoint: &record::Checkpoint) -> Self {
        let record = &checkpoint.record;
        let text = |value: Option<String>| value.map_or(Value::Null, Value::from);
        let data = [
            ("trigger", Value::from(record.trigger.name())),
            ("cause", text(record.cause().map(|cause| cause.name().to_owned()))),
            ("trigger_detail", text(record.trigger_detail.clone())),
            ("parent", text(record.parent.map(|parent| parent.to_string()))),
            ("fenced", record.fenced.into()),
            ("message", text(record.message.clone())),
            ("checksum", checkpoint.checksum().into()),
        ];
        Event {
            sequence: checkpoint.sequence,
            kind: "checkpoint.created".into(),
            subject: checkpoint.id(),
            session: Some(record.session.clone()),
            at: record.created_at,
            run: record.run.clone(),
            epoch: record.epoch,
            data: data.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
            id: None,
            host: None,
            schema: None,
            actor: None,
            idempotency_key: None,
            previous: None,
        }
    }

    /// An event, and the session that it concerns.
    pub fn of_event(sequence: u64, event: &event::Event, session: Option<String>) -> Self {
        Event {
            sequence,
            kind: event.kind.clone(),
            subject: event.subject.clone(),
            session,
            at: event.at,
            run: None,
            epoch: event.epoch,
            data: event.data.clone(),
            id: Some(event.id.to_string()),
            host: Some(event.host.clone()),
            schema: Some(event.schema),
            actor: Some(event.actor.clone()),
            idempotency_key: event.idempotency_key.clone(),
            previous: event.previous.clone(),
        }
    }
}
