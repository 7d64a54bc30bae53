//! The deeds of Codex's tools, from their calls and results.

use crate::transcript::{
    json::{self, Object},
    limits::{NAME_BYTES_MAX, PATH_BYTES_MAX},
    parts::ToolCall,
    story::{Change, CommandOutcome, ToolAction, exit_code},
};

/// The tool that changes files, as the model calls it.
pub(super) const PATCHES: &str = "apply_patch";
/// Lines of a patch that name a file, up to its path.
pub(super) const PATCHED: [&str; 4] = ["*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: "];
/// Tools that run commands.
const RUNS: [&str; 5] = ["exec_command", "shell", "shell_command", "local_shell", "container.exec"];
/// Beginnings of lines that give an exit code.
const CODES: [&str; 2] = ["Process exited with code ", "Exit code: "];
/// Shells, whose last argument is the line that they run.
const SHELLS: [&str; 3] = ["bash", "sh", "zsh"];
/// A result that says that a command did not run.
const REJECTED: &str = "rejected by user";

/// The text of a call's result.
pub(super) fn output_of(payload: &Object) -> String {
    if let Some(text) = payload.text("output") {
        return text.into_owned();
    }
    let blocks = payload.list("output");
    if !blocks.is_empty() {
        let texts =
            blocks.into_iter().filter_map(Object::of).filter_map(|block| block.text("text").map(|text| text.into_owned()));
        return texts.collect::<Vec<_>>().join("\n");
    }
    payload.object("output").and_then(|output| Some(output.text("content")?.into_owned())).unwrap_or_default()
}

/// The deeds of a call that has its result.
pub(super) fn deeds(call: &ToolCall, payload: &Object, is_error: bool) -> Vec<ToolAction> {
    let Some(input) = call.input.as_deref() else { return Vec::new() };
    if call.name == PATCHES && !is_error {
        return changes(input).into_iter().map(ToolAction::Changed).collect();
    }
    if !RUNS.contains(&call.name.as_str()) {
        return Vec::new();
    }
    let Some(line) = Object::parse(input.as_bytes()).and_then(|input| line(&input)) else { return Vec::new() };
    // Earlier releases put the output and its code into an object of their own.
    let told = output_of(payload);
    let inner = Object::parse(told.as_bytes()).filter(|inner| inner.get("output").is_some());
    let output = inner.as_ref().and_then(|inner| inner.text("output")).map_or_else(|| told.clone(), |text| text.into_owned());
    let code = inner.as_ref().and_then(|inner| inner.object("metadata")?.get("exit_code")?.get().parse().ok());
    if code.is_none() && output.contains(REJECTED) {
        return Vec::new();
    }
    let ended = match code.or_else(|| exit_code(&told, &CODES)) {
        Some(0) => CommandOutcome::Passed,
        Some(_) => CommandOutcome::Failed,
        None if is_error => CommandOutcome::Failed,
        None => CommandOutcome::Unknown,
    };
    vec![ToolAction::Ran { line, ended, output }]
}

/// The line that a call runs: text, or the words of a command, of which a shell's last one is the line.
fn line(input: &Object) -> Option<String> {
    if let Some(text) = input.text("cmd").or_else(|| input.text("command")) {
        return Some(text.into_owned());
    }
    let words = input.list("command").into_iter().filter_map(json::text).map(|word| word.into_owned()).collect::<Vec<_>>();
    let is_shell = words.first().is_some_and(|first| SHELLS.iter().any(|shell| first.rsplit('/').next() == Some(shell)));
    match words.last() {
        Some(last) if is_shell && words.len() > 2 => Some(last.clone()),
        _ => Some(words.join(" ")).filter(|line| !line.is_empty()),
    }
}

/// The changes of files in a patch.
fn changes(patch: &str) -> Vec<Change> {
    let mut found: Vec<Change> = Vec::new();
    let mut texts = (String::new(), String::new());
    let close = |found: &mut Vec<Change>, texts: &mut (String, String)| {
        let edit = std::mem::take(texts);
        if let Some(change) = found.last_mut().filter(|_| !edit.0.is_empty() || !edit.1.is_empty()) {
            change.edits.push(edit);
        }
    };
    for text in patch.lines() {
        let path = PATCHED[..3].iter().find_map(|start| text.strip_prefix(start)).map(str::trim);
        if let Some(path) = path.filter(|path| path.len() <= PATH_BYTES_MAX.max(NAME_BYTES_MAX)) {
            close(&mut found, &mut texts);
            found.push(Change { path: path.to_owned(), ..Change::default() });
        } else if let Some(removed) = text.strip_prefix('-') {
            texts.0.push_str(removed);
            texts.0.push('\n');
        } else if let Some(added) = text.strip_prefix('+') {
            texts.1.push_str(added);
            texts.1.push('\n');
        } else if text.starts_with("@@") {
            close(&mut found, &mut texts);
        }
    }
    close(&mut found, &mut texts);
    found
}
