//! The environment of an older checkpoint: the manifest's of schema 1.2, and the variables in `environment.json`.

use std::ffi::OsString;

use parhelia_agent::environment::{kept_variables, redact};
use serde_json::{Map, Value, json};

use super::fields::Fields;
use parhelia_host::Result;

/// Objects of the environment that hold texts, and those that hold such objects.
const OBJECTS: [&str; 2] = ["claude_code", "python_packages"];
const NAMED: [&str; 2] = ["plugins", "mcp_servers"];
/// Texts of the environment.
const TEXTS: [&str; 3] = ["python_version", "pip_freeze_hash", "captured_at"];
/// Texts of the objects in it; what else these hold is kept as it is.
const KNOWN: [&str; 11] = [
    "version",
    "binary_hash",
    "install_path",
    "git_remote",
    "git_commit",
    "git_branch",
    "installed_at",
    "manifest_version",
    "source_type",
    "version_id",
    "config_hash",
];
const SOURCES: [&str; 4] = ["npm", "git", "local", "docker"];
const VARIABLES: &str = "variables";

/// The environment as a record has it; none where nothing is known.
pub(super) fn read(manifest: &Fields<'_>, file: Option<&Fields<'_>>) -> Result<Option<Value>> {
    let mut found = snapshot(manifest)?;
    if let Some(file) = file {
        let told =
            if is_snapshot(file) { snapshot(file)? } else { [(VARIABLES.to_owned(), variables(file)?)].into_iter().collect() };
        for (name, value) in told {
            found.entry(name).or_insert(value);
        }
    }
    Ok((!found.is_empty()).then(|| found.into()))
}

/// True of an environment of schema 1.2; else the object has variables.
fn is_snapshot(fields: &Fields<'_>) -> bool {
    [&OBJECTS[..], &NAMED[..], &TEXTS[..], &[VARIABLES]].concat().into_iter().any(|name| fields.value(name).is_some())
}

fn snapshot(fields: &Fields<'_>) -> Result<Map<String, Value>> {
    let mut found = Map::new();
    for (name, value) in fields.all() {
        let value = match name.as_str() {
            VARIABLES => variables(&fields.object(name)?)?,
            "captured_at" => fields.time(name)?.map(|at| at.to_string()).into(),
            known if TEXTS.contains(&known) => fields.text(name)?.into(),
            "python_packages" => texts(&fields.object(name)?, |_| true)?,
            known if OBJECTS.contains(&known) => texts(&fields.object(name)?, is_known)?,
            known if NAMED.contains(&known) => {
                let all = fields.object(name)?;
                let one = |(name, _): (&String, _)| Ok((name.clone(), texts(&all.object(name)?, is_known)?));
                Value::Object(all.all().map(one).collect::<Result<_>>()?)
            }
            _ => cleaned(value),
        };
        found.insert(name.clone(), value);
    }
    Ok(found)
}

fn is_known(name: &str) -> bool {
    KNOWN.contains(&name)
}

/// An object whose fields are texts where `must_be` says so. What is null is not known.
fn texts(fields: &Fields<'_>, must_be: impl Fn(&str) -> bool) -> Result<Value> {
    let mut found = Map::new();
    for (name, value) in fields.all() {
        let text = if must_be(name) { fields.text(name)? } else { None };
        if name == "source_type" && text.as_ref().is_some_and(|text| !SOURCES.contains(&text.as_str())) {
            return Err(fields.refused(name, format!("is none of {}", SOURCES.join(", "))));
        }
        let value = match name.as_str() {
            "installed_at" => fields.time(name)?.map(|at| at.to_string()).into(),
            _ => cleaned(value),
        };
        found.insert(name.clone(), value);
    }
    Ok(found.into())
}

/// Variables that are no secrets, by the rules of a capture.
fn variables(fields: &Fields<'_>) -> Result<Value> {
    let mut all: Vec<(OsString, OsString)> = Vec::new();
    for (name, _) in fields.all() {
        let value = fields.long_text(name)?.unwrap_or_default();
        all.push((name.into(), value.into()));
    }
    Ok(json!(kept_variables(&all, &[], &[])))
}

/// A value without the credentials that stand in its texts.
fn cleaned(value: &Value) -> Value {
    match value {
        Value::String(text) => redact::text(text).into(),
        Value::Array(values) => values.iter().map(cleaned).collect(),
        Value::Object(fields) => Value::Object(fields.iter().map(|(name, value)| (name.clone(), cleaned(value))).collect()),
        other => other.clone(),
    }
}

/// An environment as a file of a checkpoint may have it: variables and texts without credentials.
pub(super) fn without_secrets(value: &Value) -> Value {
    let Value::Object(fields) = value else { return cleaned(value) };
    let names = [&OBJECTS[..], &NAMED[..], &TEXTS[..], &[VARIABLES]].concat();
    if !names.iter().any(|name| fields.contains_key(*name)) {
        return redact::json(value);
    }
    let one = |(name, value): (&String, &Value)| {
        let value = if name == VARIABLES { redact::json(value) } else { cleaned(value) };
        (name.clone(), value)
    };
    Value::Object(fields.iter().map(one).collect())
}
