//! Records of Codex's rollouts, and how each changes an index.
//!
//! A record is `{timestamp, ordinal, type, payload}`. Of the two kinds that tell of messages, `response_item` is what the model sees, and
//! `event_msg` what a person sees: prompts are taken from the latter, as the former has instructions and notes of the agent's own among
//! them.

use super::deeds::{PATCHED, PATCHES, deeds, output_of};
use crate::transcript::{
    changes::snippet,
    index::Index,
    json::{Object, clipped},
    limits::{INPUT_BYTES_MAX, NAME_BYTES_MAX, PATH_BYTES_MAX, SYSTEM_PROMPT_BYTES_MAX},
    message::{Call, Message, Role},
    parts::{Phase, ToolCall},
    usage::Usage,
};

/// The text of a message's content: its blocks of text, joined by newlines.
pub(crate) fn text_of(payload: &Object) -> String {
    let blocks = payload.list("content").into_iter().filter_map(Object::of);
    blocks.filter_map(|block| block.text("text").map(|text| text.into_owned())).collect::<Vec<_>>().join("\n")
}

/// The prompt in an event, where it is one.
pub(crate) fn prompt_of(payload: &Object) -> Option<String> {
    match payload.text("type").as_deref() {
        Some("item_completed") => {
            let item = payload.object("item").filter(|item| item.text("type").as_deref() == Some("UserMessage"))?;
            Some(text_of(&item))
        }
        // Releases before 0.160 wrote this one.
        Some("user_message") => payload.text("message").map(|text| text.into_owned()),
        _ => None,
    }
}

/// The message in a record, its texts cut to so many bytes; none for other records.
pub(crate) fn message(record: &Object, payload: &Object, bytes_max: usize) -> Option<Message> {
    let said = |role, text: &str| Message {
        role,
        record: payload.name("id", NAME_BYTES_MAX),
        at: record.name("timestamp", NAME_BYTES_MAX),
        text: clipped(text, bytes_max).to_owned(),
        text_bytes: text.len() as u64,
        calls: Vec::new(),
        is_error: false,
    };
    if record.text("type").as_deref() == Some("event_msg") {
        return prompt_of(payload).map(|text| said(Role::User, &text));
    }
    match payload.text("type").as_deref() {
        Some("message") if payload.text("role").as_deref() == Some("assistant") => Some(said(Role::Assistant, &text_of(payload))),
        Some("function_call" | "custom_tool_call") => {
            let tool = payload.name("name", NAME_BYTES_MAX)?;
            let input = payload.text("arguments").or_else(|| payload.text("input")).unwrap_or_default();
            let command = Object::parse(input.as_bytes()).and_then(|input| input.name("cmd", PATH_BYTES_MAX));
            let about = command.unwrap_or_else(|| input.into_owned());
            let call = Call { tool, about: clipped(&about, bytes_max).to_owned() };
            Some(Message { calls: vec![call], ..said(Role::Assistant, "") })
        }
        Some("function_call_output" | "custom_tool_call_output") => Some(said(Role::Tool, &output_of(payload))),
        _ => None,
    }
}

impl Index {
    /// Takes in one line of a rollout.
    pub(crate) fn apply_codex(&mut self, line: &[u8], offset: u64) {
        let Some((record, kind)) = self.note_record(line) else { return };
        let at = record.name("timestamp", NAME_BYTES_MAX);
        if at.is_some() {
            self.facts.last_at.clone_from(&at);
        }
        let Some(payload) = record.object("payload") else { return };
        match kind.as_str() {
            "session_meta" => self.session_meta(&payload),
            "turn_context" => {
                self.facts.model = payload.name("model", NAME_BYTES_MAX).or(self.facts.model.take());
                self.facts.cwd = payload.name("cwd", PATH_BYTES_MAX).or(self.facts.cwd.take());
            }
            "event_msg" => self.event(&payload, offset, at),
            "response_item" => self.item(&payload, offset, at),
            "compacted" => {
                self.counts.compactions += 1;
                self.loaded.clear();
            }
            _ => {}
        }
    }

    fn session_meta(&mut self, payload: &Object) {
        // A fork has the records of what it is forked from behind its own.
        if self.facts.agent_session.is_some() {
            return;
        }
        self.facts.agent_session = payload.name("id", NAME_BYTES_MAX);
        self.facts.version = payload.name("cli_version", NAME_BYTES_MAX);
        self.facts.cwd = payload.name("cwd", PATH_BYTES_MAX);
        self.facts.git_branch = payload.object("git").and_then(|git| git.name("branch", NAME_BYTES_MAX));
        let instructions = payload.object("base_instructions").and_then(|base| base.text("text").map(|text| text.into_owned()));
        self.system_prompt = instructions.map(|text| snippet(&text, SYSTEM_PROMPT_BYTES_MAX));
    }

