//! Kinds of events whose meaning the ledger knows, and names of their fields. Any other kind is kept, and listed by `log`.

pub use parhelia_store::event::kind::{CHECKPOINT_DELETED, CHECKPOINT_VERIFIED, JOURNAL_CUT, STORE_CHECKED};

/// The field of a decision's event that is true where an agent decided in a person's name.
pub const SELF_APPROVAL: &str = "self_approval";

/// The field of a link's event that is true where no person asked for it.
pub const LINK_ASKED: &str = "asked";

/// The field of a link's event that is true where the issue was created for the session.
pub const LINK_CREATED: &str = "created";

/// A session exists. Subject: its id. Data: fields of [`crate::Session`].
pub const SESSION_CREATED: &str = "session.created";
/// Fields of a session changed. Data: those fields.
pub const SESSION_CHANGED: &str = "session.changed";
/// A session's status changed. Data: `status`, `reason`, and `wanted` where that is not what the status says.
pub const SESSION_STATUS: &str = "session.status";
/// A session's head was moved to an older checkpoint. Data: `checkpoint`.
pub const SESSION_HEAD: &str = "session.head";
/// A run began. Subject: its id. Data: `session` and fields of [`crate::Run`]. Its epoch is above the session's.
pub const RUN_STARTED: &str = "run.started";
/// Fields of a run changed. Data: those fields.
pub const RUN_CHANGED: &str = "run.changed";
/// A run's lease was renewed. Data: fields of [`crate::Lease`].
pub const RUN_LEASE: &str = "run.lease";
/// A run is over. Data: `exit_reason`, `end` ([`crate::End`]).
pub const RUN_ENDED: &str = "run.ended";
/// The agent of a session died, and there is no checkpoint to go on from. Data: `reason`.
pub const SESSION_LOST: &str = "session.lost";
/// The agent of a session is about to be ended, as its platform ends it anyway; it is to go on elsewhere. Data: `reason`.
pub const SESSION_HANDOVER: &str = "session.handover";
/// A verdict on a session's agent. Data: `attention` (`state`: `waiting`, `idle`, `left_alone`, `resume_failed`, `recovered`; `why`, `run`, `since`), or null
/// where there is none any more.
pub const SESSION_ATTENTION: &str = "session.attention";
/// A person answers what the agent of a session asks, by typing into its terminal. Data: `reason` (what it waited for), `keys`, `has_text`, `run`.
pub const SESSION_ANSWERED: &str = "session.answered";
/// A conversation belongs to a session. Subject: the conversation's id. Data: `session`, `run`, `transcript`.
pub const CONVERSATION_SEEN: &str = "conversation.seen";
/// Data: `tag`.
pub const CHECKPOINT_TAGGED: &str = "checkpoint.tagged";
/// Data: `tag`.
pub const CHECKPOINT_UNTAGGED: &str = "checkpoint.untagged";
/// Data: `text`.
pub const CHECKPOINT_ANNOTATED: &str = "checkpoint.annotated";
/// Data: `tracker`, `id`, `url`.
pub const CHECKPOINT_LINKED: &str = "checkpoint.linked";
/// Data: `url`.
pub const CHECKPOINT_UNLINKED: &str = "checkpoint.unlinked";
/// Somebody, or a policy, decided. Data: `status`, `reason`, `policy`, `rule`, `definition`.
pub const CHECKPOINT_DECIDED: &str = "checkpoint.decided";
/// A decision was asked for and refused; it changes nothing. Data: `status`, `reason`, `why`.
pub const CHECKPOINT_DECISION_REFUSED: &str = "checkpoint.decision_refused";
/// Somebody who may not tried to delete checkpoints. Subject: one of them, or `store`. Data: `why`, `reason`, `session` of the caller.
pub const DELETION_REFUSED: &str = "deletion.refused";
/// Somebody was refused who wanted to take a mark off a checkpoint.
pub const UNMARKING_REFUSED: &str = "unmarking.refused";
/// An agent tried to act on a session that is not its own. Subject: the session, or `store`. Data: `why`, `session`, and `by`, the caller's session.
pub const ACT_REFUSED: &str = "act.refused";
/// A policy of approval decides by other rules than before, or for the first time. Subject: its name. Data: `session`, `definition`, `rules`.
pub const POLICY_CHANGED: &str = "policy.changed";
/// Somebody switched off what protects from a mistake. Subject: the checkpoint or session. Data: `safety`.
pub const SAFETY_OVERRIDDEN: &str = "safety.overridden";
/// A setting did not count: a call from inside an agent, or a project's file, would have made an option of the user's less strict. Subject: the
/// session, or `store` where there is none. Data: `session`, `run`, `why`.
pub const SETTING_IGNORED: &str = "setting.ignored";
/// A restore replaced what was in a folder. Subject: the checkpoint that was restored. Data: `folder`, `safety`.
pub const WORKSPACE_OVERWRITTEN: &str = "workspace.overwritten";
/// A checkpoint's new content was scanned for secrets. Data: fields of [`crate::Scan`].
pub const CHECKPOINT_SCANNED: &str = "checkpoint.scanned";
