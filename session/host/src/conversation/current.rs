//! The conversation of a session: its raw files as they are, and an index over them.

use std::{
    collections::VecDeque,
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};

use parhelia_store::{
    clock,
    create::{CapturedState, StateContent, StateFile},
    files::{self, How},
    id::OpId,
    record::Consistency,
};
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    Result,
    state::{CONVERSATION, file},
};
use parhelia_agent::transcript::{
    Activity, Conversation, Summary, TranscriptLocation, Turn, conversation, files::RawSet, prefix::Check,
};

/// Version of `conversation.json`.
const SCHEMA: u32 = 1;

/// The field of a checkpoint's record that says that its conversation is what a headless agent printed, and names the file.
pub const STREAM: &str = "stream_json";

/// Source of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A transcript, as the agent keeps them.
    Transcript(TranscriptLocation),
    /// The output of a headless agent with `--output-format stream-json`. No agent can resume from it.
    Stream {
        /// The file that holds it.
        log: PathBuf,
        /// True if the file exists for this capture alone.
        is_copy: bool,
    },
}

impl Source {
    fn path(&self) -> &Path {
        match self {
            Source::Transcript(located) => &located.transcript,
            Source::Stream { log, .. } => log,
        }
    }

    fn capture(&self, previous: Option<Conversation>) -> Result<conversation::Capture> {
        match self {
            Source::Transcript(located) => Ok(Conversation::capture(previous, located, Check::Seam)?),
            Source::Stream { log, .. } => Ok(Conversation::capture_stream(previous, log, Check::Seam)?),
        }
    }

    /// Its path, as the record of a checkpoint has it.
    fn told(&self) -> (&'static str, Option<String>) {
        match self {
            Source::Transcript(located) => ("transcript", Some(shown(&located.transcript))),
            Source::Stream { log, is_copy } => (STREAM, (!is_copy).then(|| shown(log))),
        }
    }

    /// Its files as they are now.
    fn extent(&self) -> Result<RawSet> {
        match self {
            Source::Transcript(located) => Ok(RawSet::find(located)?),
            Source::Stream { log, .. } => Ok(RawSet::of_stream(log)?),
        }
    }

    /// Path of its index, which is kept by the transcript's path.
    fn index_path(&self, cache: &Path) -> PathBuf {
        use std::os::unix::ffi::OsStrExt;
        let hash = blake3::hash(self.path().as_os_str().as_bytes());
        cache.join(format!("{}.conversation", &hash.to_hex()[..32]))
    }
}

/// The summary of a conversation as it is now, up to its last whole record.
pub fn summary_now(located: TranscriptLocation, cache: &Path) -> Result<Summary> {
    Ok(LiveConversation::look(&Source::Transcript(located), cache)?.found.conversation.summary())
}

/// The content of `conversation.json`. Turns may be thousands, so they are written directly, without a [`Value`] in between.
#[derive(Serialize)]
struct ConversationIndex<'a> {
    schema: u32,
    captured_at: String,
    summary: &'a Summary,
    turns: &'a VecDeque<Turn>,
    files: Vec<Value>,
    left_out: Vec<Value>,
}

/// A conversation that was looked at.
#[derive(Debug)]
pub struct LiveConversation {
    found: conversation::Capture,
    source: Source,
}

fn consistency(activity: Activity) -> Consistency {
    match activity {
        Activity::BetweenTurns => Consistency::TurnBoundary,
        Activity::InTool => Consistency::MidTool,
        Activity::Unknown => Consistency::Unknown,
    }
}

impl LiveConversation {
    /// Cuts it at a record boundary, and brings its index up to that.
    pub fn look(source: &Source, cache: &Path) -> Result<Self> {
        // An index that cannot be read is made anew.
        let previous = read(&source.index_path(cache)).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
        Ok(LiveConversation { found: source.capture(previous)?, source: source.clone() })
    }

    /// Looks again: what did the agent do meanwhile? Gives the index as it is now, where it is another one.
    pub fn again(&mut self, source: &Source) -> Result<(Consistency, Option<Conversation>)> {
        let now = source.extent()?;
        let is_unchanged = now == self.found.files;
        self.found.files.update(now);
        let before = &self.found.conversation;
        if is_unchanged {
            return Ok((consistency(Conversation::activity(before, before)), None));
        }
        let after = source.capture(Some(before.clone()))?.conversation;
        Ok((consistency(Conversation::activity(before, &after)), Some(after)))
    }

    /// Gives everything to a checkpoint, and the index back.
    pub fn take(self, captured: &mut CapturedState) -> Conversation {
        let summary = self.found.conversation.summary();
        let mut record = summary.record_conversation();
        let (field, path) = self.source.told();
        record[field] = json!(path);
        captured.conversation = Some(record);
        captured.usage = Some(summary.record_usage());
        let mut left_out: Vec<Value> =
            self.found.files.left_out.iter().map(|left| json!({ "path": shown(&left.path), "reason": left.reason })).collect();
        let mut listed = Vec::new();
        for raw in &self.found.files.files {
            let Some(name) = raw.name.to_str() else {
                left_out.push(json!({ "path": shown(&raw.source), "reason": "its name is not valid UTF-8" }));
                continue;
            };
            let path = format!("{CONVERSATION}/{name}");
            listed.push(json!({ "path": path, "source": shown(&raw.source), "bytes": raw.bytes, "torn_bytes": raw.torn_bytes }));
            captured.files.push(StateFile {
                path,
                part: CONVERSATION.to_owned(),
                content: match raw.only_grows() {
                    true => StateContent::Beginning { path: raw.source.clone(), bytes: raw.bytes },
                    false => StateContent::File { path: raw.source.clone() },
                },
                mtime: None,
            });
        }
        let index = ConversationIndex {
            schema: SCHEMA,
            captured_at: clock::timestamp().to_string(),
            summary: &summary,
            turns: &self.found.conversation.main.turns,
            files: listed,
            left_out,
        };
        captured.files.push(file(CONVERSATION, "conversation.json", serde_json::to_vec_pretty(&index).unwrap_or_default()));
        self.found.conversation
    }
}

fn shown(path: &Path) -> String {
    parhelia_store::name::display(path.as_os_str().as_encoded_bytes())
}

/// Keeps an index for the next capture. Without it that reads more, which is no reason to fail this one.
pub fn keep(index: &Conversation, source: &Source, cache: &Path) {
    let _ = replace(index, &source.index_path(cache));
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let file = files::open(path, How::Read)?;
    files::read_all(&file, file.metadata()?.len())
}

/// Replaces the index in its place; a torn one does not decode.
fn replace(index: &Conversation, path: &Path) -> io::Result<()> {
    let temporary = path.with_extension(format!("{}.tmp", OpId::generate()));
    let mut out = BufWriter::new(files::open(&temporary, How::New)?);
    let written = serde_json::to_writer(&mut out, index).map_err(io::Error::from).and_then(|()| out.flush());
    let placed = written.and_then(|()| files::rename(&temporary, path));
    if placed.is_err() {
        let _ = files::remove(&temporary);
    }
    placed
}
