//! Reasons for which no new conversation begins.

/// The reason for which no new conversation begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Idle {
    /// Somebody else has changed the session.
    #[error("the session was rolled back, resumed or ended meanwhile")]
    ChangedMeanwhile,
    /// The agent answers one prompt, and there is none.
    #[error("an agent that answers a single prompt would act on one that nobody gave")]
    NoPrompt,
    /// Nobody would see it.
    #[error("an interactive agent needs a terminal")]
    NoTerminal,
}
