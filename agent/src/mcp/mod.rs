//! The MCP servers of an agent: where they are configured, how each is reached, and a proxy before those that the agent starts itself.

mod configured;
mod proxied;
mod reached;

pub use configured::{Configured, Scope, configured};
pub use proxied::{PROXY, ProxyCommand, Wrapped, unwrap, wrap, wrapped};
pub use reached::{Reached, Remote};

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use crate::{environment::installed_plugins, folder::ConfigFolder, kind::KINDS};

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
        Places { workspace: workspace.to_owned(), own: own_file(variable), plugins: Vec::new(), arguments: arguments.to_vec() }
    }
}

/// The user's own file with servers: beside the agent's folder where that is named, else in the home folder.
pub fn own_file(variable: &dyn Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let set = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("CLAUDE_CONFIG_DIR").or_else(|| set("HOME")).map(|folder| folder.join(".claude.json"))
}
