//! Messages of a conversation, for showing what was said.

use schemars::JsonSchema;
use serde::Serialize;

/// The speaker of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The user's prompt.
    User,
    /// The model.
    Assistant,
    /// A tool, by its result.
    Tool,
}

/// A message of a conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Message {
    /// user, assistant, tool.
    #[schemars(with = "String")]
    pub role: Role,
    /// Id of the record, where it has one.
    pub record: Option<String>,
    /// Time, as the record has it.
    pub at: Option<String>,
    /// Text, or its beginning; of a tool its result.
    pub text: String,
    /// Bytes of the whole text: more than there are here of one that is cut.
    pub text_bytes: u64,
    /// Tools that the model calls.
    pub calls: Vec<Call>,
    /// True for the result of a tool that failed.
    pub is_error: bool,
}

/// A tool that the model calls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Call {
    /// Name of the tool, as the agent calls it.
    pub tool: String,
    /// File, command, pattern or prompt that it is about, or the beginning of its input.
    pub about: String,
}
