//! Records of Gemini CLI's chats, and how each changes an index.
//!
//! A record is a message `{id, timestamp, type, content, …}`, the chat's first one `{sessionId, projectHash, …}`, a change `{$set: …}`, or
//! `{$rewindTo: id}`. A message is written again with what it got since: its tokens, and its tool calls once they are over. A change of
//! `messages` repeats all of them, as the agent does when it resumes a chat.

use serde_json::value::RawValue;

use super::deeds::deed;
use crate::transcript::{
    index::Index,
    json::{self, Object, clipped},
    limits::{INPUT_BYTES_MAX, NAME_BYTES_MAX, PATH_BYTES_MAX, TODOS_MAX},
    message::{Call, Message, Role},
    parts::{MessageCursor, Phase, Todo, ToolCall},
    usage::Usage,
};

/// Words of hooks stand before a prompt in this tag, or are parts of their own.
const HOOK_CONTEXT: (&str, &str) = ("<hook_context>", "</hook_context>");
/// The agent's own message about the folder begins so.
const SESSION_CONTEXT: &str = "<session_context>";
/// The notice by which a person's interruption is recorded.
const CANCELLED: &str = "Request cancelled.";

/// True for a record that is a message of a chat.
pub(crate) fn is_message(record: &Object) -> bool {
    let kind = record.text("type");
    let is_known = matches!(kind.as_deref(), Some("user" | "gemini" | "info" | "warning" | "error"));
    is_known && record.get("content").is_some() && record.get("message").is_none()
}

/// The type of a record.
fn type_of(record: &Object) -> Option<String> {
    let kind = record.name("type", NAME_BYTES_MAX);
    let named = || ["$set", "$rewindTo"].into_iter().find(|name| record.get(name).is_some()).map(str::to_owned);
    kind.or_else(named).or_else(|| record.get("sessionId").map(|_| "session".into()))
}

/// A content: text, or a list of parts.
fn parts(content: &RawValue) -> Vec<Object<'_>> {
    json::list(content).into_iter().filter_map(Object::of).collect()
}

/// The text of a message's content that somebody or the model wrote.
pub(super) fn text_of(record: &Object) -> String {
    let Some(content) = record.get("content") else { return String::new() };
    if let Some(text) = json::text(content) {
        return typed(&text).to_owned();
    }
    let parts = parts(content);
    let texts = parts.iter().filter_map(|part| part.text("text"));
    let texts = texts.filter(|text| !text.starts_with(SESSION_CONTEXT)).map(|text| typed(&text).to_owned());
    texts.filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n")
}

/// A text without the words of hooks before it.
fn typed(text: &str) -> &str {
    let (start, end) = HOOK_CONTEXT;
    let mut text = text;
    while let Some((_, rest)) = text.strip_prefix(start).and_then(|rest| rest.split_once(end)) {
        text = rest.trim_start();
    }
    text
}

/// True if a user's message holds results of tools.
pub(super) fn has_results(record: &Object) -> bool {
    record.get("content").is_some_and(|content| parts(content).iter().any(|part| part.get("functionResponse").is_some()))
}

/// The text of a tool's result.
pub(super) fn result_of(call: &Object) -> String {
    let responses = call.list("result").into_iter().filter_map(Object::of);
    let responses = responses.filter_map(|part| part.object("functionResponse")?.object("response"));
    let texts = responses.filter_map(|response| response.text("output").or_else(|| response.text("error")));
    texts.map(|text| text.into_owned()).collect::<Vec<_>>().join("\n")
}

