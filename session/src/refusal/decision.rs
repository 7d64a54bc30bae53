//! Refusals of decisions about checkpoints, of the policies that make them, and because of them.

use jiff::Timestamp;
use parhelia_store::id::Ulid;

/// The reason for which somebody cannot decide, or a decision is against what was asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecisionRefusal {
    /// The caller may not decide about the checkpoint.
    #[error("cannot decide about checkpoint {checkpoint}: {why}; the attempt is recorded")]
    MayNotDecide {
        /// The checkpoint.
        checkpoint: Ulid,
        /// The reason.
        why: String,
    },
    /// The caller may not delete the checkpoint.
    #[error("cannot delete checkpoint {checkpoint}: {why}; the attempt is recorded")]
    MayNotDelete {
        /// The checkpoint.
        checkpoint: Ulid,
        /// The reason.
        why: String,
    },
    /// The caller may not take a mark off a checkpoint.
    #[error("cannot take {mark} off checkpoint {checkpoint}: no agent has put it there, and {why}")]
    MayNotUnmark {
        /// The checkpoint.
        checkpoint: Ulid,
        /// The tag or the link.
        mark: String,
        /// The reason.
        why: String,
    },
    /// The caller may not put another session's folder back.
    #[error("cannot roll session {session} back: its folder is not of the agent that asks, whose folder is {own}")]
    MayNotRollBack {
        /// The session.
        session: String,
        /// The agent's folder, for messages.
        own: String,
    },
    /// The caller may not remove checkpoints by rules of its own.
    #[error("cannot remove checkpoints: {why}; the attempt is recorded")]
    MayNotPrune {
        /// The reason.
        why: String,
    },
    /// Somebody has decided otherwise.
    #[error("checkpoint {checkpoint} was {status} by {user} on {}; that holds, and this decision is recorded as refused",
        at.strftime("%Y-%m-%d at %H:%M:%S UTC"))]
    AlreadyDecided {
        /// The checkpoint.
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
        checkpoint with --from, which puts the workspace back, or make a checkpoint of it as it is by now"
    )]
    StandsOnRejected {
        /// The session.
        session: String,
        /// The checkpoint.
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
    #[error("checkpoint {checkpoint} {why}; choose another one")]
    Rejected {
        /// The checkpoint.
        checkpoint: Ulid,
        /// The decision, as a predicate.
        why: String,
    },
}
