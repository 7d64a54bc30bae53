//! The environment of a session at one moment: the agent's program, its plugins and MCP servers, Python and its packages, and the
//! environment variables that are no secrets.
//!
//! The parts are looked at side by side, and each is kept in a cache by what it depends on, so that an unchanged environment costs a
//! few `stat`s. A part that fails is named in [`Snapshot::failed`], and the others go on.

mod agent;
pub mod cache;
pub mod diff;
mod launcher_args;
mod mcp;
pub(crate) mod plugins;
mod python;
pub mod redact;
mod steering;
mod variables;

#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
};

use crate::threads::{self, Later};
use jiff::Timestamp;
use serde::Serialize;
use sha2::{Digest, Sha256};

pub use agent::Agent;
pub use cache::Cache;
pub use mcp::{Server, Source};
pub use plugins::Plugin;
pub use python::{Python, versions};
pub use steering::{is_given, is_missed, steers};
pub use variables::{kept as kept_variables, launched, missing, recorded};

use crate::{
    kind::Kind,
    kinds::KINDS,
    mcp::{configured::configured, places::Places},
};

/// The inputs of a capture of the environment.
#[derive(Clone, Debug)]
pub struct Request {
    /// The workspace folder, absolute.
    pub workspace: PathBuf,
    /// The environment variables of the session.
    pub variables: Vec<(OsString, OsString)>,
    /// The kind of agent.
    pub kind: Kind,
    /// The agent's program: a name on the search path, or a path.
    pub agent: OsString,
    /// Files that the agent was given with `--mcp-config`.
    pub mcp_config: Vec<PathBuf>,
    /// Variables to keep besides the usual ones.
    pub also: Vec<String>,
    /// Variables never to keep.
    pub never: Vec<String>,
    /// Python packages that are named one by one.
    pub packages: Vec<String>,
    /// The findings of earlier captures.
    pub cache: Cache,
    /// The time of the capture.
    pub now: Timestamp,
}

/// An environment at one moment. Its fields are those of a manifest's `environment`, and more.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Snapshot {
    /// The agent's program, if it is Claude Code; null where there is none.
    pub claude_code: Option<Agent>,
    /// The agent's program, if it is another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<OtherAgent>,
    /// Plugins by name; null where the agent has no list of them.
    pub plugins: Option<BTreeMap<String, Plugin>>,
    /// MCP servers by name.
    pub mcp_servers: Option<BTreeMap<String, Server>>,
    /// Python's version; null where there is none.
    pub python_version: Option<String>,
    /// Python's program.
    pub python_executable: Option<String>,
    /// Versions of the packages that were asked for, by name.
    pub python_packages: Option<BTreeMap<String, String>>,
    /// `sha256:` and the digest of [`Snapshot::pip_freeze`].
    pub pip_freeze_hash: Option<String>,
    /// Values of environment variables by name, without secrets.
    pub variables: BTreeMap<String, String>,
    /// The time of the capture (RFC 3339, UTC).
    pub captured_at: String,
    /// Parts that could not be looked at, with the reason.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub failed: BTreeMap<&'static str, String>,
    /// All packages as `pip freeze` lists them, one a line; kept beside the record, which has its hash.
    #[serde(skip)]
    pub pip_freeze: Option<String>,
}

/// The program of an agent that is not Claude Code.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OtherAgent {
    /// The kind of agent.
    pub kind: &'static str,
    /// Version, hash and path of its program.
    #[serde(flatten)]
    pub program: Agent,
}