/// The messages in a record, their texts cut to so many bytes. What an earlier record of the same message had is left out.
pub(crate) fn messages(record: &Object, repeated: &mut MessageCursor, bytes_max: usize) -> Vec<Message> {
    let said = |role, text: &str| Message {
        role,
        record: record.name("id", NAME_BYTES_MAX),
        at: record.name("timestamp", NAME_BYTES_MAX),
        text: clipped(text, bytes_max).to_owned(),
        text_bytes: text.len() as u64,
        calls: Vec::new(),
        is_error: false,
    };
    let is_new = repeated.begins(record.name("id", NAME_BYTES_MAX));
    let text = if is_new { text_of(record) } else { String::new() };
    let mut found = Vec::new();
    match record.text("type").as_deref() {
        // A prompt that the agent has put there for itself is none, and results stand with their calls.
        Some("user") if !text.is_empty() && !has_results(record) => found.push(said(Role::User, &text)),
        Some("gemini") => {
            let calls: Vec<_> = record.list("toolCalls").into_iter().filter_map(Object::of).skip(repeated.calls).collect();
            repeated.calls += calls.len();
            let named = calls.iter().filter_map(|call| called(call, bytes_max)).collect::<Vec<_>>();
            if !text.is_empty() || !named.is_empty() {
                found.push(Message { calls: named, ..said(Role::Assistant, &text) });
            }
            let is_error = |call: &Object| call.text("status").as_deref() == Some("error");
            let results = calls.iter().filter(|call| call.get("result").is_some());
            found.extend(results.map(|call| Message { is_error: is_error(call), ..said(Role::Tool, &result_of(call)) }));
        }
        _ => {}
    }
    found
}

fn called(call: &Object, bytes_max: usize) -> Option<Call> {
    let tool = call.name("name", NAME_BYTES_MAX)?;
    let arguments = call.object("args");
    let names = ["file_path", "command", "pattern", "path", "dir_path", "url", "query", "prompt"];
    let about = arguments.and_then(|args| names.into_iter().find_map(|name| args.name(name, PATH_BYTES_MAX)));
    let about = about.or_else(|| call.get("args").map(|raw| raw.get().to_owned())).unwrap_or_default();
    Some(Call { tool, about: clipped(&about, bytes_max).to_owned() })
}

impl Index {
    /// Takes in one line of a chat.
    pub(crate) fn apply_gemini(&mut self, line: &[u8], offset: u64) {
        let Some((record, kind)) = self.note_record_of(line, type_of) else { return };
        let at = record.name("timestamp", NAME_BYTES_MAX);
        if at.is_some() {
            self.facts.last_at.clone_from(&at);
        }
        match kind.as_str() {
            "session" if self.facts.agent_session.is_none() => {
                self.facts.agent_session = record.name("sessionId", NAME_BYTES_MAX);
            }
            "user" => self.gemini_user(&record, offset, at),
            "gemini" => self.gemini_reply(&record, offset, at),
            "info" if record.text("content").as_deref() == Some(CANCELLED) => {
                self.counts.interruptions += 1;
                self.phase = Phase::Idle;
            }
            "error" => {
                self.counts.api_errors += 1;
                self.phase = Phase::Idle;
            }
            "$rewindTo" => self.rewind(&record.name("$rewindTo", NAME_BYTES_MAX).unwrap_or_default()),
            _ => {}
        }
    }

    fn gemini_user(&mut self, record: &Object, offset: u64, at: Option<String>) {
        let id = record.name("id", NAME_BYTES_MAX);
        let text = text_of(record);
        if has_results(record) {
            self.phase = Phase::Thinking;
        } else if text.is_empty() {
            return;
        } else {
            id.iter().for_each(|id| self.mark(id));
            self.began(&text, id.clone(), offset, at);
        }
        self.counts.user_messages += 1;
        self.facts.last_record = id.or(self.facts.last_record.take());
    }

