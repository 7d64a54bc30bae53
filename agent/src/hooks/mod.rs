//! Hooks: events, and the entries in an agent's settings that bring them here. All kinds have the format of Claude Code.

mod command;
mod comments;
mod edit;
mod event;
mod settings;

pub use command::{HookCommand, is_ours, store_of};
pub use event::{Event, Kind};
pub use settings::{Events, Status, install, settings_json, status, uninstall};
