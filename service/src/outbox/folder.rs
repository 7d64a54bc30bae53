//! The folder of the outbox: a file for each delivery, and one that says up to which event there are some.

use parhelia_store::name::step::Step;
use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io::{self, ErrorKind},
    path::{Path, PathBuf},
};

use jiff::{SignedDuration, Timestamp};
use parhelia_store::{
    Store, clock,
    files::{self, How},
    name::NameExt as _,
};
use parhelia_wire::notification::Delivery;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{
    Result,
    reserve::{self, is_full, with_room},
};
use crate::notify::DeliveryHistory;

/// An error of the outbox.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file of it cannot be used.
    #[error("cannot {action} {}: {source}", path.shown())]
    File {
        /// The action that failed, as an infinitive.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// There is no such delivery.
    #[error("there is no delivery '{id}'; {} names all", Step::Deliveries)]
    Unknown {
        /// The id that was given.
        id: String,
    },
    /// The session or the store said so.
    #[error(transparent)]
    Session(#[from] parhelia_host::Error),
}

impl From<parhelia_store::Error> for Error {
    fn from(error: parhelia_store::Error) -> Self {
        Error::Session(error.into())
    }
}

/// The state of the outbox, beside what waits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// Sequence of the last event that deliveries were made of.
    pub cursor: u64,
    /// Of each channel, event and session the time of the last delivery, and how many of the same were passed over since.
    #[serde(default)]
    pub told: DeliveryHistory,
}

/// The time for which it is waited for somebody who wants the outbox; they say so more often.
const WANTED: SignedDuration = SignedDuration::from_secs(20);

/// The folder's name in the store's.
const FOLDER: &str = "outbox";
/// The folder of deliveries in it.
const WAITING: &str = "outbox/deliveries";
/// The file of the state.
const STATE: &str = "state.json";
/// The file by which the outbox is wanted.
const WANTED_FILE: &str = "wanted";
/// No file is longer, in bytes.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// The folder, by its store's.
#[derive(Clone, Debug)]
pub struct Folder(PathBuf);

/// Held by the process that delivers.
#[derive(Debug)]
pub struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}

impl Folder {
    /// That of a store.
    pub fn of(store: &Store) -> Self {
        Folder(store.path().to_owned())
    }

    fn path(&self, below: &str) -> PathBuf {
        self.0.join(FOLDER).join(below)
    }

    /// The folder, or the one of deliveries in it.
    fn opened(&self, below: &str) -> Result<files::Folder> {
        files::Folder::inside(&self.0, below).map_err(failed("open folder", &self.0.join(below)))
    }

