//! The last line of each verb.

use std::collections::BTreeMap;

use parhelia_agent::trouble::Trouble;
use parhelia_session::{overwrite, rollback};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    checkpoint::{Checkpoint, PartState},
    diff::Changes,
    repository::{Checked, Collected, CollectionPlan, Lack, Repair, Stats},
    show::{Show, mirror},
    tree::{Counts, Parted},
};

/// The outcome of a verb.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "verb")]
pub enum Summary {
    /// The checkpoint that was made.
    #[serde(rename = "checkpoint create")]
    CheckpointCreate(Box<Created>),
    /// The number of checkpoints.
    #[serde(rename = "checkpoint list")]
    CheckpointList {
        /// Checkpoints.
        checkpoints: u64,
    },
    /// The checkpoint that is shown.
    #[serde(rename = "checkpoint show")]
    CheckpointShow {
        /// The checkpoint.
        id: String,
        /// Entries that capture left out.
        omissions: u64,
    },
    /// The folder that is listed.
    #[serde(rename = "checkpoint ls")]
    CheckpointLs {
        /// The checkpoint.
        id: String,
        /// Path of the folder.
        path: String,
        /// Entries.
        entries: u64,
        /// Bytes of the files.
        bytes: u64,
    },
    /// The file that is printed.
    #[serde(rename = "checkpoint cat")]
    CheckpointCat {
        /// The checkpoint.
        id: String,
        /// Path of the file.
        path: String,
        /// Bytes.
        bytes: u64,
        /// Id of the content: its BLAKE3 hash.
        blob: String,
    },
    /// Numbers of a search.
    #[serde(rename = "checkpoint find")]
    CheckpointFind {
        /// Checkpoints that were searched.
        checkpoints: u64,
        /// Paths that match.
        paths: u64,
        /// Different entries at these paths.
        versions: u64,
    },
    /// Numbers of a comparison.
    #[serde(rename = "checkpoint diff")]
    CheckpointDiff(Diff),
    /// The comparison of one file (`--file`).
    #[serde(rename = "checkpoint diff --file")]
    CheckpointDiffFile {
        /// Path of the file.
        path: String,
        /// added, deleted, modified, metadata, type_changed, renamed; null if it does not differ.
        change: Option<String>,
    },
    /// The comparison of conversations (`--conversation`).
    #[serde(rename = "checkpoint diff --conversation")]
    CheckpointDiffConversation {
        /// The older checkpoint.
        old: String,
        /// The newer checkpoint.
        new: String,
        /// Messages that are shown.
        messages: u64,
        /// Turns among them.
        turns: u64,
        /// True if the newer conversation goes on from the older one.
        continues: bool,
        /// Bytes of the transcript that were read.
        bytes: u64,
    },
    /// Numbers of a restore.
    #[serde(rename = "checkpoint restore")]
    CheckpointRestore(Box<Restored>),
    /// The outcome of a rollback.
    #[serde(rename = "checkpoint rollback")]
    CheckpointRollback(Box<RolledBack>),
    /// The outcome of going back behind a rollback.
    #[serde(rename = "checkpoint undo")]
    CheckpointUndo(Box<RolledBack>),
    /// The outcome of a verification.
    #[serde(rename = "checkpoint verify")]
    CheckpointVerify(Verified),
    /// The checkpoints that were deleted.
    #[serde(rename = "checkpoint delete")]
    CheckpointDelete {
        /// Checkpoints.
        deleted: u64,
        /// True if nothing was done.
        dry_run: bool,
    },
    /// A folder, its sessions, and its changes since the last checkpoint.
    #[serde(rename = "status")]
    Status(Box<Status>),
    /// The end of an agent that this process has started.
    #[serde(rename = "session run")]
    SessionRun(Ended),
    /// The end of an agent that has gone on.
    #[serde(rename = "session resume")]
    SessionResume(Ended),
    /// The sessions of `--all`, by outcome.
    #[serde(rename = "session resume --all")]
    SessionResumeAll(ResumedAll),
    /// A session that was left as it is.
    #[serde(rename = "session recover")]
    SessionRecover {
        /// The session.
        id: String,
    },
    /// Numbers of a session.
    #[serde(rename = "session show")]
    SessionShow {
        /// The session.
        id: String,
        /// Its runs.
        runs: u64,
        /// Its checkpoints.
        checkpoints: u64,
    },
    /// The number of sessions.
    #[serde(rename = "session list")]
    SessionList {
        /// Sessions.
        sessions: u64,
    },
    /// A session that was set aside.
    #[serde(rename = "session pause")]
    SessionPause(SetAside),
    /// A session that is over for good.
    #[serde(rename = "session end")]
    SessionEnd(SetAside),
    /// An agent that was ended.
    #[serde(rename = "session stop")]
    SessionStop {
        /// The session.
        id: String,
        /// True if the agent was alive.
        stopped: bool,
        /// running, paused, ended.
        wanted: String,
    },
    /// The command that shows an agent.
    #[serde(rename = "session attach")]
    SessionAttach {
        /// The session.
        id: String,
        /// The command.
        attach: String,
    },
    /// A session that works in another folder from now on.
    #[serde(rename = "session move")]
    SessionMove {
        /// The session.
        id: String,
        /// Its folder until now.
        from: Option<String>,
        /// Its folder from now on.
        to: String,
    },
    /// Numbers of what retention does.
    #[serde(rename = "session prune")]
    SessionPrune(Pruned),
    /// A unit of systemd.
    #[serde(rename = "session unit")]
    SessionUnit {
        /// Its name.
        name: String,
        /// Its text.
        unit: String,
        /// The file that it was written to.
        path: Option<String>,
    },
    /// The environment that is shown.
    #[serde(rename = "env show")]
    EnvShow {
        /// True if there is one.
        captured: bool,
        /// Parts that could not be captured.
        failed: u64,
    },
    /// Numbers of a comparison of environments.
    #[serde(rename = "env diff")]
    EnvDiff {
        /// The older checkpoint.
        old: String,
        /// The newer checkpoint; null for the environment as it is now.
        new: Option<String>,
        /// Differences.
        changes: u64,
        /// Parts that one of them did not capture.
        unknown: Vec<String>,
    },
    /// Configuration in force.
    #[serde(rename = "config show")]
    ConfigShow {
        /// Files that were read.
        files: Vec<String>,
    },
    /// Hooks that were installed.
    #[serde(rename = "hooks install")]
    HooksInstall {
        /// The agent's settings.
        path: String,
        /// True if the file was changed.
        changed: bool,
    },
    /// Hooks that were removed.
    #[serde(rename = "hooks uninstall")]
    HooksUninstall {
        /// The agent's settings.
        path: String,
        /// True if the file was changed.
        changed: bool,
    },
    /// Hooks as they are.
    #[serde(rename = "hooks status")]
    HooksStatus {
        /// The agent's settings.
        path: String,
        /// Events with a hook.
        installed: Vec<String>,
        /// Events without one.
        missing: Vec<String>,
        /// Commands of the hooks.
        commands: Vec<String>,
        /// True if all hooks are turned off.
        disabled: bool,
    },
    /// Numbers of the log.
    #[serde(rename = "log")]
    Log {
        /// Entries.
        entries: u64,
    },
    /// The outcome of a check, and of a repair before it.
    #[serde(rename = "check")]
    Check(Check),
    /// The outcome of a garbage collection.
    #[serde(rename = "gc")]
    Gc(Box<Collection>),
    /// Numbers of the store.
    #[serde(rename = "stats")]
    Stats(Stats),
    /// The archive that was written.
    #[serde(rename = "export")]
    Export(Exported),
    /// The checkpoint that was made of an archive.
    #[serde(rename = "import")]
    Import(Imported),
    /// A mounted checkpoint.
    #[serde(rename = "mount")]
    Mount {
        /// Folder on which it is mounted.
        mountpoint: String,
        /// Process that serves it.
        process: u32,
        /// Its log, in the background.
        log: Option<String>,
    },
    /// A mountpoint that was unmounted.
    #[serde(rename = "umount")]
    Umount {
        /// The folder.
        mountpoint: String,
    },
    /// The mounts.
    #[serde(rename = "mounts")]
    Mounts {
        /// Mounts.
        mounts: u64,
        /// Dead ones that were cleared away.
        cleared: u64,
    },
    /// A store that is there.
    #[serde(rename = "init")]
    Init {
        /// The store.
        store: String,
        /// True if it was made.
        created: bool,
    },
    /// A script for a shell.
    #[serde(rename = "completions")]
    Completions {
        /// The shell.
        shell: String,
    },
    /// Man pages.
    #[serde(rename = "man")]
    Man {
        /// Folder that they were written to.
        folder: String,
    },
    /// Versions.
    #[serde(rename = "version")]
    Version {
        /// Of the program.
        version: String,
        /// Of a store's format.
        store_format: u32,
        /// Of a checkpoint's record.
        record_schema: u32,
        /// Of `manifest.json`.
        manifest: String,
    },
}