    fn gemini_reply(&mut self, record: &Object, offset: u64, at: Option<String>) {
        let id = record.name("id", NAME_BYTES_MAX);
        let text = text_of(record);
        if self.repeated.begins(id.clone()) {
            self.counts.assistant_records += 1;
            self.replied(&text, offset);
        }
        self.facts.model = record.name("model", NAME_BYTES_MAX).or(self.facts.model.take());
        self.gemini_tokens(record, id.as_deref());
        self.facts.last_message = id.clone().or(self.facts.last_message.take());
        self.facts.last_record = id.or(self.facts.last_record.take());
        let calls: Vec<_> = record.list("toolCalls").into_iter().filter_map(Object::of).collect();
        let known = std::mem::replace(&mut self.repeated.calls, calls.len());
        for (i, call) in calls.iter().enumerate() {
            self.gemini_call(call, i < known, offset, &at);
        }
        self.phase = match calls.is_empty() {
            _ if self.pending_calls().next().is_some() => Phase::InTool,
            false => Phase::Thinking,
            // It writes its calls down when they are over. A reply may be the last one, or one beside calls.
            true if text.trim().is_empty() => Phase::InTool,
            true => Phase::Unknown,
        };
    }

    /// Tokens read from the cache are part of those read.
    fn gemini_tokens(&mut self, record: &Object, id: Option<&str>) {
        let (Some(tokens), Some(id)) = (record.object("tokens"), id) else { return };
        let count = |name: &str| tokens.count(name).unwrap_or(0);
        let cached = count("cached");
        let usage = Usage {
            input_tokens: count("input").saturating_sub(cached).saturating_add(count("tool")),
            output_tokens: count("output").saturating_add(count("thoughts")),
            cache_creation_input_tokens: 0,
            cache_read_input_tokens: cached,
        };
        self.usage.count(id, self.facts.model.as_deref().unwrap_or_default(), usage);
        self.context_tokens = Some(usage.total());
    }

    fn gemini_call(&mut self, call: &Object, is_known: bool, offset: u64, at: &Option<String>) {
        let (Some(id), Some(name)) = (call.name("id", NAME_BYTES_MAX), call.name("name", NAME_BYTES_MAX)) else { return };
        if is_known && !self.pending.iter().any(|pending| pending.id == id) {
            return;
        }
        let arguments = call.object("args");
        let path = arguments.as_ref().and_then(|arguments| arguments.name("file_path", PATH_BYTES_MAX));
        let input = call.get("args").map(|raw| raw.get()).filter(|raw| raw.len() <= INPUT_BYTES_MAX).map(str::to_owned);
        self.called(ToolCall { id: id.clone(), name, input, path, offset, at: at.clone(), is_subagents: false });
        let status = call.text("status");
        if !matches!(status.as_deref(), Some("success" | "error" | "cancelled")) {
            return;
        }
        let Some(done) = self.answered(Some(id)) else { return };
        match status.as_deref() {
            Some("error") => self.counts.tool_errors += 1,
            Some("success") if done.name == "write_todos" => self.gemini_todos(arguments.as_ref()),
            Some("success") => self.gemini_file(&done, offset),
            _ => {}
        }
        // One that the user has cancelled may not have run.
        let is_error = status.as_deref() == Some("error");
        if let Some(deed) = deed(&done, is_error, || result_of(call)).filter(|_| status.as_deref() != Some("cancelled")) {
            self.did(deed, offset);
        }
    }

    fn gemini_file(&mut self, call: &ToolCall, offset: u64) {
        let Some(path) = &call.path else { return };
        let is_known = match call.name.as_str() {
            "write_file" | "replace" => self.edited(path, offset),
            "read_file" => self.read_file(path, offset),
            _ => false,
        };
        if is_known {
            self.load(path.clone());
        }
    }

