//! The deeds of Gemini CLI's tools, from their calls, which have the results in them.

use crate::transcript::{
    json::Object,
    parts::ToolCall,
    story::{Change, Deed, Ended, exit_code},
};

/// The deed of a call that is over; none where it did nothing that is told.
pub(super) fn deed(call: &ToolCall, is_error: bool, output: impl FnOnce() -> String) -> Option<Deed> {
    let input = Object::parse(call.input.as_deref()?.as_bytes())?;
    let text = |name: &str| input.text(name).map(|text| text.into_owned());
    match call.name.as_str() {
        "run_shell_command" => {
            let (line, output) = (text("command")?, output());
            // A command that failed is a success of the tool, as long as it ran.
            let ended = match exit_code(&output, &["Exit Code:"]) {
                Some(0) | None if !is_error => Ended::Passed,
                _ => Ended::Failed,
            };
            Some(Deed::Ran { line, ended, output })
        }
        "replace" if !is_error => {
            let edits = vec![(text("old_string")?, text("new_string")?)];
            Some(Deed::Changed(Change { path: call.path.clone()?, edits, ..Change::default() }))
        }
        "write_file" if !is_error => {
            Some(Deed::Changed(Change { path: call.path.clone()?, after: Some(text("content")?), ..Change::default() }))
        }
        _ => None,
    }
}