/// The outcome of `checkpoint create`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Created {
    /// The checkpoint: of one that was skipped, the unchanged one before it; null of a dry run.
    pub id: Option<String>,
    /// True if nothing was done.
    pub dry_run: bool,
    /// Its session.
    pub session: String,
    /// Absolute path of the folder.
    pub workspace: String,
    /// True if nothing had changed, so that no checkpoint was made.
    pub skipped: bool,
    /// Checkpoint before it; of a dry run the one that it compares with.
    pub parent: Option<String>,
    /// Regular files in the folder.
    pub files: u64,
    /// Entries of every kind.
    pub entries: u64,
    /// Bytes of the files.
    pub bytes: u64,
    /// Entries that a rule excluded.
    pub excluded: u64,
    /// Entries that could not be read.
    pub unreadable: u64,
    /// Entries that kept changing while they were read.
    pub changing: u64,
    /// The rest, of a checkpoint.
    #[serde(flatten)]
    pub made: Option<Made>,
    /// Changes since the parent, of a dry run.
    #[serde(flatten)]
    pub changes: Option<Changes>,
}

/// A checkpoint that was made.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Made {
    /// Place in the chain of its ancestors, from 1.
    pub depth: u64,
    /// Epoch of the run; 0 outside runs.
    pub epoch: u64,
    /// True if a newer run had taken over the session.
    pub fenced: bool,
    /// Id of the tree that holds everything.
    pub root: String,
    /// `blake3:` and the digest of the sealed record.
    pub checksum: String,
    /// Files that were read.
    pub files_read: u64,
    /// Bytes of them.
    pub bytes_read: u64,
    /// Bytes of content that the store did not have.
    pub new_bytes: u64,
    /// Bytes by which the packs grew.
    pub stored_bytes: u64,
    /// State of each part, such as `conversation`.
    pub parts: BTreeMap<String, PartState>,
    /// True if everything that should be in it is.
    pub complete: bool,
    /// Outcome of the verification; null if there was none.
    pub verified: Option<bool>,
    /// Checkpoints that retention removed.
    pub removed: u64,
    /// Milliseconds for which the store was locked.
    pub lock_held_ms: u64,
    /// Milliseconds from beginning to end.
    pub duration_ms: u64,
}

