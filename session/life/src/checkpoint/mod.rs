//! Making checkpoints of a session: one request and one function, whoever asks for it.
//!
//! [`make`] captures a workspace with the conversation, git, environment and tmux of the same moment, verifies it, and lets retention thin the
//! session. Which session a folder's checkpoint belongs to is known before.

mod make;
mod saved;
mod spool;

pub use make::{CheckpointReport, make};
pub use parhelia_host::draft::{CheckpointRequest, Conversation};
pub use saved::SavedWork;
pub use spool::SpoolFile;
