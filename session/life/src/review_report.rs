//! Everything that a person looks at before a decision: what was done since the last state that a person approved.

use std::collections::VecDeque;

use parhelia_agent::transcript::{
    files::TRANSCRIPT,
    messages::{self, Call, Message, Role},
};
use parhelia_ledger::{Approval, ApprovalStatus, Issue, LedgerView as _, Session};
use parhelia_store::{
    Store,
    diff::{DiffOptions, Side, TreeChange, compare},
    id::Ulid,
    record::Checkpoint,
    tree::Kind,
    view::View,
};
use serde_json::Value;

use crate::overview::Overview;
use parhelia_host::{
    Error, Result,
    state::{CONVERSATION, state_file, state_json},
};
use parhelia_oversight::review::{link, unseen::Exclusions};
use parhelia_oversight::{
    changed::OfGit,
    scan::{self, LeftOut},
};
use schemars::JsonSchema;
use serde::Serialize;

/// Tools of the known agents that run a command.
const COMMAND_TOOLS: [&str; 5] = ["Bash", "shell", "exec_command", "local_shell", "run_shell_command"];
/// So many commands are told, the newest ones.
const COMMANDS_MAX: usize = 50;
/// Bytes of a text in a conversation that are read.
const TEXT_BYTES_MAX: usize = 2000;
/// So much of the end of a conversation is looked through.
const READ_BYTES_MAX: u64 = 16 << 20;

/// A command that an agent ran.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Ran")]
pub struct Command {
    /// Its text, or the beginning of it.
    pub text: String,
    /// True if it failed, false if it did not; null if its end is not known.
    pub failed: Option<bool>,
}

/// A review of a session.
#[derive(Debug)]
pub struct Review {
    /// The session that is reviewed.
    pub session: Session,
    /// Its state.
    pub overview: Overview,
    /// The checkpoint to decide about: its head.
    pub newest: Checkpoint,
    /// The decision about that.
    pub approval: Option<Approval>,
    /// The last checkpoint before it that a person approved, or else the first one of the session; none if that is the newest.
    pub since: Option<Checkpoint>,
    /// True if a person approved that.
    pub since_approved: bool,
    /// Checkpoints from there to the newest that wait for a person, the newest first.
    pub waiting: Vec<Ulid>,
    /// Issues that its checkpoints are linked to by an agent or an import alone.
    pub asked_links: Vec<Issue>,
    /// Entries that rules leave out of the newest, and rules that are new since a person approved one.
    pub unseen: Exclusions,
    /// Files that changed since then, but for those of git repositories.
    pub changes: Vec<TreeChange>,
    /// Possible secrets that were found in the newest and in those that wait, each with its place and rule.
    pub secrets: Vec<String>,
    /// Turns of the conversation.
    pub turns: Option<u64>,
    /// Tokens, those from the cache included.
    pub tokens: Option<u64>,
    /// Commands that the agent ran since then, oldest first.
    pub commands: Vec<Command>,
    /// Commands before these, which are not told.
    pub commands_more: usize,
    /// Questions of the agent that nobody answered.
    pub open_questions: Vec<String>,
    /// The end of what the agent said last.
    pub last_reply: Option<String>,
}

impl Review {
    /// Looks at a session. Fails where it has no checkpoint.
    pub fn of(store: &Store, session: Session) -> Result<Self> {
        let view = store.view();
        let Some(newest) = view.head(&session.id)? else {
            return Err(parhelia_store::Error::NoCheckpoint { selector: format!("{}@latest", session.id) }.into());
        };
        let Baseline { checkpoint: since, is_approved: since_approved, waiting } = Baseline::of(&view, &newest)?;
        let changes = since.as_ref().map(|since| changes(store, since, &newest)).transpose()?.unwrap_or_default();
        let unseen = Exclusions::of(store, since.as_ref().filter(|_| since_approved), &newest)?;
        let asked_links =
            link::of_session(&view, &session.id)?.into_iter().filter_map(|(issue, asked)| asked.then_some(issue)).collect();
        let said = said(store, &newest)?;
        let mut commands = commands(store, since.as_ref(), &newest)?;
        let commands_more = commands.len().saturating_sub(COMMANDS_MAX);
        Ok(Review {
            overview: Overview::of(store, &session)?,
            approval: view.marks(newest.record.id)?.approval,
            secrets: secrets(&view, &newest, &waiting)?,
            turns: turns(&newest),
            tokens: tokens(&newest),
            commands: commands.split_off(commands_more),
            commands_more,
            open_questions: texts(said.as_ref(), "open_questions"),
            last_reply: said.as_ref().and_then(|said| said.get("last_reply")?.as_str().map(str::to_owned)),
            session,
            newest,
            since,
            since_approved,
            waiting,
            asked_links,
            unseen,
            changes,
        })
    }
}

