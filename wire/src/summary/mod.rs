//! The last line of each verb.

mod checkpoint;
pub mod hooks;
pub mod marks;
pub mod memory;
pub mod remote;
mod repository;
mod session;

use parhelia_oversight::review::audit::AuditReport;
use parhelia_store::{exchange::TakenIn, stats::Stats};
use schemars::JsonSchema;
use serde::Serialize;

pub use checkpoint::{
    ConversationDiff, CreateOutcome, Diff, NewCheckpoint, RestoreOutcome, RolledBack, Stash, Status, VerifyOutcome,
};
pub use repository::{Check, Collection, CopiedStore, ExportOutcome, ImportOutcome};
pub use session::{
    Decision, LabelOutcome, NotResumed, PromptOutcome, PruneOutcome, RemoteSession, ResumedAll, RunOutcome, SetAside,
};

/// The outcome of a verb.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "verb")]
pub enum Summary {
    /// The checkpoint that was made.
    #[serde(rename = "checkpoint create")]
    CheckpointCreate(Box<CreateOutcome>),
    /// The number of checkpoints.
    #[serde(rename = "checkpoint list")]
    CheckpointList {
        /// Number of checkpoints that are listed.
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
        /// Number of entries that are listed.
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
        /// Length of the file, in bytes.
        bytes: u64,
        /// Id of the content: its BLAKE3 hash.
        blob: String,
    },
    /// Numbers of a search.
    #[serde(rename = "checkpoint find")]
    CheckpointFind {
        /// Checkpoints that were searched.
        checkpoints: u64,
        /// Number of different paths that match.
        paths: u64,
        /// Different entries at these paths.
        versions: u64,
    },
    /// Numbers of a search by words.
    #[serde(rename = "checkpoint search")]
    CheckpointSearch {
        /// Checkpoints that were searched.
        checkpoints: u64,
        /// Checkpoints that match.
        matching: u64,
        /// Those that were printed.
        shown: u64,
        /// Searched ones of which only a part is searched: they have more text than is indexed, or it is damaged.
        partial: u64,
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
    CheckpointDiffConversation(ConversationDiff),
    /// Numbers of a restore.
    #[serde(rename = "checkpoint restore")]
    CheckpointRestore(Box<RestoreOutcome>),
    /// The outcome of a rollback.
    #[serde(rename = "checkpoint rollback")]
    CheckpointRollback(Box<RolledBack>),
    /// The outcome of going back behind a rollback.
    #[serde(rename = "checkpoint undo")]
    CheckpointUndo(Box<RolledBack>),
    /// The outcome of a verification.
    #[serde(rename = "checkpoint verify")]
    CheckpointVerify(VerifyOutcome),
    /// The checkpoints that were deleted.
    #[serde(rename = "checkpoint delete")]
    CheckpointDelete {
        /// Checkpoints.
        deleted: u64,
        /// True if nothing was done.
        dry_run: bool,
    },
    /// The tags of a checkpoint, some of which are new.
    #[serde(rename = "checkpoint tag")]
    CheckpointTag(marks::TagOutcome),
    /// The tags of a checkpoint, without those that were removed.
    #[serde(rename = "checkpoint untag")]
    CheckpointUntag(marks::UntagOutcome),
    /// The number of tags in use.
    #[serde(rename = "checkpoint tags")]
    CheckpointTags {
        /// Number of tags that are listed.
        tags: u64,
    },
    /// The annotation that was made.
    #[serde(rename = "checkpoint annotate")]
    CheckpointAnnotate(marks::AnnotateOutcome),
    /// The number of annotations.
    #[serde(rename = "checkpoint annotations")]
    CheckpointAnnotations {
        /// Number of annotations that are listed.
        annotations: u64,
    },
    /// The links of a checkpoint, some of which are new.
    #[serde(rename = "checkpoint link")]
    CheckpointLink(marks::LinkOutcome),
    /// The links of a checkpoint, without those that were removed.
    #[serde(rename = "checkpoint unlink")]
    CheckpointUnlink(marks::UnlinkOutcome),
    /// A folder, its sessions, and its changes since the last checkpoint.
    #[serde(rename = "status")]
    Status(Box<Status>),
    /// The end of an agent that this process has started.
    #[serde(rename = "session run")]
    SessionRun(RunOutcome),
    /// The end of an agent that has gone on.
    #[serde(rename = "session resume")]
    SessionResume(RunOutcome),
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
        /// Number of its runs, the live one included.
        runs: u64,
        /// Number of its checkpoints that exist.
        checkpoints: u64,
    },
    /// The summary of a session.
    #[serde(rename = "session summary")]
    SessionSummary {
        /// The session.
        id: String,
        /// The checkpoint that has it.
        checkpoint: String,
    },
    /// The number of sessions.
    #[serde(rename = "session list")]
    SessionList {
        /// Number of sessions that are listed.
        sessions: u64,
    },
    /// An agent in a container that has ended.
    #[serde(rename = "heartbeat")]
    Heartbeat(RunOutcome),
    /// The labels of a session.
    #[serde(rename = "session label")]
    SessionLabel(LabelOutcome),
    /// A session that was set aside.
    #[serde(rename = "session pause")]
    SessionPause(SetAside),
    /// A live agent that was given a prompt.
    #[serde(rename = "session prompt")]
    SessionPrompt(PromptOutcome),
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
    /// A review of a session.
    #[serde(rename = "session review")]
    SessionReview {
        /// The session.
        id: String,
        /// Checkpoint to decide about.
        checkpoint: String,
        /// Checkpoints that wait for a person, the newest first.
        waiting: Vec<String>,
        /// Files and other entries that changed.
        changes: u64,
    },
    /// A checkpoint that was approved.
    #[serde(rename = "session approve")]
    SessionApprove(Decision),
    /// A checkpoint that was rejected.
    #[serde(rename = "session reject")]
    SessionReject(Decision),
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
    /// The state of a session's context window.
    #[serde(rename = "session context")]
    SessionContext(Box<crate::context::Context>),
    /// Numbers of what retention does.
    #[serde(rename = "session prune")]
    SessionPrune(PruneOutcome),
    /// A unit of systemd.
    #[serde(rename = "session unit")]
    SessionUnit {
        /// File name of the unit.
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
    HooksInstall(hooks::InstallOutcome),
    /// Hooks that were removed.
    #[serde(rename = "hooks uninstall")]
    HooksUninstall(hooks::UninstallOutcome),
    /// Hooks as they are.
    #[serde(rename = "hooks status")]
    HooksStatus(hooks::StatusOutcome),
    /// Numbers of the log.
    #[serde(rename = "log")]
    Log {
        /// Number of entries that were printed.
        entries: u64,
    },
    /// A service that has ended, or its unit of systemd.
    #[serde(rename = "serve")]
    Serve {
        /// The unit that was written (`--install`).
        path: Option<String>,
    },
    /// A new phase checkpoint.
    #[serde(rename = "phase create")]
    PhaseCreate {
        /// Id of the new phase checkpoint.
        id: String,
    },
    /// A phase checkpoint that was printed.
    #[serde(rename = "phase load")]
    PhaseLoad {
        /// Id of the phase checkpoint, as it was given.
        id: String,
    },
    /// The number of phase checkpoints.
    #[serde(rename = "phase list")]
    PhaseList {
        /// Their number.
        phases: u64,
    },
    /// The newest phase checkpoint that is not completed.
    #[serde(rename = "phase detect")]
    PhaseDetect {
        /// Its id; null where there is none.
        id: Option<String>,
    },
    /// A phase checkpoint that is completed by now.
    #[serde(rename = "phase complete")]
    PhaseComplete {
        /// Id of the phase checkpoint that is completed.
        id: String,
    },
    /// Phase checkpoints that were removed.
    #[serde(rename = "phase cleanup")]
    PhaseCleanup {
        /// Their number.
        removed: u64,
    },
    /// Something that was remembered.
    #[serde(rename = "memory save")]
    MemorySave(memory::SaveOutcome),
    /// What is known, by words.
    #[serde(rename = "memory recall")]
    MemoryRecall(memory::RecallOutcome),
    /// What is known.
    #[serde(rename = "memory list")]
    MemoryList(memory::ListOutcome),
    /// What was forgotten.
    #[serde(rename = "memory forget")]
    MemoryForget(memory::ForgetOutcome),
    /// Knowledge that was taken over from another project.
    #[serde(rename = "memory adopt")]
    MemoryAdopt(memory::AdoptOutcome),
    /// A folder that is of a project from now on.
    #[serde(rename = "memory confirm")]
    MemoryConfirm(memory::ConfirmOutcome),
    /// What is worth remembering.
    #[serde(rename = "memory suggest")]
    MemorySuggest(memory::SuggestOutcome),
    /// Numbers of the outbox.
    #[serde(rename = "outbox list")]
    OutboxList {
        /// Number of deliveries that are listed.
        deliveries: u64,
        /// Of these, those that are not tried again by themselves.
        failed: u64,
    },
    /// Deliveries that are tried again.
    #[serde(rename = "outbox retry")]
    OutboxRetry {
        /// Their number.
        deliveries: u64,
    },
    /// Deliveries that were removed.
    #[serde(rename = "outbox drop")]
    OutboxDrop {
        /// Their number.
        deliveries: u64,
    },
    /// The outbox after a delivery.
    #[serde(rename = "outbox deliver")]
    OutboxDeliver {
        /// Deliveries that still wait.
        waiting: u64,
    },
    /// A notification that was sent for a test.
    #[serde(rename = "notify test")]
    NotifyTest {
        /// Name of the channel in the configuration.
        channel: String,
    },
    /// Numbers of the audit.
    #[serde(rename = "audit log")]
    AuditLog {
        /// Number of entries that are listed.
        entries: u64,
    },
    /// Numbers of an export of the audit.
    #[serde(rename = "audit export")]
    AuditExport {
        /// Number of entries that were written.
        entries: u64,
    },
    /// The outcome of a verification of the chain of events.
    #[serde(rename = "audit verify")]
    AuditVerify(AuditReport),
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
    Export(ExportOutcome),
    /// The checkpoint that was made of an archive.
    #[serde(rename = "import")]
    Import(ImportOutcome),
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
    /// The number of mounts.
    #[serde(rename = "mounts")]
    Mounts {
        /// Number of live mounts that are listed.
        mounts: u64,
        /// Dead ones that were cleared away.
        cleared: u64,
    },
    /// A store that is there.
    #[serde(rename = "init")]
    Init {
        /// Path of the store's folder, as it was given or found.
        store: String,
        /// True if it was made.
        created: bool,
    },
    /// A remote that was joined.
    #[serde(rename = "remote add")]
    RemoteAdd(remote::JoinedRemote),
    /// A remote, and what it does not have yet.
    #[serde(rename = "remote status")]
    RemoteStatus(remote::RemoteStatus),
    /// The number of machines that write to a remote.
    #[serde(rename = "remote list")]
    RemoteList {
        /// Number of machines that are listed.
        machines: u64,
    },
    /// Numbers of what was sent.
    #[serde(rename = "remote push")]
    RemotePush(remote::PushOutcome),
    /// Numbers of what was taken in.
    #[serde(rename = "remote fetch")]
    RemoteFetch(TakenIn),
    /// A store that has everything of a remote.
    #[serde(rename = "remote clone")]
    RemoteClone(remote::CloneOutcome),
    /// Numbers of a garbage collection in a remote.
    #[serde(rename = "remote gc")]
    RemoteGc(remote::RemoteCollection),
    /// A remote that was left.
    #[serde(rename = "remote remove")]
    RemoteRemove {
        /// URL of the bucket.
        url: String,
    },
    /// The number of slots that open a remote.
    #[serde(rename = "remote key list")]
    RemoteKeyList {
        /// Number of slots that are listed.
        slots: u64,
    },
    /// A slot that was added.
    #[serde(rename = "remote key add")]
    RemoteKeyAdd {
        /// Name of the slot.
        slot: String,
        /// The recovery phrase, where it is one's. It is kept nowhere.
        recovery_phrase: Option<String>,
    },
    /// A slot that was removed.
    #[serde(rename = "remote key remove")]
    RemoteKeyRemove {
        /// Name of the slot.
        slot: String,
    },
    /// Keys that were renewed.
    #[serde(rename = "remote key rotate")]
    RemoteKeyRotate {
        /// The generation of keys with which everything is written from now on.
        generation: u32,
    },
    /// A store that was copied.
    #[serde(rename = "copy-store")]
    CopyStore(CopiedStore),
    /// A script for a shell.
    #[serde(rename = "completions")]
    Completions {
        /// Name of the shell, such as bash or zsh.
        shell: String,
    },
    /// The folder with man pages.
    #[serde(rename = "man")]
    Man {
        /// Folder that they were written to.
        folder: String,
    },
    /// Versions of the program and of what it writes.
    #[serde(rename = "version")]
    Version {
        /// Of the program.
        version: String,
        /// Of a store's format.
        store_format: u32,
        /// Of a checkpoint's record.
        record_schema: u32,
        /// Version of the schema of `manifest.json`, such as 1.2.
        manifest: String,
    },
}
