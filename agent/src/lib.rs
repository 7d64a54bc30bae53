//! Coding agents: their command lines, conversations, hooks and settings, and the processes, terminals, repositories and programs that they
//! work with. Nothing here knows a store. What is true of one kind of agent alone stands behind [`kind::AgentKind`].

// Unit tests make and change files as they like.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod briefing;
pub mod claude;
pub mod codex;
pub mod command;
pub mod durable;
pub mod edited;
pub mod environment;
pub mod error;
pub mod folder;
pub mod gemini;
pub mod git;
pub mod hooks;
pub mod kind;
pub mod mcp;
pub mod open;
pub mod process;
pub mod program;
pub mod regular;
pub mod secrets;
pub mod threads;
pub mod tmux;
pub mod transcript;
pub mod trouble;

pub use error::{Error, Result};
