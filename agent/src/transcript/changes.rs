//! Changes of an index that records of every format make.

use std::collections::BTreeMap;

use super::{
    facts,
    index::Index,
    json::{Object, clipped, end_of},
    limits::{FILES_MAX, NAME_BYTES_MAX, NAMES_MAX, PENDING_MAX, PROMPT_BYTES_MAX, REPLY_BYTES_MAX, TURN_BYTES_MAX, TURNS_MAX},
    parts::{FileUse, Phase, Snippet, ToolCall, Turn},
};
use crate::briefing::{is_ours, without_briefing};

impl Index {
    /// Counts a line. Returns the record and its type; none where it is no record.
    pub(crate) fn note_record<'a>(&mut self, line: &'a [u8]) -> Option<(Object<'a>, String)> {
        self.note_record_of(line, |record| record.name("type", NAME_BYTES_MAX))
    }

    /// Counts a line whose type `type_of` knows. Returns the record and its type; none where it is no record.
    pub(crate) fn note_record_of<'a>(
        &mut self,
        line: &'a [u8],
        type_of: impl Fn(&Object) -> Option<String>,
    ) -> Option<(Object<'a>, String)> {
        if line.iter().all(u8::is_ascii_whitespace) {
            return None;
        }
        let record = Object::parse(line);
        let kind = record.as_ref().and_then(type_of);
        let (Some(record), Some(kind)) = (record, kind) else {
            self.counts.malformed += 1;
            return None;
        };
        self.counts.records += 1;
        self.truncated |= !bump(&mut self.counts.by_type, &kind);
        Some((record, kind))
    }

    /// A prompt begins a turn.
    pub(crate) fn began(&mut self, text: &str, record: Option<String>, offset: u64, at: Option<String>) {
        let text = without_briefing(text);
        let before = self.pending.len();
        self.pending.retain(|call| call.is_subagents);
        self.counts.tool_calls_abandoned += (before - self.pending.len()) as u64;
        self.counts.prompts += 1;
        self.phase = Phase::Thinking;
        self.last_reply = None;
        let is_out = self.taken_out > 0;
        // One that was typed behind everything in the queue ends it: who typed that goes on without what was lost.
        if !(self.taken_up(text) && is_out || is_ours(text)) {
            self.queued.clear();
            self.taken_out = 0;
        }
        let snippet = snippet(text, PROMPT_BYTES_MAX);
        // A prompt of ours says nothing of what is to be done.
        if !is_ours(text) {
            self.first_prompt.get_or_insert_with(|| snippet.clone());
            self.last_prompt = Some(snippet);
            self.statements.prompted(text, self.counts.prompts, offset);
        }
        if self.turns.len() == TURNS_MAX {
            self.turns.pop_front();
            self.truncated = true;
        }
        let prompt = clipped(text.trim(), TURN_BYTES_MAX).to_owned();
        self.turns.push_back(Turn { record, offset, at, prompt });
    }

    /// The model has said something.
    pub(crate) fn replied(&mut self, text: &str, offset: u64) {
        let text = text.trim();
        if !text.is_empty() {
            self.last_reply = Some(end_of(text, REPLY_BYTES_MAX).to_owned());
            self.statements.replied(text, self.counts.prompts, offset);
        }
    }

    /// Removes from the queue what the agent has taken up, and what was typed before: the next process does not take that up. Returns
    /// whether it was there.
    pub(crate) fn taken_up(&mut self, text: &str) -> bool {
        let Some(at) = self.queued.iter().rposition(|queued| facts::is_typed_as(text, queued)) else { return false };
        self.queued.drain(..=at);
        self.taken_out = self.taken_out.saturating_sub(1);
        true
    }

    /// A tool is called. A call that is known already is passed over.
    pub(crate) fn called(&mut self, call: ToolCall) {
        if self.pending.iter().any(|known| known.id == call.id) {
            return;
        }
        self.counts.tool_calls += 1;
        self.truncated |= !bump(&mut self.tools, &call.name);
        if self.pending.len() == PENDING_MAX {
            self.pending.remove(0);
            self.counts.tool_calls_abandoned += 1;
            self.truncated = true;
        }
        self.pending.push(call);
    }

    /// A call has its result. Returns the call; none where nobody made it.
    pub(crate) fn answered(&mut self, id: Option<String>) -> Option<ToolCall> {
        let at = self.pending.iter().position(|call| Some(&call.id) == id.as_ref());
        self.counts.orphan_results += u64::from(at.is_none());
        at.map(|at| self.pending.remove(at))
    }

    /// A tool has read a file. Returns false where there is no room for its name.
    pub(crate) fn read_file(&mut self, path: &str, offset: u64) -> bool {
        self.used(path, offset).map(|used| used.reads += 1).is_some()
    }

    /// A tool has changed a file. Returns false where there is no room for its name.
    pub(crate) fn edited(&mut self, path: &str, offset: u64) -> bool {
        self.used(path, offset).map(|used| used.edits += 1).is_some()
    }

    fn used(&mut self, path: &str, offset: u64) -> Option<&mut FileUse> {
        if !self.files.contains_key(path) && self.files.len() == FILES_MAX {
            self.truncated = true;
            return None;
        }
        let used = self.files.entry(path.to_owned()).or_default();
        used.last_offset = offset;
        Some(used)
    }

    /// A file's content is in the model's context.
    pub(crate) fn load(&mut self, path: String) {
        if self.loaded.len() < FILES_MAX {
            self.loaded.insert(path);
        } else {
            self.truncated = true;
        }
    }
}

/// Counts a name; says whether there was room for it.
fn bump(counts: &mut BTreeMap<String, u64>, name: &str) -> bool {
    if let Some(count) = counts.get_mut(name) {
        *count += 1;
        return true;
    }
    let has_room = counts.len() < NAMES_MAX;
    if has_room {
        counts.insert(name.to_owned(), 1);
    }
    has_room
}

pub(crate) fn snippet(text: &str, bytes_max: usize) -> Snippet {
    Snippet { text: clipped(text, bytes_max).to_owned(), bytes: text.len() as u64 }
}
