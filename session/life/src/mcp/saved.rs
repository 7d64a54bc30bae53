//! The state of MCP servers as a checkpoint has it: `mcp/servers.json`, and files beside it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use parhelia_store::{Store, record::Checkpoint};
use serde::{Deserialize, Serialize};

use super::live::GivenBack;
use parhelia_host::{Result, state::state_bytes};

/// The part, and its folder in `state`.
pub const MCP: &str = "mcp";
/// The transport of a server that is reached over HTTP.
pub(super) const HTTP: &str = "http";
/// The list of servers.
pub(super) const SERVERS: &str = "mcp/servers.json";
/// The version of the list.
pub(super) const SCHEMA: u32 = 1;

/// The list of servers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerList {
    /// The version of this list.
    pub schema: u32,
    /// Servers by their names in the agent's configuration.
    pub servers: BTreeMap<String, Server>,
    /// The file with the issues of Beads, as `bd export` gives them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beads: Option<String>,
}

/// A server as `mcp/servers.json` lists it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Server {
    /// The place in which it is configured: `user`, `project`, `local`, `plugin`, `argument`; null for one that only its proxy was known by.
    pub scope: Option<String>,
    /// `stdio` or `http`; null where that is not known.
    pub transport: Option<String>,
    /// The part that was kept.
    #[serde(flatten)]
    pub kept: SavedState,
    /// The outcome of giving it a state back as it was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub given_back: Option<GivenBack>,
}

/// The part of a server that was kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kept", rename_all = "snake_case")]
pub enum SavedState {
    /// The state that it handed out.
    State {
        /// The file with it, from `state`.
        file: String,
        /// Its kind.
        mime_type: Option<String>,
        /// True if the file is base64 of it.
        is_base64: bool,
        /// Its length as it is in the file.
        bytes: u64,
        /// The time of it, where the server did not run as the checkpoint was made.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        as_of: Option<Timestamp>,
    },
    /// The files in which it keeps its state.
    Files {
        /// The files, with their content where they existed.
        files: Vec<SavedFile>,
    },
    /// Nothing: it has no state that can be had.
    Stateless {
        /// The reason.
        why: String,
    },
    /// Nothing: it was not asked, and may have a state.
    NotAsked {
        /// The reason.
        why: String,
    },
    /// Nothing: it could not be had.
    Failed {
        /// The reason.
        error: String,
    },
}

/// A file in which a server keeps its state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedFile {
    /// The path: from the workspace where it lies there, else absolute.
    pub path: String,
    /// The file with its content, from `state`; null where there was none.
    pub file: Option<String>,
    /// Its length.
    pub bytes: Option<u64>,
    /// Its permissions.
    pub mode: Option<u32>,
}

/// The servers of a checkpoint; none where they were not captured, or by a release that this one does not understand.
pub fn saved(store: &Store, checkpoint: &Checkpoint) -> Result<Option<ServerList>> {
    let bytes = state_bytes(store, checkpoint, SERVERS)?;
    let saved: Option<ServerList> = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    Ok(saved.filter(|saved| saved.schema == SCHEMA))
}
