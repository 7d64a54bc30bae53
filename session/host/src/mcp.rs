//! The state of an MCP server, and the way to those over HTTP.

use std::time::Duration;

use parhelia_agent::mcp::Remote;
use serde::{Deserialize, Serialize};

/// The state of a server, as its resource had it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// The text; where it was no text, its bytes in base64.
    pub text: String,
    /// The kind of text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// True if it was no text.
    #[serde(default)]
    pub is_base64: bool,
}

/// The answer of a server about its state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "told", rename_all = "snake_case")]
pub enum StateReply {
    /// The state, as the server handed it out.
    State(State),
    /// It has none to hand out: the reason.
    Stateless {
        /// The reason.
        why: String,
    },
    /// It was not asked.
    NotAsked {
        /// The reason.
        why: String,
    },
    /// It has ended, or does so.
    Ended,
    /// It could not be had: the reason.
    Failed {
        /// The reason.
        why: String,
    },
}

/// Talks to MCP servers over HTTP, which serve anybody who may connect.
pub trait Client: Sync {
    /// A server's state, by its resource.
    fn state(&self, server: &Remote, limit: Duration, bytes_max: u64) -> StateReply;

    /// Gives a server its state back, by its tool.
    fn give_back(&self, server: &Remote, state: &State, limit: Duration) -> Result<(), String>;
}
