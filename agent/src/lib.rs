//! Coding agents: their command lines, conversations, hooks and settings, and the processes, terminals, repositories and programs that they
//! work with. Nothing here knows a store. What is true of one kind of agent alone stands behind [`kind::AgentKind`], and only [`kinds`] knows one.

// Unit tests make and change files as they like.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod briefing;
pub mod command;
pub mod declaration;
pub mod durable;
pub mod edited;
pub mod environment;
pub mod error;
pub mod folder;
pub mod git;
pub mod hooks;
pub mod id;
pub mod kind;
pub mod kinds;
pub mod mcp;
pub mod open;
pub mod process;
pub mod program;
pub mod regular;
pub mod said;
pub mod secrets;
pub mod threads;
pub mod tmux;
pub mod transcript;
pub mod trouble;
pub mod words;

pub use error::{Error, Result};