/// The outcome of `checkpoint diff`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Diff {
    /// The older checkpoint.
    pub old: String,
    /// The newer checkpoint; null for a folder.
    pub new: Option<String>,
    /// The folder.
    pub workspace: Option<String>,
    /// Numbers.
    #[serde(flatten)]
    pub changes: Changes,
}

/// The outcome of `checkpoint restore`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Restored {
    /// The checkpoint.
    pub id: String,
    /// True if nothing was done.
    pub dry_run: bool,
    /// Folder that is written to.
    pub target: String,
    /// Numbers.
    #[serde(flatten)]
    pub counts: Counts,
    /// Entries that could not be restored as they were.
    pub skipped: u64,
    /// True if what was written was read again; null of a dry run.
    pub verified: Option<bool>,
    /// First of the safety checkpoints.
    pub safety: Option<String>,
    /// Safety checkpoints that were made first.
    pub safeties: Vec<Safety>,
    /// Agents that are alive in the folder.
    pub live_agents: Vec<LiveAgent>,
    /// Entries that are overwritten and that no safety checkpoint has.
    pub unsecured: u64,
    /// Entries that belong to the caller instead of their owner.
    pub foreign_owners: u64,
    /// Hard-linked files that were restored without some of their names.
    pub parted: Vec<Parted>,
    /// All the names of these that lie outside of what was restored.
    pub links_outside: Vec<String>,
}

/// A checkpoint that was made before something was overwritten.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Safety {
    /// The checkpoint.
    pub id: String,
    /// Its session.
    pub session: String,
    /// Folder that it is of.
    pub workspace: String,
}

impl From<&overwrite::Safety> for Safety {
    fn from(safety: &overwrite::Safety) -> Self {
        Safety { id: safety.id.clone(), session: safety.session.clone(), workspace: safety.folder.show() }
    }
}

