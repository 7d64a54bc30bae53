//! Sessions of a coding agent on a [store](parhelia_store): what is captured beside the workspace, what a checkpoint means, and how a
//! session lives again.
//!
//! A workflow takes a request, a [`Host`](host::Host) that stands for the caller, and an [`Observer`](host::Observer); it prints nothing, asks
//! nothing and returns a typed outcome. [`checkpoint`] makes checkpoints, [`supervise`] starts an agent and watches over it, [`resume`] brings a
//! session back to life, [`rollback`] and [`restore`] put files back, [`ending`] stops, pauses and ends, [`retention`] thins, [`hook`] takes in
//! an agent's events, [`review`] says something of checkpoints: tags, annotations, links, decisions; [`older`] imports those of older tools; [`search`] finds them by words; and [`events`] are the journal's, each with its session. [`phase`] checkpoints are files that need no store. [`mcp`] captures the state of MCP servers, and gives it back. [`memory`] has what a project's sessions have learned. [`window`] measures the model's context, and makes a conversation shorter.
//!
//! Below them, [`overwrite`] knows what a restore would replace and makes safety checkpoints of it, [`target`] the session that a folder's
//! checkpoint belongs to, [`place`] where its workspace is by now, [`conversation`] puts the agent's conversation back, [`intent`] holds a
//! session's turn and the rollback under way. [`approval`] has the policies by which checkpoints count as good, [`scan`] looks for secrets in them. [`capture`] takes what a checkpoint keeps beside the workspace, [`run`] knows a session's runs, [`briefing`] has the words for a
//! resumed agent, [`prompt`] and [`answer`] type into a live agent's terminal, [`labels`] are a session's, [`overview`] tells how it is, [`summary`] what was done in it, and [`manifest`] what a checkpoint says of itself to other programs. Agents themselves are
//! [`parhelia_agent`]'s.

// Unit tests make and change files as they like.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod age;
pub mod answer;
pub mod approval;
pub mod attention;
pub mod beads;
pub mod beside;
pub mod briefing;
pub mod capture;
pub mod changed;
pub mod checked;
pub mod checkpoint;
pub mod config;
pub mod context;
pub mod conversation;
pub mod ending;
pub mod environment;
pub mod error;
pub mod events;
pub mod hook;
pub mod host;
pub mod intent;
pub mod labels;
pub mod manifest;
pub mod mcp;
pub mod memory;
pub mod notice;
pub mod older;
pub mod overrides;
pub mod overview;
pub mod overwrite;
pub mod person;
pub mod phase;
pub mod place;
pub mod position;
pub mod prompt;
mod refusal;
pub mod restore;
pub mod resume;
pub mod retention;
pub mod review;
pub mod rollback;
pub mod run;
pub mod safety;
pub mod scan;
pub mod search;
pub mod secrets;
pub mod state;
pub mod summary;
pub mod supervise;
pub mod target;
pub mod template;
#[cfg(test)]
mod testing;
pub mod tmux;
pub mod verification;
pub mod window;
pub mod worktrees;

pub use error::{DecisionRefusal, Error, KnowledgeRefusal, MarkRefusal, MoveRefusal, Refusal, Result, RunRefusal};
