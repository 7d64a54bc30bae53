//! Hooks in an agent's settings.

use parhelia_agent::hooks::{Layer, MatcherGap};
use schemars::JsonSchema;
use serde::Serialize;

use parhelia_store::name::NameExt as _;

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

/// An event that has come of a hook.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LastHeard {
    /// Its name.
    pub event: String,
    /// The time.
    #[schemars(extend("format" = "date-time"))]
    pub at: String,
}

/// An event that comes for some of its values alone, as the matcher of our hook leaves others out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct NarrowedHook {
    /// Name of the event in the agent's settings, such as PreToolUse.
    pub event: String,
    /// The matchers of our hooks of it.
    pub matchers: Vec<String>,
    /// Values that they leave out, as far as they are known.
    pub left_out: Vec<String>,
}

impl From<&MatcherGap> for NarrowedHook {
    fn from(narrowed: &MatcherGap) -> Self {
        let MatcherGap { event, matchers, left_out } = narrowed.clone();
        NarrowedHook { event, matchers, left_out }
    }
}
