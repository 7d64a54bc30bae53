//! Parts of an index.

use serde::{Deserialize, Serialize};

/// The agent's phase where the index ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Nothing says.
    #[default]
    Unknown,
    /// It waited for the next prompt.
    Idle,
    /// It waited for the model.
    Thinking,
    /// It waited for the result of a tool.
    InTool,
}

/// The beginning of a text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Snippet {
    /// The part of the text that is kept.
    pub text: String,
    /// Length of the whole, in bytes.
    pub bytes: u64,
}

/// One prompt, and where the turn that it began lies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Turn {
    /// Id of the record, where it has one.
    pub record: Option<String>,
    /// Its offset in the transcript, in bytes; the turn ends where the next begins.
    pub offset: u64,
    /// The time, as the record has it.
    pub at: Option<String>,
    /// The beginning of the prompt.
    pub prompt: String,
}

/// A tool call that has no result yet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ToolCall {
    /// Id of the call.
    pub id: String,
    /// The tool.
    pub name: String,
    /// Its input, as the JSON that the agent wrote; none where it is too long to repeat.
    pub input: Option<String>,
    /// The file that it reads or changes.
    pub path: Option<String>,
    /// Offset of the record in the transcript, in bytes.
    pub offset: u64,
    /// The time, as the record has it.
    pub at: Option<String>,
    /// True if a subagent made the call.
    pub is_subagents: bool,
}

/// The effects of tools on a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FileUse {
    /// Times it was read.
    pub reads: u64,
    /// Times it was written or edited.
    pub edits: u64,
    /// Lines that its edits have added, as far as their texts are known.
    pub lines_added: u64,
    /// Lines that its edits have removed.
    pub lines_removed: u64,
    /// Offset of the record that used it last, in bytes.
    pub last_offset: u64,
}

/// An entry of the to-do list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Todo {
    /// Its id, where it has one.
    pub id: Option<String>,
    /// The text of the task.
    pub content: String,
    /// `pending`, `in_progress`, `completed`, or what else the agent says.
    pub status: String,
}

/// The part of an index that a prompt may take back, as it was before that.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Mark {
    /// Id of the prompt's record.
    pub(super) record: String,
    pub(super) prompts: u64,
    pub(super) first_prompt: Option<Snippet>,
    pub(super) last_prompt: Option<Snippet>,
    pub(super) last_reply: Option<String>,
    pub(super) todos: Vec<Todo>,
}

/// The part of a message that is taken in already.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MessageCursor {
    /// Id of the message.
    pub(crate) id: Option<String>,
    /// The number of its tool calls.
    pub(crate) calls: usize,
}

impl MessageCursor {
    /// Begins with a message, if it is another one. True if it is.
    pub(crate) fn begins(&mut self, id: Option<String>) -> bool {
        let is_new = id.is_none() || self.id != id;
        if is_new {
            *self = MessageCursor { id, calls: 0 };
        }
        is_new
    }
}
