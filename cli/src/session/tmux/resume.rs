//! `session resume` of a session that was in tmux: its windows and panes again, and the agent where it was.

use std::ffi::OsString;

use parhelia_agent::tmux::{Restored, Server, Wanted, restore, session_name};
use parhelia_session::resume::{SavedTmux, saved_tmux};
use parhelia_store::{Store, clock, fold::Run};

use super::{Flags, Pane, go, handover::Handover, own_words};
use crate::{
    context::Context,
    exit::{Code, Failure, Result},
    limits,
    session::resume::Prepared,
};

/// Where a session is to live again.
pub struct Place {
    server: Server,
    /// What it looked like; none for a new window.
    saved: Option<SavedTmux>,
}

/// Finds out whether a session is to live in a tmux session of its own: because it did, or because it shall. Fails where tmux cannot be run.
pub fn place(store: &Store, flags: &Flags, no_tmux: bool, prepared: &Prepared, last: Option<&Run>) -> Result<Option<Place>> {
    let is_inside = super::super::supervise::tmux_here().is_some();
    if no_tmux || is_inside && !flags.tmux {
        return Ok(None);
    }
    let was_in_tmux = last.is_some_and(|run| run.tmux.is_some());
    let saved = match &prepared.choice.checkpoint {
        Some(checkpoint) => saved_tmux(store, checkpoint, was_in_tmux)?,
        None => None,
    };
    if saved.is_none() && !flags.tmux && !was_in_tmux {
        return match flags.detach {
            true => Err(Failure::Usage("the session was not in tmux; --detach needs --tmux then".into())),
            false => Ok(None),
        };
    }
    let earlier = last.and_then(|run| run.tmux.as_ref()).map(|tmux| tmux.socket.as_str());
    let server = flags.server(saved.as_ref().map(|saved| saved.state.socket.as_str()).or(earlier))?;
    server.is_running()?;
    Ok(Some(Place { server, saved }))
}

/// Makes the tmux session, and lets the process in the agent's pane go on with `arguments` (what stands behind `session resume`).
pub fn resume(
    context: &mut Context,
    store: &Store,
    flags: &Flags,
    place: &Place,
    prepared: &Prepared,
    arguments: &[OsString],
) -> Result<Code> {
    let mut words = own_words(context)?;
    words.extend(["session", "resume"].map(OsString::from));
    words.extend_from_slice(arguments);
    let handover = Handover::new(&words)?;
    let session = place.server.free_name(&session_name(&prepared.session.name, clock::timestamp()))?;
    let id = match &place.saved {
        Some(saved) => {
            if place.server.is_running()? && place.server.has_session(&saved.state.session)? {
                tell!("parhelia: tmux session {} is still there, and was left alone", saved.state.session);
            }
            let restored = again(store, place, saved, prepared, &handover, &session)?;
            for note in &restored.notes {
                tell!("parhelia: {note}");
            }
            restored.pane(&saved.agent_pane).unwrap_or_default().to_owned()
        }
        None => {
            let command = handover.command()?;
            limits::for_others(|| place.server.new_session(&session, &prepared.workspace, &command))?
        }
    };
    let pane = Pane { server: &place.server, session: &session, id: &id };
    let config = prepared.config.as_ref().map(|config| config.path.clone());
    go(context, store, flags, pane, handover, (prepared.agent.as_ref(), config))
}

/// Windows and panes as they were. But for the agent's, every pane has a shell: what ran there is not started again.
fn again(
    store: &Store,
    place: &Place,
    saved: &SavedTmux,
    prepared: &Prepared,
    handover: &Handover,
    session: &str,
) -> Result<Restored> {
    saved.write_texts(store, handover.folder())?;
    let environment = prepared.environment();
    let command = handover.command()?;
    let wanted = Wanted {
        name: session,
        folder: &prepared.workspace,
        environment: &environment,
        command: &|pane| (pane.id == saved.agent_pane).then(|| command.clone()),
        scrollback: &|pane| saved.text_file(handover.folder(), pane),
    };
    // It may be what starts the server.
    Ok(limits::for_others(|| restore(&place.server, &saved.state, &wanted))?)
}
