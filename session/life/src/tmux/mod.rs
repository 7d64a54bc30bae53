//! Sessions in tmux: the tmux session in which one is to live again, and waiting until it is known that it does.

mod place;
mod saved;
mod watch;

pub use place::{Pane, TmuxPlace, place};
pub use saved::{SavedTmux, saved_tmux};
pub use watch::{Started, Watch};
