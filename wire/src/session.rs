//! Sessions and their runs.

use parhelia_session::{
    overview,
    review::{report, unseen},
    run,
};
use parhelia_store::projection;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::{
    checkpoint::{Approval, Link},
    show::{Show, mirror},
};

/// A session: the stable identity of the work in one workspace.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Session {
    /// Given at its creation, unique in the store.
    pub id: String,
    /// Name that people call it by; its id unless it was given one.
    pub name: String,
    /// Its folder.
    pub workspace: Option<Place>,
    /// Recorded status: starting, active, paused, error, ended.
    pub status: String,
    /// Reason of the last change of status.
    pub status_reason: Option<String>,
    /// Goal that a person or a policy set last: running, paused, ended; null if there was no run.
    pub wanted: Option<String>,
    /// Its agent as it is found: none, starting, live, idle, waiting, elsewhere, dead.
    pub observed: String,
    /// Reason of that, where it can be told.
    pub why: Option<String>,
    /// Checkpoint that the next one follows.
    pub head: Option<String>,
    /// Epoch of its newest run; 0 before the first.
    pub epoch: u64,
    /// Its newest run.
    pub run: Option<String>,
    /// All its runs, in order.
    pub runs: Vec<String>,
    /// Its conversations; the one that was seen last comes last.
    pub conversations: Vec<Conversation>,
    /// Approval policy that was chosen for it.
    pub policy: Option<String>,
    /// Project that it belongs to.
    pub project: Option<String>,
    /// First prompt of its user.
    pub first_prompt: Option<String>,
    /// Last prompt of its user, shortened.
    pub last_prompt: Option<String>,
    /// Sums over all its runs.
    pub totals: Totals,
    /// Number of its checkpoints.
    pub checkpoints: u64,
    /// Its head, with its time.
    pub last_checkpoint: Option<Saved>,
    /// Decision about that: pending or rejected; null if it counts as good, or nobody has to decide.
    pub review: Option<String>,
    /// Checkpoints that have failed since.
    pub failing: Option<Failing>,
    /// True if it lives and its store takes no writes.
    pub store_is_read_only: bool,
    /// Process that is not its agent, and has the conversation of this dead one open.
    pub open_in: Option<i32>,
    /// A sentence about an agent outside of this container that may have the conversation open.
    pub unseen: Option<String>,
    /// Set if its agent lives without its supervisor.
    pub unsupervised: Option<Unsupervised>,
    /// A warning if another folder has taken the place of its own.
    pub another_folder: Option<String>,
    /// Reason for which a policy set it aside when its agent died, so that it waits for a person.
    pub set_aside: Option<String>,
    /// Target of a rollback that was interrupted: files of two states are in the workspace.
    pub interrupted_rollback: Option<String>,
    /// Time of its creation.
    pub created_at: String,
    /// Time of the last change of anything of this.
    pub changed_at: String,
    /// Journal sequence of that change. Sessions are ordered by it.
    pub changed_sequence: u64,
}

impl Session {
    /// A session as it is found, with the number of its checkpoints.
    pub fn of(session: &projection::Session, overview: &overview::Overview, checkpoints: u64) -> Self {
        Session {
            id: session.id.clone(),
            name: session.name.clone(),
            workspace: session.workspace.show(),
            status: session.status.show(),
            status_reason: session.status_reason.clone(),
            wanted: overview.wanted.show(),
            observed: overview.observed.show(),
            why: overview.why.clone(),
            head: session.head.show(),
            epoch: session.epoch,
            run: session.run.clone(),
            runs: session.runs.clone(),
            conversations: session.conversations.show(),
            policy: session.policy.clone(),
            project: session.project.clone(),
            first_prompt: session.first_prompt.clone(),
            last_prompt: overview.last_prompt.clone(),
            totals: session.totals.show(),
            checkpoints,
            last_checkpoint: overview.last_checkpoint.show(),
            review: overview.review.map(|status| status.name().to_owned()),
            failing: overview.failing.show(),
            store_is_read_only: overview.store_is_read_only,
            open_in: overview.open_in,
            unseen: overview.unseen.clone(),
            unsupervised: overview.unsupervised.show(),
            another_folder: overview.another_folder.clone(),
            set_aside: overview.set_aside.clone(),
            interrupted_rollback: overview.interrupted_rollback.show(),
            created_at: session.created_at.show(),
            changed_at: session.changed_at.show(),
            changed_sequence: session.changed_sequence,
        }
    }
}

