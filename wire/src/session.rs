//! Sessions and their runs.

mod review;

use std::collections::BTreeMap;

use jiff::Timestamp;
use parhelia_agent::trouble::Trouble;
use parhelia_host::run;
use parhelia_ledger::{self as ledger, By, EndKind, Goal, Place, Status, Tmux, Totals};
use parhelia_life::{
    overview::{LastCheckpoint, Overview, UnsupervisedAgent, attention},
    workspace::beside,
};
use parhelia_oversight::labels;
use parhelia_store::{id::Ulid, name::NameExt as _};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

pub use self::review::Review;

/// A session: the stable identity of the work in one workspace.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Session {
    /// Given at its creation, unique in the store.
    pub id: String,
    /// Name that people call it by; its id unless it was given one.
    pub name: String,
    /// Its folder.
    pub workspace: Option<Place>,
    /// Id of the machine that it is on, where that is another one, of which a remote has told.
    pub machine: Option<String>,
    /// Recorded status: starting, active, paused, error, ended.
    #[schemars(with = "String", extend("enum" = ["starting", "active", "paused", "error", "ended"]))]
    pub status: Status,
    /// Reason of the last change of status.
    pub status_reason: Option<String>,
    /// Goal that a person or a policy set last: running, paused, ended; null if there was no run.
    #[schemars(with = "Option<String>", extend("enum" = ["running", "paused", "ended", null]))]
    pub wanted: Option<Goal>,
    /// Its agent as it is found: none, starting, live, idle, waiting, elsewhere, unknown, dead.
    #[schemars(extend("enum" = ["none", "starting", "live", "idle", "waiting", "elsewhere", "unknown", "dead"]))]
    pub observed: String,
    /// Reason of that, where it can be told.
    pub why: Option<String>,
    /// Checkpoint that the next one follows.
    #[schemars(with = "Option<String>")]
    pub head: Option<Ulid>,
    /// Epoch of its newest run; 0 before the first.
    pub epoch: u64,
    /// ULID of its newest run; null before the first.
    pub run: Option<String>,
    /// All its runs, in order.
    pub runs: Vec<String>,
    /// Its conversations; the one that was seen last comes last.
    pub conversations: Vec<Conversation>,
    /// Approval policy that was chosen for it.
    pub policy: Option<String>,
    /// Its labels: a value for each key.
    pub labels: BTreeMap<String, String>,
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
    pub last_checkpoint: Option<LastCheckpoint>,
    /// Open decision: pending if that, or one before it, waits for a person who has approved no later one; rejected if that was; null if neither.
    #[schemars(extend("enum" = ["pending", "rejected", null]))]
    pub review: Option<String>,
    /// Checkpoints that have failed since.
    pub failing: Option<FailureStreak>,
    /// True if it lives and its store takes no writes.
    pub store_is_read_only: bool,
    /// True if it lives and its store has no room for a checkpoint that has something new.
    pub store_is_full: bool,
    /// Process that has the conversation open of this one, whose agent is dead, or not known: then it may be that.
    pub open_in: Option<i32>,
    /// A sentence about an agent outside of this container that may have the conversation open.
    pub unseen: Option<String>,
    /// Set if its agent lives without its supervisor.
    pub unsupervised: Option<UnsupervisedAgent>,
    /// The sentence that no event of its live agent's hooks has come though it works; null where one has come, or nobody expects any.
    pub hooks_silent: Option<String>,
    /// A warning if another folder has taken the place of its own.
    pub another_folder: Option<String>,
    /// True unless nothing is at its folder's path here, and no other machine has it.
    pub workspace_exists: bool,
    /// Reason for which it is not resumed by itself since its agent died, so that it waits for a person.
    pub set_aside: Option<String>,
    /// Verdict on its agent, as it was recorded, while it holds.
    pub attention: Option<Attention>,
    /// What it needs of a person: resume_failed, left_alone, failing, waiting, cut_off (its turn was, and it waits to be told how to go on), review; null if nothing.
    #[schemars(extend("enum" = ["resume_failed", "left_alone", "failing", "waiting", "cut_off", "review", null]))]
    pub needs: Option<String>,
    /// Target of a rollback that was interrupted: files of two states are in the workspace.
    #[schemars(with = "Option<String>")]
    pub interrupted_rollback: Option<Ulid>,
    /// Folders outside of its workspace that its agent was seen to work in, by its hooks; the last one at the end.
    pub worked_in: Vec<String>,
    /// Session whose agent works in this one's folder, a linked working tree, which is kept beside that.
    pub beside: Option<String>,
    /// Time of its creation.
    pub created_at: Timestamp,
    /// Time of the last change of anything of this.
    pub changed_at: Timestamp,
    /// Journal sequence of that change. Sessions are ordered by it.
    pub changed_sequence: u64,
}