/// Looks at everything. Plugins and MCP servers are those of Claude Code.
pub fn capture(request: &Request) -> Snapshot {
    let variable = |name: &str| variable(&request.variables, name);
    let (path, home) = (variable("PATH"), variable("HOME"));
    let (path, home) = (path.as_deref(), home.as_deref());
    let mut failed = BTreeMap::new();
    let (agent, extensions, python) = std::thread::scope(|scope| {
        let agent = threads::beside_or_here(scope, || {
            agent::look(&request.agent, path, home, &request.workspace, &request.cache).map_err(|e| e.to_string())
        });
        let python = threads::beside_or_here(scope, || look_at_python(request, path, home).map_err(|e| e.to_string()));
        // Which packages there are says which version of a server runs.
        let python = ended(python);
        let extensions = look_at_extensions(request, path, home, python.as_ref().ok().and_then(Option::as_ref));
        (ended(agent), extensions, python)
    });
    let is_claude = request.kind == KINDS[0];
    let program = kept(agent, if is_claude { "claude_code" } else { "agent" }, &mut failed);
    let (claude_code, other) = if is_claude { (program, None) } else { (None, program) };
    let plugins = kept(extensions.0, "plugins", &mut failed);
    let mcp_servers = kept(extensions.1.map(|servers| is_claude.then_some(servers)), "mcp_servers", &mut failed);
    let python = kept(python, "python", &mut failed);
    let pip_freeze = python.as_ref().map(|python| python.freeze.iter().map(|line| format!("{line}\n")).collect::<String>());
    Snapshot {
        claude_code,
        agent: other.map(|program| OtherAgent { kind: request.kind.name(), program }),
        plugins,
        mcp_servers,
        python_packages: python.as_ref().map(|python| named(python, &request.packages)),
        python_executable: python.as_ref().map(|python| python.executable.clone()),
        python_version: python.map(|python| python.version),
        pip_freeze_hash: pip_freeze.as_ref().map(|text| format!("sha256:{}", agent::hex(&Sha256::digest(text.as_bytes())))),
        variables: variables::kept(&request.variables, &request.also, &request.never),
        captured_at: request.now.to_string(),
        failed,
        pip_freeze,
    }
}

fn ended<T>(thread: Later<'_, Result<T, String>>) -> Result<T, String> {
    thread.join().unwrap_or_else(|_| Err("its thread ended".into()))
}

fn kept<T>(found: Result<Option<T>, String>, part: &'static str, failed: &mut BTreeMap<&'static str, String>) -> Option<T> {
    found.unwrap_or_else(|reason| {
        failed.insert(part, reason);
        None
    })
}

type Plugins = Result<Option<BTreeMap<String, Plugin>>, String>;
type Servers = Result<BTreeMap<String, Server>, String>;

/// Plugins, and the MCP servers, some of which plugins bring.
fn look_at_extensions(
    request: &Request,
    path: Option<&OsStr>,
    home: Option<&OsStr>,
    python: Option<&Python>,
) -> (Plugins, Servers) {
    if request.kind != KINDS[0] {
        return (Ok(None), Ok(BTreeMap::new()));
    }
    let own = variable(&request.variables, "CLAUDE_CONFIG_DIR").filter(|folder| !folder.is_empty()).map(PathBuf::from);
    let config = own.or_else(|| home.map(|home| Path::new(home).join(".claude")));
    let plugins = config.map_or(Ok(None), |config| plugins::look(&config));
    let programs = mcp::Programs { workspace: &request.workspace, home, path, python, cache: request.cache.clone() };
    let places = Places {
        plugins: plugins::folders_of(plugins.iter().flatten().flatten()),
        ..Places::without_plugins(&request.workspace, &|name| variable(&request.variables, name), &request.mcp_config)
    };
    let servers = configured(&places).map(|configured| mcp::look(&configured, &programs));
    (plugins, servers)
}

fn look_at_python(request: &Request, path: Option<&OsStr>, home: Option<&OsStr>) -> crate::Result<Option<Python>> {
    let variable = |name: &str| variable(&request.variables, name).filter(|value| !value.is_empty());
    let (virtual_env, pyenv_version) = (variable("VIRTUAL_ENV"), variable("PYENV_VERSION"));
    let places = python::Places { workspace: &request.workspace, path, home, virtual_env, pyenv_version };
    python::look(&places, &request.cache)
}

fn variable(variables: &[(OsString, OsString)], name: &str) -> Option<OsString> {
    variables.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value.clone())
}

/// The versions of some packages.
fn named(python: &Python, packages: &[String]) -> BTreeMap<String, String> {
    let all = versions(python.freeze.iter().map(String::as_str));
    let found =
        packages.iter().filter_map(|name| all.get(&python::normalised(name)).map(|version| (name.clone(), version.clone())));
    found.collect()
}
