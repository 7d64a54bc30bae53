//! The last time that a model was asked about a session, and the lock of whoever asks. One file is both.

use std::{
    ffi::OsStr,
    fs::File,
    io::{self, Seek, Write},
    path::PathBuf,
};

use jiff::Timestamp;
use parhelia_store::{Store, files::How, id::Ulid};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use super::folder;
use parhelia_host::{Result, error::IoContext};

/// The file's name.
const FILE: &str = "model-summary.lock";
/// A longer file is none of ours, in bytes.
const BYTES_MAX: u64 = 4 << 10;

/// A time at which a model was asked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Attempt {
    /// The checkpoint that it was asked about.
    pub checkpoint: Option<Ulid>,
    /// The time.
    pub at: Option<Timestamp>,
    /// The hash of the last text that was answered.
    pub answered: Option<String>,
}

fn path(store: &Store, session: &str) -> PathBuf {
    folder::path(store, session).join(FILE)
}

/// The last attempt; none where there was none, or the file is torn.
pub fn last(store: &Store, session: &str) -> Option<Attempt> {
    let bytes = folder::read_file(store, session, FILE, BYTES_MAX).ok()?;
    serde_json::from_slice(&bytes).ok()
}

/// Removes the file.
pub fn forget(store: &Store, session: &str) -> Result<()> {
    folder::remove(store, session, FILE).at("remove", &path(store, session))
}

/// Held by the process that asks about a session. The kernel lets go of it for a process that dies.
#[derive(Debug)]
pub struct Turn {
    file: File,
    path: PathBuf,
}

impl Turn {
    /// Takes the turn; none where another process has it.
    pub fn take(store: &Store, session: &str) -> Result<Option<Self>> {
        let path = path(store, session);
        let made = folder::made(store, session).and_then(|folder| folder.open(OsStr::new(FILE), How::Make));
        let file = made.at("open", &path)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Turn { file, path })),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(e) => Err(io::Error::from(e)).at("lock", &path),
        }
    }

    /// Records an attempt, in place of the one before.
    pub fn note(&mut self, attempt: &Attempt) -> Result<()> {
        let bytes = serde_json::to_vec(attempt).unwrap_or_default();
        let written = self.file.set_len(0).and_then(|()| self.file.rewind()).and_then(|()| self.file.write_all(&bytes));
        written.at("write", &self.path)
    }
}