mirror! {
    /// An agent that is alive in a folder in which something is overwritten.
    pub struct LiveAgent of overwrite::LiveAgent {
        /// Its session.
        pub session: String,
        /// Its process, or that which is just starting it; null on another machine.
        pub process: Option<i32>,
        /// The machine, if it is another one.
        pub host: Option<String>,
        /// The session's folder.
        pub workspace: String,
    }

    /// A conversation that goes back.
    pub struct Spoken of rollback::Spoken {
        /// Turns that it has now; null if it is gone.
        pub turns: Option<u64>,
        /// Turns that it has in the checkpoint.
        pub turns_then: u64,
        /// Its last prompt in the checkpoint.
        pub prompt_then: Option<String>,
        /// The last prompt now, if it goes further.
        pub prompt: Option<String>,
        /// True if the session is in another conversation now.
        pub is_another: bool,
    }
}

/// The outcome of `checkpoint rollback` and `checkpoint undo`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct RolledBack {
    /// Checkpoint that the folder goes back to.
    pub target: String,
    /// True if nothing was done because nothing was to be done.
    pub dry_run: bool,
    /// True if something was done.
    pub changed: bool,
    /// The session; null if it was called off.
    pub session: Option<String>,
    /// Safety checkpoint that was made first.
    pub safety: Option<String>,
    /// Entry of git's stash.
    pub stash: Option<Stash>,
    /// Paths that are changed.
    pub changes: u64,
    /// Files that were written.
    pub files: Option<u64>,
    /// Entries that went.
    pub deleted: Option<u64>,
    /// True if the conversation goes back as well.
    pub with_conversation: bool,
    /// How the conversation would go back, of a dry run.
    pub conversation: Option<Spoken>,
    /// Sentences that the user should know.
    pub notices: Vec<String>,
    /// Files that were kept aside of the conversation.
    pub moved: Vec<String>,
    /// Paths that stay as they are, because they cannot be read for the safety checkpoint.
    pub spared: Vec<String>,
    /// Command that lets the agent go on.
    pub next: Option<String>,
    /// A sentence about a process that has the conversation open.
    pub open_in: Option<String>,
}

/// An entry of git's stash.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Stash {
    /// Its commit.
    pub commit: Option<String>,
    /// Its name.
    #[serde(rename = "ref")]
    pub reference: Option<String>,
    /// Reason for which there is none.
    pub error: Option<String>,
}

impl Stash {
    /// The stash of a rollback; none where there was nothing to stash.
    pub fn of(stash: &rollback::Stash) -> Option<Self> {
        match stash {
            rollback::Stash::Made(commit) => {
                Some(Stash { commit: Some(commit.clone()), reference: Some("stash@{0}".into()), error: None })
            }
            rollback::Stash::Nothing => None,
            rollback::Stash::Not(reason) => Some(Stash { error: Some(reason.clone()), ..Stash::default() }),
        }
    }
}

/// The outcome of `checkpoint verify`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Verified {
    /// The checkpoint.
    pub id: String,
    /// True if nothing is damaged.
    pub ok: bool,
    /// True if every part that should be there is.
    pub complete: bool,
    /// Parts that are not.
    pub incomplete: Vec<Lack>,
    /// index, deep.
    pub level: String,
    /// True if every byte was read.
    pub deep: bool,
    /// `blake3:` and the digest of the sealed record.
    pub checksum: String,
    /// Files in it.
    pub files: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Tree nodes that were read.
    pub trees: u64,
    /// Paths that are damaged.
    pub problems: u64,
}

impl From<&parhelia_store::check::VerifyReport> for Verified {
    fn from(report: &parhelia_store::check::VerifyReport) -> Self {
        Verified {
            id: report.checkpoint.show(),
            ok: report.is_ok(),
            complete: report.is_complete(),
            incomplete: report.lacks.show(),
            level: report.level.show(),
            deep: report.level == parhelia_store::projection::VerifyLevel::Deep,
            checksum: report.checksum.clone(),
            files: report.files,
            bytes: report.bytes,
            trees: report.trees,
            problems: report.problems.len() as u64 + report.problems_more,
        }
    }
}

