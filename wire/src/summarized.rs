//! Summaries of sessions.

use jiff::Timestamp;
use parhelia_agent::transcript::story::{Approach, Command, Package};
use parhelia_knowledge::summary::{self, FileChange, GeneratedBy, model::By};
use parhelia_store::id::Ulid;
use schemars::JsonSchema;
use serde::Serialize;

/// The summary of a session at a checkpoint. Lists are bounded, and begin with what is newest or matters most.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SessionSummary {
    /// Id of the session that is summed up.
    pub session: String,
    /// Way in which it was made: rules.
    #[schemars(with = "String")]
    pub generated_by: GeneratedBy,
    /// The user's last request.
    pub task: Option<String>,
    /// Tasks that are done, commits, changed files, and the end of the last reply.
    pub progress: Vec<String>,
    /// The user's answers, and the plans that the user approved.
    pub decisions: Vec<String>,
    /// Plans, commands that failed and what made them pass, edits that were undone.
    pub approaches: Vec<Approach>,
    /// What is in the way: commands that still fail, tasks that are blocked.
    pub blockers: Vec<String>,
    /// Questions of the agent without an answer.
    pub open_questions: Vec<String>,
    /// Tasks that are begun or to be done.
    pub next_steps: Vec<String>,
    /// Documents and pages that were read.
    pub relevant_docs: Vec<String>,
    /// Files that were changed.
    pub files: Vec<FileChange>,
    /// Commands that the agent ran last, newest first, at most 20.
    pub recent_commands: Vec<Command>,
    /// Packages that commands installed.
    pub packages: Vec<Package>,
    /// The agent's working directory.
    pub cwd: Option<String>,
    /// Branch that was checked out; null on a detached HEAD or without git.
    pub git_branch: Option<String>,
    /// Commit of HEAD, in full; null without git or before the first commit.
    pub git_commit: Option<String>,
    /// The last summary by a model, of this checkpoint or of one that it came from; null where no model is configured, or none has answered.
    pub model: Option<ModelSummary>,
}

impl From<&summary::Summary> for SessionSummary {
    fn from(summary: &summary::Summary) -> Self {
        let summary = summary.clone();
        SessionSummary {
            model: summary.model.as_ref().map(ModelSummary::from),
            session: summary.session,
            generated_by: summary.generated_by,
            task: summary.task,
            progress: summary.progress,
            decisions: summary.decisions,
            approaches: summary.approaches,
            blockers: summary.blockers,
            open_questions: summary.open_questions,
            next_steps: summary.next_steps,
            relevant_docs: summary.relevant_docs,
            files: summary.files,
            recent_commands: summary.recent_commands,
            packages: summary.packages,
            cwd: summary.cwd,
            git_branch: summary.git_branch,
            git_commit: summary.git_commit,
        }
    }
}

/// A summary that a model wrote.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ModelSummary {
    /// The checkpoint that it sums up.
    #[schemars(with = "String")]
    pub checkpoint: Ulid,
    /// The program that made it.
    pub generated_by: ModelSummaryBy,
    /// The time of its making.
    pub at: Timestamp,
    /// The agent's id of the conversation that it is of.
    pub conversation: Option<String>,
    /// Its words, in Markdown.
    pub text: String,
}

impl From<&summary::ModelSummary> for ModelSummary {
    fn from(model: &summary::ModelSummary) -> Self {
        let summary::ModelSummary { checkpoint, generated_by, at, conversation, text } = model.clone();
        ModelSummary { checkpoint, generated_by: generated_by.into(), at, conversation, text }
    }
}

/// The program that made a summary: a command, or an API and its model.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ModelSummaryBy {
    /// Command that was run, without secrets; null where an API was asked.
    pub command: Option<String>,
    /// The form of the API: anthropic, openai.
    #[schemars(extend("enum" = ["anthropic", "openai", null]))]
    pub api: Option<String>,
    /// The model's name.
    pub model: Option<String>,
}

impl From<By> for ModelSummaryBy {
    fn from(by: By) -> Self {
        let By { command, api, model } = by;
        ModelSummaryBy { command, api, model }
    }
}