    fn event(&mut self, payload: &Object, offset: u64, at: Option<String>) {
        if let Some(text) = prompt_of(payload) {
            let id = payload.object("item").and_then(|item| item.name("id", NAME_BYTES_MAX));
            self.counts.user_messages += 1;
            if id.is_some() {
                self.facts.last_record.clone_from(&id);
            }
            self.began(&text, id, offset, at);
            return;
        }
        match payload.text("type").as_deref() {
            Some("task_started") => self.phase = Phase::Thinking,
            Some("task_complete") => self.phase = Phase::Idle,
            Some("turn_aborted") => {
                self.counts.interruptions += 1;
                self.phase = Phase::Idle;
            }
            Some("error" | "stream_error") => self.counts.api_errors += 1,
            Some("token_count") => self.token_count(payload),
            _ => {}
        }
    }

    /// Tokens are told as sums. What is read from the cache is part of what is read.
    fn token_count(&mut self, payload: &Object) {
        let Some(info) = payload.object("info") else { return };
        let usage = |name: &str| {
            let tokens = info.object(name)?;
            let count = |name: &str| tokens.count(name).unwrap_or(0);
            let cached = count("cached_input_tokens");
            Some(Usage {
                input_tokens: count("input_tokens").saturating_sub(cached),
                output_tokens: count("output_tokens"),
                cache_creation_input_tokens: count("cache_write_input_tokens"),
                cache_read_input_tokens: cached,
            })
        };
        if let Some(total) = usage("total_token_usage") {
            self.usage.settle(Usage::default(), total);
        }
        self.context_tokens = usage("last_token_usage").map(|last| last.total()).or(self.context_tokens);
    }

    fn item(&mut self, payload: &Object, offset: u64, at: Option<String>) {
        match payload.text("type").as_deref() {
            Some("message") if payload.text("role").as_deref() == Some("assistant") => {
                self.counts.assistant_records += 1;
                let id = payload.name("id", NAME_BYTES_MAX);
                self.facts.last_message = id.clone().or(self.facts.last_message.take());
                self.facts.last_record = id.or(self.facts.last_record.take());
                self.replied(&text_of(payload), offset);
            }
            Some("function_call" | "custom_tool_call") => self.codex_call(payload, offset, at),
            Some("function_call_output" | "custom_tool_call_output") => self.codex_result(payload, offset),
            _ => {}
        }
    }

    fn codex_call(&mut self, payload: &Object, offset: u64, at: Option<String>) {
        let (Some(id), Some(name)) = (payload.name("call_id", NAME_BYTES_MAX), payload.name("name", NAME_BYTES_MAX)) else {
            return;
        };
        let text = payload.text("arguments").or_else(|| payload.text("input")).map(|text| text.into_owned());
        let path = text.as_deref().filter(|_| name == PATCHES).and_then(|text| patched(text).next());
        let input = text.filter(|text| text.len() <= INPUT_BYTES_MAX);
        self.called(ToolCall { id, name, input, path, offset, at, is_subagents: false });
        self.phase = Phase::InTool;
    }

    fn codex_result(&mut self, payload: &Object, offset: u64) {
        let Some(call) = self.answered(payload.name("call_id", NAME_BYTES_MAX)) else { return };
        let is_error =
            payload.object("output").is_some_and(|output| output.get("success").is_some_and(|raw| raw.get() == "false"));
        if is_error {
            self.counts.tool_errors += 1;
        } else if call.name == PATCHES {
            for path in call.input.as_deref().map(patched).into_iter().flatten() {
                self.edited(&path, offset);
            }
        }
        for deed in deeds(&call, payload, is_error) {
            self.did(deed, offset);
        }
        if self.pending_calls().next().is_none() {
            self.phase = Phase::Thinking;
        }
    }
}