impl Session {
    /// A session as it is found, with the number of its checkpoints.
    pub fn of(session: &ledger::Session, overview: &Overview, checkpoints: u64) -> Self {
        Session {
            id: session.id.clone(),
            name: session.name.clone(),
            workspace: session.workspace.clone(),
            machine: session.machine.clone(),
            status: session.status,
            status_reason: session.status_reason.clone(),
            wanted: overview.wanted,
            observed: overview.observed.name().to_owned(),
            why: overview.reason().map(str::to_owned),
            head: session.head,
            epoch: session.epoch,
            run: session.run.clone(),
            runs: session.runs.clone(),
            conversations: overview.conversations.iter().map(Conversation::from).collect(),
            policy: session.policy.clone(),
            labels: labels::of(session),
            project: session.project.clone(),
            first_prompt: session.first_prompt.clone(),
            last_prompt: overview.last_prompt.clone(),
            totals: session.totals.clone(),
            checkpoints,
            last_checkpoint: overview.last_checkpoint.clone(),
            review: overview.review.map(|status| status.name().to_owned()),
            failing: overview.failing.as_ref().map(FailureStreak::from),
            store_is_read_only: overview.store_is_read_only,
            store_is_full: overview.store_is_full,
            open_in: overview.open_in,
            unseen: overview.unseen.clone(),
            unsupervised: overview.unsupervised.clone(),
            hooks_silent: overview.hooks_silent.clone(),
            another_folder: overview.another_folder.clone(),
            workspace_exists: overview.workspace_exists,
            set_aside: overview.set_aside.clone(),
            attention: overview.attention.as_ref().map(Attention::from),
            needs: overview.needs(session).map(|need| need.name().to_owned()),
            interrupted_rollback: overview.interrupted_rollback,
            worked_in: beside::worked_in(session).iter().map(|folder| folder.shown()).collect(),
            beside: beside::beside(session).map(str::to_owned),
            created_at: session.created_at,
            changed_at: session.changed_at,
            changed_sequence: session.changed_sequence,
        }
    }
}

/// A conversation of an agent.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Conversation {
    /// The agent's own id of it.
    pub id: String,
    /// Run in which it was seen first.
    pub run: Option<String>,
    /// Path of its transcript.
    pub transcript: Option<String>,
    /// Its turns at the last checkpoint, or at the one that a rollback went back to.
    pub turn_count: Option<u64>,
    /// Its cost in US dollars, as reported last.
    pub cost_usd: Option<f64>,
}

impl From<&ledger::Conversation> for Conversation {
    fn from(conversation: &ledger::Conversation) -> Self {
        let ledger::Conversation { id, run, transcript, turn_count, cost_usd, .. } = conversation.clone();
        Conversation { id, run, transcript, turn_count, cost_usd }
    }
}

/// Checkpoints that failed.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct FailureStreak {
    /// Time of the first failure.
    pub since: Timestamp,
    /// Number of failures.
    pub count: u64,
    /// Reason of the last one.
    pub reason: String,
}

impl From<&run::FailureStreak> for FailureStreak {
    fn from(failing: &run::FailureStreak) -> Self {
        FailureStreak { since: failing.since, count: failing.count, reason: failing.reason.clone() }
    }
}

/// A verdict on a session's agent.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Attention {
    /// waiting (for a person's answer), idle, left_alone (it died and is not resumed by itself), resume_failed, recovered (it died and was resumed), cut_off (it died in a turn, was resumed, and waits to be told how to go on).
    #[schemars(with = "String", extend("enum" = ["waiting", "idle", "left_alone", "resume_failed", "recovered", "cut_off"]))]
    pub state: attention::State,
    /// Reason, or what it waits for.
    pub why: Option<String>,
    /// Run that it is about.
    pub run: Option<String>,
    /// Time of recording.
    pub since: Timestamp,
}

impl From<&attention::Attention> for Attention {
    fn from(verdict: &attention::Attention) -> Self {
        let attention::Attention { state, why, run, since, .. } = verdict.clone();
        Attention { state, why, run, since }
    }
}

/// The right to act for a run.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Lease {
    /// Holder, such as a host and a process.
    pub holder: String,
    /// Time of the last renewal.
    pub renewed: Option<Timestamp>,
    /// Seconds for which it holds from then on.
    pub ttl_seconds: u64,
    /// State of the run, as whoever renewed it over the API said it.
    pub said: Option<Value>,
}

impl From<&ledger::Lease> for Lease {
    fn from(lease: &ledger::Lease) -> Self {
        let ledger::Lease { holder, renewed, ttl_seconds, said } = lease.clone();
        Lease { holder, renewed, ttl_seconds, said }
    }
}

