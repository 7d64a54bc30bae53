//! The summary of a session's head as a file in the store's folder, `sessions/<session>/summary.md`, for people who open it.
//!
//! It repeats what the head has, and is no part of the store: it may be deleted at any time, and is written again at the next checkpoint.

use std::{
    ffi::OsStr,
    io::{self, Write},
    path::{Path, PathBuf},
};

use parhelia_ledger::LedgerView as _;
use parhelia_store::{Store, files::Folder, name::session_file, record::Checkpoint};

use super::{MARKDOWN_FILE, Summary, markdown, model, read, read_markdown};
use parhelia_host::{Observer, Result, error::IoContext, notice::Notice};

/// No summary is longer, in bytes.
const BYTES_MAX: u64 = 1 << 20;

/// The folder of the sessions' folders in the store's.
const FOLDER: &str = "sessions";

/// The path of a session's folder from the store's.
fn below(session: &str) -> PathBuf {
    Path::new(FOLDER).join(&*session_file(session))
}

/// The folder of a session.
pub(super) fn folder(store: &Store, session: &str) -> PathBuf {
    store.path().join(below(session))
}

/// The file of a session.
pub fn path(store: &Store, session: &str) -> PathBuf {
    folder(store, session).join(MARKDOWN_FILE)
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
        Some(text) => write(store, session, MARKDOWN_FILE, text.as_bytes()).at("write", &path),
        None => remove(store, session, MARKDOWN_FILE).at("remove", &path),
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
    let names = match Folder::inside(store.path(), FOLDER).and_then(|folder| folder.names()) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        names => names.at("list", &store.path().join(FOLDER))?,
    };
    store.refresh()?;
    let known = store.view().sessions()?;
    for session in &known {
        if names.iter().any(|name| name == session_file(&session.id).as_bytes()) {
            renew(store, &session.id, observer);
        }
    }
    Ok(())
}

/// The open folder of a session, which is made where it is missing.
pub(super) fn made(store: &Store, session: &str) -> io::Result<Folder> {
    Folder::made_inside(store.path(), below(session))
}

/// Reads a file in the folder of a session.
pub(super) fn read_file(store: &Store, session: &str, name: &str, bytes_max: u64) -> io::Result<Vec<u8>> {
    Folder::inside(store.path(), below(session))?.read(OsStr::new(name), bytes_max)
}

/// Replaces a file in the folder of a session.
pub(super) fn write(store: &Store, session: &str, name: &str, text: &[u8]) -> io::Result<()> {
    if read_file(store, session, name, BYTES_MAX).is_ok_and(|bytes| bytes == text) {
        return Ok(());
    }
    made(store, session)?.replace(OsStr::new(name), |file| file.write_all(text))
}

/// Removes a file in the folder of a session, and the folder once it is empty. A missing one is fine.
pub(super) fn remove(store: &Store, session: &str, name: &str) -> io::Result<()> {
    let is_fine = |e: &io::Error| matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::DirectoryNotEmpty);
    let removed = Folder::inside(store.path(), below(session)).and_then(|folder| folder.remove(OsStr::new(name)));
    let all = match removed {
        Err(e) if !is_fine(&e) => return Err(e),
        _ => Folder::inside(store.path(), FOLDER),
    };
    match all.and_then(|all| all.remove_folder(OsStr::new(&*session_file(session)))) {
        Err(e) if !is_fine(&e) => Err(e),
        _ => Ok(()),
    }
}
