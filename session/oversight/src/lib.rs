//! Oversight of an agent's work. [`approval`] has the policies by which checkpoints count as good, [`review`] says something of checkpoints: tags, annotations,
//! links, decisions, and the audit of all that; [`scan`] looks for secrets in them, [`search`] finds them by words, and [`labels`] are a session's.
//!
//! Map of the modules; a folder is a noun or a verb:
//!
//! | | |
//! |---|---|
//! | `labels` | labels of sessions, and selectors that choose sessions by them |
//! | `changed` | content that differs between two checkpoints of a workspace |
//! | `who` | the caller, as far as agents go: a person, an agent, or somebody whom one may have started |
//! | `overrides` | records of safeties that were switched off, for the audit |
//! | `review/` | what is said of checkpoints: tags, annotations, links; persons that approve or reject them, the audit; deleting what is so marked |
//! | `search/` | finding checkpoints by words: their texts, the index over them, and bringing that up to date |
//! | `approval/` | what a policy is told of a checkpoint that was just made, and what is recorded of its word (the rules are `policy` of the host); what a rejection says of others |
//! | `scan/` | whether a checkpoint's new content has secrets |

// Unit tests make and change files as they like.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod approval;
pub mod changed;
pub mod labels;
pub mod overrides;
pub mod review;
pub mod scan;
pub mod search;
pub mod who;
