//! A whole conversation: the agent's own transcript and those of the agents that it started, brought up to date together.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    decisions::{APPROVED_PLAN, asked, blocked, questions},
    facts,
    index::{Format, Index, Origin},
    limits::{APPROACHES_MAX, DOCUMENTS_MAX, FILES_MAX, PACKAGES_MAX},
    parts::{Phase, Todo, ToolCall},
    prefix::Check,
    raw::RawSet,
    statements::Statement,
    story::{Approach, Command, Package, is_document},
    update::update,
    usage::Usage,
};
use crate::{error::Result, kind::TranscriptLocation};

/// Most transcripts of subagents that are indexed.
const SUBAGENTS_MAX: usize = 1_000;

/// The indexes of a conversation. This is what a cache keeps from one capture to the next.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Conversation {
    /// The agent's own transcript.
    pub main: Index,
    /// Transcripts of subagents, by the name of their file.
    pub subagents: BTreeMap<String, Index>,
}

/// A conversation as it was captured.
#[derive(Clone, Debug)]
pub struct Capture {
    /// Its indexes.
    pub conversation: Conversation,
    /// Its raw files; what is indexed is what of them is kept.
    pub files: RawSet,
    /// The origin of the transcript's index.
    pub origin: Origin,
    /// Bytes that were parsed.
    pub bytes_parsed: u64,
}

/// The summary of a conversation, subagents included.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// The kind of agent.
    pub agent: &'static str,
    /// The agent's id of the conversation.
    pub agent_session_id: Option<String>,
    /// True if the agent can resume it by that id.
    pub has_resume_token: bool,
    /// Number of turns, the one under way included.
    pub turn_count: u64,
    /// Messages of the user, tool results included, and lines of the model.
    pub message_count: u64,
    /// The API's id of the model's last message.
    pub last_message_id: Option<String>,
    /// Id of the transcript's last message record.
    pub last_record_id: Option<String>,
    /// Bytes of the transcript that are whole records.
    pub transcript_bytes: u64,
    /// All tokens, those from the cache included.
    pub tokens_used: u64,
    /// Tokens by kind.
    pub usage: Usage,
    /// Tokens in the model's context at its last message.
    pub context_tokens: Option<u64>,
    /// Dollars, where the agent reported them.
    pub cost_estimate_usd: Option<f64>,
    /// The source of the cost: `transcript` or `stream_json`.
    pub cost_source: Option<&'static str>,
    /// Tools that were called, most often first.
    pub tools_invoked: Vec<String>,
    /// Files that tools changed.
    pub files_modified: Vec<String>,
    /// Files that tools read.
    pub files_read: Vec<String>,
    /// Files whose content is in the model's context.
    pub loaded_files: Vec<String>,
    /// Tool calls without a result.
    pub pending_tool_calls: Vec<ToolCall>,
    /// The to-do list.
    pub todos: Vec<Todo>,
    /// The user's answers to questions, and the plans that the user approved, newest first.
    pub decisions: Vec<String>,
    /// Questions of the agent without an answer.
    pub open_questions: Vec<String>,
    /// Approaches: plans that the user approved, and what failed or was undone, the last one first.
    pub approaches: Vec<Approach>,
    /// Sentences of the user and the model, and ports, that count when the conversation is gone.
    pub statements: Vec<Statement>,
    /// Blockers: commands that failed not long ago and have not passed since, tasks that are blocked, and what the last reply
    /// says is.
    pub blockers: Vec<String>,
    /// The last commands, the last one first.
    pub recent_commands: Vec<Command>,
    /// Packages that commands installed, the last one first.
    pub packages: Vec<Package>,
    /// Documents and pages that were read, the last ones first.
    pub relevant_docs: Vec<String>,
    /// Commits that commands made, the last one first.
    pub commits: Vec<String>,
    /// The end of what the model said since the last prompt.
    pub last_reply: Option<String>,
    /// The system prompt, or its beginning, where a record holds it.
    pub system_prompt: Option<String>,
    /// The first prompt, or its beginning.
    pub first_prompt: Option<String>,
    /// The last prompt, or its beginning.
    pub last_prompt: Option<String>,
    /// Prompts that were typed while the agent worked, and that it has not taken up.
    pub queued_prompts: Vec<String>,
    /// API name of the model that answered last; none before the first answer.
    pub model: Option<String>,
    /// Version of the agent that wrote the last record with one.
    pub agent_version: Option<String>,
    /// Permission mode in the agent's own word, such as `acceptEdits`; none where records have none.
    pub permission_mode: Option<String>,
    /// The working directory.
    pub cwd: Option<String>,
    /// State of the agent where the transcript ends.
    pub phase: Phase,
    /// Lines of the transcript that could not be understood.
    pub damaged_lines: u64,
    /// True if a list is incomplete.
    pub truncated: bool,
}

