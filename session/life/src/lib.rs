//! The life of a session on a [store](parhelia_store): what is captured beside the workspace, what a checkpoint means, and how a session lives again.
//!
//! [`checkpoint`] makes checkpoints, [`supervise`] starts an agent and watches over it, [`resume`] brings a session back to life, [`rollback`] and [`restore`] put
//! files back, [`ending`] stops, pauses and ends, [`retention`] thins, [`hook`] takes in an agent's events, [`older`] imports checkpoints of older tools, and
//! [`review_report`] shows a person what was done. [`mcp`] captures the state of MCP servers, and gives it back.
//!
//! Below them, [`overwrite`] knows what a restore would replace and makes safety checkpoints of it, [`target`] the session that a folder's checkpoint belongs to,
//! [`place`] where its workspace is by now. [`capture`] takes what a checkpoint keeps beside the workspace, [`prompt`] and [`answer`] type into a live agent's
//! terminal, [`overview`] tells how a session is, and [`manifest`] what a checkpoint says of itself to other programs.

// Unit tests make and change files as they like.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod answer;
pub mod attention;
pub mod beads;
pub mod capture;
pub mod checked;
pub mod checkpoint;
pub mod ending;
pub mod environment;
pub mod hook;
pub mod manifest;
pub mod mcp;
pub mod older;
pub mod overview;
pub mod overwrite;
pub mod place;
pub mod position;
pub mod prompt;
pub mod restore;
pub mod resume;
pub mod retention;
pub mod review_report;
pub mod rollback;
#[cfg(test)]
mod search_tests;
pub mod secrets;
pub mod supervise;
pub mod target;
pub mod template;
pub mod tmux;
pub mod verification;
pub mod worktrees;
