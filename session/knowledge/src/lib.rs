//! What is known of a session's work: [`summary`] says what was done in it, [`memory`] what a project's sessions have learned, [`briefing`] has the words for a
//! resumed agent, [`phase`] checkpoints are files that need no store, and [`window`] measures the model's context, and makes a conversation shorter.

// Unit tests make and change files as they like.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod briefing;
pub mod context;
pub mod decide;
pub mod memory;
pub mod phase;
pub mod summary;
pub mod window;
