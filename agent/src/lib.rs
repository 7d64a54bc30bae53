//! Coding agents: their command lines, conversations, hooks and settings, and the processes, terminals, repositories and programs that they
//! work with. Nothing here knows a store.

pub mod briefing;
pub mod claude;
pub mod durable;
pub mod environment;
pub mod error;
pub mod git;
pub mod process;
pub mod program;
pub mod regular;
pub mod threads;
pub mod tmux;
pub mod transcript;

pub use error::{Error, Result};
