//! Records of Claude Code's transcripts and of its stream, and how each changes an index.

use super::deeds::deed;
use crate::transcript::{
    changes::snippet,
    decisions::decided,
    facts::{self, Effect, UserText},
    index::{Cost, Format, Index},
    json::{Object, clipped},
    limits::{
        DECISIONS_MAX, INPUT_BYTES_MAX, NAME_BYTES_MAX, PATH_BYTES_MAX, QUEUED_MAX, SYSTEM_PROMPT_BYTES_MAX, TODOS_MAX,
        TURN_BYTES_MAX,
    },
    parts::{Phase, Todo, ToolCall},
    usage::Usage,
};

/// The facts of a record that every handler needs.
struct Context {
    offset: u64,
    at: Option<String>,
    id: Option<String>,
    /// True if a subagent wrote it into the file of the agent that started it.
    is_foreign: bool,
}

impl Index {
    /// Takes in one line.
    pub(crate) fn apply_claude(&mut self, line: &[u8], offset: u64) {
        let Some((record, kind)) = self.note_record(line) else { return };
        let context = self.context(&record, offset);
        self.note_facts(&record, &context);
        match kind.as_str() {
            "user" => self.user(&record, &context),
            "assistant" => self.assistant(&record, &context),
            "system" => self.system(&record, &context),
            "attachment" if !context.is_foreign => self.attachment(&record, &context),
            "result" => self.result(&record),
            "queue-operation" => self.queue(&record),
            "cost-state" => self.reported_cost(record.number("totalCostUSD")),
            _ => {}
        }
    }

    fn context(&self, record: &Object, offset: u64) -> Context {
        let is_foreign = match self.format {
            Format::Transcript => record.is_true("isSidechain"),
            Format::Subagent | Format::Rollout | Format::Chat => false,
            Format::StreamJson => !record.is_null_or_absent("parent_tool_use_id"),
        };
        let name = |name| record.name(name, NAME_BYTES_MAX);
        Context { offset, at: name("timestamp"), id: name("uuid"), is_foreign }
    }

    fn note_facts(&mut self, record: &Object, context: &Context) {
        if context.is_foreign {
            return;
        }
        let facts = &mut self.facts;
        let fields = [
            (&mut facts.agent_session, ["sessionId", "session_id"]),
            (&mut facts.version, ["version", "claude_code_version"]),
            (&mut facts.git_branch, ["gitBranch", "gitBranch"]),
            (&mut facts.permission_mode, ["permissionMode", "permissionMode"]),
        ];
        for (fact, names) in fields {
            if let Some(value) = names.into_iter().find_map(|name| record.name(name, NAME_BYTES_MAX)) {
                *fact = Some(value);
            }
        }
        if let Some(cwd) = record.name("cwd", PATH_BYTES_MAX) {
            facts.cwd = Some(cwd);
        }
        if context.at.is_some() {
            facts.last_at.clone_from(&context.at);
        }
    }

    fn user(&mut self, record: &Object, context: &Context) {
        let Some(message) = record.object("message") else { return };
        let mut has_results = false;
        for block in message.list("content").into_iter().filter_map(Object::of) {
            if block.text("type").as_deref() == Some("tool_result") {
                has_results = true;
                self.tool_result(record, &block, context);
            }
        }
        if context.is_foreign {
            return;
        }
        self.counts.user_messages += 1;
        self.note_last(context);
        let text = facts::content_text(&message);
        match facts::user_text(record, &text) {
            UserText::Interruption => {
                self.counts.interruptions += 1;
                self.phase = Phase::Idle;
            }
            UserText::Prompt if !has_results => self.prompt(&text, context),
            _ if !has_results => _ = self.taken_up(&text),
            _ => {}
        }
    }

    fn prompt(&mut self, text: &str, context: &Context) {
        self.began(text, context.id.clone(), context.offset, context.at.clone());
    }

    fn assistant(&mut self, record: &Object, context: &Context) {
        let Some(message) = record.object("message") else { return };
        let model = message.name("model", NAME_BYTES_MAX).filter(|model| model != "<synthetic>");
        self.count_usage(&message, model.as_deref(), context);
        for block in message.list("content").into_iter().filter_map(Object::of) {
            if block.text("type").as_deref() == Some("tool_use") {
                self.tool_use(&block, context);
            }
        }
        if context.is_foreign {
            return;
        }
        self.counts.assistant_records += 1;
        self.note_last(context);
        if record.is_true("isApiErrorMessage") || (self.format == Format::StreamJson && !record.is_null_or_absent("error")) {
            self.counts.api_errors += 1;
        }
        if model.is_some() {
            self.replied(&facts::content_text(&message), context.offset);
            self.facts.model = model;
            self.facts.last_message = message.name("id", NAME_BYTES_MAX).or(self.facts.last_message.take());
        }
        self.phase = match message.text("stop_reason").as_deref() {
            _ if self.pending_calls().next().is_some() => Phase::InTool,
            None | Some("tool_use" | "pause_turn") => Phase::Thinking,
            Some(_) => Phase::Idle,
        };
    }

