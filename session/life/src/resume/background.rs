//! Resuming a session in tmux, in the background, where nobody looks on.

use std::path::Path;

use parhelia_host::{Host, Observer, Refusal, Result, run};
use parhelia_ledger::{LedgerView as _, Status};
use parhelia_store::Store;

use super::{Alive, Consent, PendingResume, Resume, ResumeRequest, consent, if_alive};
use crate::{
    prompt,
    tmux::{InTmux, TmuxPlace},
};

/// The result of a resume in the background.
pub enum Background {
    /// It was alive already, and nothing was done.
    Alive(Box<Alive>),
    /// Its agent was started.
    Started(Box<PendingResume>, Box<InTmux>),
}

/// Resumes a session in a tmux session of its own, and waits until its agent lives. Nobody is asked, so that what would need that is refused.
pub fn in_background(
    store: &Store,
    host: &dyn Host,
    session: &str,
    request: &ResumeRequest,
    socket: Option<&Path>,
    observer: &dyn Observer,
) -> Result<Background> {
    request.prompt.as_deref().map(prompt::check).transpose()?;
    let session = store.refresh()?.session_named(session)?;
    if session.status == Status::Ended {
        return Err(Refusal::HasEnded { session: session.id }.into());
    }
    if let Some(alive) = if_alive(store, host, &session, request)? {
        return Ok(Background::Alive(Box::new(alive)));
    }
    let (newest, commands) = (store.view().newest_run(&session)?, run::commands_of(store, &session)?);
    if let Consent::RunAgain(_) = consent(&session, commands.own.as_ref(), request, false)? {
        return Err(Refusal::HasFinished { session: session.id }.into());
    }
    let resume = Resume::plan(store, host, session, request, observer)?;
    let place = TmuxPlace::wanted(store, host, socket, resume.prepared(), newest.as_ref())?;
    let begun = resume.begin(store, host, request, None, observer)?;
    let started = begun.start_in_tmux(store, host, &place, request, observer)?;
    Ok(Background::Started(Box::new(begun), Box::new(started)))
}
