//! The model's context windows while a transcript is read.

use std::collections::HashSet;

use super::{json::Object, limits::NAME_BYTES_MAX};

/// The kind of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum What {
    /// The agent's system prompt, where the transcript has it.
    System,
    /// The agent's own summary of what was compacted.
    Summary,
    /// Something that the agent or a hook has added: attached files, memory, notes.
    Told,
    /// A prompt of a person or a program.
    Prompt,
    /// The model's deliberation.
    Thought,
    /// The model's text.
    Reply,
    /// A call of a tool by the model, with its arguments.
    Call,
    /// The result of a tool call.
    Result,
}

/// A piece of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Its kind.
    pub what: What,
    /// The text; of a call its arguments.
    pub text: String,
    /// Of a call and its result the id of the call.
    pub call: Option<String>,
    /// Of a call and its result the tool; of an attachment its type.
    pub tool: Option<String>,
    /// Of a call the file, command or pattern that it is about.
    pub about: Option<String>,
    /// True for the result of a tool that failed.
    pub is_error: bool,
}

impl Piece {
    /// A piece that has nothing to do with a tool.
    pub fn new(what: What, text: impl Into<String>) -> Self {
        Piece { what, text: text.into(), call: None, tool: None, about: None, is_error: false }
    }
}

/// The pieces that the model had in its context at a time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// Its pieces, in order.
    pub pieces: Vec<Piece>,
    /// Tokens in it at the model's last message, or before it was compacted, as the agent reported them.
    pub reported_tokens: Option<u64>,
}

/// The last context windows of a conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Windows {
    /// The window since the last compaction, or since the beginning.
    pub now: Window,
    /// The window that was compacted last.
    pub before: Option<Window>,
    /// API name of the model that answered last; none where the transcript has none.
    pub model: Option<String>,
    /// Size of the model's window in tokens, where the transcript has it.
    pub limit_tokens: Option<u64>,
}

/// Windows while a transcript is read.
#[derive(Default)]
pub(crate) struct WindowBuilder {
    windows: Windows,
    system: Option<String>,
    /// Tools by the ids of their calls.
    tools: std::collections::HashMap<String, String>,
    seen: HashSet<String>,
}

impl WindowBuilder {
    pub fn add(&mut self, what: What, text: &str) {
        if !text.trim().is_empty() {
            self.push(Piece::new(what, text));
        }
    }

    pub fn push(&mut self, piece: Piece) {
        self.windows.now.pieces.push(piece);
    }

    pub fn call(&mut self, id: Option<String>, tool: String, arguments: &str, about: Option<String>) {
        if let Some(id) = &id {
            self.tools.insert(id.clone(), tool.clone());
        }
        self.push(Piece { call: id, tool: Some(tool), about, ..Piece::new(What::Call, arguments) });
    }

    pub fn result(&mut self, id: Option<String>, text: &str, is_error: bool) {
        let tool = id.as_ref().and_then(|id| self.tools.get(id).cloned());
        self.push(Piece { call: id, tool, is_error, ..Piece::new(What::Result, text) });
    }

    pub fn system(&mut self, text: String) {
        self.system = Some(text).filter(|text| !text.trim().is_empty()).or(self.system.take());
    }

    pub fn model(&mut self, model: Option<String>) {
        self.windows.model = model.or(self.windows.model.take());
    }

    pub fn limit(&mut self, tokens: Option<u64>) {
        self.windows.limit_tokens = tokens.filter(|tokens| *tokens > 0).or(self.windows.limit_tokens);
    }

    pub fn reported(&mut self, tokens: u64) {
        self.windows.now.reported_tokens = Some(tokens);
    }

    /// The window was compacted; the agent may say how much was in it.
    pub fn compacted(&mut self, tokens: Option<u64>) {
        let mut before = std::mem::take(&mut self.windows.now);
        before.reported_tokens = tokens.or(before.reported_tokens);
        self.windows.before = Some(before);
    }

    /// True for the first time that something of this name comes: some agents write messages again.
    pub fn is_new(&mut self, name: String) -> bool {
        self.seen.insert(name)
    }

    /// The last pieces of the window, at most `count`.
    pub fn last(&mut self, count: usize) -> &mut [Piece] {
        let pieces = &mut self.windows.now.pieces;
        let from = pieces.len().saturating_sub(count);
        &mut pieces[from..]
    }

    /// The windows, with the system prompt before each.
    pub fn done(mut self) -> Windows {
        if let Some(system) = self.system {
            let windows = std::iter::once(&mut self.windows.now).chain(&mut self.windows.before);
            windows.for_each(|window| window.pieces.insert(0, Piece::new(What::System, system.clone())));
        }
        self.windows
    }
}

/// The file, command or pattern in a call's arguments.
pub(crate) fn about(arguments: &Object) -> Option<String> {
    let names = ["file_path", "notebook_path", "command", "cmd", "pattern", "path", "dir_path", "url", "query", "description"];
    names.into_iter().find_map(|name| arguments.name(name, 8 * NAME_BYTES_MAX))
}
