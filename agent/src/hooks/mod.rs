//! The agent's hooks: what an event means, and the entries in its settings that bring events here.

mod command;
mod edit;
mod event;
mod settings;

pub use command::{HookCommand, is_ours, store_of};
pub use edit::Edited;
pub use event::{Event, Kind};
pub use settings::{Change, EVENTS, Status, install, settings_json, settings_path, status, uninstall};
