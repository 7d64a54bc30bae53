//! Messages of Claude Code's records.

use crate::transcript::{
    facts::{self, UserText},
    json::{Object, clipped},
    limits::{NAME_BYTES_MAX, PATH_BYTES_MAX},
    message::{Call, Message, Role},
};

/// The messages of a record.
pub(super) fn messages(record: &Object, bytes_max: usize) -> Vec<Message> {
    let is_foreign = record.is_true("isSidechain") || !record.is_null_or_absent("parent_tool_use_id");
    if is_foreign {
        return Vec::new();
    }
    let message = |role, text: &str| Message {
        role,
        record: record.name("uuid", NAME_BYTES_MAX),
        at: record.name("timestamp", NAME_BYTES_MAX),
        text: clipped(text, bytes_max).to_owned(),
        text_bytes: text.len() as u64,
        calls: Vec::new(),
        is_error: false,
    };
    if let Some((UserText::Prompt, text)) = facts::queued_text(record) {
        return vec![message(Role::User, &text)];
    }
    let Some(body) = record.object("message") else { return Vec::new() };
    let said = facts::content_text(&body);
    let blocks = || body.list("content").into_iter().filter_map(Object::of);
    let mut found = Vec::new();
    match record.text("type").as_deref() {
        Some("user") => {
            for block in blocks().filter(|block| block.text("type").as_deref() == Some("tool_result")) {
                let is_error = block.is_true("is_error");
                found.push(Message { is_error, ..message(Role::Tool, &facts::content_text(&block)) });
            }
            if facts::user_text(record, &said) != UserText::Aside {
                found.push(message(Role::User, &said));
            }
        }
        Some("assistant") => {
            let calls = blocks().filter_map(|block| call(&block, bytes_max)).collect::<Vec<_>>();
            if !calls.is_empty() || !said.is_empty() {
                found.push(Message { calls, ..message(Role::Assistant, &said) });
            }
        }
        _ => {}
    }
    found
}

fn call(block: &Object, bytes_max: usize) -> Option<Call> {
    let tool = block.name("name", NAME_BYTES_MAX).filter(|_| block.text("type").as_deref() == Some("tool_use"))?;
    let input = block.get("input");
    let named = input.and_then(Object::of).and_then(|input| {
        let names =
            ["file_path", "notebook_path", "command", "pattern", "path", "url", "query", "subject", "description", "prompt"];
        names.into_iter().find_map(|name| input.name(name, PATH_BYTES_MAX))
    });
    let about = named.unwrap_or_else(|| input.map(|raw| raw.get().to_owned()).unwrap_or_default());
    Some(Call { tool, about: clipped(&about, bytes_max).to_owned() })
}
