//! Claude Code's records as pieces of the model's window.

use serde_json::value::RawValue;

use crate::transcript::{
    facts::{self, UserText},
    json::{self, Object},
    limits::NAME_BYTES_MAX,
    reading::{Piece, What, WindowBuilder, about},
    usage::Usage,
};

/// Adds a record of the agent itself.
pub(crate) fn window(record: &Object, reading: &mut WindowBuilder) {
    match record.text("type").as_deref() {
        Some("user") => user(record, reading),
        Some("assistant") => assistant(record, reading),
        Some("attachment") => attachment(record, reading),
        Some("system") if record.text("subtype").as_deref() == Some("compact_boundary") => {
            let metadata = record.object("compactMetadata").or_else(|| record.object("compact_metadata"));
            reading.compacted(metadata.and_then(|found| found.count("preTokens").or_else(|| found.count("pre_tokens"))));
        }
        _ => {}
    }
}

fn blocks<'a>(message: &Object<'a>) -> Vec<Object<'a>> {
    message.list("content").into_iter().filter_map(Object::of).collect()
}

fn user(record: &Object, reading: &mut WindowBuilder) {
    let Some(message) = record.object("message") else { return };
    for block in blocks(&message).iter().filter(|block| block.text("type").as_deref() == Some("tool_result")) {
        let id = block.name("tool_use_id", NAME_BYTES_MAX);
        reading.result(id, &facts::content_text(block), block.is_true("is_error"));
    }
    let text = facts::content_text(&message);
    let what = match facts::user_text(record, &text) {
        UserText::Prompt => What::Prompt,
        _ if record.is_true("isCompactSummary") => What::Summary,
        _ => What::Told,
    };
    reading.add(what, &text);
}

fn assistant(record: &Object, reading: &mut WindowBuilder) {
    let Some(message) = record.object("message") else { return };
    let model = message.name("model", NAME_BYTES_MAX);
    // The agent's own words about an error of the API; the model does not see them.
    if model.as_deref() == Some("<synthetic>") {
        return;
    }
    if let Some(usage) = message.object("usage") {
        reading.reported(Usage::of(&usage).total());
    }
    reading.model(model);
    if let Some(text) = message.text("content") {
        return reading.add(What::Reply, &text);
    }
    for block in blocks(&message) {
        let text = |name: &str| block.text(name).unwrap_or_default();
        match &*text("type") {
            "thinking" => reading.add(What::Thought, &text("thinking")),
            "text" => reading.add(What::Reply, &text("text")),
            "tool_use" => {
                let Some(tool) = block.name("name", NAME_BYTES_MAX) else { continue };
                let about = block.object("input").and_then(|input| about(&input));
                let arguments = block.get("input").map_or("", |raw| raw.get());
                reading.call(block.name("id", NAME_BYTES_MAX), tool, arguments, about);
            }
            _ => {}
        }
    }
}

fn attachment(record: &Object, reading: &mut WindowBuilder) {
    if let Some((kind, text)) = facts::queued_text(record) {
        return reading.add(if kind == UserText::Prompt { What::Prompt } else { What::Told }, &text);
    }
    let Some(attachment) = record.object("attachment") else { return };
    let kind = attachment.name("type", NAME_BYTES_MAX);
    if kind.as_deref() == Some("prompt_snapshot") {
        let parts: Vec<_> = attachment.list("systemPrompt").into_iter().filter_map(json::text).collect();
        return reading.system(parts.join("\n\n"));
    }
    let text = attachment.get("content").map(attached).unwrap_or_default();
    if !text.trim().is_empty() {
        reading.push(Piece { tool: kind, ..Piece::new(What::Told, text) });
    }
}

/// The text of an attachment: a string, a list of strings, or an object with the file.
fn attached(content: &RawValue) -> String {
    if let Some(text) = json::text(content) {
        return text.into_owned();
    }
    if let Some(object) = Object::of(content) {
        let file = object.object("file").unwrap_or(object);
        return file.text("content").map(|text| text.into_owned()).unwrap_or_default();
    }
    json::list(content).into_iter().filter_map(json::text).collect::<Vec<_>>().join("\n")
}
