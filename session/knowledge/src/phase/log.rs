//! The log of F-008: a line of JSON for each event, in a file for each day.

#![expect(clippy::disallowed_methods, reason = "phase checkpoints are in a folder of other programs")]

use std::{
    fs::{DirBuilder, File},
    io::{self, Read, Seek, SeekFrom, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::Path,
};

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value};

use parhelia_host::{Result, error::IoContext};

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
    let mut file = File::options().read(true).append(true).create(true).mode(0o600).open(&path).at("open", &path)?;
    // A line that was cut off, of a program that was killed, stays a line of its own.
    let mut line = if ends_in_a_line(&file).at("read", &path)? { Vec::new() } else { vec![b'\n'] };
    serde_json::to_writer(&mut line, &event).map_err(io::Error::from).at("write", &path)?;
    line.push(b'\n');
    // In one write, so that lines of several programs do not mix.
    file.write_all(&line).at("write", &path)
}

/// True for a log that is empty, or whose last line is whole.
fn ends_in_a_line(mut file: &File) -> io::Result<bool> {
    if file.metadata()?.len() == 0 {
        return Ok(true);
    }
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last == *b"\n")
}
