//! Sessions in tmux: the tmux session in which one is to live, a process of ours in its pane that takes over what the caller has begun, and waiting until
//! it is known that the agent lives.

mod handover;
mod place;
mod saved;
mod server;
mod start;
mod watch;

use std::time::Duration;

pub use handover::{ProcessContext, scroll_up, take};
pub use place::TmuxPlace;
pub use saved::{SavedTmux, saved_tmux};
pub use server::{TmuxSession, server};
pub use start::InTmux;
pub use watch::StartupState;

/// No call of tmux takes longer.
const CALL_LIMIT: Duration = Duration::from_secs(20);