    fn count_usage(&mut self, message: &Object, model: Option<&str>, context: &Context) {
        let (Some(usage), Some(model)) = (message.object("usage"), model) else { return };
        let usage = Usage::of(&usage);
        let id = message.name("id", NAME_BYTES_MAX).or_else(|| context.id.clone());
        self.usage.count(&id.unwrap_or_else(|| context.offset.to_string()), model, usage);
        if !context.is_foreign {
            self.context_tokens = Some(usage.total());
        }
    }

    fn tool_use(&mut self, block: &Object, context: &Context) {
        let (Some(id), Some(name)) = (block.name("id", NAME_BYTES_MAX), block.name("name", NAME_BYTES_MAX)) else { return };
        let path = block.object("input").and_then(|input| facts::path_of(&name, &input, PATH_BYTES_MAX));
        let input = block.get("input").map(|raw| raw.get()).filter(|raw| raw.len() <= INPUT_BYTES_MAX).map(str::to_owned);
        let (offset, at) = (context.offset, context.at.clone());
        self.called(ToolCall { id, name, input, path, offset, at, is_subagents: context.is_foreign });
    }

    fn tool_result(&mut self, record: &Object, block: &Object, context: &Context) {
        let Some(call) = self.answered(block.name("tool_use_id", NAME_BYTES_MAX)) else { return };
        if block.is_true("is_error") {
            self.counts.tool_errors += 1;
        } else {
            self.used_file(&call, context);
            self.used_todos(&call, record);
            self.note_decisions(&call, record);
        }
        if let Some(deed) = deed(&call, record, block) {
            self.did(deed, context.offset);
        }
        if !call.is_subagents && self.pending_calls().next().is_none() {
            self.phase = Phase::Thinking;
        }
    }

    fn used_file(&mut self, call: &ToolCall, context: &Context) {
        let Some(path) = &call.path else { return };
        let is_known = match facts::effect(&call.name) {
            Effect::Reads => self.read_file(path, context.offset),
            _ => self.edited(path, context.offset),
        };
        if is_known && !call.is_subagents {
            self.load(path.clone());
        }
    }

    /// Updates the queue of prompts. A record names a prompt that is taken out for editing; a later record names one that the agent takes out
    /// ([`Index::taken_up`]). Prompts that an earlier process has lost may lie at the queue's beginning.
    fn queue(&mut self, record: &Object) {
        let content = record.text("content").map(|text| clipped(text.trim(), TURN_BYTES_MAX).to_owned());
        match (record.text("operation").as_deref(), content) {
            (Some("enqueue"), content) => {
                if self.queued.len() == QUEUED_MAX {
                    self.queued.pop_front();
                    self.truncated = true;
                }
                // What is no text keeps its place.
                self.queued.push_back(content.unwrap_or_default());
            }
            (Some("popAll" | "popOne"), Some(content)) => self.queued.retain(|queued| *queued != content),
            (Some("popAll" | "popOne"), None) => drop(self.queued.pop_back()),
            (Some("dequeue" | "remove"), _) => self.taken_out = self.taken_out.saturating_add(1),
            _ => {}
        }
    }

