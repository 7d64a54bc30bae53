//! A dead session lives again: from which checkpoint, with which workspace and conversation, and what the agent is told.

mod choose;
mod conversation;
mod files;
mod now;
mod place;
mod read;
mod tell;
mod tmux;
mod workspace;

pub use choose::{Choice, candidates, choose, choose_ahead, is_safety};
pub use conversation::{Restored, aside, held, position, put_back};
pub use place::{Standing, ensure_place, move_to, moved_from, moved_to};
pub(crate) use read::files_below;
pub use read::{state_bytes, state_file, state_json};
pub use tell::{Telling, age, tell};
pub use tmux::{SavedTmux, saved_tmux};
pub use workspace::{Fate, Workspace, bring_back, foresee};