/// An agent's activity during a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// It waited for a prompt all the while.
    BetweenTurns,
    /// A tool ran at its beginning or end, or was called meanwhile.
    InTool,
    /// Neither is certain.
    Unknown,
}

impl Conversation {
    /// Finds, cuts and indexes everything of a conversation, going on from an earlier capture.
    pub fn capture(previous: Option<Conversation>, located: &TranscriptLocation, check: Check) -> Result<Capture> {
        let files = RawSet::find(located)?;
        let (main, mut subagents) = previous.map_or_else(Default::default, |known| (Some(known.main), known.subagents));
        let end = files.files.first().map_or(0, |file| file.bytes);
        let updated = update(main, &located.transcript, end, located.kind.format(), check)?;
        let mut captured = Capture {
            conversation: Conversation { main: updated.index, subagents: BTreeMap::new() },
            origin: updated.origin,
            bytes_parsed: updated.bytes_parsed,
            files: RawSet::default(),
        };
        for (name, file) in files.subagents().take(SUBAGENTS_MAX) {
            let updated = update(subagents.remove(&name), &file.source, file.bytes, located.kind.subagent_format(), check)?;
            captured.bytes_parsed += updated.bytes_parsed;
            captured.conversation.subagents.insert(name, updated.index);
        }
        captured.conversation.main.truncated |= files.subagents().count() > SUBAGENTS_MAX;
        // The agent takes a conversation up by the name of its file. Its first records need not say it, and those of a copy say another.
        if captured.conversation.main.prefix.bytes > 0 {
            captured.conversation.main.facts.agent_session = Some(located.agent_session.clone());
        }
        captured.files = files;
        Ok(captured)
    }

    /// Indexes what a headless agent printed with `--output-format stream-json`.
    pub fn capture_stream(previous: Option<Conversation>, log: &Path, check: Check) -> Result<Capture> {
        let files = RawSet::of_stream(log)?;
        let end = files.files.first().map_or(0, |file| file.bytes);
        let updated = update(previous.map(|previous| previous.main), log, end, Format::StreamJson, check)?;
        Ok(Capture {
            conversation: Conversation { main: updated.index, subagents: BTreeMap::new() },
            files,
            origin: updated.origin,
            bytes_parsed: updated.bytes_parsed,
        })
    }

    /// Tokens of the agent and its subagents, by the model's API name.
    pub fn usage_by_model(&self) -> BTreeMap<String, Usage> {
        let mut sums: BTreeMap<String, Usage> = BTreeMap::new();
        for (model, usage) in self.all().flat_map(|index| &index.usage.by_model) {
            let sum = sums.entry(model.clone()).or_default();
            *sum = sum.plus(*usage);
        }
        sums
    }

    /// The summary of the conversation.
    pub fn summary(&self) -> Summary {
        let main = &self.main;
        let usage = self.all().fold(Usage::default(), |sum, index| sum.plus(index.usage.total));
        let text = |snippet: &Option<super::parts::Snippet>| snippet.as_ref().map(|snippet| snippet.text.clone());
        Summary {
            agent: main.format.kind().name(),
            agent_session_id: main.facts.agent_session.clone(),
            has_resume_token: main.facts.agent_session.is_some() && main.counts.user_messages + main.counts.results > 0,
            turn_count: main.turn_count(),
            message_count: main.counts.user_messages + main.counts.assistant_records,
            last_message_id: main.facts.last_message.clone(),
            last_record_id: main.facts.last_record.clone(),
            transcript_bytes: main.prefix.bytes,
            tokens_used: usage.total(),
            usage,
            context_tokens: main.context_tokens,
            cost_estimate_usd: main.cost.map(|cost| cost.usd()),
            cost_source: main.cost.map(|_| if main.format == Format::StreamJson { "stream_json" } else { "transcript" }),
            tools_invoked: self.tools(),
            files_modified: self.files(|used| used.edits > 0),
            files_read: self.files(|used| used.reads > 0),
            loaded_files: main.loaded.iter().cloned().collect(),
            pending_tool_calls: main.pending_calls().cloned().collect(),
            todos: main.todos.clone(),
            decisions: main.decisions.iter().rev().cloned().collect(),
            open_questions: main
                .pending_calls()
                .flat_map(asked)
                .chain(self.final_reply().into_iter().flat_map(|reply| questions(reply)))
                .collect(),
            approaches: self.approaches(),
            statements: main.statements.told(),
            blockers: self.blockers(),
            recent_commands: main.story.commands().cloned().collect(),
            packages: self.packages(),
            relevant_docs: self.relevant_docs(),
            commits: main.story.commits().cloned().collect(),
            last_reply: main.last_reply.clone(),
            system_prompt: text(&main.system_prompt),
            first_prompt: text(&main.first_prompt),
            last_prompt: text(&main.last_prompt),
            queued_prompts: main.queued.iter().filter(|text| facts::is_prompt(text)).cloned().collect(),
            model: main.facts.model.clone(),
            agent_version: main.facts.version.clone(),
            permission_mode: main.facts.permission_mode.clone(),
            cwd: main.facts.cwd.clone(),
            phase: main.phase,
            damaged_lines: self.all().map(|index| index.counts.malformed + index.counts.oversized).sum(),
            truncated: self.all().any(|index| index.truncated),
        }
    }

