//! Making checkpoints of a session: one request and one function, whoever asks for it.
//!
//! [`make`] captures a workspace with the conversation, git, environment and tmux of the same moment, verifies it, and lets retention thin the
//! session. [`target`] says which session a folder's checkpoint belongs to, [`of_session`] makes one of a session from outside its run.

mod make;
mod names;
mod of_folder;
mod of_session;
mod request;
mod spool;

pub use make::{Made, make};
pub use names::{checked_name, derived_name};
pub use of_folder::{Target, own_run, target};
pub use of_session::of_session;
pub use request::{CheckpointRequest, Conversation};
pub use spool::Spooled;
