//! The tmux session in which a session is to live.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use parhelia_agent::tmux::{RestoreRequest, RestoredSession, Server, restore};
use parhelia_ledger::Run;
use parhelia_store::Store;

use super::{SavedTmux, saved_tmux, server};
use crate::resume::Preparation;
use parhelia_host::{Host, Observer, Result, notice::Notice};

/// The pane in which something of a session runs.
#[derive(Clone, Copy)]
pub(super) struct Pane<'a> {
    pub server: &'a Server,
    /// Name of the tmux session.
    pub session: &'a str,
    /// The pane, such as `%3`.
    pub id: &'a str,
}

impl Pane<'_> {
    /// The socket of its server, as that says.
    pub fn socket(&self) -> Option<String> {
        self.server.ask(["display-message", "-p", "-t", self.id, "#{socket_path}"]).ok()
    }
}

/// The place in tmux where a session is to live again.
pub struct TmuxPlace {
    /// The server in which windows and panes are made.
    pub server: Server,
    /// Its windows and panes of then; none for a new window.
    pub saved: Option<SavedTmux>,
}

impl TmuxPlace {
    /// The place of a session that is to live in tmux, whether it did before or not. Fails where tmux cannot be run.
    pub fn wanted(
        store: &Store,
        host: &dyn Host,
        socket: Option<&Path>,
        prepared: &Preparation,
        newest: Option<&Run>,
    ) -> Result<Self> {
        Self::at(host, socket, saved(store, prepared, newest)?, newest)
    }

    /// The place of a session that was in tmux, by its checkpoint or its newest run; none for any other.
    pub fn of(
        store: &Store,
        host: &dyn Host,
        socket: Option<&Path>,
        prepared: &Preparation,
        newest: Option<&Run>,
    ) -> Result<Option<Self>> {
        match saved(store, prepared, newest)? {
            None if newest.is_none_or(|run| run.tmux.is_none()) => Ok(None),
            saved => Self::at(host, socket, saved, newest).map(Some),
        }
    }

    fn at(host: &dyn Host, socket: Option<&Path>, saved: Option<SavedTmux>, newest: Option<&Run>) -> Result<Self> {
        let was_there = newest.and_then(|run| run.tmux.as_ref()).map(|tmux| tmux.socket.as_str());
        let earlier = saved.as_ref().map(|saved| saved.state.socket.as_str()).or(was_there);
        let server = server(host, socket, earlier)?;
        server.is_running()?;
        Ok(TmuxPlace { server, saved })
    }

    /// Makes a tmux session of this name, with windows and panes as they were, and `command` in the agent's pane. Every other pane has a shell:
    /// what ran there is not started again. Texts of panes are written into `folder`. Returns the agent's pane.
    pub fn make(
        &self,
        store: &Store,
        host: &dyn Host,
        prepared: &Preparation,
        name: &str,
        (command, folder): (&[OsString], &Path),
        observer: &dyn Observer,
    ) -> Result<String> {
        let Some(saved) = &self.saved else {
            let mut made = None;
            host.with_own_limits(&mut || made = Some(self.server.new_session(name, &prepared.workspace, command)));
            return Ok(made.transpose()?.unwrap_or_default());
        };
        if self.server.is_running()? && self.server.has_session(&saved.state.session)? {
            observer.warn(&Notice::TmuxLeft { name: saved.state.session.clone() });
        }
        saved.write_texts(store, folder)?;
        let environment = prepared.environment(host);
        let request = RestoreRequest {
            name,
            folder: &prepared.workspace,
            environment: &environment,
            command: &|pane| (pane.id == saved.agent_pane).then(|| command.to_vec()),
            scrollback: &|pane| -> Option<PathBuf> { saved.text_file(folder, pane) },
        };
        // This call may start the tmux server, which gets the caller's limits.
        let mut made: Option<parhelia_agent::Result<RestoredSession>> = None;
        host.with_own_limits(&mut || made = Some(restore(&self.server, &saved.state, &request)));
        let restored = made.transpose()?.unwrap_or_default();
        for note in &restored.notes {
            observer.warn(&Notice::TmuxNote { text: note.clone() });
        }
        Ok(restored.pane(&saved.agent_pane).unwrap_or_default().to_owned())
    }
}

/// The windows and panes of a resumed session, by its checkpoint; none where it was not in tmux.
fn saved(store: &Store, prepared: &Preparation, newest: Option<&Run>) -> Result<Option<SavedTmux>> {
    let was_in_tmux = newest.is_some_and(|run| run.tmux.is_some());
    match &prepared.choice.checkpoint {
        Some(checkpoint) => saved_tmux(store, checkpoint, was_in_tmux),
        None => Ok(None),
    }
}