    fn all(&self) -> impl Iterator<Item = &Index> {
        std::iter::once(&self.main).chain(self.subagents.values())
    }

    /// The last reply, where the agent waits for the user behind it.
    fn final_reply(&self) -> Option<&String> {
        self.main.last_reply.as_ref().filter(|_| self.main.phase == Phase::Idle)
    }

    fn blockers(&self) -> Vec<String> {
        let todos = self.main.todos.iter().filter(|todo| todo.status == "blocked").map(|todo| todo.content.clone());
        let said = self.final_reply().into_iter().flat_map(|reply| blocked(reply));
        self.main.story.blockers().into_iter().chain(todos).chain(said).collect()
    }

    fn approaches(&self) -> Vec<Approach> {
        let root = self.main.facts.cwd.as_deref();
        let plan = |decision: &String| Some(format!("Plan: {}", decision.strip_prefix(APPROVED_PLAN)?));
        let plans = self.main.decisions.iter().rev().filter_map(plan);
        let plans = plans.map(|what| Approach { what, ..Approach::default() });
        let failed = self.all().flat_map(|index| index.story.failed_approaches(root));
        failed.take(APPROACHES_MAX).chain(plans).collect()
    }

    fn packages(&self) -> Vec<Package> {
        let mut found: Vec<Package> = Vec::new();
        for package in self.all().flat_map(|index| index.story.packages()) {
            if found.len() < PACKAGES_MAX && !found.contains(package) {
                found.push(package.clone());
            }
        }
        found
    }

    /// Documents by the tools that read files, and those that commands have shown.
    fn relevant_docs(&self) -> Vec<String> {
        let is_read = |(path, used): &(&String, &super::parts::FileUse)| used.reads > 0 && is_document(path);
        let mut read: Vec<_> = self.all().flat_map(|index| index.files.iter().filter(is_read)).collect();
        read.sort_by_key(|(_, used)| std::cmp::Reverse(used.last_offset));
        let shown = self.all().flat_map(|index| index.story.documents());
        let mut found: Vec<String> = Vec::new();
        for path in read.into_iter().map(|(path, _)| path).chain(shown) {
            if found.len() < DOCUMENTS_MAX && !found.contains(path) {
                found.push(path.clone());
            }
        }
        found
    }

    fn tools(&self) -> Vec<String> {
        let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
        for (name, count) in self.all().flat_map(|index| &index.tools) {
            *counts.entry(name).or_default() += count;
        }
        let mut tools: Vec<_> = counts.into_iter().collect();
        tools.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        tools.into_iter().map(|(name, _)| name.to_owned()).collect()
    }

    fn files(&self, wanted: impl Fn(&super::parts::FileUse) -> bool) -> Vec<String> {
        let paths = self.all().flat_map(|index| &index.files).filter(|(_, used)| wanted(used)).map(|(path, _)| path);
        paths.collect::<BTreeSet<_>>().into_iter().take(FILES_MAX).cloned().collect()
    }

    /// The agent's activity while something else was captured, from indexes before and after.
    pub fn activity(before: &Conversation, after: &Conversation) -> Activity {
        let calls = |conversation: &Conversation| conversation.all().map(|index| index.counts.tool_calls).sum::<u64>();
        let phases = [before.main.phase, after.main.phase];
        if phases.contains(&Phase::InTool) || calls(before) != calls(after) {
            Activity::InTool
        } else if phases == [Phase::Idle; 2] && before.main.prefix.bytes == after.main.prefix.bytes {
            Activity::BetweenTurns
        } else {
            Activity::Unknown
        }
    }
}

impl Summary {
    /// The part of a checkpoint's record about the conversation.
    pub fn record_conversation(&self) -> Value {
        json!({
            "agent": self.agent,
            "agent_session_id": self.agent_session_id,
            "has_resume_token": self.has_resume_token,
            "turn_count": self.turn_count,
            "message_count": self.message_count,
            "last_message_id": self.last_message_id,
            "last_record_id": self.last_record_id,
            "transcript_bytes": self.transcript_bytes,
            "tokens_used": self.tokens_used,
            "context_tokens": self.context_tokens,
            "pending_tool_calls_count": self.pending_tool_calls.len(),
            "phase": self.phase,
        })
    }

    /// The part of a checkpoint's record about tokens, cost and activity.
    pub fn record_usage(&self) -> Value {
        json!({
            "cost_estimate_usd": self.cost_estimate_usd,
            "cost_source": self.cost_source,
            "tokens": self.usage,
            "tools_invoked": self.tools_invoked,
            "files_modified_count": self.files_modified.len(),
            "model": self.model,
        })
    }
}
