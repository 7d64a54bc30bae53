//! The state of a session's agent, as it is seen from here.

/// The observed state of a session's agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentState {
    /// It had no agent yet.
    None,
    /// Its agent is being started.
    Starting,
    /// Its agent lives, and works or may work.
    Live,
    /// It lives, and has nothing to do until it is told something.
    Idle,
    /// It lives, and waits for an answer.
    Waiting,
    /// It cannot be seen from here, and counts as alive until its lease runs out.
    Elsewhere,
    /// A life that cannot be told: no process of it is known, or none can be looked at.
    Unknown,
    /// No process of it is left.
    Dead,
}

impl AgentState {
    /// True if its agent may act.
    pub fn is_alive(self) -> bool {
        !matches!(self, AgentState::None | AgentState::Dead)
    }

    /// Its name, as printed.
    pub fn name(self) -> &'static str {
        match self {
            AgentState::None => "none",
            AgentState::Starting => "starting",
            AgentState::Live => "live",
            AgentState::Idle => "idle",
            AgentState::Waiting => "waiting",
            AgentState::Elsewhere => "elsewhere",
            AgentState::Unknown => "unknown",
            AgentState::Dead => "dead",
        }
    }
}
