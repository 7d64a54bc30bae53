//! The index over one transcript: what it holds, and how it goes on.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fs::File,
    io::BufReader,
    os::unix::fs::MetadataExt,
    path::Path,
};

use serde::{Deserialize, Serialize};

use super::{
    line::{self, Line},
    parts::{FileUse, Mark, MessageCursor, Phase, Snippet, Todo, ToolCall, Turn},
    prefix::{Check, HashingReader, Prefix},
    statements::Statements,
    story::Story,
    usage::{Ledger, Usage},
};
use crate::{
    error::{IoContext, Result},
    regular::open,
};

/// Version of [`Index`]; one of another version is made anew.
pub const INDEX_VERSION: u32 = 7;

const READ_BYTES: usize = 256 << 10;

/// The writer of the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// A session's own transcript.
    #[default]
    Transcript,
    /// The transcript of an agent that the session's agent started.
    Subagent,
    /// The output of an agent with `--output-format stream-json`.
    StreamJson,
    /// A rollout of Codex.
    Rollout,
    /// A chat of Gemini CLI.
    Chat,
}

/// Counters. Records that belong to a subagent are counted in `records` and `by_type` alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counts {
    /// Lines that are records.
    pub records: u64,
    /// Records by their type.
    pub by_type: BTreeMap<String, u64>,
    /// Messages of the user, tool results included.
    pub user_messages: u64,
    /// Lines with messages of the model; one message may span several.
    pub assistant_records: u64,
    /// Prompts of the user, each of which begins a turn.
    pub prompts: u64,
    /// Results of whole runs (stream-json alone).
    pub results: u64,
    /// Calls of tools by the model, also those without a result.
    pub tool_calls: u64,
    /// Tool calls that a later prompt or a newer call put aside before a result came.
    pub tool_calls_abandoned: u64,
    /// Tool calls that failed.
    pub tool_errors: u64,
    /// Results of tools that nobody called.
    pub orphan_results: u64,
    /// Times that the conversation was compacted.
    pub compactions: u64,
    /// Times that the user interrupted.
    pub interruptions: u64,
    /// Answers of the API that were errors.
    pub api_errors: u64,
    /// Lines that are no records.
    pub malformed: u64,
    /// Lines that are too long.
    pub oversized: u64,
}

/// Facts about a session from its records; the last record with a field counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Facts {
    /// The agent's id of the conversation.
    pub agent_session: Option<String>,
    /// Id of the last message or prompt record.
    pub last_record: Option<String>,
    /// The API's id of the model's last message.
    pub last_message: Option<String>,
    /// The time of the last record, as the record has it.
    pub last_at: Option<String>,
    /// The working directory.
    pub cwd: Option<String>,
    /// Version of the agent, as the last record with one has it.
    pub version: Option<String>,
    /// The branch, as the agent saw it.
    pub git_branch: Option<String>,
    /// API name of the model, as the last record with one has it.
    pub model: Option<String>,
    /// Permission mode in the agent's own word, such as `acceptEdits`.
    pub permission_mode: Option<String>,
}

/// Cost as the agent reported it, in billionths of a dollar.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cost {
    /// Of processes that are over.
    pub before: u64,
    /// Of the last process.
    pub current: u64,
}

impl Cost {
    /// In dollars.
    pub fn usd(self) -> f64 {
        self.before.saturating_add(self.current) as f64 / 1e9
    }
}

