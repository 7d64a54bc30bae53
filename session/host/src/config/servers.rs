//! MCP servers: whether their state is captured, and where those keep it that do not hand it out.
//!
//! None of it can be set by a project: an agent can write its files, and they must not say which of the user's files are kept and written
//! back.

use std::{
    collections::BTreeMap,
    path::{Component, PathBuf},
    time::Duration,
};

use parhelia_agent::mcp::ServerConfig;
use parhelia_store::name::NameExt as _;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Options of MCP servers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Mcp {
    /// True to capture their state.
    pub capture: bool,
    /// The time that a server has to hand out its state, in seconds.
    pub timeout_seconds: f64,
    /// The longest state of a server, in bytes.
    pub max_state_bytes: u64,
    /// True to let an agent read checkpoints of other folders' sessions by our own server.
    pub read_others: bool,
    /// More of some servers, by name.
    pub servers: BTreeMap<String, McpServer>,
}

/// More of a server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct McpServer {
    /// The files and folders in which it keeps its state: absolute, or from the home folder (`~/`), or from the workspace.
    #[serde(default)]
    pub state_files: Vec<PathBuf>,
    /// True of one that hands its state out. One over HTTP is asked only then.
    #[serde(default)]
    pub supports_checkpoint: bool,
    /// The time that it has, in seconds.
    #[serde(default)]
    pub timeout_seconds: Option<f64>,
}

impl Mcp {
    /// True if a server over HTTP may be asked for its state, and be given it: the user says so, and a project's file cannot say where it is.
    pub fn asks_over_http(&self, name: &str, configured: Option<&ServerConfig>) -> bool {
        self.servers.get(name).is_some_and(|server| server.supports_checkpoint)
            && configured.is_some_and(|configured| !configured.is_projects)
    }

    /// The time that a server has to hand out its state.
    pub fn limit(&self, name: &str) -> Duration {
        let own = self.servers.get(name).and_then(|server| server.timeout_seconds);
        Duration::try_from_secs_f64(own.unwrap_or(self.timeout_seconds)).unwrap_or(Duration::from_secs(60))
    }
}

/// The servers of a configuration file, if they make sense.
pub(super) fn checked(value: Value) -> Result<Value, String> {
    let servers: BTreeMap<String, McpServer> = serde_json::from_value(value.clone()).map_err(|e| e.to_string())?;
    for (name, server) in servers {
        let is_sane = server.timeout_seconds.is_none_or(|seconds| (0.0..=3600.0).contains(&seconds));
        if !is_sane {
            return Err(format!("timeout_seconds of '{name}' must be from 0 to 3600"));
        }
        if server.state_files.iter().any(|path| path.as_os_str().is_empty()) {
            return Err(format!("a state file of '{name}' has no name"));
        }
        if let Some(path) = server.state_files.iter().find(|path| path.components().any(|part| part == Component::ParentDir)) {
            return Err(format!(
                "the state file {} of '{name}' leads up by '..'; write the path from the root or ~/",
                path.shown()
            ));
        }
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_servers_options_make_sense_or_are_refused() {
        let taken = |server: Value| checked(json!({ "a": server }));
        taken(json!({"state_files": ["/a/b", "~/c", "d/e"], "supports_checkpoint": true, "timeout_seconds": 2.5})).unwrap();
        for (server, word) in [
            (json!({"state_files": [""]}), "no name"),
            (json!({"state_files": ["../x"]}), "leads up"),
            (json!({"timeout_seconds": -1}), "from 0 to 3600"),
            (json!({"state_file": ["x"]}), "state_file"),
        ] {
            let refused = taken(server.clone()).unwrap_err();
            assert!(refused.contains(word), "{server}: {refused}");
        }
    }
}