    fn gemini_todos(&mut self, arguments: Option<&Object>) {
        let entries = arguments.map(|arguments| arguments.list("todos")).unwrap_or_default();
        self.truncated |= entries.len() > TODOS_MAX;
        let entries = entries.into_iter().filter_map(Object::of).take(TODOS_MAX);
        let text = |entry: &Object, name: &str| entry.name(name, PATH_BYTES_MAX).unwrap_or_default();
        let todo = |entry: Object| Todo { id: None, content: text(&entry, "description"), status: text(&entry, "status") };
        self.todos = entries.map(todo).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transcript::Format;

    fn indexed(lines: &[&str]) -> Index {
        let mut index = Index { format: Format::Chat, ..Index::default() };
        for (i, line) in lines.iter().enumerate() {
            index.apply_gemini(line.as_bytes(), i as u64 * 1000);
        }
        index
    }

    const FIRST: &str = r#"{"sessionId":"c1","projectHash":"x","startTime":"t0","kind":"main"}"#;
    const CONTEXT: &str =
        r#"{"$set":{"messages":[{"id":"m0","type":"user","content":[{"text":"<session_context>\nThis"}]}],"lastUpdated":"t0"}}"#;
    const PROMPT: &str = r#"{"id":"u1","timestamp":"t1","type":"user","content":[{"text":"<hook_context>told</hook_context>\n\nfix it"},{"text":"<hook_context>more</hook_context>"}]}"#;
    const CALLING: &str = r#"{"id":"g1","timestamp":"t2","type":"gemini","content":"","tokens":{"input":10,"output":3,"cached":4,"thoughts":2,"tool":0,"total":15},"model":"m"}"#;
    const CALLED: &str = r#"{"id":"g1","timestamp":"t2","type":"gemini","content":"","tokens":{"input":10,"output":3,"cached":4,"thoughts":2,"tool":0,"total":15},"model":"m","toolCalls":[{"id":"k1","name":"write_file","args":{"file_path":"a.rs","content":"x"},"result":[{"functionResponse":{"id":"k1","response":{"output":"Done"}}}],"status":"success"},{"id":"k2","name":"run_shell_command","args":{"command":"false"},"status":"error"}]}"#;
    const RESULT: &str =
        r#"{"id":"u2","timestamp":"t3","type":"user","content":[{"functionResponse":{"id":"k1","response":{"output":"Done"}}}]}"#;
    const REPLY: &str = r#"{"id":"g2","timestamp":"t4","type":"gemini","content":"Fixed.","tokens":{"input":20,"output":3,"cached":0},"model":"m"}"#;
    const UPDATED: &str = r#"{"$set":{"lastUpdated":"t4"}}"#;

    #[test]
    fn a_turn_with_tools_counts_each_message_once() {
        let index = indexed(&[FIRST, CONTEXT, PROMPT, UPDATED, CALLING, UPDATED, CALLED, CALLED, RESULT, REPLY, UPDATED]);
        assert_eq!((index.facts.agent_session.as_deref(), index.facts.model.as_deref()), (Some("c1"), Some("m")));
        assert_eq!((index.counts.prompts, index.counts.assistant_records, index.counts.user_messages), (1, 2, 2));
        assert_eq!((index.counts.tool_calls, index.counts.tool_errors, index.counts.orphan_results), (2, 1, 0));
        assert_eq!(index.first_prompt.as_ref().map(|prompt| prompt.text.as_str()), Some("fix it"));
        assert_eq!((index.last_reply.as_deref(), index.phase), (Some("Fixed."), Phase::Unknown));
        let edited: Vec<_> = index.files.iter().map(|(path, used)| (path.as_str(), used.edits)).collect();
        assert_eq!(edited, [("a.rs", 1)]);
        assert_eq!(
            (index.usage.total.total(), index.usage.total.cache_read_input_tokens, index.context_tokens),
            (38, 4, Some(23))
        );
        assert!(index.pending.is_empty() && index.counts.malformed == 0);
        assert_eq!((index.facts.last_message.as_deref(), index.facts.last_at.as_deref()), (Some("g2"), Some("t4")));
    }

    #[test]
    fn calls_that_are_not_over_are_not_written_down_or_pending() {
        assert_eq!(indexed(&[FIRST, PROMPT, CALLING]).phase, Phase::InTool);
        let asked = CALLED.replace("\"error\"", "\"awaiting_approval\"");
        let index = indexed(&[FIRST, PROMPT, CALLING, &asked, "{\"torn", "[]", "{}", ""]);
        assert_eq!((index.phase, index.counts.malformed), (Phase::InTool, 3));
        assert_eq!(index.pending_calls().map(|call| call.name.as_str()).collect::<Vec<_>>(), ["run_shell_command"]);
        let index = indexed(&[FIRST, PROMPT, CALLING, &asked, CALLED]);
        assert_eq!((index.counts.tool_calls, index.counts.tool_errors, index.pending.len()), (2, 1, 0));
    }

    #[test]
    fn a_list_of_tasks_and_an_interruption() {
        let todos = r#"{"id":"g3","type":"gemini","content":"","toolCalls":[{"id":"k","name":"write_todos","args":{"todos":[{"description":"a","status":"in_progress"}]},"status":"success"}]}"#;
        let index = indexed(&[FIRST, PROMPT, todos, r#"{"id":"i","type":"info","content":"Request cancelled."}"#]);
        assert_eq!(index.todos, [Todo { id: None, content: "a".into(), status: "in_progress".into() }]);
        assert_eq!((index.counts.interruptions, index.phase), (1, Phase::Idle));
    }

    #[test]
    fn what_the_user_has_withdrawn_is_not_told() {
        let second = PROMPT.replace("u1", "u9").replace("fix it", "delete everything");
        let todos = r#"{"id":"g8","type":"gemini","content":"","toolCalls":[{"id":"k","name":"write_todos","args":{"todos":[{"description":"wipe","status":"pending"}]},"status":"success"}]}"#;
        let wiped = REPLY.replace("g2", "g9").replace("Fixed.", "Wiped.");
        let told = |index: &Index| {
            let prompt = index.last_prompt.as_ref().map(|prompt| prompt.text.clone());
            (index.turn_count(), index.turns.len(), prompt, index.last_reply.clone(), index.todos.len())
        };
        let rewound = |to: &str| {
            let rewind = format!(r#"{{"$rewindTo":"{to}"}}"#);
            indexed(&[FIRST, PROMPT, REPLY, &second, todos, &wiped, &rewind])
        };
        let before = indexed(&[FIRST, PROMPT, REPLY]);
        assert_eq!(told(&rewound("u9")), told(&before));
        assert_eq!(told(&rewound("u1")), (0, 0, None, None, 0));
        assert!(rewound("u1").first_prompt.is_none() && rewound("u9").first_prompt == before.first_prompt);
        let unknown = rewound("u5");
        assert_eq!((unknown.last_prompt, unknown.last_reply, unknown.todos.len()), (None, None, 0));
        let prompts: Vec<String> = (0..40).map(|i| PROMPT.replace("u1", &format!("v{i}"))).collect();
        let lines: Vec<&str> = prompts.iter().map(String::as_str).chain([r#"{"$rewindTo":"v3"}"#]).collect();
        let long_ago = indexed(&lines);
        assert_eq!((long_ago.turns.len(), long_ago.last_prompt), (3, None));
        assert_eq!(indexed(&lines[..40]).marks.len(), 16);
    }

    #[test]
    fn messages_are_prompts_replies_and_calls() {
        let mut found = Vec::new();
        let lines = [FIRST, CONTEXT, PROMPT, CALLING, CALLED, CALLED, RESULT, REPLY, REPLY];
        let text = lines.map(|line| format!("{line}\n")).concat();
        crate::transcript::messages::read(text.as_bytes(), 100, |message| found.push(message)).unwrap();
        let shown: Vec<_> = found.iter().map(|m| (m.role, m.text.as_str(), m.calls.len())).collect();
        let expected =
            [(Role::User, "fix it", 0), (Role::Assistant, "", 2), (Role::Tool, "Done", 0), (Role::Assistant, "Fixed.", 0)];
        assert_eq!(shown, expected);
        assert_eq!(found[1].calls[0], Call { tool: "write_file".into(), about: "a.rs".into() });
    }
}
