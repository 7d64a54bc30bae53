//! The floor of every workflow on sessions: the caller ([`Host`], [`Observer`]), its [configuration](config), what is said to people ([`notice`], [`Refusal`]), and
//! what is known of a session: its [runs](run), its [conversation], the rollback under way ([`intent`]), and the [state] that a checkpoint has beside the workspace.
//!
//! A workflow takes a request, a [`Host`] that stands for the caller, and an [`Observer`]; it prints nothing, asks nothing and returns a typed outcome.
//! Agents themselves are [`parhelia_agent`]'s, and what events add up to is [`parhelia_ledger`]'s.

// Unit tests make and change files as they like.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod age;
pub mod caller;
pub mod config;
pub mod conversation;
pub mod error;
pub mod events;
pub mod intent;
pub mod job;
pub mod mcp;
pub mod notice;
pub mod person;
pub mod policy;
pub mod refusal;
pub mod rule;
pub mod run;
pub mod safety;
pub mod state;

pub use caller::{Host, Observer, tmux_of};
pub use error::{DecisionRefusal, Error, KnowledgeRefusal, MarkRefusal, MoveRefusal, Refusal, Result, RunRefusal};