    /// Takes the lock; none where another process has it. Makes the folder.
    pub fn lock(&self) -> Result<Option<Lock>> {
        files::Folder::made_inside(&self.0, WAITING).map_err(failed("create folder", &self.0.join(WAITING)))?;
        let path = self.path("lock");
        let file = self.opened(FOLDER)?.open(OsStr::new("lock"), How::Make).map_err(failed("open", &path))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Lock(file))),
            Err(e) if e == rustix::io::Errno::WOULDBLOCK => Ok(None),
            Err(e) => Err(failed("lock", &path)(e.into())),
        }
    }

    /// Reserves space for deliveries, where there is enough; `free` is the free space in bytes.
    pub fn keep_room(&self, free: Option<u64>) {
        let _ = self.opened(FOLDER).map(|folder| reserve::keep(&folder, free));
    }

    /// The folder itself, as an error of the system.
    fn outbox(&self) -> io::Result<files::Folder> {
        files::Folder::inside(&self.0, FOLDER)
    }

    /// Leaves word for who has the lock that it is wanted.
    pub fn want(&self) -> Result<()> {
        let text = clock::timestamp().to_string();
        let write = |file: &mut File| io::Write::write_all(file, text.as_bytes());
        self.opened(FOLDER)?.replace(OsStr::new(WANTED_FILE), write).map_err(failed("write", &self.path(WANTED_FILE)))
    }

    /// True if somebody has left such word a moment ago. Who did so earlier is gone.
    pub fn is_wanted(&self) -> bool {
        let bytes = self.opened(FOLDER).map(|folder| folder.read(OsStr::new(WANTED_FILE), 100).unwrap_or_default());
        let left = bytes.ok().and_then(|bytes| String::from_utf8(bytes).ok()?.parse::<Timestamp>().ok());
        left.is_some_and(|left| clock::timestamp().duration_since(left).abs() < WANTED)
    }

    /// Takes the word back, by who has the lock now.
    pub fn is_had(&self) {
        let _ = self.opened(FOLDER).map(|folder| folder.remove(OsStr::new(WANTED_FILE)));
    }

    /// The state; none before the first round.
    pub fn state(&self) -> Result<Option<State>> {
        self.read(FOLDER, OsStr::new(STATE))
    }

    /// Writes the state durably, in place of the one before.
    pub fn set_state(&self, state: &State) -> Result<()> {
        self.write(FOLDER, OsStr::new(STATE), state)
    }

    /// All deliveries, oldest first. A file that is none, or cannot be read, is passed over.
    pub fn list(&self) -> Result<Vec<Delivery>> {
        let folder = match files::Folder::inside(&self.0, WAITING) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            folder => folder.map_err(failed("open folder", &self.0.join(WAITING)))?,
        };
        let names = folder.names().map_err(failed("list", &self.0.join(WAITING)))?;
        let found = names.into_iter().filter_map(|name| {
            let name = String::from_utf8(name).ok()?;
            let id = name.strip_suffix(".json")?;
            // Somebody may have put a folder or a pipe there.
            let delivery: Delivery = self.read(WAITING, OsStr::new(&name)).ok().flatten()?;
            // It is changed and removed by its file's name.
            (delivery.id == id).then_some(delivery)
        });
        Ok(found.collect())
    }

    /// Writes deliveries, and the state that says so, so that they are there after a power cut: all or none, if the disk lets it. One that is there is
    /// left as it is: it may have been tried already.
    pub fn add(&self, deliveries: &[Delivery], state: &State) -> Result<()> {
        let mut added = Vec::new();
        let written = self.changing(|| {
            for delivery in deliveries {
                let name = file_name(&delivery.id)?;
                if self.opened(WAITING)?.stat(&name).is_err() {
                    added.push(name.clone());
                    self.write(WAITING, &name, delivery)?;
                }
            }
            self.set_state(state)
        });
        if written.is_err() {
            added.iter().for_each(|name| drop(self.opened(WAITING).map(|folder| folder.remove(name))));
        }
        written
    }

    /// Makes sure that deliveries can be changed: one that is sent and cannot be removed would be sent again and again.
    pub fn ensure_changeable(&self) -> Result<()> {
        let (folder, name) = (self.opened(WAITING)?, OsStr::new("writable.tmp"));
        let write = |bytes: &[u8]| folder.replace(name, |file| io::Write::write_all(file, bytes));
        // Where the room is gone as well, what is sent can still be removed, which needs none.
        let written = with_room(|| self.outbox(), || write(&[0])).or_else(|e| if is_full(&e) { write(&[]) } else { Err(e) });
        let written = written.and_then(|()| folder.remove(name));
        written.map_err(failed("write into", &self.0.join(WAITING)))
    }

    /// Changes a delivery, or, where `change` returns none, removes it. One that somebody has removed meanwhile stays so. No two processes change
    /// one at a time.
    pub fn change(&self, id: &str, change: impl FnOnce(Delivery) -> Option<Delivery>) -> Result<()> {
        let name = file_name(id)?;
        self.changing(|| match self.read::<Delivery>(WAITING, &name)?.map(change) {
            None => Ok(()),
            Some(Some(delivery)) => self.write(WAITING, &name, &delivery),
            Some(None) => self.opened(WAITING)?.remove(&name).map_err(failed("remove", &self.0.join(WAITING).join(&name))),
        })
    }

    /// Does something while nobody else changes deliveries.
    fn changing(&self, work: impl FnOnce() -> Result<()>) -> Result<()> {
        let lock = self.path("changes.lock");
        let file = self.opened(FOLDER)?.open(OsStr::new("changes.lock"), How::Make).map_err(failed("open", &lock))?;
        flock(&file, FlockOperation::LockExclusive).map_err(|e| failed("lock", &lock)(e.into()))?;
        let done = work();
        let _ = flock(&file, FlockOperation::Unlock);
        done
    }

    /// The content of a file; none where it is not there, or holds something else.
    fn read<T: DeserializeOwned>(&self, below: &str, name: &OsStr) -> Result<Option<T>> {
        let folder = match files::Folder::inside(&self.0, below) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            folder => folder.map_err(failed("open folder", &self.0.join(below)))?,
        };
        match folder.read(name, FILE_BYTES_MAX) {
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
            read => Ok(serde_json::from_slice(&read.map_err(failed("read", &self.0.join(below).join(name)))?).ok()),
        }
    }

    /// Replaces a file, durably.
    fn write<T: Serialize>(&self, below: &str, name: &OsStr, value: &T) -> Result<()> {
        let failed = failed("write", &self.0.join(below).join(name));
        let bytes = serde_json::to_vec(value).map_err(io::Error::from);
        let folder = self.opened(below)?;
        let write = |bytes: Vec<u8>| with_room(|| self.outbox(), || folder.write_synced(name, &bytes, false));
        bytes.and_then(write).map_err(failed)
    }
}

/// The file of a delivery. An id may come from anywhere, and leads nowhere else.
fn file_name(id: &str) -> Result<OsString> {
    match id.is_empty() || id.starts_with('.') || id.contains('/') {
        true => Err(Error::Unknown { id: id.to_owned() }),
        false => Ok(format!("{id}.json").into()),
    }
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error + use<> {
    let path = path.to_owned();
    move |source| Error::File { action, path, source }
}
