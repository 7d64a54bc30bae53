//! The places where an agent's MCP servers are configured.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use crate::{environment::plugins::installed_plugins, folder::ConfigFolder, kinds::KINDS};

/// The places where an agent's servers are configured.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// The workspace folder, absolute.
    pub workspace: PathBuf,
    /// The user's own file, `.claude.json`.
    pub own: Option<PathBuf>,
    /// Folders of installed plugins, by name.
    pub plugins: Vec<(String, PathBuf)>,
    /// Files that the agent was given with `--mcp-config`.
    pub arguments: Vec<PathBuf>,
}

impl Places {
    /// Those of an agent with some environment variables. Plugins that cannot be listed are none.
    pub fn of(workspace: &Path, variable: &dyn Fn(&str) -> Option<OsString>, arguments: &[PathBuf]) -> Self {
        let config = ConfigFolder::of(KINDS[0], variable).map(|found| found.path);
        let plugins = config.and_then(|config| installed_plugins(&config).ok()).unwrap_or_default();
        Places { plugins, ..Places::without_plugins(workspace, variable, arguments) }
    }

    /// The same without plugins.
    pub fn without_plugins(workspace: &Path, variable: &dyn Fn(&str) -> Option<OsString>, arguments: &[PathBuf]) -> Self {
        Places {
            workspace: workspace.to_owned(),
            own: KINDS[0].servers_of_user(variable),
            plugins: Vec::new(),
            arguments: arguments.to_vec(),
        }
    }
}
