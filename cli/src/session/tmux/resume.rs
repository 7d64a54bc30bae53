//! `session resume` of a session that was in tmux: its windows and panes again, and the agent where it was.

use std::ffi::OsString;

use parhelia_agent::tmux::session_name;
use parhelia_ledger::Run;
use parhelia_life::{resume::Prepared, tmux};
use parhelia_store::{Store, clock};
use parhelia_wire::summary::Ended;

use super::{Flags, Pane, TmuxPlace, go, handover::Handover, own_words};
use crate::{
    context::Context,
    exit::{Failure, Result},
    session::tmux::tmux_here,
};

/// Finds out whether a session is to live in a tmux session of its own: because it did, or because it shall. Fails where tmux cannot be run.
pub fn place(
    store: &Store,
    flags: &Flags,
    no_tmux: bool,
    prepared: &Prepared,
    newest: Option<&Run>,
) -> Result<Option<TmuxPlace>> {
    if no_tmux || tmux_here().is_some() && !flags.tmux {
        return Ok(None);
    }
    let was_in_tmux = newest.is_some_and(|run| run.tmux.is_some());
    let saved = tmux::place(store, prepared, newest)?;
    if saved.is_none() && !flags.tmux && !was_in_tmux {
        return match flags.detach {
            true => Err(Failure::Usage("the session was not in tmux; --detach needs --tmux then".into())),
            false => Ok(None),
        };
    }
    let earlier = newest.and_then(|run| run.tmux.as_ref()).map(|tmux| tmux.socket.as_str());
    let server = flags.server(saved.as_ref().map(|saved| saved.state.socket.as_str()).or(earlier))?;
    server.is_running()?;
    Ok(Some(TmuxPlace { server, saved }))
}

/// Makes the tmux session, and lets the process in the agent's pane go on with a prompt and arguments (what stands behind `session resume`).
pub fn resume(
    context: &mut Context,
    store: &Store,
    flags: &Flags,
    place: &TmuxPlace,
    prepared: &Prepared,
    (prompt, arguments): (Option<&str>, &[OsString]),
) -> Result<Ended> {
    let mut words = own_words(context)?;
    words.extend(["session", "resume"].map(OsString::from));
    let handover = Handover::new(words, prompt, arguments)?;
    let session = place.server.free_name(&session_name(&prepared.session.name, clock::timestamp()))?;
    let (command, host) = (handover.command()?, context.host()?);
    let id = place.make(store, &host, prepared, &session, (&command, handover.folder()), &context.progress())?;
    let pane = Pane { server: &place.server, session: &session, id: &id };
    let config = prepared.config.as_ref().map(|config| config.path.clone());
    go(context, store, flags, pane, handover, (prepared.agent.as_ref(), config))
}
