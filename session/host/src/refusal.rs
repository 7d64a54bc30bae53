//! Reasons for which a workflow is refused, as data. A face adds the flag or the command that leads further.

mod decision;
mod kind;
mod knowledge;
mod mark;
mod moved;
mod run;
mod words;

use std::path::PathBuf;

use jiff::Timestamp;
use parhelia_store::id::Ulid;
use parhelia_store::name::{self, NameExt as _};

use self::words::as_bytes;
pub use self::{
    decision::{Attempt, DecisionRefusal},
    knowledge::KnowledgeRefusal,
    mark::MarkRefusal,
    moved::MoveRefusal,
    run::RunRefusal,
};

/// The reason for which a workflow is refused: a state that is against it, or a request that makes no sense as put.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The name cannot be a session's.
    #[error(
        "'{name}' cannot be a session's name: give letters, digits, '.', '_' and '-', a letter or digit first, at most {}",
        name::SESSION_BYTES_MAX
    )]
    NoSessionName {
        /// The name that was given.
        name: String,
    },
    /// The name is that of another folder's session.
    #[error("'{name}' is the name of session {session}, in {}", place.as_deref().unwrap_or("no folder"))]
    NameIsTaken {
        /// The name that was given for the folder's session.
        name: String,
        /// The session that has it.
        session: String,
        /// The folder of that session, for messages.
        place: Option<String>,
        /// True if that folder is gone.
        is_gone: bool,
        /// The folder that was to be captured.
        workspace: PathBuf,
    },
    /// The name that the folder's session would get is that of an imported one.
    #[error("session {session} was imported; give this folder's checkpoints the name of another session")]
    WasImported {
        /// Id of the imported session, which the folder's name would give.
        session: String,
    },
    /// The session has no folder.
    #[error("session {session} has no workspace")]
    NoWorkspace {
        /// Id of the session, such as one that was imported.
        session: String,
    },
    /// The session has ended for good.
    #[error("session {session} has ended, which is for good")]
    HasEnded {
        /// Id of the ended session.
        session: String,
    },
    /// The session has ended, and there is no agent of it to be stopped.
    #[error("session {session} has ended, which is for good, and no agent of it is alive")]
    EndedWithoutAgent {
        /// Id of the ended session.
        session: String,
    },
    /// No agent has worked in the session.
    #[error("cannot {action} session {session}: no agent has worked in it")]
    NoAgent {
        /// The action, such as "stop" or "attach to".
        action: &'static str,
        /// Id of the session, which has no run.
        session: String,
    },
    /// Entries of the workspace that a rollback cannot put back.
    #[error(
        "cannot roll back to {target}: {} cannot be put back: {}{}; nothing was changed",
        words::entries(*entries),
        words::listed(named),
        words::and_more(entries.saturating_sub(named.len()))
    )]
    Unwritable {
        /// The checkpoint.
        target: Ulid,
        /// The first of the entries, with the reasons.
        named: Vec<String>,
        /// The number of entries.
        entries: usize,
    },
    /// A path to be left that is none in the workspace, or all of it.
    #[error(
        "cannot leave {path}: it is no path in the workspace {workspace}; give one in there, from the current folder or absolute"
    )]
    NotInWorkspace {
        /// The path as it was given, escaped for messages.
        path: String,
        /// Absolute path of the workspace, escaped for messages.
        workspace: String,
    },
    /// A path to be left that nothing has.
    #[error(
        "cannot leave {path}: neither the workspace nor checkpoint {target} has {inside}; nothing was changed{}",
        meant.as_ref().map(|meant| format!("; give {meant} if that is meant")).unwrap_or_default()
    )]
    NothingToLeave {
        /// The path, as it was given.
        path: String,
        /// The same, from the workspace.
        inside: String,
        /// The checkpoint that was to be gone back to.
        target: Ulid,
        /// The path that it is if it begins in the workspace, where that is there.
        meant: Option<String>,
    },
    /// The agent must be ended first, or left alone on purpose.
    #[error("the agent of session {session} is alive")]
    AgentAlive {
        /// Id of the session that was to be ended.
        session: String,
    },
    /// The agent cannot be ended from here.
    #[error("cannot {action} session {session}: {why}")]
    OutOfReach {
        /// The action, such as "pause" or "end the agent of".
        action: &'static str,
        /// Id of the session whose agent is out of reach.
        session: String,
        /// The reason.
        why: String,
    },
    /// The agent does not end, though it was killed.
    #[error("the agent of session {session} does not end; nothing was changed")]
    DoesNotEnd {
        /// Id of the session whose agent is still alive.
        session: String,
    },
    /// The agent is told to keep no conversation.
    #[error("the agent is asked to keep no conversation, so that nothing could be resumed; leave that flag of its out")]
    KeepsNoConversation,
    /// The agent's command line begins no conversation.
    #[error(
        "{command} is a command of the agent's own, and no conversation: there is nothing in it to make checkpoints of, or to resume"
    )]
    NoConversation {
        /// The command line, as shown.
        command: String,
    },
    /// The agent is told to work out of sight.
    #[error(
        "the agent is told to work out of sight ({flag}): its conversation would be in no checkpoint, and nothing could resume it"
    )]
    WorksUnseen {
        /// The flag as it stands on the agent's command line.
        flag: String,
    },
    /// A prompt for a program that takes none.
    #[error(
        "session {session} takes no prompt: how its program ({program}) takes one is not known, and it would begin again from its own words"
    )]
    PromptOfNoAgent {
        /// Id of the session that a prompt was given for.
        session: String,
        /// The program, as shown.
        program: String,
    },
    /// The agent is told to work in a folder that is not the workspace.
    #[error("the agent is told to work in another folder ({flag}), which would be in no checkpoint")]
    WorksElsewhere {
        /// The flag as it stands on the agent's command line.
        flag: String,
    },
    /// A conversation is another live session's.
    #[error("conversation {conversation} is session {session}'s, whose agent is alive; go on there, or end it first")]
    ConversationTaken {
        /// The agent's own id of the conversation.
        conversation: String,
        /// Id of the live session that has it.
        session: String,
    },
    /// A conversation that a resume would go on with is also another live session's.
    #[error("conversation {conversation} is also session {session}'s, in {place}, whose agent is alive; end that first")]
    ConversationShared {
        /// The agent's own id of the conversation.
        conversation: String,
        /// Id of the other session, whose agent is alive.
        session: String,
        /// Its folder, for messages.
        place: String,
    },
    /// A conversation is open in a process that is not the session's agent.
    #[error(
        "conversation {conversation} is open in {holder}; end that first, or go on there: two agents in one conversation would spoil it"
    )]
    ConversationOpen {
        /// The agent's own id of the conversation.
        conversation: String,
        /// The process, for messages.
        holder: String,
    },
    /// A conversation may be open where it cannot be seen from here.
    #[error("{text}; end that first")]
    ConversationUnseen {
        /// The sentence about that.
        text: String,
    },
    /// Another machine or container may have the session.
    #[error(
        "session {session} is taken for alive on {host} until {until}, as its processes cannot be looked at from here; end it there"
    )]
    AliveElsewhere {
        /// Id of the session that was to be resumed.
        session: String,
        /// The machine.
        host: String,
        /// The end of its lease.
        until: Timestamp,
    },
    /// A live session cannot go on from a checkpoint.
    #[error("session {session} is alive (process {process})")]
    AliveHere {
        /// Id of the session that was to be resumed.
        session: String,
        /// Process id of its agent, or of the process that is starting it.
        process: i32,
        /// The checkpoint that it was to go on from, as a selector.
        from: String,
    },
    /// Somebody else was faster.
    #[error("somebody else has just resumed session {session}")]
    TakenOver {
        /// Id of the session that another caller has resumed.
        session: String,
    },
    /// The command line of the session's agent is not known.
    #[error("it is not known how session {session} was started")]
    UnknownCommand {
        /// Id of the session, of which no command line was recorded.
        session: String,
    },
    /// The checkpoint is of another session.
    #[error("checkpoint {checkpoint} is of session {of}, not of {session}")]
    OtherSession {
        /// Id of the checkpoint that was to be gone on from.
        checkpoint: Ulid,
        /// Its session.
        of: String,
        /// The session that was meant.
        session: String,
    },
    /// The workspace's disk is not mounted.
    #[error("the workspace {path} of session {session} is {how}, and {lost} ({recorded})")]
    NotMounted {
        /// The workspace, for messages.
        path: String,
        /// Id of the session whose workspace it is.
        session: String,
        /// The state of the place: "gone", "empty", or "another folder now".
        how: &'static str,
        /// The sentence about its disk.
        lost: String,
        /// The identity of the folder that is missed.
        recorded: String,
    },
    /// The workspace was moved.
    #[error("the workspace {path} of session {session} is {how}; the same folder is {} by now", name::display(as_bytes(to)))]
    WasMoved {
        /// The workspace, for messages.
        path: String,
        /// Id of the session whose workspace it is.
        session: String,
        /// The state of the place: "gone", "empty", or "another folder now".
        how: &'static str,
        /// The folder that it is by now.
        to: PathBuf,
    },
    /// The session's folder was not found.
    #[error("{path}{} was not found; give the folder that it is by now", if *is_there { " is another folder by now, and the session's own" } else { "" })]
    NotFound {
        /// The folder, for messages.
        path: String,
        /// True if another folder has taken its place.
        is_there: bool,
    },
    /// An agent folder cannot be copied into itself.
    #[error("the workspace {} would lie in the agent folder {}, of which it is to be a copy", workspace.shown(), folder.shown())]
    CopyIntoItself {
        /// Absolute path of the folder that was to be copied.
        folder: PathBuf,
        /// Path of the copy, below that folder.
        workspace: PathBuf,
    },
    /// There is nothing to restore the workspace from.
    #[error("{} is gone, and the session has no checkpoint to restore it from", path.shown())]
    NothingToRestore {
        /// The workspace.
        path: PathBuf,
    },
    /// An agent that answers one prompt begins a new conversation with one alone.
    #[error("an agent that answers a single prompt begins a new conversation with a prompt alone")]
    NewNeedsPrompt,
    /// An agent that answers one prompt would act at once, unasked.
    #[error("the agent of session {session} answers a single prompt, would act at once, and nobody is at a terminal here")]
    NobodyAsked {
        /// Id of the session that was to be resumed.
        session: String,
    },
    /// The command of the session has done its work.
    #[error("the command of session {session} has come to its end")]
    HasFinished {
        /// Id of the session, which there is nothing left to resume of.
        session: String,
    },
    /// A rollback that was interrupted cannot be finished beside another live session.
    #[error(
        "a rollback of session {session} to {target} was interrupted, and cannot be finished while session {other} is alive in the same \
         workspace, or in one below or above it; end that first"
    )]
    CannotFinish {
        /// Id of the session whose rollback was interrupted.
        session: String,
        /// The checkpoint that was gone back to.
        target: Ulid,
        /// Id of the live session, in the same folder or in one below or above it.
        other: String,
    },
    /// A rollback that was interrupted must be finished before it is undone.
    #[error(
        "a rollback of session {session} to {target} was interrupted, and is not finished while an agent has its conversation open or works in \
         its folder; end that first"
    )]
    NotFinished {
        /// Id of the session whose rollback was interrupted.
        session: String,
        /// The checkpoint that was gone back to.
        target: Ulid,
    },
    /// The session was not rolled back.
    #[error("session {session} was not rolled back")]
    NotRolledBack {
        /// Id of the session, of which no rollback is recorded.
        session: String,
    },
    /// No session of the folder was rolled back.
    #[error("no session of {folder} was rolled back")]
    NoneRolledBack {
        /// The folder, for messages.
        folder: String,
        /// The session that was rolled back last, and its folder.
        last: Option<(String, Option<String>)>,
    },
    /// A restore in place has changed the folder since.
    #[error("since session {session} was rolled back, a restore in place has changed its folder")]
    RestoredSince {
        /// Id of the session whose rollback was to be undone.
        session: String,
        /// The safety checkpoint of that restore.
        newer: Ulid,
        /// The safety checkpoint of the rollback.
        safety: Ulid,
    },
    /// The checkpoint that an undo goes back to was deleted.
    #[error("the rollback of session {session} cannot be undone: its safety checkpoint {safety} was deleted")]
    SafetyDeleted {
        /// Id of the session whose rollback was to be undone.
        session: String,
        /// The safety checkpoint of the rollback.
        safety: Ulid,
    },
    /// The checkpoint belongs to no session that is known.
    #[error("checkpoint {checkpoint} belongs to no session")]
    OfNoSession {
        /// Id of the checkpoint whose session is unknown.
        checkpoint: Ulid,
    },
    /// The session has no folder that could be rolled back.
    #[error("session {session} has no folder that could be rolled back")]
    NothingToRollBack {
        /// Id of the session, such as one that was imported.
        session: String,
        /// The checkpoint that was to be gone back to.
        target: Ulid,
    },
    /// Another machine may have the session that is rolled back.
    #[error("session {session} is taken for alive on {host} until {until}; end it there")]
    LiveElsewhere {
        /// Id of the session that was to be rolled back.
        session: String,
        /// The machine.
        host: String,
        /// The end of its lease.
        until: Timestamp,
    },
    /// The session is being started.
    #[error("session {session} is just being started (process {process}); try again when its agent runs")]
    Starting {
        /// Id of the session that was to be rolled back.
        session: String,
        /// The process that starts it.
        process: i32,
    },
    /// The agent is alive, and was not to be stopped.
    #[error("the agent of session {session} is alive (process {process})")]
    MustStop {
        /// Id of the session that was to be rolled back.
        session: String,
        /// Process id of the live agent.
        process: i32,
    },
    /// Another session works in the same folder.
    #[error("session {session} is alive in the same workspace, or in one below or above it; end it first")]
    OtherAlive {
        /// Id of the live session in the way.
        session: String,
    },
    /// Git could not be asked.
    #[error("git could not be asked whether it is in the middle of something: {why}")]
    GitUnknown {
        /// The reason.
        why: String,
    },
    /// The repository is another user's, so that git is not asked there.
    #[error("git is not asked whether it is in the middle of something: the repository {} belongs to uid {uid}, and safe.directory does not allow it", root.shown())]
    GitOfAnother {
        /// The repository's folder.
        root: PathBuf,
        /// Its owner.
        uid: u32,
    },
    /// Git is in a state in which files had better not change.
    #[error("{why}")]
    GitState {
        /// The state.
        why: String,
    },
    /// The conversation that would go back is open in a process that is not the session's agent.
    #[error("conversation {conversation} is open in {holder}, which is not the session's agent; end that first")]
    OpenInStranger {
        /// The agent's own id of the conversation.
        conversation: String,
        /// The process, for messages.
        holder: String,
    },
    /// The conversation that would go back may be open where it cannot be seen from here.
    #[error("{text}")]
    MayBeOpen {
        /// The sentence about that.
        text: String,
    },
    /// An entry that would be overwritten cannot be kept.
    #[error("{path}: it would be overwritten, and cannot be read for a safety checkpoint ({why}); nothing was changed")]
    CannotKeep {
        /// The path, for messages.
        path: String,
        /// The reason.
        why: String,
    },
    /// A restore would overwrite a folder that is not the checkpoint's.
    #[error("{why}")]
    OtherFolder {
        /// The reason.
        why: String,
        /// Id of the checkpoint that was to be restored.
        checkpoint: String,
    },
    /// No session needs to be recovered.
    #[error("no session needs to be recovered")]
    NothingToRecover,
    /// The text is no query.
    #[error("cannot search for that: {why}")]
    NoQuery {
        /// The fault.
        why: &'static str,
    },
    /// A mark of a checkpoint or a session.
    #[error(transparent)]
    Mark(#[from] MarkRefusal),
    /// A phase or a memory.
    #[error(transparent)]
    Knowledge(#[from] KnowledgeRefusal),
    /// A session that was to be moved.
    #[error(transparent)]
    Move(#[from] MoveRefusal),
    /// A run, or what its agent is asked for.
    #[error(transparent)]
    Run(#[from] RunRefusal),
    /// A decision about a checkpoint.
    #[error(transparent)]
    Decision(#[from] DecisionRefusal),
}
