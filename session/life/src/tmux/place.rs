//! The tmux session in which a session is to live.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use parhelia_agent::tmux::{RestoreRequest, Restored, Server, restore};
use parhelia_ledger::{Run, Tmux};
use parhelia_store::Store;

use super::{SavedTmux, saved_tmux};
use crate::resume::Prepared;
use parhelia_host::{Host, Observer, Result, notice::Notice};

/// The pane in which something of a session runs.
#[derive(Clone, Copy)]
pub struct Pane<'a> {
    /// The tmux server.
    pub server: &'a Server,
    /// The tmux session.
    pub session: &'a str,
    /// The pane, such as `%3`.
    pub id: &'a str,
}

impl Pane<'_> {
    /// The pane, as a run has it.
    pub fn tmux(&self) -> Result<Tmux> {
        let socket = self.server.ask(["display-message", "-p", "-t", self.id, "#{socket_path}"])?;
        Ok(Tmux { socket, pane: self.id.to_owned() })
    }
}

/// The place in tmux where a session is to live again.
pub struct TmuxPlace {
    /// The tmux server.
    pub server: Server,
    /// Its windows and panes of then; none for a new window.
    pub saved: Option<SavedTmux>,
}

/// The windows and panes of a resumed session, by its checkpoint; none where it was not in tmux. With `was_in_tmux`, also of a run that was.
pub fn place(store: &Store, prepared: &Prepared, newest: Option<&Run>) -> Result<Option<SavedTmux>> {
    let was_in_tmux = newest.is_some_and(|run| run.tmux.is_some());
    match &prepared.choice.checkpoint {
        Some(checkpoint) => saved_tmux(store, checkpoint, was_in_tmux),
        None => Ok(None),
    }
}

impl TmuxPlace {
    /// Makes a tmux session of this name, with windows and panes as they were, and `command` in the agent's pane. Every other pane has a shell:
    /// what ran there is not started again. Texts of panes are written into `folder`. Returns the agent's pane.
    pub fn make(
        &self,
        store: &Store,
        host: &dyn Host,
        prepared: &Prepared,
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
        let mut made: Option<parhelia_agent::Result<Restored>> = None;
        host.with_own_limits(&mut || made = Some(restore(&self.server, &saved.state, &request)));
        let restored = made.transpose()?.unwrap_or_default();
        for note in &restored.notes {
            observer.warn(&Notice::TmuxNote { text: note.clone() });
        }
        Ok(restored.pane(&saved.agent_pane).unwrap_or_default().to_owned())
    }
}
