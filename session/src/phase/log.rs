//! The log of F-008: a line of JSON for each event, in a file for each day.

use std::{
    fs::{DirBuilder, File},
    io::Write,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::Path,
};

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::error::{IoContext, Result};

/// An event, by the log's schema, which has no type of its own for phase checkpoints.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Event<'a> {
    id: &'a str,
    timestamp: String,
    session_id: &'a str,
    #[serde(rename = "type")]
    kind: &'static str,
    data: Map<String, Value>,
}

/// Appends an event about a phase checkpoint: the `action`, and `more` about it.
pub fn append(folder: &Path, (id, now): (&str, Timestamp), session: &str, action: &str, more: &[(&str, Value)]) -> Result<()> {
    let fields = [("action", Value::from(action))].into_iter().chain(more.iter().cloned());
    let data = fields.map(|(name, value)| (name.to_owned(), value)).collect();
    let timestamp = now.strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string();
    let event = Event { id, timestamp, session_id: session, kind: "custom", data };
    DirBuilder::new().recursive(true).mode(0o700).create(folder).at("create folder", folder)?;
    let path = folder.join(format!("events-{}.jsonl", now.strftime("%Y-%m-%d")));
    let mut line = serde_json::to_vec(&event).unwrap_or_default();
    line.push(b'\n');
    let mut file = File::options().append(true).create(true).mode(0o600).open(&path).at("open", &path)?;
    // In one write, so that lines of several programs do not mix.
    file.write_all(&line).at("write", &path)
}
