//! What there is to tell a resumed agent, gathered from a checkpoint.

use std::path::Path;

use jiff::Timestamp;
use parhelia_store::{Store, fold::Session, record::Checkpoint};
use serde_json::{Value, json};

use super::{files, read::state_json};
use crate::{
    config::Mode,
    error::Result,
    inject::{Input, Pending, Why},
};

/// How much of the last reply is told, in characters.
const REPLY_CHARACTERS_MAX: usize = 600;

/// Gathers what a checkpoint tells of a session.
pub fn tell(store: &Store, session: &Session, checkpoint: Option<&Checkpoint>, workspace: &Path, why: Why) -> Result<Input> {
    let mut input = Input {
        why,
        session: session.id.clone(),
        folder: workspace.display().to_string(),
        task: session.first_prompt.clone(),
        ..Input::default()
    };
    let Some(checkpoint) = checkpoint else { return Ok(input) };
    input.checkpoint = checkpoint.id();
    input.age = Some(age(checkpoint.record.created_at, Timestamp::now()));
    input.ending = checkpoint.record.trigger_detail.as_ref().map(|detail| format!("The checkpoint was made because: {detail}."));
    if let Some(git) = &checkpoint.record.git {
        let text = |name: &str| git.get(name).and_then(Value::as_str).map(str::to_owned);
        (input.branch, input.commit) = (text("branch"), text("head"));
        input.uncommitted = texts(git.get("uncommitted_files"));
        let count = git.get("uncommitted_count").and_then(Value::as_u64).unwrap_or(0);
        input.uncommitted_more = (count as usize).saturating_sub(input.uncommitted.len());
    }
    let context = state_json(store, checkpoint, "context.json")?.unwrap_or_default();
    if let Some(conversation) =
        state_json(store, checkpoint, "conversation.json")?.filter(|_| context["capture_analysis"] != false)
    {
        from_conversation(&mut input, conversation.get("summary").unwrap_or(&conversation));
    }
    let first = store.view().oldest_of(&session.id)?;
    let changes = match first.as_ref().map(|first| (first, files::changes(store, first, checkpoint))) {
        // It was the oldest, and has been removed meanwhile.
        Some((first, Err(_))) if store.refresh()?.checkpoint(first.record.id)?.is_none() => Vec::new(),
        Some((_, changes)) => changes?,
        None => Vec::new(),
    };
    input.first = first.map(|first| first.id()).unwrap_or_default();
    input.changes = files::told(store, &changes);
    if context["mode"] == json!(Mode::Stateful) {
        input.files = files::ranked(store, checkpoint, &context, &changes);
    }
    Ok(input)
}

fn from_conversation(input: &mut Input, conversation: &Value) {
    let text = |name: &str| conversation[name].as_str().filter(|text| !text.trim().is_empty()).map(str::to_owned);
    input.task = text("last_prompt").or_else(|| text("first_prompt")).or(input.task.take());
    let todos = conversation["todos"].as_array().cloned().unwrap_or_default();
    let of = |status: &str| -> Vec<String> {
        let wanted = todos.iter().filter(|todo| todo["status"] == status);
        wanted.filter_map(|todo| todo["content"].as_str().map(str::to_owned)).collect()
    };
    input.decisions = texts(conversation.get("decisions"));
    input.open_questions = texts(conversation.get("open_questions"));
    input.next_steps = of("in_progress").into_iter().chain(of("pending")).collect();
    let done = of("completed");
    let turns = conversation["turn_count"].as_u64().unwrap_or_default();
    let files = texts(conversation.get("files_modified"));
    let mut summary = vec![format!("{turns} {} so far.", if turns == 1 { "turn" } else { "turns" })];
    if let Some(first) = text("first_prompt").filter(|first| Some(first) != input.task.as_ref()) {
        summary.push(format!("The session began with: {first}"));
    }
    if !done.is_empty() {
        summary.push(format!("Done: {}.", done.join("; ")));
    }
    if !files.is_empty() {
        summary.push(format!("Files changed with the agent's own tools: {}.", files.join(", ")));
    }
    // Who goes on with the conversation knows what it said.
    if input.why != Why::Resumed
        && let Some(reply) = text("last_reply")
    {
        summary.push(format!("The last reply ended with: {}", end_of(&reply, REPLY_CHARACTERS_MAX)));
    }
    input.summary = summary.join("\n");
    let calls = conversation["pending_tool_calls"].as_array().cloned().unwrap_or_default();
    input.pending = calls
        .iter()
        .map(|call| Pending {
            tool: call["name"].as_str().unwrap_or("a tool").to_owned(),
            input: call["input"].as_str().or_else(|| call["path"].as_str()).unwrap_or_default().to_owned(),
        })
        .collect();
}

/// The last so many characters.
fn end_of(text: &str, characters_max: usize) -> &str {
    let start = text.char_indices().rev().nth(characters_max - 1).map_or(0, |(at, _)| at);
    &text[start..]
}

fn texts(value: Option<&Value>) -> Vec<String> {
    let list = value.and_then(Value::as_array).cloned().unwrap_or_default();
    list.iter().filter_map(|item| item.as_str().map(str::to_owned)).collect()
}

/// How long ago something was, in words.
pub fn age(then: Timestamp, now: Timestamp) -> String {
    let seconds = now.as_second().saturating_sub(then.as_second()).max(0);
    let (number, unit) = match seconds {
        0..120 => (seconds, "second"),
        120..7_200 => (seconds / 60, "minute"),
        7_200..172_800 => (seconds / 3_600, "hour"),
        _ => (seconds / 86_400, "day"),
    };
    format!("{number} {unit}{} ago", if number == 1 { "" } else { "s" })
}
