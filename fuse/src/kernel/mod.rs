//! The kernel's side: requests, and whether any come.

pub mod activity;
pub mod requests;

use std::sync::Arc;

/// Takes a line for a log.
pub type Log = Arc<dyn Fn(&str) + Send + Sync>;
