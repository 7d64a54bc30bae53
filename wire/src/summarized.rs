//! Summaries of sessions.

use parhelia_agent::transcript::story;
use parhelia_knowledge::summary;

use crate::show::mirror;

mirror! {
    /// The summary of a session at a checkpoint. Lists are bounded, and begin with what is newest or matters most.
    pub struct SessionSummary of summary::Summary {
        /// Id of the session that is summed up.
        pub session: String,
        /// Way in which it was made: rules.
        pub generated_by: String,
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
        pub recent_commands: Vec<RecentCommand>,
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
}

mirror! {
    /// A summary that a model wrote.
    pub struct ModelSummary of summary::ModelSummary {
        /// The checkpoint that it sums up.
        pub checkpoint: String,
        /// The program that made it.
        pub generated_by: ModelSummaryBy,
        /// The time of its making.
        #[schemars(extend("format" = "date-time"))]
        pub at: String,
        /// The agent's id of the conversation that it is of.
        pub conversation: Option<String>,
        /// Its words, in Markdown.
        pub text: String,
    }
}

mirror! {
    /// The program that made a summary: a command, or an API and its model.
    pub struct ModelSummaryBy of summary::model::By {
        /// Command that was run, without secrets; null where an API was asked.
        pub command: Option<String>,
        /// The form of the API: anthropic, openai.
        #[schemars(extend("enum" = ["anthropic", "openai", null]))]
        pub api: Option<String>,
        /// The model's name.
        pub model: Option<String>,
    }
}

mirror! {
    /// Something that was tried.
    pub struct Approach of story::Approach {
        /// The command, edit or plan.
        pub what: String,
        /// True if it failed, or was undone.
        pub failed: bool,
        /// Reason, as far as it is known.
        pub error: Option<String>,
        /// Steps that made it pass later; null where nothing did.
        pub resolved_by: Option<String>,
    }
}

mirror! {
    /// A command that ended.
    pub struct RecentCommand of story::Command {
        /// Its text, or the beginning of it.
        pub command: String,
        /// True if it failed.
        pub failed: bool,
    }
}

mirror! {
    /// A package that a command installed.
    pub struct Package of story::Package {
        /// The program that installed it.
        pub manager: String,
        /// Its name, with its version where the command names one.
        pub name: String,
    }
}

mirror! {
    /// The changes of a file.
    pub struct FileChange of summary::FileChange {
        /// Its path from the workspace folder; absolute where it lies outside.
        pub path: String,
        /// The changes in words: edited 3 times, uncommitted, deleted.
        pub change: String,
        /// Lines that edits added, as far as their texts are known.
        pub lines_added: u64,
        /// Lines that edits removed.
        pub lines_removed: u64,
    }
}
