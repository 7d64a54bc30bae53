//! Making checkpoints of a session: one request and one function, whoever asks for it.
//!
//! [`make`] captures a workspace with the conversation, git, environment and tmux of the same moment, verifies it, and lets retention thin the
//! session. Which session a folder's checkpoint belongs to is known before. [`make_of_folder`] makes a checkpoint of a folder on request.

mod folder;
pub mod listed;
mod make;
mod saved;
pub mod session_name;
mod spool;
pub mod subject;
pub mod target;

pub use folder::{ConversationChoice, FolderRequest, make_of_folder};
pub use make::{CheckpointReport, make};
pub use parhelia_host::draft::{CheckpointRequest, Conversation};
pub use saved::SavedWork;
pub use spool::SpoolFile;
