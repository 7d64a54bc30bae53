//! The summary of a session's head as a file in the store's folder, `sessions/<session>/summary.md`, for people who open it.
//!
//! It repeats what the head has, and is no part of the store: it may be deleted at any time, and is written again at the next checkpoint.

use std::{
    ffi::OsStr,
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
};

use parhelia_store::{
    Store,
    files::{self, Folder, How},
    id::OpId,
    name::session_file,
    record::Checkpoint,
};

use super::{MARKDOWN_FILE, Summary, markdown, model, read, read_markdown};
use crate::{
    error::{IoContext, Result},
    host::Observer,
    notice::Notice,
};

/// No summary is longer, in bytes.
const BYTES_MAX: u64 = 1 << 20;

fn sessions(store: &Store) -> PathBuf {
    store.path().join("sessions")
}

/// The folder of a session.
pub(super) fn folder(store: &Store, session: &str) -> PathBuf {
    sessions(store).join(&*session_file(session))
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
        Some(text) => write(store, session, &path, text.as_bytes()).at("write", &path),
        None => remove(&path).at("remove", &path),
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
    let folder = sessions(store);
    let names = match Folder::below(&folder).and_then(|folder| folder.names()) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        names => names.at("list", &folder)?,
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

/// Makes the folder of a session.
pub(super) fn make_folder(store: &Store, session: &str) -> io::Result<()> {
    let folder = sessions(store);
    files::make_folder(&folder)?;
    Folder::below(&folder)?.make_folder(OsStr::new(&*session_file(session)))
}

/// Replaces a file in the folder of a session.
pub(super) fn write(store: &Store, session: &str, path: &Path, text: &[u8]) -> io::Result<()> {
    let is_there = files::open(path, How::Read).and_then(|file| files::read_all(&file, BYTES_MAX));
    if is_there.is_ok_and(|bytes| bytes == text) {
        return Ok(());
    }
    make_folder(store, session)?;
    let temporary = path.with_extension(format!("{}.tmp", OpId::generate()));
    let mut out = files::open(&temporary, How::New)?;
    let placed = out.write_all(text).and_then(|()| fs::rename(&temporary, path));
    if placed.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    placed
}

fn remove(path: &Path) -> io::Result<()> {
    match files::remove(path) {
        Ok(()) => path.parent().map_or(Ok(()), |folder| match fs::remove_dir(folder) {
            Err(e) if !matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::DirectoryNotEmpty) => Err(e),
            _ => Ok(()),
        }),
        Err(e) => Err(e),
    }
}
