//! Messages of a transcript, read back from a range of its bytes: for showing what was said, not for exactness.

use std::io::{self, BufRead};

use serde::Serialize;

use super::{
    facts::{self, UserText},
    json::{Object, clipped},
    limits::{NAME_BYTES_MAX, PATH_BYTES_MAX},
    line::{self, Line},
};
use crate::{codex, gemini};

/// The speaker of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The user's prompt.
    User,
    /// The model.
    Assistant,
    /// A tool.
    Tool,
}

/// One thing that was said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Message {
    /// By whom.
    pub role: Role,
    /// Id of the record, where it has one.
    pub record: Option<String>,
    /// The time, as the record has it.
    pub at: Option<String>,
    /// The text, or its beginning; of a tool its result.
    pub text: String,
    /// Tools that the model calls, each with the file or command that it names.
    pub calls: Vec<Call>,
    /// True for the result of a tool that failed.
    pub is_error: bool,
}

/// A tool that the model calls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Call {
    /// The tool.
    pub tool: String,
    /// The file, command, pattern or prompt that it is about, or the beginning of its input.
    pub about: String,
}

/// Reads messages until the input ends, and hands each to `each`, its texts cut to so many bytes. What subagents said is left out.
pub fn read(mut input: impl BufRead, text_bytes_max: usize, mut each: impl FnMut(Message)) -> io::Result<()> {
    let (mut buffer, mut repeated) = (Vec::new(), gemini::Repeated::default());
    while let Some((line, _)) = line::next(&mut input, &mut buffer)? {
        if line == Line::Whole
            && let Some(record) = Object::parse(&buffer)
        {
            if gemini::is_message(&record) {
                gemini::messages(&record, &mut repeated, text_bytes_max).into_iter().for_each(&mut each);
                continue;
            }
            messages(&record, text_bytes_max, &mut each);
        }
    }
    Ok(())
}

fn messages(record: &Object, bytes_max: usize, each: &mut impl FnMut(Message)) {
    let is_foreign = record.is_true("isSidechain") || !record.is_null_or_absent("parent_tool_use_id");
    if is_foreign {
        return;
    }
    let message = |role, text: &str| Message {
        role,
        record: record.name("uuid", NAME_BYTES_MAX),
        at: record.name("timestamp", NAME_BYTES_MAX),
        text: clipped(text, bytes_max).to_owned(),
        calls: Vec::new(),
        is_error: false,
    };
    if let Some(payload) = record.object("payload") {
        return codex::message(record, &payload, bytes_max).into_iter().for_each(each);
    }
    if let Some((UserText::Prompt, text)) = facts::queued_text(record) {
        return each(message(Role::User, &text));
    }
    let Some(body) = record.object("message") else { return };
    let said = facts::content_text(&body);
    let blocks = || body.list("content").into_iter().filter_map(Object::of);
    match record.text("type").as_deref() {
        Some("user") => {
            for block in blocks().filter(|block| block.text("type").as_deref() == Some("tool_result")) {
                let is_error = block.is_true("is_error");
                each(Message { is_error, ..message(Role::Tool, &facts::content_text(&block)) });
            }
            if facts::user_text(record, &said) != UserText::Aside {
                each(message(Role::User, &said));
            }
        }
        Some("assistant") => {
            let calls = blocks().filter_map(|block| call(&block, bytes_max)).collect::<Vec<_>>();
            if !calls.is_empty() || !said.is_empty() {
                each(Message { calls, ..message(Role::Assistant, &said) });
            }
        }
        _ => {}
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_in_order() {
        let transcript = concat!(
            "{\"type\":\"user\",\"uuid\":\"u1\",\"message\":{\"content\":\"fix the bug\"}}\n",
            "{\"type\":\"assistant\",\"uuid\":\"a1\",\"message\":{\"content\":[{\"type\":\"text\",\"text\":\"Looking.\"},",
            "{\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"Bash\",\"input\":{\"command\":\"ls\"}}]}}\n",
            "{\"type\":\"user\",\"uuid\":\"u2\",\"message\":{\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":\"t\",",
            "\"content\":[{\"type\":\"text\",\"text\":\"a b\"}],\"is_error\":true}]}}\n",
            "nonsense\n",
            "{\"type\":\"attachment\",\"uuid\":\"q1\",\"attachment\":{\"type\":\"queued_command\",\"prompt\":\"and more\"}}\n",
            "{\"type\":\"assistant\",\"isSidechain\":true,\"message\":{\"content\":\"elsewhere\"}}\n",
            "{\"type\":\"user\",\"isMeta\":true,\"message\":{\"content\":\"aside\"}}\n",
        );
        let mut found = Vec::new();
        read(transcript.as_bytes(), 6, |message| found.push(message)).unwrap();
        let shown: Vec<_> = found.iter().map(|m| (m.role, m.text.as_str(), m.is_error)).collect();
        let expected = [
            (Role::User, "fix th", false),
            (Role::Assistant, "Lookin", false),
            (Role::Tool, "a b", true),
            (Role::User, "and mo", false),
        ];
        assert_eq!(shown, expected);
        assert_eq!(found[1].calls, [Call { tool: "Bash".into(), about: "ls".into() }]);
    }
}
