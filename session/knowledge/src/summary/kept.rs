//! The summary of a session's head as a file in the store's folder, `sessions/<session>/summary.md`, for people who open it.
//!
//! It repeats what the head has, and is no part of the store: it may be deleted at any time, and is written again at the next checkpoint.

use std::{io, path::PathBuf};

use parhelia_ledger::LedgerView as _;
use parhelia_store::{Store, files::Folder, name::session_file, record::Checkpoint};

use super::{MARKDOWN_FILE, Summary, folder, markdown, model, read, read_markdown};
use parhelia_host::{Observer, Result, error::IoContext, notice::Notice};

/// The file of a session.
pub fn path(store: &Store, session: &str) -> PathBuf {
    folder::path(store, session).join(MARKDOWN_FILE)
}

/// Brings the file of a session up to date: its head's summary, or none where that has none. It is only a copy, so a failure is told and
/// stops nothing.
pub fn renew(store: &Store, session: &str, observer: &dyn Observer) {
    if let Err(e) = try_renew(store, session) {
        observer.warn(&Notice::NotRecorded { what: "the session's summary.md is not up to date", why: e.to_string() });
    }
}

fn try_renew(store: &Store, session: &str) -> Result<()> {
    let head = store.view().head(session)?;
    let text = head.map(|head| text(store, &head)).transpose()?.flatten();
    model::forget_deleted(store, session, text.is_some())?;
    let path = path(store, session);
    match text {
        Some(text) => folder::write(store, session, MARKDOWN_FILE, text.as_bytes()).at("write", &path),
        None => folder::remove(store, session, MARKDOWN_FILE).at("remove", &path),
    }
}

/// The summary of a checkpoint, with what a model has made of it since.
fn text(store: &Store, head: &Checkpoint) -> Result<Option<String>> {
    let Some(summary) = read(store, head)? else { return Ok(None) };
    match model::of(store, head, summary.model.clone())? {
        model if model == summary.model => read_markdown(store, head),
        model => Ok(Some(markdown(&Summary { model, ..summary }))),
    }
}

/// Brings the files of all sessions up to date, after checkpoints were deleted: nothing of these is left there.
pub fn forget_deleted(store: &Store, observer: &dyn Observer) -> Result<()> {
    let names = match Folder::inside(store.path(), folder::FOLDER).and_then(|folder| folder.names()) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        names => names.at("list", &store.path().join(folder::FOLDER))?,
    };
    store.refresh()?;
    let known = store.view().all_sessions()?;
    for session in &known {
        if names.iter().any(|name| name == session_file(&session.id).as_bytes()) {
            renew(store, &session.id, observer);
        }
    }
    Ok(())
}
