//! Hooks in an agent's settings.

use parhelia_agent::hooks::{Layer, MatcherGap};
use parhelia_host::run::HeardHooks;
use parhelia_store::name::NameExt as _;
use schemars::JsonSchema;
use serde::Serialize;

/// Hooks that were installed.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct InstallOutcome {
    /// The agent's settings.
    pub path: String,
    /// True if a file was changed.
    pub changed: bool,
    /// MCP servers with a proxy before them, where those were asked for.
    pub proxied: Option<Vec<String>>,
}

/// Hooks that were removed.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct UninstallOutcome {
    /// The agent's settings.
    pub path: String,
    /// True if a file was changed.
    pub changed: bool,
    /// MCP servers that had a proxy before them.
    pub unproxied: Vec<String>,
}

/// Hooks as they are.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct StatusOutcome {
    /// The agent's settings.
    pub path: String,
    /// Events with a hook.
    pub installed: Vec<String>,
    /// Events without one, or with one for some of their values alone.
    pub missing: Vec<String>,
    /// Those of the latter.
    pub narrowed: Vec<MatcherGap>,
    /// Commands of the hooks.
    pub commands: Vec<String>,
    /// True if all hooks are turned off.
    pub disabled: bool,
    /// The layers of settings that the agent reads, the one that counts most first.
    pub layers: Vec<HookLayer>,
    /// The reason why the hooks do not run, as far as settings tell; null where they say nothing against it.
    pub why_dead: Option<String>,
    /// The last event of such an agent that has come of a hook.
    pub last_heard: Option<HeardHooks>,
    /// MCP servers with a proxy before them.
    pub proxied: Vec<String>,
}

/// One file of settings that an agent reads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HookLayer {
    /// The layer: `managed`, `local`, `project`, `user`.
    pub scope: String,
    /// The file.
    pub path: String,
    /// Commands of our hooks in it.
    pub commands: Vec<String>,
    /// The setting in it by which hooks are turned off.
    pub off: Option<String>,
    /// Its state, in words.
    pub said: String,
}

impl HookLayer {
    /// A layer, and its state in words.
    pub fn of(layer: &Layer, said: String) -> Self {
        HookLayer {
            scope: layer.scope.to_owned(),
            path: layer.path.shown(),
            commands: layer.commands.clone(),
            off: layer.off.map(str::to_owned),
            said,
        }
    }
}
