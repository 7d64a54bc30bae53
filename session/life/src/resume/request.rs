//! A resume that is asked for.

use std::time::Duration;

/// A resume that is asked for: from where, and which of its safeties are switched off.
#[derive(Clone, Debug, Default)]
pub struct ResumeRequest {
    /// The checkpoint to go on from, as a selector; none for the newest that may be resumed.
    pub from: Option<String>,
    /// The words that are said to the agent first.
    pub prompt: Option<String>,
    /// True if a new conversation begins, which is told what is known of the old one.
    pub new_conversation: bool,
    /// The interval between checkpoints, made where something has changed; none for never.
    pub interval: Option<Duration>,
    /// True if another machine or container that may still have the session is not waited for.
    pub take_over: bool,
    /// True if a checkpoint that was rejected may be gone on from.
    pub from_rejected: bool,
    /// True if the workspace is restored where it was, even if its disk is not mounted, or it was moved.
    pub recreate_workspace: bool,
    /// True if variables of the launch are set again that say where the agent connects, or what it loads and runs.
    pub launch_variables: bool,
    /// True if nothing is said of a good end.
    pub is_quiet: bool,
}
