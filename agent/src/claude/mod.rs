//! The agent's command line and its files: what it is started with, what must be said again when it is resumed, where its conversation
//! lies, and how to tell that it did not come to life.

mod argv;
mod config;
pub mod hooks;
mod open;
mod place;
mod repair;
mod secrets;
mod trouble;
mod unseen;
mod words;

pub use argv::{Agent, Bypass, Resume, new_conversation_id, resume_argv};
pub use config::{ConfigFolder, config_folder};
pub use open::{Holder, Open, Said, holders, live, open, open_in, said_by};
pub use place::{copies, gather, slug, transcript_path};
pub use repair::{Repaired, repair, whole_bytes};
pub use secrets::{SecretFiles, SecretFolder, secrets};
pub use trouble::{Trouble, does_not_know, trouble};
pub use unseen::{Unseen, unseen};
