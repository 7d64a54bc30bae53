//! The log of hooks: they note there what went wrong, as nobody reads what they print.

#![expect(clippy::disallowed_methods, reason = "the log is in the user's state folder")]

use parhelia_host::{Error, Observer, notice::Notice};
use parhelia_store::{clock, progress::Progress};
use std::{
    fs::{self, File},
    io::Write,
    os::unix::fs::OpenOptionsExt,
    path::PathBuf,
};

use crate::words;

/// A longer log is begun anew; the one before is kept.
const BYTES_MAX: u64 = 1 << 20;

/// The log's path: `parhelia/hook.log` in the user's state folder.
pub fn path() -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".local/state")))?;
    Some(state.join("parhelia/hook.log"))
}

/// The log, open for appending. It must not matter whether there is one.
pub fn open() -> Option<File> {
    let path = path()?;
    fs::create_dir_all(path.parent()?).ok()?;
    if fs::metadata(&path).is_ok_and(|metadata| metadata.len() > BYTES_MAX) {
        let _ = fs::rename(&path, path.with_extension("log.1"));
    }
    File::options().append(true).create(true).mode(0o600).open(&path).ok()
}

/// Warnings of a workflow as lines that begin with the event's name.
pub struct Log<'a>(pub &'a str);

impl Progress for Log<'_> {
    fn warning(&self, text: &str) {
        line(&format!("{}: {text}", self.0));
    }
}

impl Observer for Log<'_> {
    fn warn(&self, notice: &Notice) {
        line(&format!("{}: {}", self.0, words::notice(notice)));
    }

    fn explain(&self, error: &Error) -> String {
        words::error(error)
    }
}

/// Appends a line with time and process id; newlines in the text become blanks.
pub fn line(text: &str) {
    if let Some(mut log) = open() {
        let text = text.replace('\n', " ");
        let _ = writeln!(log, "{} [{}] {text}", clock::timestamp(), std::process::id());
    }
}
