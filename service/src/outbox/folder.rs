//! The folder of the outbox: a file for each delivery, and one that says up to which event there are some.

use std::{
    collections::BTreeMap,
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, ErrorKind, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use jiff::{SignedDuration, Timestamp};
use parhelia_store::{Store, clock, name::Shown as _};
use parhelia_wire::notification::Delivery;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::Result;

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
    #[error("there is no delivery '{id}'; `parhelia outbox list` names all")]
    Unknown {
        /// The id.
        id: String,
    },
    /// The session or the store said so.
    #[error(transparent)]
    Session(#[from] parhelia_session::Error),
}

impl From<parhelia_store::Error> for Error {
    fn from(error: parhelia_store::Error) -> Self {
        Error::Session(error.into())
    }
}

/// The time of the last delivery of a kind, and how many of the same were passed over since.
pub type Told = BTreeMap<String, (Timestamp, u64)>;

/// The state of the outbox, beside what waits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// Sequence of the last event that deliveries were made of.
    pub cursor: u64,
    /// Of each channel, event and session the time of the last delivery, and how many of the same were passed over since.
    #[serde(default)]
    pub told: Told,
}

/// The time for which it is waited for somebody who wants the outbox; they say so more often.
const WANTED: SignedDuration = SignedDuration::from_secs(20);

/// The folder.
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
        Folder(store.path().join("outbox"))
    }

    fn waiting(&self) -> PathBuf {
        self.0.join("deliveries")
    }

    fn state_file(&self) -> PathBuf {
        self.0.join("state.json")
    }

    fn file(&self, id: &str) -> PathBuf {
        self.waiting().join(format!("{id}.json"))
    }

    /// Takes the lock; none where another process has it. Makes the folder.
    pub fn lock(&self) -> Result<Option<Lock>> {
        let folder = self.waiting();
        DirBuilder::new().recursive(true).mode(0o700).create(&folder).map_err(failed("create folder", &folder))?;
        let path = self.0.join("lock");
        let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path);
        let file = file.map_err(failed("open", &path))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Lock(file))),
            Err(e) if e == rustix::io::Errno::WOULDBLOCK => Ok(None),
            Err(e) => Err(failed("lock", &path)(e.into())),
        }
    }

    fn wanted(&self) -> PathBuf {
        self.0.join("wanted")
    }

    /// Leaves word for who has the lock that it is wanted.
    pub fn want(&self) -> Result<()> {
        let path = self.wanted();
        fs::write(&path, clock::timestamp().to_string()).map_err(failed("write", &path))
    }

    /// True if somebody has left such word a moment ago. Who did so earlier is gone.
    pub fn is_wanted(&self) -> bool {
        let left = fs::read_to_string(self.wanted()).ok().and_then(|text| text.parse::<Timestamp>().ok());
        left.is_some_and(|left| clock::timestamp().duration_since(left).abs() < WANTED)
    }

    /// Takes the word back, by who has the lock now.
    pub fn is_had(&self) {
        let _ = fs::remove_file(self.wanted());
    }

    /// The state; none before the first round.
    pub fn state(&self) -> Result<Option<State>> {
        read(&self.state_file())
    }

    /// Writes the state.
    pub fn set_state(&self, state: &State) -> Result<()> {
        write(&self.state_file(), state)?;
        sync(&self.0)
    }

    /// All deliveries, oldest first. A file that is none, or cannot be read, is passed over.
    pub fn list(&self) -> Result<Vec<Delivery>> {
        let folder = self.waiting();
        let entries = match fs::read_dir(&folder) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(failed("list", &folder))?,
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(failed("list", &folder))?;
            // Somebody may have put a folder or a pipe there.
            let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
            let path = entry.path();
            if is_file && path.extension().is_some_and(|extension| extension == "json") {
                names.push(path);
            }
        }
        names.sort();
        let named = |path: &PathBuf| {
            let delivery: Option<Delivery> = read(path).ok().flatten();
            // It is changed and removed by its file's name.
            delivery.filter(|delivery| path.file_stem().is_some_and(|name| name == delivery.id.as_str()))
        };
        Ok(names.iter().filter_map(named).collect())
    }

    /// Writes deliveries, and the state that says so, so that they are there after a power cut: all or none, if the disk lets it. One that is there is
    /// left as it is: it may have been tried already.
    pub fn add(&self, deliveries: &[Delivery], state: &State) -> Result<()> {
        let mut added = Vec::new();
        let written = self.changing(|| {
            for delivery in deliveries {
                let path = self.file(&delivery.id);
                if !path.exists() {
                    added.push(path.clone());
                    write(&path, delivery)?;
                }
            }
            if !deliveries.is_empty() {
                sync(&self.waiting())?;
            }
            self.set_state(state)
        });
        if written.is_err() {
            added.iter().for_each(|path| drop(fs::remove_file(path)));
        }
        written
    }

    /// Makes sure that deliveries can be changed: one that is sent and cannot be removed would be sent again and again.
    pub fn ensure_changeable(&self) -> Result<()> {
        let path = self.waiting().join("writable.tmp");
        let write = || {
            fs::write(&path, b"")?;
            fs::remove_file(&path)
        };
        write().map_err(failed("write into", &self.waiting()))
    }

    /// Changes a delivery, or, where `change` returns none, removes it. One that somebody has removed meanwhile stays so. No two processes change
    /// one at a time.
    pub fn change(&self, id: &str, change: impl FnOnce(Delivery) -> Option<Delivery>) -> Result<()> {
        let path = self.file(id);
        self.changing(|| match read::<Delivery>(&path)?.map(change) {
            None => Ok(()),
            Some(Some(delivery)) => write(&path, &delivery),
            Some(None) => fs::remove_file(&path).map_err(failed("remove", &path)),
        })
    }

    /// Does something while nobody else changes deliveries.
    fn changing(&self, work: impl FnOnce() -> Result<()>) -> Result<()> {
        let lock = self.0.join("changes.lock");
        let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&lock);
        let file = file.map_err(failed("open", &lock))?;
        flock(&file, FlockOperation::LockExclusive).map_err(|e| failed("lock", &lock)(e.into()))?;
        let done = work();
        let _ = flock(&file, FlockOperation::Unlock);
        done
    }
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::File { action, path, source }
}

/// What a file holds; none where it is not there, or holds something else.
fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>> {
    match fs::read(path) {
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        read => Ok(serde_json::from_slice(&read.map_err(failed("read", path))?).ok()),
    }
}

/// Replaces a file, durably but for its name.
fn write<T: Serialize>(path: &Path, value: &T) -> Result<()> {
    let draft = path.with_extension(format!("{}.tmp", std::process::id()));
    let written = || {
        let mut file = OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&draft)?;
        file.write_all(&serde_json::to_vec(value)?)?;
        file.sync_all()?;
        fs::rename(&draft, path)
    };
    written().map_err(failed("write", path))
}

fn sync(folder: &Path) -> Result<()> {
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed("sync", folder))
}
