//! Words that an agent's processes leave of themselves: which conversation each has open.

use crate::process::Identity;

/// The state of a conversation that an agent says it has open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Open {
    /// The agent has taken it up.
    Ready,
    /// The agent was asked to take it up. It says so for a moment of a conversation that it does not know, too. An agent without a terminal
    /// never says more.
    Asked,
}

/// A live process of the agent that says what it does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentProcess {
    /// Identity of the process that says so.
    pub process: Identity,
    /// The conversation that it has open.
    pub conversation: String,
    /// The state of that conversation.
    pub open: Open,
    /// Its activity, in its own word: `busy`, `idle`, `waiting`.
    pub status: Option<String>,
    /// The thing that it waits for, if it says so.
    pub waits_for: Option<String>,
    /// True if it says when its process began; otherwise the process number may belong to another process by now.
    pub is_certain: bool,
}

/// An agent that says in its file that it has a conversation open, and that no process here is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnseenAgent {
    /// Its process, as it is numbered where it is.
    pub process: i32,
    /// Its start, in clock ticks since boot, where it says so.
    pub start_time: Option<u64>,
}

impl UnseenAgent {
    /// True if it is this process, in whichever namespace.
    pub fn is(&self, known: &Identity) -> bool {
        self.process == known.process && self.start_time.is_none_or(|start| start == known.start_time)
    }
}
