//! Resuming a session that is alive.

use std::path::PathBuf;

use parhelia_ledger::{LedgerView as _, Place, Run, Session, Status, kind};
use parhelia_store::{Store, event::NewEvent, name::NameExt as _};

use super::{ResumeRequest, meant};
use crate::workspace::place::is_gone;
use parhelia_host::{
    Host, Refusal, Result,
    run::{self, Life},
};

/// A session that is alive, so that there is nothing to resume.
#[derive(Debug)]
pub struct Alive {
    /// The process of its agent, or that which is just starting it.
    pub process: i32,
    /// The newest run, whose agent is alive or being started.
    pub run: Run,
    /// True if it was set aside, and is active again.
    pub is_active_again: bool,
    /// Its workspace, where that is gone: nothing is restored below an agent that runs.
    pub gone: Option<PathBuf>,
}

impl Alive {
    /// A sentence about a workspace that is gone; the caller names the next step.
    pub fn warning(&self) -> Option<String> {
        let gone = self.gone.as_ref()?.shown();
        let (session, process) = (&self.run.session, self.process);
        Some(format!(
            "the workspace {gone} of session {session} is gone, and is not restored while its agent (process {process}) is alive"
        ))
    }
}

/// The live run of a session; none where it is dead. One that was set aside is active again. Fails where somebody wants it to go on from
/// another checkpoint, and where another machine may have it.
pub fn if_alive(store: &Store, host: &dyn Host, session: &Session, request: &ResumeRequest) -> Result<Option<Alive>> {
    let Some(run) = store.view().newest_run(session)? else { return Ok(None) };
    let process = match run::life(&run) {
        Life::Over => return Ok(None),
        Life::Elsewhere { .. } if request.take_over => return Ok(None),
        Life::Elsewhere { host, until } => {
            return Err(Refusal::AliveElsewhere { session: session.id.clone(), host, until }.into());
        }
        Life::Agent(process) | Life::Starting(process) => process.process,
    };
    if let Some(from) = &request.from {
        return Err(Refusal::AliveHere { session: session.id.clone(), process, from: meant(session, from) }.into());
    }
    let is_active_again = session.status == Status::Paused;
    if is_active_again {
        let active = NewEvent::new(kind::SESSION_STATUS, &session.id, host.actor()).with("status", Status::Active.name());
        store.append_events(&[active.with("reason", "resumed")], &())?;
    }
    let folder = session.workspace.as_ref().map(Place::folder);
    let gone = folder.filter(|folder| is_gone(store, folder).unwrap_or_default());
    Ok(Some(Alive { process, run, is_active_again, gone }))
}
