//! Making checkpoints of a session: one request and one function, whoever asks for it.
//!
//! [`make`] captures a workspace with the conversation, git, environment and tmux of the same moment, verifies it, and lets retention thin the
//! session. [`crate::target`] says which session a folder's checkpoint belongs to.

mod make;
mod names;
mod request;
mod saved;
mod spool;

pub use make::{Made, make};
pub use names::{checked_name, derived_name};
pub use request::{CheckpointRequest, Conversation};
pub use saved::SavedWork;
pub use spool::Spooled;
