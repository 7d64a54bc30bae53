//! The story of a conversation: commands that ran and those that failed, what made them pass, edits that were undone, packages, commits,
//! and documents that commands showed. It is told by what tools did, not by what the model says of it.
//!
//! Each kind of agent makes `ToolAction`s of its own tools' calls and results; this is the same for all. Lists are bounded, and lose their
//! oldest entries. Nothing here is exact: a command line is understood as far as its words go.

mod command;
mod edits;
mod failures;
mod output;
mod packages;
#[cfg(test)]
mod tests;
mod told;

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

pub(crate) use self::{
    edits::Change,
    output::{CommandOutcome, exit_code},
};
use self::{
    edits::Edits,
    failures::{Failures, Ran, Step},
};
pub use self::{
    packages::Package,
    told::{Approach, Command, NO_STEP, is_document},
};
use super::{
    json::clipped,
    limits::{
        COMMAND_BYTES_MAX, COMMANDS_MAX, COMMITS_MAX, DECISION_BYTES_MAX, DOCUMENTS_MAX, PACKAGES_MAX, PATH_BYTES_MAX, PLANS_MAX,
    },
};
use crate::environment::redact;

/// Commands that show a file.
const SHOWING: [&str; 7] = ["cat", "head", "tail", "sed", "less", "bat", "nl"];

/// Something that a tool did.
#[derive(Clone, Debug)]
pub(crate) enum ToolAction {
    /// It ran a command line.
    Ran {
        line: String,
        /// Its end.
        ended: CommandOutcome,
        /// The text that it printed, with what the agent puts around that.
        output: String,
    },
    /// It changed a file.
    Changed(Change),
    /// It showed a plan to the user, who rejected it.
    Rejected(String),
    /// It read a page.
    Fetched(String),
}

/// A plan that the user rejected.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct Plan {
    title: String,
    /// Offset of the record in the transcript.
    at: u64,
}

/// The deeds of tools, as far as they are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Story {
    /// The number of command lines that have ended.
    ran: u64,
    /// The last of them, oldest first.
    commands: VecDeque<Command>,
    failures: Failures,
    edits: Edits,
    plans: VecDeque<Plan>,
    /// Documents and pages, the one read last at the end.
    documents: VecDeque<String>,
    packages: VecDeque<Package>,
    commits: VecDeque<String>,
}

impl Story {
    /// Takes in what a tool did. `at` is the offset of the record that says so.
    pub(super) fn did(&mut self, deed: ToolAction, at: u64) {
        match deed {
            ToolAction::Ran { line, ended, output } => self.ran(&line, ended, &output, at),
            ToolAction::Changed(change) => {
                self.failures.step(&Step::Edited(change.path.clone()));
                let why = self.failures.last().cloned();
                self.edits.changed(change, at, why.as_ref());
            }
            ToolAction::Rejected(plan) => {
                let title = plan.lines().map(|line| line.trim_start_matches('#').trim()).find(|line| !line.is_empty());
                let title = clipped(title.unwrap_or("a plan"), DECISION_BYTES_MAX).to_owned();
                push(&mut self.plans, Plan { title, at }, PLANS_MAX);
            }
            ToolAction::Fetched(url) => self.read(redact::text(url.split(['?', '#']).next().unwrap_or_default())),
        }
    }

    fn ran(&mut self, line: &str, ended: CommandOutcome, output: &str, at: u64) {
        let parts = command::parts(line);
        if parts.is_empty() {
            return;
        }
        let may_be_hidden =
            ended == CommandOutcome::Passed && command::may_hide_failure(line) && command::matter(&parts).is_some();
        let is_hidden = may_be_hidden && output::is_fault(output);
        let ended = if is_hidden { CommandOutcome::Failed } else { ended };
        self.ran += 1;
        let shown = one_line(line);
        push(&mut self.commands, Command { command: shown.clone(), failed: ended == CommandOutcome::Failed }, COMMANDS_MAX);
        let ran = Ran { parts: &parts, shown: &shown, hash: hash(line.trim()) };
        match ended {
            CommandOutcome::Failed => self.failures.failed(&ran, || one_line(&output::error(output)), self.ran, at),
            CommandOutcome::Passed => {
                self.failures.passed(&ran);
                self.effects(&parts, &shown, output, at);
            }
            CommandOutcome::Unknown => {}
        }
    }

    /// Notes what a command that succeeded did beside passing.
    fn effects(&mut self, parts: &[command::Part], shown: &str, output: &str, at: u64) {
        for part in parts {
            for package in packages::installed(part) {
                self.packages.retain(|known| *known != package);
                push(&mut self.packages, package, PACKAGES_MAX);
                self.failures.step(&Step::Ran(shown.to_owned()));
            }
            if part.is(&["git", "commit"]) {
                self.edits.committed_at = at;
                commit(output).into_iter().for_each(|commit| push(&mut self.commits, commit, COMMITS_MAX));
            }
            if part.words.first().is_some_and(|program| SHOWING.contains(&program.as_str())) {
                let documents = part.operands().filter(|word| is_document(word) && word.len() <= PATH_BYTES_MAX);
                documents.map(str::to_owned).collect::<Vec<_>>().into_iter().for_each(|path| self.read(path));
            }
            let why = self.failures.last().cloned();
            self.edits.restored(part, at, why.as_ref());
        }
    }

    /// Forgets what was tried from this place of the transcript on: the user has withdrawn the prompt. What ran has run all the same.
    pub(super) fn withdraw(&mut self, from: u64) {
        self.failures.withdraw(from);
        self.edits.reverts.retain(|revert| revert.at < from);
        self.plans.retain(|plan| plan.at < from);
    }

    fn read(&mut self, document: String) {
        self.documents.retain(|known| *known != document);
        push(&mut self.documents, document, DOCUMENTS_MAX);
    }
}

/// The commit that git says it made, as `[branch id] subject`.
fn commit(output: &str) -> Option<String> {
    let (place, subject) = output.lines().find_map(|line| line.trim().strip_prefix('[')?.split_once("] "))?;
    let id = place.split_whitespace().last().filter(|id| id.len() >= 7 && id.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
    Some(format!("{} ({id})", one_line(subject)))
}

/// A text in one line, without credentials, and not longer than a command is kept.
fn one_line(text: &str) -> String {
    let line = clipped(text, 4 * COMMAND_BYTES_MAX).split_whitespace().collect::<Vec<_>>().join(" ");
    let line = redact::prose(&line);
    let kept = clipped(&line, COMMAND_BYTES_MAX);
    if kept.len() < line.len() { format!("{kept}...") } else { line }
}

/// The beginning of a text's hash, by which it is known again.
fn hash(text: &str) -> u64 {
    let hash = blake3::hash(text.as_bytes());
    hash.as_bytes().iter().take(8).fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

/// Appends to a list; the oldest goes where it is full.
fn push<T>(list: &mut VecDeque<T>, item: T, max: usize) {
    if list.len() >= max {
        list.pop_front();
    }
    list.push_back(item);
}
