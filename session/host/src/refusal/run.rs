//! Refusals about a run, and about its agent.

/// The reason for which nothing is done with a run or its agent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RunRefusal {
    /// Somebody has ended the run before its agent was started.
    #[error("run {run} was ended before its agent could be started")]
    EndedBefore {
        /// Id of the ended run.
        run: String,
    },
    /// The run does not wait for somebody to start its agent.
    #[error("run {run} does not wait for its agent")]
    DoesNotWait {
        /// Id of the run, whose agent was started already or never will be.
        run: String,
    },
    /// A run has ended.
    #[error("run {run} has ended; begin another one")]
    IsOver {
        /// Id of the ended run.
        run: String,
    },
    /// A session takes no answer now.
    #[error("session {session} takes no answer now: {why}")]
    NotAnswered {
        /// Id of the session that was to be answered.
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
        /// Id of the session that was to be prompted.
        session: String,
        /// The reason.
        why: String,
    },
}
