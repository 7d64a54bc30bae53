//! Gemini CLI's records as pieces of the model's window.

use super::record::{has_results, result_of, text_of};
use crate::transcript::{
    json::Object,
    limits::NAME_BYTES_MAX,
    reading::{What, WindowBuilder, about},
};

/// Adds a message. One that is written again adds what it got since.
pub(crate) fn window(record: &Object, reading: &mut WindowBuilder) {
    let id = record.name("id", NAME_BYTES_MAX);
    let is_new = id.as_ref().is_none_or(|id| reading.is_new(format!("message {id}")));
    let text = if is_new { text_of(record) } else { String::new() };
    match record.text("type").as_deref() {
        Some("user") if !has_results(record) => reading.add(What::Prompt, &text),
        Some("gemini") => {
            let thoughts = record.list("thoughts").into_iter().filter_map(Object::of).filter(|_| is_new);
            let thoughts: Vec<String> = thoughts.filter_map(|one| Some(one.text("description")?.into_owned())).collect();
            reading.add(What::Thought, &thoughts.join("\n"));
            reading.add(What::Reply, &text);
            reading.model(record.name("model", NAME_BYTES_MAX));
            if let Some(tokens) = record.object("tokens") {
                let parts = ["input", "output", "thoughts", "tool"].map(|name| tokens.count(name).unwrap_or(0));
                reading.reported(parts.into_iter().fold(0, u64::saturating_add));
            }
            record.list("toolCalls").into_iter().filter_map(Object::of).for_each(|call| called(&call, reading));
        }
        _ => {}
    }
}

fn called(call: &Object, reading: &mut WindowBuilder) {
    let (Some(tool), Some(id)) = (call.name("name", NAME_BYTES_MAX), call.name("id", NAME_BYTES_MAX)) else { return };
    if reading.is_new(format!("call {id}")) {
        let about = call.object("args").and_then(|arguments| about(&arguments));
        reading.call(Some(id.clone()), tool, call.get("args").map_or("", |raw| raw.get()), about);
    }
    if call.get("result").is_some() && reading.is_new(format!("result {id}")) {
        reading.result(Some(id), &result_of(call), call.text("status").as_deref() == Some("error"));
    }
}
