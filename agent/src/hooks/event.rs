//! An event of the agent's, as it comes on standard input, and what it means here.

use std::{io::Read, path::PathBuf};

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::id::is_session_id;

/// The kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A conversation begins, or goes on.
    SessionStart,
    /// The user has said something.
    Prompt,
    /// The agent has ended its turn.
    Stop,
    /// The agent's turn ended with an error of the API.
    StopFailure,
    /// A tool is about to run.
    PreTool,
    /// A tool has run.
    PostTool,
    /// A tool has failed.
    ToolFailure,
    /// The conversation is about to be compacted.
    PreCompact,
    /// The conversation was compacted.
    PostCompact,
    /// A subagent has ended.
    SubagentStop,
    /// A conversation ends, with the agent or before another one.
    SessionEnd,
    /// The agent asks for a permission. Somebody else's hook may answer it, so that no person is asked.
    Permission,
    /// The agent tells a person something: that it waits for them, or idles.
    Notification,
    /// The folder in which the agent's commands run is another one.
    CwdChanged,
    /// Any other one, also those of later versions of the agent.
    Other,
}

/// An event. Fields that this release does not know are in `more`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Event {
    /// Name of the event as the agent gives it, such as `PreToolUse`.
    pub hook_event_name: String,
    /// The agent's own id of the conversation.
    pub session_id: String,
    /// Path of the conversation's transcript.
    pub transcript_path: Option<PathBuf>,
    /// The agent's folder.
    pub cwd: Option<PathBuf>,
    /// The agent's permission mode.
    pub permission_mode: Option<String>,
    /// Of a start: `startup`, `resume`, `clear`, `compact` or `fork`.
    pub source: Option<String>,
    /// Of a start: the model.
    pub model: Option<String>,
    /// Of a prompt: what was said.
    pub prompt: Option<String>,
    /// Of a tool: its name.
    pub tool_name: Option<String>,
    /// Of a tool: the id of its call.
    pub tool_use_id: Option<String>,
    /// Of a tool: what it was given.
    pub tool_input: Option<Value>,
    /// Of a notification: its kind.
    pub notification_type: Option<String>,
    /// Of a notification: its words.
    pub message: Option<String>,
    /// Of a change of folder: the one before.
    pub old_cwd: Option<PathBuf>,
    /// Of a change of folder: the one that commands run in from now on, also if the agent goes back at once.
    pub new_cwd: Option<PathBuf>,
    /// Of a compaction: `manual` or `auto`.
    pub trigger: Option<String>,
    /// Of a compaction that is done: the agent's summary.
    pub compact_summary: Option<String>,
    /// Of an end: why.
    pub reason: Option<String>,
    /// Of a subagent: which.
    pub agent_id: Option<String>,
    /// Of a subagent: where its conversation lies.
    pub agent_transcript_path: Option<PathBuf>,
    /// Of the end of a turn: the last thing said.
    pub last_assistant_message: Option<String>,
    /// Of a failure: what failed. Text or an object, by version.
    pub error: Option<Value>,
    /// All other fields.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// No event is longer, in bytes: the agent puts a tool's whole output into one.
pub(crate) const EVENT_BYTES_MAX: u64 = 64 << 20;

impl Event {
    /// Reads an event. Fields of another type than expected make it unreadable; unknown ones do not.
    pub fn parse(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        if let Ok(event) = serde_json::from_slice::<Event>(bytes) {
            return Ok(event.checked());
        }
        // A later version may give a field another type. What names the event and the conversation is enough to go on.
        let value: Map<String, Value> = serde_json::from_slice(bytes)?;
        let text = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
        let path = |name: &str| text(name).map(PathBuf::from);
        Ok(Event {
            hook_event_name: text("hook_event_name").unwrap_or_default(),
            session_id: text("session_id").unwrap_or_default(),
            transcript_path: path("transcript_path"),
            cwd: path("cwd"),
            permission_mode: text("permission_mode"),
            source: text("source"),
            model: text("model"),
            prompt: text("prompt"),
            tool_name: text("tool_name"),
            tool_use_id: text("tool_use_id"),
            tool_input: value.get("tool_input").cloned(),
            notification_type: text("notification_type"),
            message: text("message"),
            old_cwd: path("old_cwd"),
            new_cwd: path("new_cwd"),
            trigger: text("trigger"),
            compact_summary: text("compact_summary"),
            reason: text("reason"),
            agent_id: text("agent_id"),
            agent_transcript_path: path("agent_transcript_path"),
            last_assistant_message: text("last_assistant_message"),
            error: value.get("error").cloned(),
            more: Map::new(),
        }
        .checked())
    }

    /// Without an id that is no conversation's: anybody can write an event, and the id stands on the command line of the next resume.
    fn checked(mut self) -> Self {
        if !is_session_id(&self.session_id) {
            self.session_id.clear();
        }
        self
    }

    /// Reads an event from a stream, up to a bound.
    pub fn read(stream: impl Read) -> Result<Self, std::io::Error> {
        let mut bytes = Vec::new();
        stream.take(EVENT_BYTES_MAX).read_to_end(&mut bytes)?;
        Ok(Event::parse(&bytes)?)
    }

    /// True if the agent's process goes on with another conversation.
    pub fn is_followed_by_another(&self) -> bool {
        matches!(self.reason.as_deref(), Some("clear" | "resume"))
    }

    /// True if a person has left the agent.
    pub fn is_left(&self) -> bool {
        self.reason.as_deref() == Some("prompt_input_exit")
    }

    /// The error that ended a turn, in a few words.
    pub fn failure(&self) -> String {
        let error = match &self.error {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Object(fields)) => ["type", "message"]
                .iter()
                .find_map(|name| fields.get(*name)?.as_str().map(str::to_owned))
                .unwrap_or_else(|| "unknown".into()),
            _ => "unknown".into(),
        };
        format!("api_error: {}", error.chars().take(200).collect::<String>())
    }
}
