//! The model's context windows, read back from a transcript: what the conversation has put before the model since it began or was last
//! compacted, piece by piece.

use std::{
    collections::HashSet,
    io::{self, BufRead},
};

use super::{
    json::Object,
    limits::NAME_BYTES_MAX,
    line::{self, Line},
};
use crate::{claude, codex, gemini};

/// The kind of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum What {
    /// The system prompt.
    System,
    /// The agent's own summary of what was compacted.
    Summary,
    /// Something that the agent or a hook has added: attached files, memory, notes.
    Told,
    /// A person's prompt.
    Prompt,
    /// The model's deliberation.
    Thought,
    /// The model's text.
    Reply,
    /// A tool call.
    Call,
    /// The result of a tool call.
    Result,
}

/// A piece of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Its kind.
    pub what: What,
    /// The text; of a call its arguments.
    pub text: String,
    /// Of a call and its result the id of the call.
    pub call: Option<String>,
    /// Of a call and its result the tool; of an attachment its type.
    pub tool: Option<String>,
    /// Of a call the file, command or pattern that it is about.
    pub about: Option<String>,
    /// True for the result of a tool that failed.
    pub is_error: bool,
}

impl Piece {
    /// A piece that has nothing to do with a tool.
    pub fn new(what: What, text: impl Into<String>) -> Self {
        Piece { what, text: text.into(), call: None, tool: None, about: None, is_error: false }
    }
}

/// A context window.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// Its pieces, in order.
    pub pieces: Vec<Piece>,
    /// Tokens in it at the model's last message, or before it was compacted, as the agent reported them.
    pub reported_tokens: Option<u64>,
}

/// The last context windows of a conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Windows {
    /// The window since the last compaction, or since the beginning.
    pub now: Window,
    /// The window that was compacted last.
    pub before: Option<Window>,
    /// The model.
    pub model: Option<String>,
    /// Size of the model's window in tokens, where the transcript has it.
    pub limit_tokens: Option<u64>,
}

/// Windows while a transcript is read.
#[derive(Default)]
pub(crate) struct Reading {
    windows: Windows,
    system: Option<String>,
    /// Tools by the ids of their calls.
    tools: std::collections::HashMap<String, String>,
    seen: HashSet<String>,
}

impl Reading {
    pub fn add(&mut self, what: What, text: &str) {
        if !text.trim().is_empty() {
            self.push(Piece::new(what, text));
        }
    }

    pub fn push(&mut self, piece: Piece) {
        self.windows.now.pieces.push(piece);
    }

    pub fn call(&mut self, id: Option<String>, tool: String, arguments: &str, about: Option<String>) {
        if let Some(id) = &id {
            self.tools.insert(id.clone(), tool.clone());
        }
        self.push(Piece { call: id, tool: Some(tool), about, ..Piece::new(What::Call, arguments) });
    }

    pub fn result(&mut self, id: Option<String>, text: &str, is_error: bool) {
        let tool = id.as_ref().and_then(|id| self.tools.get(id).cloned());
        self.push(Piece { call: id, tool, is_error, ..Piece::new(What::Result, text) });
    }

    pub fn system(&mut self, text: String) {
        self.system = Some(text).filter(|text| !text.trim().is_empty()).or(self.system.take());
    }

    pub fn model(&mut self, model: Option<String>) {
        self.windows.model = model.or(self.windows.model.take());
    }

    pub fn limit(&mut self, tokens: Option<u64>) {
        self.windows.limit_tokens = tokens.filter(|tokens| *tokens > 0).or(self.windows.limit_tokens);
    }

    pub fn reported(&mut self, tokens: u64) {
        self.windows.now.reported_tokens = Some(tokens);
    }

    /// The window was compacted; the agent may say how much was in it.
    pub fn compacted(&mut self, tokens: Option<u64>) {
        let mut before = std::mem::take(&mut self.windows.now);
        before.reported_tokens = tokens.or(before.reported_tokens);
        self.windows.before = Some(before);
    }

    /// True for the first time that something of this name comes: some agents write messages again.
    pub fn is_new(&mut self, name: String) -> bool {
        self.seen.insert(name)
    }

    /// The last pieces.
    pub fn last(&mut self, count: usize) -> &mut [Piece] {
        let pieces = &mut self.windows.now.pieces;
        let from = pieces.len().saturating_sub(count);
        &mut pieces[from..]
    }

    fn done(mut self) -> Windows {
        if let Some(system) = self.system {
            let windows = std::iter::once(&mut self.windows.now).chain(&mut self.windows.before);
            windows.for_each(|window| window.pieces.insert(0, Piece::new(What::System, system.clone())));
        }
        self.windows
    }
}

/// Reads the last windows of a transcript. What subagents said is left out: it is in windows of their own.
pub fn read(mut input: impl BufRead) -> io::Result<Windows> {
    let (mut buffer, mut reading) = (Vec::new(), Reading::default());
    while let Some((line, _)) = line::next(&mut input, &mut buffer)? {
        if line == Line::Whole
            && let Some(record) = Object::parse(&buffer)
        {
            if gemini::is_message(&record) {
                gemini::window(&record, &mut reading);
            } else if let Some(payload) = record.object("payload") {
                codex::window(&record, &payload, &mut reading);
            } else if !record.is_true("isSidechain") && record.is_null_or_absent("parent_tool_use_id") {
                claude::window(&record, &mut reading);
            }
        }
    }
    Ok(reading.done())
}