/// The end of a run.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct End {
    /// exited, signalled, asked (nobody saw how the program took it), not_started, conversation_unknown, session_end, unknown.
    #[schemars(with = "String", extend("enum" = ["exited", "signalled", "asked", "not_started", "conversation_unknown", "session_end", "unknown"]))]
    pub kind: EndKind,
    /// Exit code of the program.
    pub code: Option<i32>,
    /// Signal that ended the program.
    pub signal: Option<i32>,
    /// Wish at which it ended: pause, stop, rollback, end, resume, shutdown, other; null where nobody asked for it through parhelia.
    #[schemars(
        with = "Option<String>",
        extend("enum" = ["pause", "stop", "rollback", "end", "resume", "shutdown", "other", null])
    )]
    pub by: Option<By>,
}

impl From<ledger::End> for End {
    fn from(end: ledger::End) -> Self {
        let ledger::End { kind, code, signal, by } = end;
        End { kind, code, signal, by }
    }
}

/// One life of a session, from the start of the agent's process to its end.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Run {
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
    /// Boot id of the machine, as the kernel gives it: it changes at each boot.
    pub boot_id: Option<String>,
    /// The agent's process.
    pub pid: Option<u32>,
    /// Start of that process, in clock ticks since boot.
    pub start_time: Option<u64>,
    /// Its place in tmux.
    pub tmux: Option<Tmux>,
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
    pub started_at: Timestamp,
    /// Time of its end; of one that nobody saw, the time at which it was last heard of.
    pub ended_at: Option<Timestamp>,
    /// The end, as a value: rules and notifications go by it. Of a run that an earlier release ended, as its reason tells it.
    pub end: Option<End>,
    /// Reason of its end, for people.
    pub exit_reason: Option<String>,
}

impl From<&ledger::Run> for Run {
    fn from(run: &ledger::Run) -> Self {
        let run = run.clone();
        Run {
            end: run.ending().map(End::from),
            id: run.id,
            session: run.session,
            epoch: run.epoch,
            resumed_from: run.resumed_from,
            host: run.host,
            boot_id: run.boot_id,
            pid: run.pid,
            start_time: run.start_time,
            tmux: run.tmux,
            argv: run.argv,
            cwd: run.cwd,
            permission_mode: run.permission_mode,
            lease: run.lease.as_ref().map(Lease::from),
            conversation: run.conversation,
            started_at: run.started_at,
            ended_at: run.ended_at,
            exit_reason: run.exit_reason,
        }
    }
}

/// An agent that was started, or has gone on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct AgentStart {
    /// Id of the session that the agent works in.
    pub session: String,
    /// ULID of the run that has begun.
    pub run: String,
    /// Epoch of that run, above all before it.
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
    /// Id of the session that the agent works in.
    pub session: String,
    /// ULID of the run that has begun.
    pub run: String,
    /// Its conversation, where that is known.
    pub conversation: Option<String>,
    /// Name of tmux's session.
    pub tmux_session: String,
    /// Path of the tmux server's socket; null where tmux does not tell it.
    pub socket: Option<String>,
    /// The pane's id.
    pub pane: String,
    /// Command that shows it.
    pub attach: String,
    /// True if it lives; an agent may have run to its end at once.
    pub alive: bool,
    /// Reason for which it waits for somebody, such as a login.
    #[schemars(with = "Option<String>")]
    pub waits: Option<Trouble>,
}

/// A session that can go on, and how.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Recovery {
    /// Id of the session that can go on.
    pub session: String,
    /// Recorded status: starting, active, paused, error, ended.
    #[schemars(with = "String", extend("enum" = ["starting", "active", "paused", "error", "ended"]))]
    pub status: Status,
    /// Goal that a person or a policy set last: running, paused, ended; null if there was no run.
    #[schemars(with = "Option<String>", extend("enum" = ["running", "paused", "ended", null]))]
    pub wanted: Option<Goal>,
    /// True if its agent lives, or counts as alive.
    pub alive: bool,
    /// Set if its agent lives without its supervisor.
    pub unsupervised: Option<UnsupervisedAgent>,
    /// Reason of its state, where that can be told.
    pub why: Option<String>,
    /// Its folder.
    pub workspace: String,
    /// True if that exists.
    pub workspace_exists: bool,
    /// Fate of the folder when it is resumed: kept, put_back, restored, git_restored, copied, refused; null if it is not to be resumed.
    #[schemars(extend("enum" = ["kept", "put_back", "restored", "git_restored", "copied", "refused", null]))]
    pub workspace_fate: Option<String>,
    /// Reason for which resuming would be refused.
    pub refused: Option<String>,
    /// Checkpoint that it goes on from.
    pub from: Option<String>,
    /// Newer checkpoints that are passed over.
    pub skipped: Vec<PassedOver>,
    /// Target of a rollback that was interrupted.
    #[schemars(with = "Option<String>")]
    pub interrupted_rollback: Option<Ulid>,
}

/// A checkpoint from which a session does not go on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PassedOver {
    /// The checkpoint.
    pub id: String,
    /// Reason, as a verb in a sentence about it.
    pub reason: String,
}
