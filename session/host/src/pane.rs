//! Work of a session that a process of ours does in a pane of tmux, which another one has made for it.

use std::{ffi::OsString, path::PathBuf, time::Duration};

/// Work that a process in a pane takes over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PaneWork {
    /// Launches an agent in a new session.
    Launch {
        /// The session's name; none for the folder's.
        name: Option<String>,
        /// The policy of approval; none for the configured one.
        policy: Option<String>,
        /// Absolute path of the folder that the agent works in.
        workspace: PathBuf,
        /// The interval between checkpoints; none for never.
        interval: Option<Duration>,
        /// The session's id and the agent folder of which the workspace is a copy.
        copied: Option<(String, PathBuf)>,
        /// The agent's command line.
        command: Vec<OsString>,
    },
    /// Starts the agent of a run that was begun for it.
    Resume {
        /// Id of the session that is resumed.
        session: String,
        /// Id of the run, which the caller has begun and recorded.
        run: String,
        /// The interval between checkpoints; none for never.
        interval: Option<Duration>,
        /// True if a new conversation begins.
        new_conversation: bool,
        /// True if variables of the launch are set again that say where the agent connects, or what it loads and runs.
        launch_variables: bool,
    },
}