/// The file, command or pattern in a call's arguments.
pub(crate) fn about(arguments: &Object) -> Option<String> {
    let names = ["file_path", "notebook_path", "command", "cmd", "pattern", "path", "dir_path", "url", "query", "description"];
    names.into_iter().find_map(|name| arguments.name(name, 8 * NAME_BYTES_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(lines: &[&str]) -> (Windows, Vec<(What, String, bool)>) {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let windows = read(text.as_bytes()).unwrap();
        let pieces = windows.now.pieces.iter().map(|piece| (piece.what, piece.text.clone(), piece.is_error)).collect();
        (windows, pieces)
    }

    #[test]
    fn a_compaction_begins_another_window() {
        let (windows, pieces) = shown(&[
            r#"{"type":"attachment","attachment":{"type":"prompt_snapshot","systemPrompt":["You are","an agent"]}}"#,
            r#"{"type":"user","message":{"content":"fix it"}}"#,
            r#"{"type":"assistant","message":{"model":"claude-x","usage":{"input_tokens":90,"output_tokens":10},"content":[{"type":"thinking","thinking":"hm"},{"type":"text","text":"Looking."},{"type":"tool_use","id":"t","name":"Bash","input":{"command":"make"}}]}}"#,
            r#"{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t","content":"no rule","is_error":true}]}}"#,
            r#"{"type":"system","subtype":"compact_boundary","compactMetadata":{"trigger":"auto","preTokens":160}}"#,
            r#"{"type":"user","isCompactSummary":true,"message":{"content":"This session is being continued"}}"#,
            r#"{"type":"attachment","attachment":{"type":"hook_additional_context","content":["Context of this session (s)"]}}"#,
            r#"{"type":"assistant","isSidechain":true,"message":{"content":"elsewhere"}}"#,
        ]);
        let expected = [
            (What::System, "You are\n\nan agent".to_owned(), false),
            (What::Summary, "This session is being continued".into(), false),
            (What::Told, "Context of this session (s)".into(), false),
        ];
        assert_eq!(pieces, expected);
        let before = windows.before.unwrap();
        assert_eq!((before.reported_tokens, windows.now.reported_tokens), (Some(160), None));
        let kinds: Vec<What> = before.pieces.iter().map(|piece| piece.what).collect();
        assert_eq!(kinds, [What::System, What::Prompt, What::Thought, What::Reply, What::Call, What::Result]);
        assert_eq!((before.pieces[5].tool.as_deref(), before.pieces[4].about.as_deref()), (Some("Bash"), Some("make")));
        assert!(before.pieces[5].is_error);
    }

    #[test]
    fn a_rollout_has_each_prompt_once_and_says_how_large_the_window_is() {
        let (windows, pieces) = shown(&[
            r#"{"type":"session_meta","payload":{"id":"c","base_instructions":{"text":"You are"}}}"#,
            r#"{"type":"turn_context","payload":{"model":"gpt-5.2-codex"}}"#,
            r#"{"type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"<environment_context>"}]}}"#,
            r#"{"type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"fix it"}]}}"#,
            r#"{"type":"event_msg","payload":{"type":"user_message","message":"fix it"}}"#,
            r#"{"type":"response_item","payload":{"type":"function_call","name":"exec_command","call_id":"k","arguments":"{\"cmd\":\"make\"}"}}"#,
            r#"{"type":"response_item","payload":{"type":"function_call_output","call_id":"k","output":"Wall time: 1\nProcess exited with code 2\nOutput:\nno rule"}}"#,
            r#"{"type":"event_msg","payload":{"type":"token_count","info":{"model_context_window":272000,"last_token_usage":{"input_tokens":100,"cached_input_tokens":40,"output_tokens":7}}}}"#,
        ]);
        let kinds: Vec<_> = pieces.iter().map(|(what, _, is_error)| (*what, *is_error)).collect();
        let expected = [What::System, What::Told, What::Prompt, What::Call].map(|what| (what, false));
        assert_eq!(kinds, [&expected[..], &[(What::Result, true)]].concat());
        assert_eq!((windows.limit_tokens, windows.now.reported_tokens), (Some(272_000), Some(107)));
        assert_eq!(windows.model.as_deref(), Some("gpt-5.2-codex"));
    }

    #[test]
    fn a_chat_repeats_messages() {
        let calling =
            r#"{"id":"g1","type":"gemini","content":"Looking.","tokens":{"input":10,"output":3},"model":"gemini-3-pro"}"#;
        let called = r#"{"id":"g1","type":"gemini","content":"Looking.","tokens":{"input":10,"output":3},"model":"gemini-3-pro","toolCalls":[{"id":"k","name":"run_shell_command","args":{"command":"false"},"result":[{"functionResponse":{"response":{"error":"code 1"}}}],"status":"error"}]}"#;
        let (windows, pieces) = shown(&[r#"{"id":"u","type":"user","content":"fix it"}"#, calling, called, called]);
        let kinds: Vec<_> = pieces.iter().map(|(what, ..)| *what).collect();
        assert_eq!(kinds, [What::Prompt, What::Reply, What::Call, What::Result]);
        assert!(pieces[3].2 && pieces[3].1 == "code 1");
        assert_eq!(windows.now.reported_tokens, Some(13));
    }
}
