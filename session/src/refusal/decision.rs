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