mirror! {
    /// A session's folder.
    pub struct Place of projection::Place {
        /// Absolute path.
        pub path: String,
        /// Inode of the folder, where it is known.
        pub inode: Option<u64>,
        /// Time at which the folder was made, by its filesystem, in seconds.
        pub born: Option<String>,
        /// Id of its filesystem, in hex, where that stays the same when it is mounted again.
        pub filesystem: Option<String>,
        /// Folder on which that is mounted.
        pub mountpoint: Option<String>,
    }

    /// Sums over a session's runs.
    pub struct Totals of projection::Totals {
        /// Cost in US dollars, where one was reported.
        pub cost_usd: Option<f64>,
        /// Seconds from beginning to end of each run whose end was recorded.
        pub active_seconds: u64,
        /// Checkpoints that an error caused.
        pub errors: u64,
        /// Checkpoints that were made, deleted ones included.
        pub checkpoints: u64,
    }

    /// A conversation of an agent.
    pub struct Conversation of projection::Conversation {
        /// The agent's own id of it.
        pub id: String,
        /// Run in which it was seen first.
        pub run: Option<String>,
        /// Path of its transcript.
        pub transcript: Option<String>,
        /// Its turns at the last checkpoint.
        pub turn_count: Option<u64>,
        /// Its cost at the last checkpoint that reported one.
        pub cost_usd: Option<f64>,
    }

    /// A checkpoint and its time.
    pub struct Saved of overview::Saved {
        /// The checkpoint.
        pub id: String,
        /// End of its capture.
        pub created_at: String,
    }

    /// Checkpoints that failed.
    pub struct Failing of run::Failing {
        /// Time of the first failure.
        pub since: String,
        /// Number of failures.
        pub count: u64,
        /// Reason of the last one.
        pub reason: String,
    }

    /// An agent without its supervisor, the process that makes its checkpoints.
    pub struct Unsupervised of overview::Unsupervised {
        /// The agent's process.
        pub process: i32,
        /// True if its hooks make checkpoints.
        pub has_hooks: bool,
    }

    /// The right to act for a run.
    pub struct Lease of projection::Lease {
        /// Holder, such as a host and a process.
        pub holder: String,
        /// Time of the last renewal.
        pub renewed: Option<String>,
        /// Seconds for which it holds from then on.
        pub ttl_seconds: u64,
        /// State of the run, as whoever renewed it over the API said it.
        pub said: Option<Value>,
    }

    /// A pane of tmux.
    pub struct Pane of projection::Tmux {
        /// The server's socket.
        pub socket: String,
        /// The pane's id.
        pub pane: String,
    }

    /// One life of a session, from the start of the agent's process to its end.
    pub struct Run of projection::Run {
        /// Unique in the store.
        pub id: String,
        /// Session that it is a life of.
        pub session: String,
        /// Above that of every run of the session before it.
        pub epoch: u64,
        /// Checkpoint that it was resumed from.
        pub resumed_from: Option<String>,
        /// The machine.
        pub host: Option<String>,
        /// The machine's boot.
        pub boot_id: Option<String>,
        /// The agent's process.
        pub pid: Option<u32>,
        /// Start of that process, in clock ticks since boot.
        pub start_time: Option<u64>,
        /// Its place in tmux.
        pub tmux: Option<Pane>,
        /// Command line that was executed.
        pub argv: Vec<String>,
        /// Folder in which it was executed.
        pub cwd: Option<String>,
        /// The agent's permission mode.
        pub permission_mode: Option<String>,
        /// The right to act for it.
        pub lease: Option<Lease>,
        /// Its conversation, where it was begun with one.
        pub conversation: Option<String>,
        /// Time of its beginning.
        pub started_at: String,
        /// Time of its end.
        pub ended_at: Option<String>,
        /// Reason of its end.
        pub exit_reason: Option<String>,
    }
}

/// An agent that was started, or has gone on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Started {
    /// Its session.
    pub session: String,
    /// Its run.
    pub run: String,
    /// The run's epoch.
    pub epoch: u64,
    /// Its conversation, where that is known.
    pub conversation: Option<String>,
    /// Checkpoint that it goes on from.
    pub from: Option<String>,
    /// Transcript that was put in place for it.
    pub transcript: Option<String>,
    /// Sentences that the user should know.
    pub notices: Vec<String>,
}

/// An agent that was started in tmux.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct InTmux {
    /// Its session.
    pub session: String,
    /// Its run.
    pub run: String,
    /// Its conversation, where that is known.
    pub conversation: Option<String>,
    /// Name of tmux's session.
    pub tmux_session: String,
    /// The server's socket.
    pub socket: Option<String>,
    /// The pane's id.
    pub pane: String,
    /// Command that shows it.
    pub attach: String,
    /// True if it lives; an agent may have run to its end at once.
    pub alive: bool,
    /// Reason for which it waits for somebody, such as a login.
    pub waits: Option<String>,
}