    /// Keeps the to-do list: written whole by `TodoWrite`, or entry by entry by `TaskCreate` and `TaskUpdate`.
    fn used_todos(&mut self, call: &ToolCall, record: &Object) {
        if call.is_subagents || !matches!(call.name.as_str(), "TodoWrite" | "TaskCreate" | "TaskUpdate") {
            return;
        }
        let Some(input) = call.input.as_deref().and_then(|input| Object::parse(input.as_bytes())) else { return };
        let status = |object: &Object| object.name("status", NAME_BYTES_MAX);
        let content = |object: &Object, name: &str| object.name(name, PATH_BYTES_MAX).unwrap_or_default();
        match call.name.as_str() {
            "TodoWrite" => {
                let entries = input.list("todos");
                self.truncated |= entries.len() > TODOS_MAX;
                let entries = entries.into_iter().filter_map(Object::of).take(TODOS_MAX);
                self.todos = entries
                    .map(|entry| Todo {
                        id: entry.name("id", NAME_BYTES_MAX),
                        content: content(&entry, "content"),
                        status: status(&entry).unwrap_or_default(),
                    })
                    .collect();
            }
            "TaskCreate" if self.todos.len() < TODOS_MAX => {
                let result = record.object("toolUseResult").or_else(|| record.object("tool_use_result"));
                let id = result.and_then(|result| result.object("task")?.name("id", NAME_BYTES_MAX));
                self.todos.push(Todo { id, content: content(&input, "subject"), status: "pending".into() });
            }
            _ => {
                let id = input.name("taskId", NAME_BYTES_MAX);
                match status(&input) {
                    Some(status) if status == "deleted" => self.todos.retain(|todo| todo.id != id),
                    status => {
                        for todo in self.todos.iter_mut().filter(|todo| todo.id == id && id.is_some()) {
                            todo.status = status.clone().unwrap_or(std::mem::take(&mut todo.status));
                            todo.content = input.name("subject", PATH_BYTES_MAX).unwrap_or(std::mem::take(&mut todo.content));
                        }
                    }
                }
            }
        }
    }

    fn note_decisions(&mut self, call: &ToolCall, record: &Object) {
        self.decisions.extend(decided(call, record));
        let surplus = self.decisions.len().saturating_sub(DECISIONS_MAX);
        self.decisions.drain(..surplus);
        self.truncated |= surplus > 0;
    }

    fn system(&mut self, record: &Object, context: &Context) {
        if context.is_foreign {
            return;
        }
        match record.text("subtype").as_deref() {
            Some("compact_boundary") => {
                self.counts.compactions += 1;
                self.loaded.clear();
            }
            Some("turn_duration") if self.pending_calls().next().is_none() => self.phase = Phase::Idle,
            Some("init") => self.facts.model = record.name("model", NAME_BYTES_MAX).or(self.facts.model.take()),
            _ => {}
        }
    }

    /// Files that the user attached or the agent loaded by itself, system prompts, and prompts that were typed while the agent worked.
    fn attachment(&mut self, record: &Object, context: &Context) {
        match facts::queued_text(record) {
            Some((UserText::Prompt, text)) => {
                self.note_last(context);
                self.prompt(&text, context);
            }
            Some((_, text)) => _ = self.taken_up(&text),
            None => {}
        }
        let Some(attachment) = record.object("attachment") else { return };
        match attachment.text("type").as_deref() {
            Some("file" | "nested_memory" | "already_read_file" | "edited_text_file") => {
                let path = attachment.name("filename", PATH_BYTES_MAX).or_else(|| attachment.name("path", PATH_BYTES_MAX));
                path.into_iter().for_each(|path| self.load(path));
            }
            Some("prompt_snapshot") => {
                let parts = attachment.list("systemPrompt");
                let parts: Vec<_> = parts.into_iter().filter_map(crate::transcript::json::text).collect();
                if !parts.is_empty() {
                    self.system_prompt = Some(snippet(&parts.join("\n\n"), SYSTEM_PROMPT_BYTES_MAX));
                }
            }
            _ => {}
        }
    }

    /// The end of a run in a stream.
    fn result(&mut self, record: &Object) {
        self.counts.results += 1;
        self.phase = Phase::Idle;
        self.reported_cost(record.number("total_cost_usd"));
        if let Some(usage) = record.object("usage") {
            // Messages in a stream carry what was known when they began.
            self.usage.settle(self.usage_settled, Usage::of(&usage));
            self.usage_settled = self.usage.total;
        }
    }

    /// Takes the cost that a process reports so far. A smaller figure than before comes from another process.
    fn reported_cost(&mut self, usd: Option<f64>) {
        let Some(usd) = usd.filter(|usd| (0.0..1e9).contains(usd)) else { return };
        let current = (usd * 1e9).round() as u64;
        // A process that did nothing knows nothing of those before it, which may have been killed before they told.
        if current == 0 && self.cost.is_none() && self.usage.total != Usage::default() {
            return;
        }
        let known = self.cost.unwrap_or_default();
        let is_another = current < known.current;
        let before = if is_another { known.before.saturating_add(known.current) } else { known.before };
        self.cost = Some(Cost { before, current });
    }

    fn note_last(&mut self, context: &Context) {
        if context.id.is_some() {
            self.facts.last_record.clone_from(&context.id);
        }
    }
}
