//! Hooks: events, and the entries in an agent's settings that bring them here. All kinds have the format of Claude Code.

pub mod command;
mod comments;
mod dead;
mod edit;
pub mod event;
mod layers;
mod matcher;
mod meaning;
mod release;
pub(crate) mod settings;

pub use crate::kind::Events;
pub use command::{HookCommand, is_ours, store_of};
pub use dead::{Dead, dead, is_there};
pub use event::{Event, Kind};
pub use layers::{Layer, given, layers};
pub use matcher::MatcherGap;
pub use release::Release;
pub use settings::{Status, install, settings_json, status, uninstall};
