//! The input of a briefing, gathered by the caller.

use parhelia_agent::transcript::statements::Statement;

/// The reason for a briefing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Why {
    /// The conversation goes on; the agent remembers it.
    #[default]
    Resumed,
    /// A new conversation takes the place of one that could not be resumed.
    Replaced,
    /// The conversation was compacted.
    Forgotten,
    /// Earlier work in this folder was not finished; another conversation begins.
    Incomplete,
    /// The user has cleared the conversation before it.
    Cleared,
    /// Another conversation begins in a folder in which earlier work has ended.
    Earlier,
}

impl Why {
    /// True if what went before is background, and nothing of it is gone on with unless the user says so.
    pub fn is_background(self) -> bool {
        matches!(self, Why::Cleared | Why::Earlier)
    }
}

/// A tool call without a result.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PendingCall {
    /// Name of the tool, as the agent calls it.
    pub tool: String,
    /// Its arguments, in a line.
    pub input: String,
}

/// A changed file of the workspace, for a briefing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChangedFile {
    /// From the workspace folder.
    pub path: String,
    /// `A`, `D`, `M`, `R`, `T` or `m`, as `checkpoint diff` marks it.
    pub mark: char,
    /// Lines added and removed, where they were counted.
    pub lines: Option<(u64, u64)>,
}

/// A file that the agent will want to know.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct File {
    /// From the workspace folder.
    pub path: String,
    /// The reason for listing it, such as `edited` or `read`.
    pub reason: String,
    /// Its text, where it is text and not too long.
    pub text: Option<String>,
    /// The changes in it, as a unified diff.
    pub diff: Option<String>,
    /// Its length in bytes.
    pub bytes: u64,
}

/// The way in which a session's last run ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ending {
    /// By itself, or at somebody's wish.
    #[default]
    Told,
    /// At rest, and nobody saw how.
    Unseen,
    /// By a signal, or in the middle of something.
    Interrupted,
}

/// Everything there is to say. Lists are in order of rank.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Input {
    /// The reason for the briefing.
    pub why: Why,
    /// The session's name.
    pub session: String,
    /// The checkpoint from which the work goes on.
    pub checkpoint: String,
    /// The time since the checkpoint, in words.
    pub age: Option<String>,
    /// A sentence with the reason for the checkpoint.
    pub ending: Option<String>,
    /// The way in which the last run ended.
    pub ended: Ending,
    /// A summary of the work so far.
    pub summary: String,
    /// A summary by a model; none where the agent remembers the conversation.
    pub by_model: Option<String>,
    /// The user's last request.
    pub task: Option<String>,
    /// Prompts that the agent has never taken up.
    pub queued: Vec<String>,
    /// To-do items that are not done, those in progress first.
    pub next_steps: Vec<String>,
    /// Statements of the user and the model; none where the agent remembers the conversation.
    pub statements: Vec<Statement>,
    /// The user's answers to questions, and the plans that the user approved, newest first.
    pub decisions: Vec<String>,
    /// Approaches that failed, each with why, and with what made it pass.
    pub failed_approaches: Vec<String>,
    /// Commands that fail, tasks that are blocked, and obstacles that the last reply names.
    pub blockers: Vec<String>,
    /// Questions that are open.
    pub open_questions: Vec<String>,
    /// Tool calls that had no result.
    pub pending: Vec<PendingCall>,
    /// The conversation's file, which the above is from.
    pub transcript: Option<String>,
    /// Facts about the resume that the agent should know, such as processes that were stopped.
    pub notices: Vec<String>,
    /// The session's first checkpoint.
    pub first: String,
    /// Changes from the first checkpoint until now.
    pub changes: Vec<ChangedFile>,
    /// Those of the changes that are later than the checkpoint.
    pub since: Vec<ChangedFile>,
    /// Files that git calls changed: the first of them, each with a mark where it is deleted.
    pub uncommitted: Vec<String>,
    /// The number of further uncommitted files.
    pub uncommitted_more: usize,
    /// The folder of the repository that they are of; none where they are of several below the workspace folder.
    pub repository: Option<String>,
    /// Files to look at, those that matter most first.
    pub files: Vec<File>,
    /// Absolute path of the workspace, escaped for messages.
    pub folder: String,
    /// The branch that is checked out; none on a detached HEAD or without git.
    pub branch: Option<String>,
    /// The commit of HEAD, in full; none without git or before the first commit.
    pub commit: Option<String>,
    /// Path at which the checkpoint's workspace is mounted; none where it is not.
    pub mount: Option<String>,
}
