//! Lines of `--json`, held against the JSON Schema of the documentation.

use std::{ffi::OsStr, process::Output, sync::LazyLock};

use jsonschema::Validator;
use serde_json::Value;

static VALIDATOR: LazyLock<Validator> = LazyLock::new(|| {
    let schema: Value = serde_json::from_str(include_str!("../../docs/json.schema.json")).unwrap_or_default();
    jsonschema::validator_for(&schema).unwrap_or_else(|e| panic!("docs/json.schema.json: {e}"))
});

/// Of so many lines of one type each is held against the schema.
const CHECKED_MAX: usize = 20;

/// Fails if a command line with `--json` has printed anything but lines that follow the schema, with a summary or an error at the end.
#[track_caller]
pub fn ensure<S: AsRef<OsStr>>(arguments: &[S], output: &Output) {
    let is_of_ours = |word: &&S| word.as_ref() != "--";
    if !arguments.iter().take_while(is_of_ours).any(|word| word.as_ref() == "--json") {
        return;
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let mut seen = std::collections::HashMap::<String, usize>::new();
    let mut last = String::new();
    for line in text.lines() {
        let object: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
        last = object["type"].as_str().unwrap_or_default().to_owned();
        let number = seen.entry(last.clone()).or_default();
        *number += 1;
        if *number <= CHECKED_MAX && !VALIDATOR.is_valid(&object) {
            let errors: Vec<String> = VALIDATOR.iter_errors(&object).map(|e| e.to_string()).collect();
            panic!("{errors:?}: {line}");
        }
    }
    let is_whole = output.status.code().is_none() || ["summary", "error"].contains(&&*last);
    assert!(is_whole, "the last line is of type {last:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
}