/// A session that can go on, and how.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Recovery {
    /// The session.
    pub session: String,
    /// Recorded status: starting, active, paused, error, ended.
    pub status: String,
    /// Goal that a person or a policy set last: running, paused, ended; null if there was no run.
    pub wanted: Option<String>,
    /// True if its agent lives.
    pub alive: bool,
    /// Set if its agent lives without its supervisor.
    pub unsupervised: Option<Unsupervised>,
    /// Reason of its state, where that can be told.
    pub why: Option<String>,
    /// Its folder.
    pub workspace: String,
    /// True if that exists.
    pub workspace_exists: bool,
    /// Fate of the folder when it is resumed: kept, put_back, restored, git_restored, copied, refused; null if it is not to be resumed.
    pub workspace_fate: Option<String>,
    /// Reason for which resuming would be refused.
    pub refused: Option<String>,
    /// Checkpoint that it goes on from.
    pub from: Option<String>,
    /// Newer checkpoints that are passed over.
    pub skipped: Vec<PassedOver>,
    /// Target of a rollback that was interrupted.
    pub interrupted_rollback: Option<String>,
}

/// A review of a session, for whoever decides; the files that changed stand before it, as `change` lines.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Review {
    /// The session.
    pub session: String,
    /// Observed state.
    pub status: String,
    /// Checkpoint to decide about: the session's head.
    pub checkpoint: String,
    /// Decision about that.
    pub approval: Option<Approval>,
    /// Last checkpoint before it that a person approved, or else the session's first one; null if that is the newest.
    pub since: Option<String>,
    /// True if a person approved that.
    pub since_approved: bool,
    /// Checkpoints since then that wait for a person, the newest first.
    pub waiting: Vec<String>,
    /// Issues that its checkpoints are linked to by an agent or an import alone.
    pub asked_links: Vec<Link>,
    /// Entries that rules leave out of the checkpoint, so that no comparison shows them.
    pub unseen: Unseen,
    /// Possible secrets in these and in the newest one, each with its place and rule.
    pub secrets: Vec<String>,
    /// Turns of the conversation.
    pub turns: Option<u64>,
    /// Tokens, those from the cache included.
    pub tokens: Option<u64>,
    /// Cost of the session in US dollars, where it was reported.
    pub cost_usd: Option<f64>,
    /// Time that was worked in it, in seconds.
    pub active_seconds: u64,
    /// Checkpoints that an error caused.
    pub errors: u64,
    /// Commands that the agent ran since then, oldest first, at most 50.
    pub commands: Vec<Ran>,
    /// Commands before these.
    pub commands_more: u64,
    /// Questions of the agent that nobody answered.
    pub open_questions: Vec<String>,
    /// End of what the agent said last.
    pub last_reply: Option<String>,
}

impl Review {
    /// A review of a session.
    pub fn of(review: &report::Review) -> Self {
        let totals = &review.session.totals;
        Review {
            session: review.session.id.clone(),
            status: review.overview.observed.name().into(),
            checkpoint: review.newest.id(),
            approval: review.approval.show(),
            since: review.since.as_ref().map(|since| since.id()),
            since_approved: review.since_approved,
            waiting: review.waiting.iter().map(ToString::to_string).collect(),
            asked_links: review.asked_links.show(),
            unseen: (&review.unseen).into(),
            secrets: review.secrets.clone(),
            turns: review.turns,
            tokens: review.tokens,
            cost_usd: totals.cost_usd,
            active_seconds: totals.active_seconds,
            errors: totals.errors,
            commands: review.commands.show(),
            commands_more: review.commands_more.show(),
            open_questions: review.open_questions.clone(),
            last_reply: review.last_reply.clone(),
        }
    }
}

mirror! {
    /// Everything that rules leave out of a checkpoint, beside the last one before it that a person approved.
    pub struct Unseen of unseen::Unseen {
        /// What somebody's rules leave out, by rule.
        pub by_rule: Vec<LeftOutBy>,
        /// What is left out because it can be made again, as its name and its neighbours say.
        pub regenerable: LeftOutBy,
        /// Rules that the approved one did not have; all where there is none.
        pub rules_added: Vec<String>,
        /// Rules that only that one had.
        pub rules_removed: Vec<String>,
    }

    /// Entries that one rule leaves out.
    pub struct LeftOutBy of unseen::ByRule {
        /// The rule; empty for what can be made again.
        pub rule: String,
        /// Number of entries. One that is a folder stands for everything in it.
        pub entries: u64,
        /// Those of them that the approved checkpoint did not leave out.
        pub new: u64,
        /// The first 20 paths, new ones before others.
        pub paths: Vec<String>,
    }
}

mirror! {
    /// A command that an agent ran.
    pub struct Ran of report::Command {
        /// Its text, or the beginning of it.
        pub text: String,
        /// True if it failed, false if it did not; null if its end is not known.
        pub failed: Option<bool>,
    }
}

/// A checkpoint from which a session does not go on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PassedOver {
    /// The checkpoint.
    pub id: String,
    /// Reason, as a verb in a sentence about it.
    pub reason: String,
}
