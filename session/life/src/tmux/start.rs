//! Starting an agent in a pane of tmux: a process of its own does it, which outlives whoever asked for it.

use std::path::{Path, PathBuf};

use parhelia_agent::{
    command::Agent,
    process::Identity,
    tmux::{PaneStatus, Server, session_name},
    trouble::Trouble,
};
use parhelia_host::{Error, Host, Observer, Result, pane::PaneWork};
use parhelia_ledger::Run;
use parhelia_store::{Store, clock};

use super::{StartupState, TmuxPlace, TmuxSession, handover::Handover, place::Pane, watch::Watch};
use crate::{
    resume::{PendingResume, ResumeRequest},
    supervise::{self, Launch},
};

/// An agent that was started in a pane.
#[derive(Debug)]
pub struct InTmux {
    /// The run as it was when the wait ended.
    pub run: Run,
    /// Its state.
    pub started: StartupState,
    /// The tmux session.
    pub shown: TmuxSession,
    /// Id of the pane, such as `%3`.
    pub pane: String,
    /// The socket of the tmux server; none where that does not say so.
    pub socket: Option<String>,
}

impl InTmux {
    /// True if it has not run to its end.
    pub fn is_alive(&self) -> bool {
        self.started != StartupState::Ended
    }

    /// The trouble for which it waits for somebody.
    pub fn waits(&self) -> Option<Trouble> {
        match self.started {
            StartupState::Waits(trouble) => Some(trouble),
            _ => None,
        }
    }
}

/// A pane whose process waits to be let on.
struct WaitingPane<'a> {
    pane: Pane<'a>,
    handover: Handover,
    agent: Option<&'a Agent>,
    config: Option<PathBuf>,
}

impl WaitingPane<'_> {
    /// Lets the process go on, and waits until it is known whether its agent lives. Whatever fails takes the tmux session along.
    fn go_on(self, store: &Store, observer: &dyn Observer) -> Result<InTmux> {
        let pane = self.pane;
        let (run, started) = self.watched(store, observer).inspect_err(|_| {
            let _ = pane.server.end_session(pane.session);
        })?;
        let socket = pane.socket();
        // From here on the pane closes with what runs in it, unless the user has it otherwise.
        let _ = pane.server.keep_dead(pane.id, false);
        if pane.server.pane(pane.id).is_ok_and(|found| found.is_some_and(|pane| pane.dead)) {
            let _ = pane.server.call(["kill-pane", "-t", pane.id]);
        }
        self.handover.finish();
        let shown = TmuxSession { server: pane.server.clone(), session: pane.session.to_owned() };
        Ok(InTmux { run, started, shown, pane: pane.id.to_owned(), socket })
    }

    fn watched(&self, store: &Store, observer: &dyn Observer) -> Result<(Run, StartupState)> {
        let pane = self.pane;
        pane.server.keep_dead(pane.id, true)?;
        let closed = || Error::Background("the pane has closed".into());
        let PaneStatus { process, .. } = pane.server.pane(pane.id)?.ok_or_else(closed)?;
        let launcher = Identity::of(process)?;
        self.handover.open()?;
        let kind = self.agent.map(Agent::kind);
        Watch { store, pane, launcher, kind, config: self.config.clone(), observer }.wait()
    }
}

impl Launch {
    /// Launches the agent in a new tmux session of a server, and waits until it is known whether it lives.
    pub fn start_in_tmux(&self, store: &Store, host: &dyn Host, server: &Server, observer: &dyn Observer) -> Result<InTmux> {
        let (request, agent) = (self.request(), self.agent());
        let work = PaneWork::Launch {
            name: request.name.clone(),
            policy: request.policy.clone(),
            workspace: request.workspace.clone(),
            interval: request.interval,
            copied: request.id.clone().zip(request.agent_folder.clone()),
            command: request.command.clone(),
        };
        let words = |prompt: Option<&Path>| host.pane_arguments(store.path(), &work, prompt);
        let handover = Handover::new(host, request.prompt.as_deref(), words)?;
        let session = server.free_name(&session_name(request.name.as_deref().unwrap_or_default(), clock::timestamp()))?;
        let (command, mut made) = (handover.command(host)?, None);
        host.with_own_limits(&mut || made = Some(server.new_session(&session, &request.workspace, &command)));
        let id = made.transpose()?.unwrap_or_default();
        let pane = Pane { server, session: &session, id: &id };
        let config = agent.and_then(|agent| host.config_folder(agent.kind())).map(|config| config.path);
        WaitingPane { pane, handover, agent, config }.go_on(store, observer)
    }
}

impl PendingResume {
    /// Starts the agent in a tmux session of its own, and waits until it is known whether it lives. Where that fails, the run ends.
    pub fn start_in_tmux(
        &self,
        store: &Store,
        host: &dyn Host,
        place: &TmuxPlace,
        request: &ResumeRequest,
        observer: &dyn Observer,
    ) -> Result<InTmux> {
        let start = || {
            let (current, prepared) = (&self.current, &self.prepared);
            let work = PaneWork::Resume {
                session: current.session.clone(),
                run: current.run.clone(),
                interval: request.interval,
                new_conversation: request.new_conversation,
                launch_variables: prepared.may_steer(),
            };
            let words = |prompt: Option<&Path>| host.pane_arguments(store.path(), &work, prompt);
            let handover = Handover::new(host, request.prompt.as_deref(), words)?;
            let session = place.server.free_name(&session_name(&prepared.session.name, clock::timestamp()))?;
            let command = handover.command(host)?;
            let id = place.make(store, host, prepared, &session, (&command, handover.folder()), observer)?;
            let pane = Pane { server: &place.server, session: &session, id: &id };
            let config = prepared.config.as_ref().map(|config| config.path.clone());
            WaitingPane { pane, handover, agent: prepared.agent.as_ref(), config }.go_on(store, observer)
        };
        supervise::or_ended(store, host, &self.current, observer, start())
    }
}