/// The paths of the files that a patch changes.
fn patched(patch: &str) -> impl Iterator<Item = String> {
    let path = |line: &str| PATCHED.iter().find_map(|start| line.strip_prefix(start)).map(|path| path.trim().to_owned());
    patch.lines().filter_map(path).filter(|path| path.len() <= PATH_BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transcript::Format;

    fn indexed(lines: &[&str]) -> Index {
        let mut index = Index { format: Format::Rollout, ..Index::default() };
        for (i, line) in lines.iter().enumerate() {
            index.apply_codex(line.as_bytes(), i as u64 * 1000);
        }
        index
    }

    const META: &str = r#"{"timestamp":"t0","type":"session_meta","payload":{"id":"c1","cwd":"/w","cli_version":"0.169.0","git":{"branch":"main"},"base_instructions":{"text":"You are"}}}"#;
    const STARTED: &str = r#"{"type":"event_msg","payload":{"type":"task_started"}}"#;
    const NOTE: &str = r#"{"type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"<environment_context>"}]}}"#;
    const PROMPT: &str = r#"{"type":"event_msg","payload":{"type":"item_completed","item":{"type":"UserMessage","id":"u1","content":[{"type":"text","text":"fix it"}]}}}"#;
    const CALL: &str = r#"{"type":"response_item","payload":{"type":"custom_tool_call","call_id":"k","name":"apply_patch","input":"*** Begin Patch\n*** Update File: src/a.rs\n@@\n*** Add File: b.rs\n"}}"#;
    const RESULT: &str = r#"{"type":"response_item","payload":{"type":"custom_tool_call_output","call_id":"k","output":"Done"}}"#;
    const REPLY: &str = r#"{"type":"response_item","payload":{"type":"message","role":"assistant","id":"m1","content":[{"type":"output_text","text":"Fixed."}]}}"#;
    const TOKENS: &str = r#"{"type":"event_msg","payload":{"type":"token_count","info":{"total_token_usage":{"input_tokens":30,"cached_input_tokens":10,"output_tokens":5},"last_token_usage":{"input_tokens":20,"output_tokens":2}}}}"#;
    const COMPLETE: &str = r#"{"type":"event_msg","payload":{"type":"task_complete","last_agent_message":"Fixed."}}"#;

    #[test]
    fn a_turn_with_a_tool() {
        let index = indexed(&[META, STARTED, NOTE, PROMPT, CALL, RESULT, REPLY, TOKENS, COMPLETE]);
        assert_eq!(index.facts.agent_session.as_deref(), Some("c1"));
        assert_eq!((index.facts.cwd.as_deref(), index.facts.git_branch.as_deref()), (Some("/w"), Some("main")));
        assert_eq!((index.counts.prompts, index.counts.assistant_records, index.counts.tool_calls), (1, 1, 1));
        assert_eq!(index.first_prompt.as_ref().map(|prompt| prompt.text.as_str()), Some("fix it"));
        assert_eq!((index.last_reply.as_deref(), index.phase), (Some("Fixed."), Phase::Idle));
        let edited: Vec<_> = index.files.iter().map(|(path, used)| (path.as_str(), used.edits)).collect();
        assert_eq!(edited, [("b.rs", 1), ("src/a.rs", 1)]);
        assert_eq!((index.usage.total.total(), index.context_tokens), (35, Some(22)));
        assert!(index.pending.is_empty() && index.counts.malformed == 0);
    }

    #[test]
    fn messages_are_prompts_replies_and_calls() {
        let mut found = Vec::new();
        let text = [META, STARTED, NOTE, PROMPT, CALL, RESULT, REPLY, COMPLETE].map(|line| format!("{line}\n")).concat();
        crate::transcript::messages::read(text.as_bytes(), 100, |message| found.push(message)).unwrap();
        let shown: Vec<_> = found.iter().map(|m| (m.role, m.text.as_str(), m.calls.len())).collect();
        let expected =
            [(Role::User, "fix it", 0), (Role::Assistant, "", 1), (Role::Tool, "Done", 0), (Role::Assistant, "Fixed.", 0)];
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_call_that_was_cut_off_is_pending_until_the_next_prompt() {
        let index = indexed(&[META, STARTED, PROMPT, CALL, "{\"torn", "[]", ""]);
        assert_eq!((index.phase, index.counts.malformed), (Phase::InTool, 2));
        let pending: Vec<_> = index.pending_calls().map(|call| (call.name.as_str(), call.path.as_deref())).collect();
        assert_eq!(pending, [("apply_patch", Some("src/a.rs"))]);
        let index = indexed(&[META, PROMPT, CALL, PROMPT]);
        assert_eq!((index.pending.len(), index.counts.tool_calls_abandoned), (0, 1));
    }
}
