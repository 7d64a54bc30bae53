//! Whether a run lives.

use std::{ffi::OsString, path::Path};

use jiff::Timestamp;
use parhelia_store::{
    Store,
    fold::{Run, Session, Tmux},
};

use super::lease;
use crate::{
    error::Result,
    process::{Identity, RUN_MARKER, Roots, ancestors, host_name},
};

/// The field of a run that names the process which started the agent and waits for it.
pub const LAUNCHER: &str = "launcher";

/// What the exit reason of a run begins with whose program ended without being asked or killed. The exit code is behind it.
pub const BY_ITSELF: &str = "ended with exit code ";

/// The exit reason of a run whose agent did not know the conversation that it was to go on with.
pub const UNKNOWN: &str = "the agent does not know its conversation";

/// Whether a run was killed, or nobody saw its end.
pub fn was_killed(run: &Run) -> bool {
    run.exit_reason.as_ref().is_none_or(|reason| reason.contains("was ended by signal"))
}

/// Whether a run's program has come to a good end without being asked to.
pub fn has_finished(run: &Run) -> bool {
    run.exit_reason.as_ref().is_some_and(|reason| *reason == format!("{BY_ITSELF}0"))
}

/// How a run is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Life {
    /// Its agent runs here: which process.
    Agent(Identity),
    /// Its agent is being started here.
    Starting(Identity),
    /// It is over, or nothing of it is left.
    Over,
    /// It is another machine's, whose lease has not run out.
    Elsewhere {
        /// The machine.
        host: String,
        /// When the lease runs out, if it is not renewed.
        until: Timestamp,
    },
}

impl Life {
    /// Whether it may still act.
    pub fn is_alive(&self) -> bool {
        *self != Life::Over
    }
}

/// The process of a run's agent.
pub fn agent_of(run: &Run) -> Option<Identity> {
    let process = i32::try_from(run.pid?).ok()?;
    Some(Identity { process, start_time: run.start_time?, boot_id: run.boot_id.clone()? })
}

/// The process that started a run's agent, and waits for it.
pub fn launcher_of(run: &Run) -> Option<Identity> {
    run.extra.get(LAUNCHER).and_then(|value| serde_json::from_value(value.clone()).ok())
}

/// The processes from which everything of a run descends.
pub fn roots_of(run: &Run) -> Roots {
    Roots { agent: agent_of(run), launcher: launcher_of(run) }
}

/// Whether this process is a tool of a run's live agent: it carries the run's marker, and descends from the agent. Others have the marker
/// from a tool that has started something of its own.
pub fn is_inside(run: &Run, variable: &dyn Fn(&str) -> Option<OsString>) -> bool {
    let line = ancestors();
    variable(RUN_MARKER).is_some_and(|id| id == run.id.as_str()) && roots_of(run).all().any(|root| line.contains(root))
}

/// Looks whether a run lives. A process of this machine is asked; for another machine's there is only the lease.
pub fn life(run: &Run) -> Life {
    if !run.is_open() {
        return Life::Over;
    }
    if run.host.as_ref().is_some_and(|host| *host != host_name()) {
        let until = run.lease.as_ref().and_then(lease::runs_out).filter(|until| *until > Timestamp::now());
        return until.map_or(Life::Over, |until| Life::Elsewhere { host: run.host.clone().unwrap_or_default(), until });
    }
    if let Some(agent) = agent_of(run).filter(Identity::is_alive) {
        return Life::Agent(agent);
    }
    match launcher_of(run).filter(Identity::is_alive) {
        Some(launcher) if run.pid.is_none() => Life::Starting(launcher),
        _ => Life::Over,
    }
}

/// Where in tmux a session's agent is, while it lives on this machine.
pub fn tmux_of(store: &Store, session: &Session) -> Result<Option<Tmux>> {
    let run = session.run.as_deref().map(|id| store.view().run(id)).transpose()?.flatten();
    Ok(run.filter(|run| matches!(life(run), Life::Agent(_))).and_then(|run| run.tmux))
}

/// Sessions other than `but` with a live run in a workspace, or in one that lies in it or around it.
pub fn live_in(store: &Store, workspace: &Path, but: &str) -> Result<Vec<(Session, Run)>> {
    let view = store.refresh()?;
    let mut found = Vec::new();
    for session in view.sessions()?.into_iter().filter(|session| session.id != but) {
        let Some(place) = &session.workspace else { continue };
        let other = place.folder();
        if !(other.starts_with(workspace) || workspace.starts_with(&other)) {
            continue;
        }
        if let Some(run) = session.run.as_deref().map(|id| view.run(id)).transpose()?.flatten()
            && life(&run).is_alive()
        {
            found.push((session, run));
        }
    }
    Ok(found)
}
