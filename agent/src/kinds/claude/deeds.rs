//! The deeds of Claude Code's tools, from their calls and results.

use crate::transcript::{
    facts,
    json::Object,
    limits::PATH_BYTES_MAX,
    parts::ToolCall,
    story::{Change, CommandOutcome, ToolAction},
};

/// Beginnings of results that say that a tool did not run.
const NOT_RUN: [&str; 6] = [
    "The user doesn't want",
    "[Request interrupted",
    "Permission to use",
    "This command requires approval",
    "<tool_use_error>",
    "Claude requested permissions",
];

/// The deed of a call that has its result; none where it did nothing that is told.
pub(super) fn deed(call: &ToolCall, record: &Object, block: &Object) -> Option<ToolAction> {
    let input = Object::parse(call.input.as_deref()?.as_bytes())?;
    let is_error = block.is_true("is_error");
    match call.name.as_str() {
        "Bash" => ran(&input, is_error, facts::content_text(block)),
        "Edit" | "MultiEdit" | "Write" if !is_error => changed(call, &input, record).map(ToolAction::Changed),
        "ExitPlanMode" if is_error => Some(ToolAction::Rejected(input.text("plan")?.into_owned())),
        "WebFetch" if !is_error => input.name("url", PATH_BYTES_MAX).map(ToolAction::Fetched),
        _ => None,
    }
}

fn ran(input: &Object, is_error: bool, output: String) -> Option<ToolAction> {
    let line = input.text("command")?.into_owned();
    if is_error && NOT_RUN.iter().any(|start| output.trim_start().starts_with(start)) {
        return None;
    }
    let ended = match is_error {
        true => CommandOutcome::Failed,
        false if input.is_true("run_in_background") => CommandOutcome::Unknown,
        false => CommandOutcome::Passed,
    };
    Some(ToolAction::Ran { line, ended, output })
}

fn changed(call: &ToolCall, input: &Object, record: &Object) -> Option<Change> {
    let result = record.object("toolUseResult").or_else(|| record.object("tool_use_result")).unwrap_or_default();
    let before = result.text("originalFile").map(|text| text.into_owned());
    let pair = |edit: &Object| Some((edit.text("old_string")?.into_owned(), edit.text("new_string")?.into_owned()));
    let path = call.path.clone()?;
    if call.name == "Write" {
        return Some(Change { path, before, after: Some(input.text("content")?.into_owned()), edits: Vec::new() });
    }
    let edits: Vec<_> = match input.get("edits") {
        Some(_) => input.list("edits").into_iter().filter_map(Object::of).filter_map(|edit| pair(&edit)).collect(),
        None => pair(input).into_iter().collect(),
    };
    let all = input.is_true("replace_all");
    let apply = |text: String, (old, new): &(String, String)| match old.is_empty() {
        true => new.clone(),
        false if all => text.replace(old.as_str(), new),
        false => text.replacen(old.as_str(), new, 1),
    };
    let after = before.clone().map(|before| edits.iter().fold(before, apply));
    (!edits.is_empty()).then_some(Change { path, edits, before, after })
}
