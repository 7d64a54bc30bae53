//! A run: one life of a session, from the start of the agent's process to its end.

use std::{ffi::OsString, os::unix::ffi::OsStringExt};

use jiff::Timestamp;
use parhelia_store::name;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    end::{End, EndKind},
    lease::Lease,
};

/// A pane of tmux.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Pane")]
pub struct Tmux {
    /// Path of the server's socket.
    pub socket: String,
    /// The pane's id.
    pub pane: String,
}

/// A run, as its events add up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Its id, unique in the store.
    pub id: String,
    /// The session that it is a life of.
    pub session: String,
    /// Above that of every run of the session before it.
    pub epoch: u64,
    /// The checkpoint that it was resumed from.
    #[serde(default)]
    pub resumed_from: Option<String>,
    /// The machine.
    #[serde(default)]
    pub host: Option<String>,
    /// Boot id of the machine.
    #[serde(default)]
    pub boot_id: Option<String>,
    /// The agent's process.
    #[serde(default)]
    pub pid: Option<u32>,
    /// Start time of that process, in clock ticks since boot: with host, boot and process id it names one process.
    #[serde(default)]
    pub start_time: Option<u64>,
    /// Its place in tmux.
    #[serde(default)]
    pub tmux: Option<Tmux>,
    /// The command that was executed.
    #[serde(default)]
    pub argv: Vec<String>,
    /// In which folder.
    #[serde(default)]
    pub cwd: Option<String>,
    /// The agent's permission mode.
    #[serde(default)]
    pub permission_mode: Option<String>,
    /// The claim to be alive, as it was renewed last; none before the first.
    #[serde(default)]
    pub lease: Option<Lease>,
    /// Its conversation, where it was begun with one.
    #[serde(default)]
    pub conversation: Option<String>,
    /// Time of its beginning.
    pub started_at: Timestamp,
    /// Time of its end.
    #[serde(default)]
    pub ended_at: Option<Timestamp>,
    /// Reason of its end.
    #[serde(default)]
    pub exit_reason: Option<String>,
    /// The end as a value; none before it, and in runs of earlier releases. Ask [`Run::ending`].
    #[serde(default, rename = "end", skip_serializing_if = "Option::is_none")]
    pub told_end: Option<End>,
    /// Fields of later versions.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// The beginning of the exit reason of a run whose program never ran.
pub const NOT_STARTED: &str = "could not be started";

/// Fields that no event sets by naming them.
pub(crate) const FIXED: [&str; 5] = ["id", "session", "epoch", "started_at", "ended_at"];

impl Run {
    /// Its command line, as it is executed.
    pub fn command(&self) -> Vec<OsString> {
        self.argv.iter().map(|word| OsString::from_vec(name::parse(word))).collect()
    }

    pub(crate) fn new(id: &str, session: &str, epoch: u64, at: Timestamp) -> Self {
        Run {
            id: id.to_owned(),
            session: session.to_owned(),
            epoch,
            resumed_from: None,
            host: None,
            boot_id: None,
            pid: None,
            start_time: None,
            tmux: None,
            argv: Vec::new(),
            cwd: None,
            permission_mode: None,
            lease: None,
            conversation: None,
            started_at: at,
            ended_at: None,
            exit_reason: None,
            told_end: None,
            extra: Map::new(),
        }
    }

    /// True if it is known that its program never ran. That no process was recorded does not tell: on a full disk none is.
    pub fn never_ran(&self) -> bool {
        self.pid.is_none() && self.ending().is_some_and(|end| end.kind == EndKind::NotStarted)
    }

    /// Its end; none while nobody has recorded one. Of a run that an earlier release ended, the one that its reason tells.
    pub fn ending(&self) -> Option<End> {
        self.told_end.or_else(|| self.exit_reason.as_deref().map(End::of_reason)).filter(|_| !self.is_open())
    }

    /// True if nothing has said that it is over.
    pub fn is_open(&self) -> bool {
        self.ended_at.is_none()
    }
}
