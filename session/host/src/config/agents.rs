//! Kinds of agents that the user declares: `[[agent]]`.
//!
//! None of it can be set by a project: a declaration says which program is started by a resume, and with which words.

use parhelia_agent::{declaration::Declaration, kinds};
use serde_json::Value;

/// The declarations of a configuration file, if they make sense.
pub(super) fn checked(value: Value) -> Result<Value, String> {
    let found: Vec<Declaration> = serde_json::from_value(value.clone()).map_err(|e| e.to_string())?;
    kinds::check(&found).map_or(Ok(value), Err)
}
