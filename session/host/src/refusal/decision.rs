//! Refusals of decisions about checkpoints, of the policies that make them, and because of them.

use parhelia_store::name::step::Step;
use std::fmt;

use jiff::Timestamp;
use parhelia_store::id::Ulid;

/// The fate of an attempt that was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// It is in the journal.
    Recorded,
    /// It could not be written.
    Lost,
    /// It was none: somebody asked what would be done.
    Asked,
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Attempt::Recorded => "; the attempt is recorded",
            // A notice has the reason.
            Attempt::Lost | Attempt::Asked => "",
        })
    }
}

/// The reason for which somebody cannot decide, or a decision is against what was asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecisionRefusal {
    /// The caller may not decide about the checkpoint.
    #[error("cannot decide about checkpoint {checkpoint}: {why}{attempt}")]
    MayNotDecide {
        /// Id of the checkpoint, on which nothing was decided.
        checkpoint: Ulid,
        /// The reason.
        why: String,
        /// The fate of the attempt.
        attempt: Attempt,
    },
    /// The caller may not delete the checkpoint.
    #[error("cannot delete checkpoint {checkpoint}: {why}{attempt}")]
    MayNotDelete {
        /// Id of the checkpoint, which is kept.
        checkpoint: Ulid,
        /// The reason.
        why: String,
        /// The fate of the attempt.
        attempt: Attempt,
    },
    /// The caller may not take a mark off a checkpoint.
    #[error("cannot take {mark} off checkpoint {checkpoint}: no agent has put it there, and {why}{attempt}")]
    MayNotUnmark {
        /// Id of the checkpoint, which keeps the mark.
        checkpoint: Ulid,
        /// The tag or the link.
        mark: String,
        /// The reason.
        why: String,
        /// The fate of the attempt.
        attempt: Attempt,
    },
    /// The caller may not act on a session that is not its own.
    #[error("refusing `{act}` for {of}: {why}{attempt}")]
    MayNotAct {
        /// The act, such as `session end`.
        act: String,
        /// The session, or whatever it would have been done to.
        of: String,
        /// The reason.
        why: String,
        /// The fate of the attempt.
        attempt: Attempt,
    },
    /// The caller may not remove checkpoints by rules of its own.
    #[error("cannot remove checkpoints: {why}{attempt}")]
    MayNotPrune {
        /// The reason.
        why: String,
        /// The fate of the attempt.
        attempt: Attempt,
    },
    /// Somebody has decided otherwise.
    #[error("checkpoint {checkpoint} was {status} by {user} on {}; that holds, and this decision is recorded as refused",
        at.strftime("%Y-%m-%d at %H:%M:%S UTC"))]
    AlreadyDecided {
        /// Id of the checkpoint with the earlier decision.
        checkpoint: Ulid,
        /// The decision that holds.
        status: &'static str,
        /// The person who made it.
        user: String,
        /// Time of that decision.
        at: Timestamp,
    },
    /// The decision cannot be signed.
    #[error("the decision cannot be signed with {key}, and is not recorded: {why}; `approval.signing_key` names the key")]
    NotSigned {
        /// The key's path.
        key: String,
        /// The reason.
        why: String,
    },
    /// The workspace has work that was rejected.
    #[error(
        "the workspace of session {session} is as in checkpoint {checkpoint}, which {why}, or builds on it; name an earlier \
        checkpoint with {}, which puts the workspace back, or make a checkpoint of it as it is by now",
        Step::From
    )]
    StandsOnRejected {
        /// Id of the session that was to be resumed.
        session: String,
        /// Id of the session's head.
        checkpoint: Ulid,
        /// The decision, as a predicate.
        why: String,
    },
    /// There is no policy of that name.
    #[error("cannot choose a policy of approval: {why}")]
    NoPolicy {
        /// The fault.
        why: String,
    },
    /// The checkpoint was rejected.
    #[error("checkpoint {checkpoint} {why}")]
    Rejected {
        /// Id of the rejected checkpoint.
        checkpoint: Ulid,
        /// The decision, as a predicate.
        why: String,
    },
}
