//! Kinds of agents that the user declares: `[[agent]]`.
//!
//! None of it can be set by a project: a declaration says which program is started by a resume, and with which words.

use std::path::Path;

use parhelia_agent::{declaration::Declaration, kinds};
use serde_json::Value;

use super::{file, options::Level};

/// The option.
const KEY: &str = "agent";

/// The declarations of a configuration file, if they make sense.
pub(super) fn checked(value: Value) -> Result<Value, String> {
    let found: Vec<Declaration> = serde_json::from_value(value.clone()).map_err(|e| e.to_string())?;
    kinds::check(&found).map_or(Ok(value), Err)
}

/// The kinds of agents that a file of the user's declares, whatever else of it is wrong: a process has to know an agent above it before it knows
/// whose word counts.
pub fn declared(path: &Path) -> Vec<Declaration> {
    let settings = file::read(path, false).ok().flatten().and_then(|text| file::parse(path, &text, Level::User).ok());
    let values = settings.into_iter().flatten().flatten().filter(|setting| setting.option.key == KEY);
    values.filter_map(|setting| serde_json::from_value::<Vec<Declaration>>(setting.value).ok()).flatten().collect()
}
