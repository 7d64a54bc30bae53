//! Sessions of a coding agent on a [store](parhelia_store): what is captured beside the workspace, what a checkpoint means, and how a
//! session lives again.
//!
//! [`capture`] takes what a checkpoint keeps beside the workspace, of [`transcript`], [`git`], [`environment`] and [`tmux`]. [`run`] begins
//! and ends a session's runs, [`resume`] and [`rollback`] go back to a checkpoint. [`agent`] knows the agent's command line and files,
//! [`hooks`] its events and settings, [`inject`] what it is told when it is resumed, [`process`] which processes belong to a run.
//! [`overview`] tells how a session is, [`manifest`] what a checkpoint says of itself to other programs.

pub mod capture;
pub mod config;
pub mod context;
pub mod error;
pub mod hook;
pub mod inject;
pub mod manifest;
pub mod overview;
pub mod overwrite;
pub mod resume;
pub mod retention;
pub mod rollback;
pub mod run;
pub mod secrets;
pub mod verification;

pub use error::{Error, Result};
