//! Refusals about a run, and about its agent.

/// The reason for which nothing is done with a run or its agent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RunRefusal {
    /// Somebody has ended the run before its agent was started.
    #[error("run {run} was ended before its agent could be started")]
    EndedBefore {
        /// The run.
        run: String,
    },
    /// The run does not wait for somebody to start its agent.
    #[error("run {run} does not wait for its agent")]
    DoesNotWait {
        /// The run.
        run: String,
    },
    /// A run has ended.
    #[error("run {run} has ended; begin another one")]
    IsOver {
        /// The run.
        run: String,
    },
    /// A session takes no answer now.
    #[error("session {session} takes no answer now: {why}")]
    NotAnswered {
        /// The session.
        session: String,
        /// The reason.
        why: String,
    },
    /// A command line takes no first prompt.
    #[error("{program} takes no first prompt beside its command line: {why}")]
    TakesNoPrompt {
        /// The program, as shown.
        program: String,
        /// The reason.
        why: &'static str,
    },
    /// A session takes no prompt now.
    #[error("session {session} takes no prompt now: {why}")]
    NotPrompted {
        /// The session.
        session: String,
        /// The reason.
        why: String,
    },
}
