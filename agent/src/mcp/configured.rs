//! The servers that an agent is configured with, and the file that each is from.

use std::{collections::BTreeMap, fmt};

use serde_json::Value;

use super::{places::Places, proxied::behind};
use crate::{program::is_in, regular::read_json};

/// No more servers are looked at.
const SERVERS_MAX: usize = 500;

/// The place in which a server is configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// A file of a plugin that the agent has installed.
    Plugin,
    /// The user's own file, for all folders.
    User,
    /// The workspace's `.mcp.json`, which whoever can write to the workspace can change.
    Project,
    /// The user's own file, for this folder.
    Local,
    /// A file that the agent was given.
    Argument,
}

impl Scope {
    /// Its name in records.
    pub fn name(self) -> &'static str {
        match self {
            Scope::Plugin => "plugin",
            Scope::User => "user",
            Scope::Project => "project",
            Scope::Local => "local",
            Scope::Argument => "argument",
        }
    }
}

/// A server as a file of the agent's configuration has it.
#[derive(Clone, PartialEq)]
pub struct ServerConfig {
    /// The place in which it is configured.
    pub scope: Scope,
    /// True if that is a file of the workspace, which whoever can write there can change.
    pub is_projects: bool,
    /// Its configuration as it stands there. It may hold credentials.
    pub config: Value,
}

impl fmt::Debug for ServerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Configured({})", self.scope.name())
    }
}

impl ServerConfig {
    /// True if a proxy of ours stands before it.
    pub fn is_proxied(&self) -> bool {
        words(&self.config).is_some_and(|words| behind(&words).is_some())
    }

    /// Its configuration as it is without a proxy of ours.
    pub fn unproxied(&self) -> Value {
        let mut config = self.config.clone();
        let words: Option<Vec<String>> = words(&config);
        if let Some((command, arguments)) = words.as_deref().and_then(behind).and_then(<[String]>::split_first) {
            config["command"] = command.as_str().into();
            config["args"] = arguments.into();
        }
        config
    }
}

/// The command line of a server; none of one that the agent does not start.
fn words(config: &Value) -> Option<Vec<String>> {
    let command = config.get("command")?.as_str()?;
    let arguments = config.get("args").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    Some(std::iter::once(command).chain(arguments).map(str::to_owned).collect())
}

/// The servers, by name. A file that is no JSON fails; the rest is tolerant.
pub fn configured(places: &Places) -> Result<BTreeMap<String, ServerConfig>, String> {
    let mut found: BTreeMap<String, ServerConfig> = BTreeMap::new();
    let mut add = |servers: Option<&Value>, prefix: &str, scope: Scope, is_projects: bool| {
        // A name that steers a terminal is none: it stands in what people are told.
        let servers = servers.and_then(Value::as_object).into_iter().flatten();
        for (name, server) in servers.filter(|(name, _)| !name.chars().any(char::is_control)) {
            found.insert(format!("{prefix}{name}"), ServerConfig { scope, is_projects, config: server.clone() });
        }
    };
    for (plugin, folder) in &places.plugins {
        let config = read_json(&folder.join(".mcp.json"))?.unwrap_or_default();
        add(config.get("mcpServers").or(Some(&config)), &format!("plugin:{plugin}:"), Scope::Plugin, false);
    }
    // In rising order, as the agent takes them.
    let own = places.own.as_deref().map(read_json).transpose()?.flatten().unwrap_or_default();
    add(own.get("mcpServers"), "", Scope::User, false);
    let project = read_json(&places.workspace.join(".mcp.json"))?.unwrap_or_default();
    add(project.get("mcpServers"), "", Scope::Project, true);
    let local = own.get("projects").and_then(|projects| projects.get(places.workspace.to_str()?)?.get("mcpServers"));
    add(local, "", Scope::Local, false);
    for file in &places.arguments {
        let config = read_json(file)?.unwrap_or_default();
        add(config.get("mcpServers"), "", Scope::Argument, is_in(&places.workspace, file));
    }
    Ok(found.into_iter().take(SERVERS_MAX).collect())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_file_in_the_workspace_is_the_projects_and_no_name_steers_a_terminal() {
        let folder = tempfile::tempdir().unwrap();
        let (inside, outside) = (folder.path().join("work"), folder.path().join("user"));
        for place in [&inside, &outside] {
            fs::create_dir_all(place).unwrap();
            fs::write(place.join("mcp.json"), r#"{"mcpServers":{"a":{"command":"a"},"b\u001b[2J":{"command":"b"}}}"#).unwrap();
        }
        let is_projects = |file: &std::path::Path| {
            let places = Places { workspace: inside.clone(), arguments: vec![file.join("mcp.json")], ..Places::default() };
            let found = configured(&places).unwrap();
            assert_eq!(found.keys().collect::<Vec<_>>(), ["a"]);
            assert_eq!(found["a"].scope, Scope::Argument);
            found["a"].is_projects
        };
        assert!(is_projects(&inside) && !is_projects(&outside));
    }
}
