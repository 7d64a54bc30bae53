//! The reference to the newest phase checkpoint in `seed.json`, whose other fields are none of ours.

use std::path::Path;

use parhelia_agent::edited::{EditOutcome, edit};
use serde_json::Value;

use parhelia_host::Result;

/// Points a seed to a phase checkpoint, in `state.checkpointRef`. Where there is no seed, none is made.
pub fn point(seed: &Path, id: &str) -> Result<()> {
    change(seed, &|state| {
        let before = state.insert("checkpointRef".into(), id.into());
        before.as_ref().and_then(Value::as_str) != Some(id)
    })
}

/// Takes the reference out of a seed, where it is one of those that are meant.
pub fn forget(seed: &Path, is_meant: &dyn Fn(&str) -> bool) -> Result<()> {
    change(seed, &|state| {
        let is_it = state.get("checkpointRef").and_then(Value::as_str).is_some_and(is_meant);
        is_it && state.shift_remove("checkpointRef").is_some()
    })
}

/// Changes the `state` of a seed; `changes` says whether it has.
fn change(seed: &Path, changes: &dyn Fn(&mut serde_json::Map<String, Value>) -> bool) -> Result<()> {
    if !seed.exists() {
        return Ok(());
    }
    edit(seed, &|text| {
        let mut value: Value = serde_json::from_str(text).map_err(|e| format!("it is not JSON: {e}"))?;
        let Some(state) = value.get_mut("state").and_then(Value::as_object_mut) else {
            return Err("it has no object `state`".into());
        };
        if !changes(state) {
            return Ok(EditOutcome::Unchanged);
        }
        let mut text = serde_json::to_string_pretty(&value).map_err(|e| e.to_string())?;
        text.push('\n');
        Ok(EditOutcome::Changed(text))
    })?;
    Ok(())
}
