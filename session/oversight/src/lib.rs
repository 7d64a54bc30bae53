//! Oversight of an agent's work. [`approval`] has the policies by which checkpoints count as good, [`review`] says something of checkpoints: tags, annotations,
//! links, decisions, and the audit of all that; [`scan`] looks for secrets in them, [`search`] finds them by words, and [`labels`] are a session's.

// Unit tests make and change files as they like.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod approval;
pub mod changed;
pub mod labels;
pub mod overrides;
pub mod review;
pub mod scan;
pub mod search;