/// Turns of a checkpoint's conversation.
pub fn turns(checkpoint: &Checkpoint) -> Option<u64> {
    checkpoint.record.conversation.as_ref()?.get("turn_count")?.as_u64()
}

/// Tokens of it, those from the cache included.
pub fn tokens(checkpoint: &Checkpoint) -> Option<u64> {
    checkpoint.record.conversation.as_ref()?.get("tokens_used")?.as_u64()
}

/// Files that differ between the workspaces of two checkpoints, but for those of git repositories.
pub fn changes(store: &Store, then: &Checkpoint, now: &Checkpoint) -> Result<Vec<TreeChange>> {
    let left_out = LeftOut::of(store.omissions(then)?, store.omissions(now)?);
    let mut of_git = OfGit::new(store, [then, now]);
    let (then, now) = (store.workspace_node(then)?, store.workspace_node(now)?);
    let mut changes = compare(Side::new(store, &then), Side::new(store, &now), DiffOptions::default())?;
    changes.retain(|change| !left_out.is(change) && !of_git.has(&change.path));
    Ok(changes)
}

/// Questions of a checkpoint's agent that nobody answered.
pub fn open_questions(store: &Store, checkpoint: &Checkpoint) -> Result<Vec<String>> {
    Ok(texts(said(store, checkpoint)?.as_ref(), "open_questions"))
}

/// Checks whether a call of a tool runs a command.
pub fn runs_command(call: &Call) -> bool {
    COMMAND_TOOLS.contains(&call.tool.as_str())
}

/// The summary of a checkpoint's conversation.
fn said(store: &Store, checkpoint: &Checkpoint) -> Result<Option<Value>> {
    let said = state_json(store, checkpoint, "conversation.json")?;
    Ok(said.map(|said| said.get("summary").cloned().unwrap_or(said)))
}

fn texts(said: Option<&Value>, name: &str) -> Vec<String> {
    let list = said.and_then(|said| said.get(name)?.as_array()).map(Vec::as_slice).unwrap_or_default();
    list.iter().filter_map(|text| text.as_str().map(str::to_owned)).collect()
}

/// The checkpoint since which everything is new to a person.
#[derive(Clone, Debug)]
pub struct Baseline {
    /// The last checkpoint before a given one that a person approved, or else the first one of the session; none if that is the given one.
    pub checkpoint: Option<Checkpoint>,
    /// True if a person approved that.
    pub is_approved: bool,
    /// Checkpoints from there to the given one that wait for a person, the newest first.
    pub waiting: Vec<Ulid>,
}

impl Baseline {
    /// Of a checkpoint.
    pub fn of(view: &View, newest: &Checkpoint) -> Result<Self> {
        let status = |id| Ok::<_, Error>(view.marks(id)?.approval.map(|approval| approval.status));
        // Whoever approved it has looked at those before it.
        let is_settled = status(newest.record.id)? == Some(ApprovalStatus::Approved);
        let (mut since, mut waiting) = (None, Vec::new());
        let mut next = Some(newest.clone());
        while let Some(checkpoint) = next {
            next = view.ancestor(&checkpoint)?;
            let id = checkpoint.record.id;
            match status(id)? {
                Some(ApprovalStatus::Approved) if id != newest.record.id => {
                    return Ok(Baseline { checkpoint: Some(checkpoint), is_approved: true, waiting });
                }
                Some(ApprovalStatus::Pending) if !is_settled => waiting.push(id),
                _ => {}
            }
            if id != newest.record.id {
                since = Some(checkpoint);
            }
        }
        Ok(Baseline { checkpoint: since, is_approved: false, waiting })
    }
}