/// The outcome of `status`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Status {
    /// The folder.
    pub workspace: String,
    /// Sessions that work in it.
    pub sessions: Vec<String>,
    /// Its last checkpoint.
    pub checkpoint: Option<Checkpoint>,
    /// Sentences that the user should know.
    pub warnings: Vec<String>,
    /// True if it could be compared with that.
    pub compared: bool,
    /// Changes since that.
    #[serde(flatten)]
    pub changes: Changes,
}

/// The end of an agent that this process has started; in tmux its start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Ended {
    /// The session.
    pub id: String,
    /// The run.
    pub run: Option<String>,
    /// Exit code of the agent; null if it goes on, in tmux or in another process.
    pub exit_code: Option<i32>,
    /// True if it goes on.
    pub alive: bool,
    /// Process of one that goes on already.
    pub process: Option<i32>,
    /// Reason for which it waits for somebody, in tmux.
    pub waits: Option<String>,
}

impl Ended {
    /// An agent that was started in tmux, and the reason for which it waits for somebody.
    pub fn in_tmux(id: String, run: String, alive: bool, waits: Option<Trouble>) -> Self {
        Ended { id, run: Some(run), alive, waits: waits.show(), ..Ended::default() }
    }
}

/// The outcome of `session resume --all`: sessions by their fate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ResumedAll {
    /// Sessions that go on.
    pub resumed: Vec<String>,
    /// Sessions that could not be resumed.
    pub failed: Vec<String>,
    /// Sessions that were left alone.
    pub left: Vec<String>,
    /// Sessions that another machine or container may have.
    pub elsewhere: Vec<Elsewhere>,
}

/// A session that another machine or container may have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Elsewhere {
    /// The session.
    pub id: String,
    /// The machine or container.
    pub host: String,
    /// Time until which it is waited for.
    pub until: String,
}

/// The outcome of `session pause` and `session end`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SetAside {
    /// The session.
    pub id: String,
    /// paused, ended.
    pub status: String,
    /// Last checkpoint that was made.
    pub checkpoint: Option<String>,
    /// True if the agent is alive all the same.
    pub alive: bool,
    /// A sentence about a process that has the conversation open.
    pub open_in: Option<String>,
    /// Sentences about what failed.
    pub failed: Vec<String>,
}

/// The outcome of `session prune`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Pruned {
    /// True if nothing was done.
    pub dry_run: bool,
    /// Checkpoints that went, or would go.
    pub removed: u64,
    /// Checkpoints that stay.
    pub kept: u64,
    /// Of these, checkpoints that stay even in a store that is too large.
    pub protected: u64,
    /// Bytes that were freed; of a dry run an estimate.
    pub freed_bytes: u64,
    /// Bytes of the store, before a dry run and after another one.
    pub store_bytes: u64,
    /// Bytes that it may have; 0 for any number.
    pub max_store_bytes: u64,
    /// Bytes over that which stay.
    pub excess_bytes: u64,
    /// Reason for which no more was removed.
    pub failed: Option<String>,
}

/// The outcome of `check`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Check {
    /// True if a repair was only planned.
    pub dry_run: bool,
    /// True if nothing is damaged; of a planned repair, if nothing would be lost.
    pub ok: bool,
    /// Number of findings.
    pub findings: u64,
    /// Repair that was planned.
    pub repair: Option<Repair>,
    /// Numbers of the check; not there if a repair was only planned.
    #[serde(flatten)]
    pub checked: Option<Checked>,
}

/// The outcome of `gc`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Collection {
    /// True if nothing was done.
    pub dry_run: bool,
    /// Plan.
    pub plan: CollectionPlan,
    /// Numbers of what was done; not there of a dry run.
    #[serde(flatten)]
    pub done: Option<Collected>,
}

/// The outcome of `export`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Exported {
    /// The checkpoint.
    pub id: String,
    /// File that was written.
    pub output: String,
    /// Members of the archive.
    pub members: u64,
    /// Files among them.
    pub files: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// Bytes of the archive before it was compressed.
    pub tar_bytes: u64,
    /// Bytes of the archive.
    pub archive_bytes: u64,
    /// Sockets, for which it has no place.
    pub sockets: u64,
}

/// The outcome of `import`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Imported {
    /// The checkpoint.
    pub id: String,
    /// Its session.
    pub session: String,
    /// Id of the tree that holds everything.
    pub root: String,
    /// Files.
    pub files: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Bytes of content that the store did not have.
    pub new_bytes: u64,
    /// Bytes by which the packs grew.
    pub stored_bytes: u64,
}
