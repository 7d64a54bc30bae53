//! Sessions of a coding agent on a [store](parhelia_store): what is captured beside the workspace, what a checkpoint means, and how a
//! session lives again.
//!
//! [`capture`] takes what a checkpoint keeps beside the workspace. [`run`] begins and ends a session's runs, [`resume`] and [`rollback`] go
//! back to a checkpoint. [`hook`] says what an agent's event means, [`inject`] what an agent is told when it is resumed. [`overview`] tells
//! how a session is, [`manifest`] what a checkpoint says of itself to other programs. Agents themselves are [`parhelia_agent`]'s.

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
