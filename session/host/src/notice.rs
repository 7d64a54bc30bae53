//! Things that a workflow has to say, as data. A face adds the flag or the command that leads further.

mod beside;
mod git;
mod idle;
mod leftovers;
mod moved;
mod secrets;
mod unfinished;
mod words;

pub use beside::Overlap;
pub use git::Git;
pub use idle::Idle;
pub use secrets::Secrets;
pub use unfinished::InterruptedRollback;

use std::path::PathBuf;

use jiff::Timestamp;
use parhelia_agent::{folder::ConfigFolder, process::RUN_MARKER, trouble::Trouble};
use parhelia_store::{id::Ulid, name::NameExt as _};

use self::words::{count, no_plugin, not_secured, shown};

use crate::{age::age, refusal::Refusal, safety::Safety};

/// Something that the caller of a workflow should know and that is no failure. It displays as a sentence without a full stop.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Notice {
    /// A new checkpoint shares damaged bytes with older ones.
    #[error("checkpoint {checkpoint} reuses what is damaged in the store; another one is made that stores it again")]
    ReusesDamage {
        /// Id of the new checkpoint, which is damaged as well.
        checkpoint: Ulid,
    },
    /// The damaged bytes were not stored again.
    #[error("no other checkpoint was made: {why}; the next one stores again what is damaged")]
    NotStoredAgain {
        /// The reason.
        why: String,
    },
    /// A checkpoint stores much.
    #[error(
        "checkpoint {checkpoint} stores {mebibytes} MiB that the store did not have; leave out what does not belong there (`capture.exclude`)"
    )]
    Large {
        /// Id of the new checkpoint.
        checkpoint: Ulid,
        /// The size, in MiB.
        mebibytes: u64,
    },
    /// No checkpoint was made beside an agent.
    #[error("no checkpoint was made: {why}")]
    NoCheckpoint {
        /// The reason.
        why: String,
    },
    /// A checkpoint that was made beside an agent is damaged.
    #[error("checkpoint {checkpoint} is damaged")]
    Damaged {
        /// Id of the damaged checkpoint.
        checkpoint: Ulid,
    },
    /// Something about a checkpoint that was made beside an agent, such as a part that failed.
    #[error("checkpoint {checkpoint}: {text}")]
    OfCheckpoint {
        /// Id of the checkpoint that the sentence is about.
        checkpoint: Ulid,
        /// The sentence.
        text: String,
    },
    /// A scan for secrets has found something, or left something out.
    #[error(transparent)]
    Secrets(Secrets),
    /// A transcript does not have the message that its event tells of.
    #[error("the transcript does not have the turn's last message")]
    NoLastMessage,
    /// An agent asked for a policy that is laxer than its own session's.
    #[error("an agent's session has no laxer policy than the agent's own: {own} holds, and not {asked}")]
    LaxerPolicy {
        /// The policy that it asked for.
        asked: String,
        /// That of its own session.
        own: String,
    },
    /// Something beside the agent went wrong, and does it no harm.
    #[error("{what}: {why}")]
    NotRecorded {
        /// The thing that failed, as a sentence.
        what: &'static str,
        /// The reason.
        why: String,
    },
    /// Detaching from tmux is not heard of.
    #[error("no checkpoint is made when you detach from tmux: {why}")]
    NoDetach {
        /// The reason.
        why: String,
    },
    /// Another run has taken the session over.
    #[error("another run has taken over session {session}; checkpoints of this one are kept beside its history")]
    TakenOver {
        /// Id of the session, whose newest run is the other one.
        session: String,
    },
    /// Retention has removed checkpoints while an agent had the terminal.
    #[error("retention removed {} meanwhile", count(*checkpoints, "older checkpoint"))]
    ThinnedMeanwhile {
        /// Their number.
        checkpoints: u64,
    },
    /// The agent has ended.
    #[error("the agent {reason}")]
    AgentEnded {
        /// Id of the session that the agent ran in.
        session: String,
        /// The end, as a predicate.
        reason: String,
    },
    /// The agent has ended, and its session had before.
    #[error("the agent {reason}. Session {session} had ended before, so that no last checkpoint was made")]
    EndedAfterSession {
        /// Id of the session, which was ended while the agent was alive.
        session: String,
        /// The end, as a predicate.
        reason: String,
    },
    /// An agent ran inside a program that is none.
    #[error(
        "an agent ran in it, in conversation {conversation}; resuming the session runs the program again, and not that conversation"
    )]
    AgentInside {
        /// The agent's own id of the conversation.
        conversation: String,
    },
    /// A process of the run is alive behind the agent's end.
    #[error("left behind by the agent: {process}")]
    LeftBehind {
        /// Process id, command line and, if known, folder, in a line.
        process: String,
    },
    /// A process of an earlier run was stopped.
    #[error("process {process} of an earlier run was stopped")]
    ProcessStopped {
        /// Process id, command line and, if known, folder, in a line.
        process: String,
    },
    /// A process of an earlier run could not be stopped.
    #[error("process {process} of an earlier run could not be stopped")]
    ProcessNotStopped {
        /// Process id, command line and, if known, folder, in a line.
        process: String,
    },
    /// A process has the marker of an earlier run, and is not proven to be that run's.
    #[error(
        "process {process} has {RUN_MARKER} of an earlier run, but neither descends from its agent nor works in the workspace on its own; it \
         was left alone"
    )]
    ProcessMarked {
        /// Process id, command line and, if known, folder, in a line.
        process: String,
    },
    /// A process works in the workspace that is not the run's.
    #[error("process {process} works in the workspace, and was left alone")]
    ProcessInWorkspace {
        /// Process id, command line and, if known, folder, in a line.
        process: String,
    },
    /// The agent runs no hooks.
    #[error("the agent is started without hooks, so that checkpoints are made every few minutes only")]
    WithoutHooks,
    /// The agent's own records could not be told where its conversation is.
    #[error("the agent may not find its conversation: {why}")]
    NotAdopted {
        /// The reason.
        why: String,
    },
    /// A limit of cost decides nothing.
    #[error(
        "what the session costs is not known, so that {limit} decides nothing; prices of the models can be configured (cost.prices)"
    )]
    CostUnknown {
        /// The option with the limit.
        limit: &'static str,
    },
    /// The agent's own folder was moved.
    #[error("the agent's own folder {} {}", from.path.shown(), moved::text(to, (*is_gone, *has_rest, *has_it)))]
    ConfigFolderMoved {
        /// The folder as it is recorded.
        from: ConfigFolder,
        /// The folder that is gone on in.
        to: ConfigFolder,
        /// True if the recorded one is not there any more.
        is_gone: bool,
        /// True if the recorded one has a transcript of the conversation, though a shorter one.
        has_rest: bool,
        /// True if the other one has the conversation.
        has_it: bool,
    },
    /// No event of the agent's hooks has come, though it works.
    #[error("no event has come from the agent's hooks: {}; without them there are no checkpoints at its turns", why.as_deref().unwrap_or("nothing in its settings says why"))]
    HooksSilent {
        /// The reason, as far as its settings tell.
        why: Option<String>,
    },
    /// The agent's hooks cannot be brought by its command line, and are not in its settings.
    #[error("the agent's hooks are not installed, so that checkpoints are made every few minutes only")]
    HooksNotInstalled {
        /// The kind of agent, by its name.
        agent: &'static str,
    },
    /// Nothing brings the hooks of an agent whose kind the user has declared.
    #[error("no hooks of {agent} come here, so that checkpoints are made every few minutes only, and a resume does not know its conversation: {}", no_plugin(plugin.as_deref()))]
    NoPlugin {
        /// The kind of agent, by its name for people.
        agent: &'static str,
        /// The file that is to bring them, and is not there; none where the declaration names none.
        plugin: Option<PathBuf>,
    },
    /// The agent's own folder is not the one of the caller's environment.
    #[error("the agent's own folder is {} ({}), as it was; this shell {}", theirs.path.shown(), theirs.variable, shown(here.as_ref()))]
    OtherConfigFolder {
        /// The agent's.
        theirs: ConfigFolder,
        /// The one that it would find.
        here: Option<ConfigFolder>,
    },
    /// Another session was in the conversation as well.
    #[error("conversation {conversation} is also session {session}'s, in {place}; whichever goes on, both have it")]
    ConversationShared {
        /// The agent's own id of the conversation.
        conversation: String,
        /// Id of the other session, whose agent is not alive.
        session: String,
        /// Its folder.
        place: String,
    },
    /// Another session has something in common with a new one.
    #[error(transparent)]
    Beside(#[from] Overlap),
    /// A conversation may be open where it cannot be seen.
    #[error("{text}")]
    MayBeOpen {
        /// The sentence.
        text: String,
    },
    /// A rollback that was interrupted.
    #[error(transparent)]
    Unfinished(InterruptedRollback),
    /// The rollback was asked for from inside the agent.
    #[error("called from inside the agent: files alone go back, the conversation goes on")]
    CalledInside,
    /// Another machine may have the session that is rolled back.
    #[error("{host} may still have the session, and is not told")]
    MayStillHave {
        /// The machine.
        host: String,
    },
    /// The agent is alive, and its files change.
    #[error("the agent is alive; it is not told that its files change")]
    AgentNotTold,
    /// An obstacle that a rollback would meet, or that it passes over because that was asked for.
    #[error("{0}")]
    WouldRefuse(Refusal),
    /// Another session works in a folder inside; it is kept.
    #[error("{path}: session {session} works there; it is kept as it is")]
    OtherWorksThere {
        /// The folder, from the workspace.
        path: String,
        /// Id of the session that works in the folder.
        session: String,
    },
    /// Another session works in a folder below a restore's target; it is kept.
    #[error("{path}: session {session} works there; it is kept as it is")]
    FolderKept {
        /// The folder, from the target.
        path: String,
        /// Id of the session that works in the folder.
        session: String,
    },
    /// The workspace's repositories.
    #[error(transparent)]
    Git(Git),
    /// The checkpoint has no conversation.
    #[error("the checkpoint has no conversation; files alone go back")]
    FilesAlone,
    /// No safety checkpoint could be made, so that nothing was restored.
    #[error("{}", not_secured(*is_interrupted, *made))]
    NotSecured {
        /// True if somebody asked to stop.
        is_interrupted: bool,
        /// A safety checkpoint that was committed before that.
        made: Option<Ulid>,
    },
    /// A safety checkpoint was made, and the next one could not be.
    #[error("safety checkpoint {} of {} is made", .0.id, .0.folder.shown())]
    SafetyMade(Safety),
    /// A restore has failed behind a safety checkpoint.
    #[error("safety checkpoint {} holds what was in {} before", .0.id, .0.folder.shown())]
    SafetyHolds(Safety),
    /// A restore has met damage.
    #[error("checkpoint {checkpoint} is damaged")]
    RestoreMetDamage {
        /// Id of the damaged checkpoint.
        checkpoint: Ulid,
    },
    /// A newer checkpoint was passed over.
    #[error("checkpoint {checkpoint} is newer, and was passed over: it {why}")]
    PassedOver {
        /// Id of the newer checkpoint.
        checkpoint: Ulid,
        /// The reason, as a predicate.
        why: String,
    },
    /// The checkpoint to go on from waits for a person.
    #[error("checkpoint {checkpoint} {why}; it is gone on from all the same")]
    Unreviewed {
        /// Id of the checkpoint that the session goes on from.
        checkpoint: Ulid,
        /// The predicate, with the rule.
        why: String,
    },
    /// There is no checkpoint to go on from.
    #[error("the session has no checkpoint to go on from; the workspace is taken as it is")]
    NothingToGoOnFrom,
    /// The checkpoint is not of just now.
    #[error("checkpoint {checkpoint} was made {}", age(*made, *now))]
    Old {
        /// Id of the checkpoint that the session goes on from.
        checkpoint: Ulid,
        /// The time at which it was made.
        made: Timestamp,
        /// The time at which this was said.
        now: Timestamp,
    },
    /// The checkpoint is of a folder that was in the place of the session's.
    #[error("checkpoint {checkpoint} was made of another folder, which was in the place of the session's")]
    OfAnotherFolder {
        /// Id of the checkpoint that the session goes on from.
        checkpoint: Ulid,
    },
    /// The agent asks for no permissions.
    #[error("the agent is started {}, as it was", if *is_on { "without permission checks" } else { "with the choice to turn permission checks off" })]
    BypassesPermissions {
        /// True if checks are off from the start.
        is_on: bool,
    },
    /// An agent that was started by hand took the session up with another command, which is not run.
    #[error("the agent that had the session last was started by hand with another command, which is not run: {command}")]
    OtherCommand {
        /// The command's words.
        command: String,
    },
    /// Variables of the launch are not set, as nobody was asked.
    #[error("not set, as they may say where the agent connects or what it loads and runs: {}", names.join(", "))]
    VariablesLeft {
        /// Names of the variables, without values.
        names: Vec<String>,
    },
    /// Variables of the launch are set.
    #[error("set as they were, because they are not set here: {}", names.join(", "))]
    VariablesSet {
        /// Names of the variables, without values.
        names: Vec<String>,
    },
    /// The workspace was put back to the checkpoint that was chosen.
    #[error("the workspace was put back to checkpoint {checkpoint}; later changes are gone from it")]
    PutBack {
        /// Id of the checkpoint that was chosen.
        checkpoint: Ulid,
    },
    /// The conversation was gone, or a crash had left less of it, where the workspace was not gone.
    #[error(
        "the conversation was gone, or had less than a checkpoint has: it is put back as in checkpoint {checkpoint}; what was said since is not in it"
    )]
    ConversationRestored {
        /// Id of the checkpoint that the conversation is taken from.
        checkpoint: Ulid,
    },
    /// The workspace was gone, with no checkpoint of it.
    #[error("the workspace was gone, and no checkpoint has anything of it; it is a new copy of {}", from.shown())]
    WorkspaceCopied {
        /// The agent folder.
        from: PathBuf,
    },
    /// The workspace was gone.
    #[error("the workspace was gone, and was restored: {files} files")]
    WorkspaceRestored {
        /// The number of files.
        files: u64,
    },
    /// The workspace's repository was gone or broken.
    #[error("the workspace had no usable .git any more; it was restored{}", aside.as_ref().map(|path| format!("; what was left of it is in {}", path.shown())).unwrap_or_default())]
    GitRestored {
        /// The place of what was left of it.
        aside: Option<PathBuf>,
    },
    /// Entries could not be restored.
    #[error("{} could not be restored, such as {path}: {why}", count(*entries, "entry"))]
    NotRestored {
        /// Their number.
        entries: u64,
        /// The first of them.
        path: String,
        /// The reason for that one.
        why: String,
    },
    /// Files of the conversation were moved aside.
    #[error("kept aside of the conversation: {}, such as {}", count(*files as u64, "file"), first.shown())]
    ConversationKeptAside {
        /// Their number.
        files: usize,
        /// The first of them.
        first: PathBuf,
    },
    /// The last record of the conversation was torn.
    #[error("the conversation's last record was torn; {bytes} bytes were moved to {}", aside.as_ref().map(|path| path.shown()).unwrap_or_default())]
    ConversationRepaired {
        /// The length of what was torn.
        bytes: u64,
        /// The file that has it.
        aside: Option<PathBuf>,
    },
    /// The agent has said that it does not know the conversation.
    #[error("the agent does not know conversation {conversation}")]
    UnknownConversation {
        /// The id by which the agent was asked for the conversation.
        conversation: String,
    },
    /// The same, for the agent that begins another one.
    #[error("the earlier conversation ({conversation}) is not known to the agent any more")]
    ConversationForgotten {
        /// The id by which the agent was asked for the conversation.
        conversation: String,
    },
    /// Something keeps the agent from going on.
    #[error("{}", .0.text())]
    Trouble(Trouble),
    /// The agent has ended early, and its conversation is not there.
    #[error("its conversation is not there")]
    ConversationGone {
        /// Id of the session that was to be resumed.
        session: String,
    },
    /// No new conversation was begun.
    #[error("no new conversation was begun: {0}")]
    NoNewConversation(Idle),
    /// A new conversation begins.
    #[error("a new conversation begins{}", if *waits { ", and waits for you" } else { "" })]
    NewConversation {
        /// True if it has no prompt.
        waits: bool,
    },
    /// The agent runs no hooks, so that nothing tells it of the earlier conversation.
    #[error("it runs no hooks, and so is told nothing of the earlier one")]
    NotBriefed {
        /// Id of the session; showing it tells what is known of its work.
        session: String,
    },
    /// Something of a tmux session could not be made as it was.
    #[error("{text}")]
    TmuxNote {
        /// The sentence.
        text: String,
    },
    /// Something that another process has noticed, which has begun the run.
    #[error("{text}")]
    Noticed {
        /// The sentence.
        text: String,
    },
    /// Another search holds the index.
    #[error("another search is bringing the index up to date: waiting for it")]
    WaitsForIndex,
    /// The index of a search is kept nowhere.
    #[error("the index is made for this search alone, as it cannot be kept: {why}")]
    IndexNotKept {
        /// The reason.
        why: String,
    },
    /// An MCP server does not get its state of a checkpoint back.
    #[error("MCP server {server} does not get its state back: {why}")]
    ServerWithoutState {
        /// Its name in the agent's configuration; several, with commas between.
        server: String,
        /// The reason.
        why: String,
    },
    /// The tmux session of the run before is still there.
    #[error("tmux session {name} is still there, and was left alone")]
    TmuxLeft {
        /// Name of the tmux session, as tmux lists it.
        name: String,
    },
}