/// The possible secrets that scans of the newest checkpoint and of those that wait have found.
fn secrets(view: &View, newest: &Checkpoint, waiting: &[Ulid]) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for id in waiting.iter().chain([&newest.record.id]) {
        for finding in view.marks(*id)?.scan.into_iter().flat_map(|scan| scan.findings) {
            let text = scan::named(&finding);
            if !found.contains(&text) {
                found.push(text);
            }
        }
    }
    Ok(found)
}

/// The commands that an agent ran between two checkpoints, with their ends. Where the conversation is another one by then, all of the newer one.
fn commands(store: &Store, since: Option<&Checkpoint>, newest: &Checkpoint) -> Result<Vec<Command>> {
    let path = format!("{CONVERSATION}/{TRANSCRIPT}");
    let Some(node) = state_file(store, newest, &path)? else { return Ok(Vec::new()) };
    let bytes = |checkpoint: &Checkpoint| checkpoint.record.conversation.as_ref()?.get("transcript_bytes")?.as_u64();
    let id = |checkpoint: &Checkpoint| checkpoint.record.conversation.as_ref()?.get("agent_session_id").cloned();
    let before = since.filter(|since| id(since) == id(newest)).and_then(bytes).unwrap_or(0);
    let start = before.max(node.size().saturating_sub(READ_BYTES_MAX)).min(node.size());
    let mut text = Vec::new();
    let Kind::File { size, blob, .. } = node.kind else { return Ok(Vec::new()) };
    store.blob(blob, size)?.read_range(start..size, |piece| {
        text.extend_from_slice(piece);
        Ok(())
    })?;
    let mut found = Commands::default();
    let read = messages::read(text.as_slice(), TEXT_BYTES_MAX, |message| found.take(&message));
    read.map_err(|source| Error::Io { action: "read", path: path.into(), source })?;
    Ok(found.ran)
}

/// Commands, and which of the calls still have no result.
#[derive(Default)]
struct Commands {
    ran: Vec<Command>,
    /// Of each call without a result its place among the commands; none for one that runs no command.
    open: VecDeque<Option<usize>>,
}

impl Commands {
    fn take(&mut self, message: &Message) {
        for call in &message.calls {
            let is_command = runs_command(call);
            self.open.push_back(is_command.then_some(self.ran.len()));
            if is_command {
                self.ran.push(Command { text: call.about.clone(), failed: None });
            }
        }
        match message.role {
            // Results come in the order of the calls.
            Role::Tool => {
                let place = self.open.pop_front().flatten();
                if let Some(command) = place.and_then(|place| self.ran.get_mut(place)) {
                    command.failed = Some(message.is_error);
                }
            }
            // A new prompt: what had no result by then gets none.
            Role::User => self.open.clear(),
            Role::Assistant => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use parhelia_agent::transcript::messages::Call;

    use super::*;

    fn message(role: Role, calls: &[(&str, &str)], is_error: bool) -> Message {
        let call = |(tool, about): &(&str, &str)| Call { tool: (*tool).into(), about: (*about).into() };
        let calls = calls.iter().map(call).collect();
        Message { role, record: None, at: None, text: String::new(), text_bytes: 0, calls, is_error }
    }

    #[test]
    fn commands_have_the_results_of_their_calls() {
        let mut found = Commands::default();
        found.take(&message(Role::Assistant, &[("Bash", "cargo test"), ("Read", "a.rs"), ("Bash", "make")], false));
        found.take(&message(Role::Tool, &[], true));
        found.take(&message(Role::Tool, &[], true));
        found.take(&message(Role::Tool, &[], false));
        found.take(&message(Role::Assistant, &[("Bash", "never ended")], false));
        found.take(&message(Role::User, &[], false));
        found.take(&message(Role::Assistant, &[("shell", "ls")], false));
        found.take(&message(Role::Tool, &[], false));
        let ran: Vec<_> = found.ran.iter().map(|command| (command.text.as_str(), command.failed)).collect();
        assert_eq!(ran, [("cargo test", Some(true)), ("make", Some(false)), ("never ended", None), ("ls", Some(false))]);
    }
}
