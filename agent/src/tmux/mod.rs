//! tmux: what a session looked like (windows, panes, layouts, folders, programs, scrollback), and making it look so again.
//!
//! Everything goes through the `tmux` program on one [`Server`], whose socket may be private. Fields are asked for with their lengths,
//! so that a name may hold any character.

mod capture;
mod detach;
mod pane;
mod parse;
mod restore;
mod server;
mod state;
#[cfg(test)]
mod tests;

pub use capture::{Limits, Scrollback, SessionCapture, capture, session_of};
pub use detach::Detaches;
pub use pane::{PaneStatus, session_name};
pub use restore::{RestoreRequest, RestoredSession, restore};
pub use server::Server;
pub use state::{Pane, State, Window, geometry};