/// An index over the whole records before an offset. Two of the same bytes are equal, however often each stopped on the way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Index {
    /// Version of the format: [`INDEX_VERSION`]; an index of another one is made anew.
    pub version: u32,
    /// The writer of the file.
    pub format: Format,
    /// The bytes that are indexed.
    pub prefix: Prefix,
    /// Counters.
    pub counts: Counts,
    /// Facts about the session.
    pub facts: Facts,
    /// State of the agent where the indexed bytes end.
    pub phase: Phase,
    /// The first prompt of the user, or its beginning.
    pub first_prompt: Option<Snippet>,
    /// The last prompt of the user, or its beginning.
    pub last_prompt: Option<Snippet>,
    /// The system prompt, where a record holds it.
    pub system_prompt: Option<Snippet>,
    /// The prompts, or the last of them ([`limits::TURNS_MAX`](super::limits::TURNS_MAX)).
    pub turns: VecDeque<Turn>,
    /// Tool calls that have no result, oldest first.
    pub pending: Vec<ToolCall>,
    /// The number of calls of each tool.
    pub tools: BTreeMap<String, u64>,
    /// Files that tools read or changed, by path as the agent gave it.
    pub files: BTreeMap<String, FileUse>,
    /// Files whose content is in the model's context: read, written or attached since the last compaction.
    pub loaded: BTreeSet<String>,
    /// The to-do list.
    pub todos: Vec<Todo>,
    /// The user's decisions when asked, oldest first.
    pub decisions: VecDeque<String>,
    /// Prompts that wait for the agent to take them up, oldest first. They are lost when its process ends.
    pub queued: VecDeque<String>,
    /// The number of queued prompts that the agent has taken out without a record that names them so far.
    pub taken_out: u64,
    /// The end of what the model said since the last prompt.
    pub last_reply: Option<String>,
    /// Tokens.
    pub usage: Ledger,
    /// Tokens up to the last result (stream-json alone).
    pub usage_settled: Usage,
    /// Tokens in the model's context at its last message.
    pub context_tokens: Option<u64>,
    /// Cost, where the agent reported one.
    pub cost: Option<Cost>,
    /// The part of the last message that is taken in, where later records repeat a message with what it got since (chats alone).
    pub repeated: MessageCursor,
    /// The prompts that the user may withdraw, oldest first (chats alone).
    pub marks: VecDeque<Mark>,
    /// Deeds of tools: commands, those that failed, edits that were undone.
    pub story: Story,
    /// Statements of the user and the model that count later.
    pub statements: Statements,
    /// True if a list reached its bound ([`limits`](super::limits)).
    pub truncated: bool,
}

/// The origin of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// There was none.
    Fresh,
    /// The one before went on.
    Resumed,
    /// The one before was of other bytes: the transcript was rewritten or cut.
    Rebuilt,
}

/// An index that was brought up to date.
#[derive(Clone, Debug)]
pub struct IndexUpdate {
    /// The index of all whole records.
    pub index: Index,
    /// The origin of the index.
    pub origin: Origin,
    /// Bytes that were parsed.
    pub bytes_parsed: u64,
}

/// Takes one line of a format, at an offset, into an index.
pub(crate) type Apply = fn(&mut Index, &[u8], u64);

/// Indexes a file up to `end`, a record boundary ([`cut`](super::cut())), going on from an earlier index where its bytes are still there.
/// The transcript may grow meanwhile; if it ends before `end`, the index ends with its last whole record.
pub(super) fn go_on(
    previous: Option<Index>,
    path: &Path,
    end: u64,
    (format, apply): (Format, Apply),
    check: Check,
) -> Result<IndexUpdate> {
    let mut file = open(path).at("read", path)?;
    let inode = file.metadata().at("read", path)?.ino();
    let had = previous.is_some();
    let usable = previous.filter(|index| index.version == INDEX_VERSION && index.format == format && index.prefix.bytes <= end);
    let held = match usable {
        Some(index) => index.prefix.holds(&mut file, inode, check).at("read", path)?.then_some(index),
        None => None,
    };
    let origin = match (had, held.is_some()) {
        (_, true) => Origin::Resumed,
        (true, false) => Origin::Rebuilt,
        (false, false) => Origin::Fresh,
    };
    let mut index = held.unwrap_or_else(|| Index { version: INDEX_VERSION, format, ..Index::default() });
    let start = index.prefix.bytes;
    index.read(file, end, apply).at("read", path)?;
    index.prefix.inode = inode;
    let bytes_parsed = index.prefix.bytes - start;
    Ok(IndexUpdate { index, origin, bytes_parsed })
}

impl Index {
    fn read(&mut self, file: File, end: u64, apply: Apply) -> std::io::Result<()> {
        let mut offset = self.prefix.bytes;
        let mut input = BufReader::with_capacity(READ_BYTES, HashingReader::new(file, std::mem::take(&mut self.prefix), end)?);
        let mut buffer = Vec::new();
        while let Some((line, bytes)) = line::next(&mut input, &mut buffer)? {
            match line {
                Line::Whole => apply(self, &buffer, offset),
                Line::TooLong => self.counts.oversized += 1,
            }
            offset += bytes;
        }
        self.prefix = input.into_inner().prefix();
        Ok(())
    }

    /// Number of prompts, or of results where a stream shows no prompts.
    pub fn turn_count(&self) -> u64 {
        // A stream shows prompts only where it was asked to.
        self.counts.prompts.max(self.counts.results)
    }

    /// Tool calls of the agent itself that have no result.
    pub fn pending_calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.pending.iter().filter(|call| !call.is_subagents)
    }
}
