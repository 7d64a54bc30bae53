//! The deeds of Gemini CLI's tools, from their calls, which have the results in them.

use crate::transcript::{
    json::Object,
    parts::ToolCall,
    story::{Change, CommandOutcome, ToolAction, exit_code},
};

/// The deed of a call that is over; none where it did nothing that is told.
pub(super) fn deed(call: &ToolCall, is_error: bool, output: impl FnOnce() -> String) -> Option<ToolAction> {
    let input = Object::parse(call.input.as_deref()?.as_bytes())?;
    let text = |name: &str| input.text(name).map(|text| text.into_owned());
    match call.name.as_str() {
        "run_shell_command" => {
            let (line, output) = (text("command")?, output());
            // A command that failed is a success of the tool, as long as it ran.
            let ended = match exit_code(&output, &["Exit Code:"]) {
                Some(0) | None if !is_error => CommandOutcome::Passed,
                _ => CommandOutcome::Failed,
            };
            Some(ToolAction::Ran { line, ended, output })
        }
        "replace" if !is_error => {
            let edits = vec![(text("old_string")?, text("new_string")?)];
            Some(ToolAction::Changed(Change { path: call.path.clone()?, edits, ..Change::default() }))
        }
        "write_file" if !is_error => {
            Some(ToolAction::Changed(Change { path: call.path.clone()?, after: Some(text("content")?), ..Change::default() }))
        }
        _ => None,
    }
}
