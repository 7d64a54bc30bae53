//! Codex's records as pieces of the model's window.

use super::record::{prompt_of, text_of};
use crate::transcript::{
    json::Object,
    limits::NAME_BYTES_MAX,
    reading::{What, WindowBuilder, about},
};

/// So many pieces are looked back over for the other record of a prompt.
const NEAR: usize = 8;

/// Adds a record.
pub(crate) fn window(record: &Object, payload: &Object, reading: &mut WindowBuilder) {
    match record.text("type").as_deref() {
        Some("session_meta") => {
            let instructions =
                payload.object("base_instructions").and_then(|base| base.text("text").map(|text| text.into_owned()));
            reading.system(instructions.unwrap_or_default());
        }
        Some("turn_context") => reading.model(payload.name("model", NAME_BYTES_MAX)),
        Some("compacted") => {
            reading.compacted(None);
            reading.add(What::Summary, &payload.text("message").unwrap_or_default());
        }
        Some("event_msg") => event(payload, reading),
        Some("response_item") => item(payload, reading),
        _ => {}
    }
}

fn event(payload: &Object, reading: &mut WindowBuilder) {
    if let Some(prompt) = prompt_of(payload) {
        // What the model sees of it may come first.
        match reading.last(NEAR).iter_mut().rev().find(|piece| piece.what == What::Told && piece.text == prompt) {
            Some(piece) => piece.what = What::Prompt,
            None => reading.add(What::Prompt, &prompt),
        }
    }
    if payload.text("type").as_deref() != Some("token_count") {
        return;
    }
    let Some(info) = payload.object("info") else { return };
    reading.limit(info.count("model_context_window"));
    if let Some(last) = info.object("last_token_usage") {
        let count = |name: &str| last.count(name).unwrap_or(0);
        reading.reported(count("input_tokens").saturating_add(count("output_tokens")));
    }
}

fn item(payload: &Object, reading: &mut WindowBuilder) {
    let id = payload.name("call_id", NAME_BYTES_MAX);
    match payload.text("type").as_deref() {
        Some("message") => {
            let text = text_of(payload);
            let is_prompt = |reading: &mut WindowBuilder| {
                reading.last(NEAR).iter().any(|piece| piece.what == What::Prompt && piece.text == text)
            };
            if payload.text("role").as_deref() == Some("assistant") {
                reading.add(What::Reply, &text);
            } else if !is_prompt(reading) {
                reading.add(What::Told, &text);
            }
        }
        Some("function_call" | "custom_tool_call") => {
            let Some(tool) = payload.name("name", NAME_BYTES_MAX) else { return };
            let arguments = payload.text("arguments").or_else(|| payload.text("input")).unwrap_or_default();
            let about = Object::parse(arguments.as_bytes()).and_then(|arguments| about(&arguments));
            reading.call(id, tool, &arguments, about);
        }
        Some("function_call_output" | "custom_tool_call_output") => {
            let output = payload.object("output");
            let text = payload.text("output").or_else(|| output.as_ref().and_then(|output| output.text("content")));
            let text = text.unwrap_or_default();
            let has_failed = output.as_ref().is_some_and(|output| output.get("success").is_some_and(|raw| raw.get() == "false"));
            reading.result(id, &text, has_failed || exit_code(&text).is_some_and(|code| code != "0"));
        }
        _ => {}
    }
}

/// The exit code that stands at the beginning of a command's output.
fn exit_code(text: &str) -> Option<&str> {
    let head = &text[..text.floor_char_boundary(400)];
    let after =
        ["Exit code: ", "exited with code ", "\"exit_code\":"].into_iter().find_map(|mark| head.split_once(mark))?.1.trim_start();
    let digits = after.len() - after.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    Some(&after[..digits]).filter(|code| !code.is_empty())
}
