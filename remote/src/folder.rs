//! The store's folder `remote/`: what this machine keeps of the bucket. Only its owner reads it.

use std::{
    collections::HashMap,
    ffi::OsStr,
    fs::File,
    io::{self, ErrorKind, Write as _},
    path::{Path, PathBuf},
    sync::Mutex,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use parhelia_bucket::{
    chain::{MachineMemory, MachineState},
    keyslots::{Fingerprint, PrivateKey},
    pack::PackRef,
};
use parhelia_store::{
    clock,
    files::{Folder, How},
    id::{PackId, hex, unhex},
    journal::Position,
    layout::Layout,
    progress::Progress,
};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::error::{Error, Result};

/// No file is longer, in bytes.
const FILE_BYTES_MAX: u64 = 256 << 20;
const JOINED: &str = "remote.json";
const MACHINE: &str = "machine.json";
const KEY: &str = "key";
const SENT: &str = "packs";
const ATTEMPT: &str = "last-push.json";
const PLACE: &str = "place.json";
const LOCK: &str = "lock";
const NEXT: &str = "next";

/// A bucket that this machine has joined.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Joined {
    /// Its URL, which holds no password.
    pub url: String,
    /// Id of the bucket's store, in hex.
    pub bucket: String,
    /// True if it is encrypted.
    pub encrypted: bool,
    /// Of an encrypted one, the newest generation of keys that this machine has used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<Fingerprint>,
    /// Name of this machine's slot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<String>,
    /// Time of joining.
    pub joined_at: Timestamp,
}

/// The last push.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// Its time.
    pub at: Timestamp,
    /// The reason for which it failed; absent where it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Since when pushes have failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failing_since: Option<Timestamp>,
    /// Checkpoints of which parts are damaged in the local store, and which were pushed without these.
    #[serde(default)]
    pub damaged: Vec<String>,
}

/// A pack of the local store, and where the bucket has it.
#[derive(Debug, Serialize, Deserialize)]
struct SentPack {
    pack: PackId,
    there: PackRef,
}

/// The folder.
#[derive(Debug)]
pub struct RemoteFolder {
    path: PathBuf,
    /// Held while the machine's state is written, so that one write follows the other.
    writing: Mutex<()>,
}

/// Held by the process that pushes or fetches.
#[derive(Debug)]
pub struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}

impl RemoteFolder {
    /// That of a store. It need not exist.
    pub fn of(layout: &Layout) -> Self {
        RemoteFolder { path: layout.remote(), writing: Mutex::new(()) }
    }

    fn failed(&self, action: &'static str, name: &str) -> impl FnOnce(io::Error) -> Error {
        let path = self.path.join(name);
        move |source| Error::File { action, path, source }
    }

    fn opened(&self) -> Result<Folder> {
        Folder::below(&self.path).map_err(self.failed("open folder", ""))
    }

    /// Makes the folder.
    fn made(&self) -> Result<Folder> {
        let (root, name) = (self.path.parent().unwrap_or(Path::new("")), self.path.file_name().unwrap_or_default());
        Folder::made_inside(root, name).map_err(self.failed("create folder", ""))
    }

    fn read<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>> {
        let bytes = match Folder::below(&self.path).and_then(|folder| folder.read(OsStr::new(name), FILE_BYTES_MAX)) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            other => other.map_err(self.failed("read", name))?,
        };
        serde_json::from_slice(&bytes).map(Some).map_err(|e| self.failed("read", name)(io::Error::other(e)))
    }

    fn write(&self, name: &str, value: &impl Serialize) -> Result<()> {
        let bytes = serde_json::to_vec(value).map_err(|e| self.failed("write", name)(io::Error::other(e)))?;
        self.made()?.write_synced(OsStr::new(name), &bytes, false).map_err(self.failed("write", name))
    }

    /// The bucket that was joined; absent where none was.
    pub fn joined(&self) -> Result<Option<Joined>> {
        self.read(JOINED)
    }

    /// The same. Fails where there is none.
    pub fn wanted(&self) -> Result<Joined> {
        self.joined()?.ok_or(Error::NoRemote)
    }

    pub(crate) fn join(&self, joined: &Joined) -> Result<()> {
        self.write(JOINED, joined)
    }

    /// This machine's private key; absent where it has none.
    pub(crate) fn key(&self) -> Result<Option<PrivateKey>> {
        let text = match Folder::below(&self.path).and_then(|folder| folder.read(OsStr::new(KEY), 1024)) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            other => zeroize::Zeroizing::new(other.map_err(self.failed("read", KEY))?),
        };
        let bytes = str::from_utf8(&text).ok().and_then(|text| unhex::<32>(text.trim_end()));
        let damaged = || self.failed("read", KEY)(io::Error::other("it is not 64 hex digits"));
        Ok(Some(PrivateKey::new(bytes.ok_or_else(damaged)?)))
    }

    pub(crate) fn keep_key(&self, key: &PrivateKey) -> Result<()> {
        let text = zeroize::Zeroizing::new(hex(&*key.bytes()) + "\n");
        self.made()?.write_synced(OsStr::new(KEY), text.as_bytes(), false).map_err(self.failed("write", KEY))
    }

    /// Forgets the remote. What the bucket has stays there.
    pub(crate) fn forget(&self) -> Result<()> {
        let folder = self.opened()?;
        // The one that says that there is a remote goes first.
        for name in [JOINED, KEY, MACHINE, SENT, PLACE, ATTEMPT] {
            match folder.remove(OsStr::new(name)) {
                Err(e) if e.kind() == ErrorKind::NotFound => {}
                other => other.map_err(self.failed("remove", name))?,
            }
        }
        folder.sync().map_err(self.failed("sync", ""))
    }

    /// The state of this machine's chain; absent before the first push.
    pub fn machine(&self) -> Result<Option<MachineState>> {
        self.read(MACHINE)
    }

    /// Keeps the state of this machine's chain.
    pub(crate) fn keep_machine(&self, state: &MachineState) -> Result<()> {
        self.write(MACHINE, state)
    }

    /// The place in the journal up to which the last push went; absent before the first one.
    pub(crate) fn place(&self) -> Result<Option<Position>> {
        self.read(PLACE)
    }

    pub(crate) fn note_place(&self, place: &Position) -> Result<()> {
        self.write(PLACE, place)
    }

    /// The last push; absent before the first one.
    pub fn last_attempt(&self) -> Result<Option<Attempt>> {
        self.read(ATTEMPT)
    }

    /// Notes that a push could not even begin.
    pub fn note_failure(&self, error: &str) -> Result<()> {
        let at = clock::timestamp();
        let failing_since = self.last_attempt()?.and_then(|last| last.failing_since).or(Some(at));
        self.note_attempt(&Attempt { at, error: Some(error.to_owned()), failing_since, damaged: Vec::new() })
    }

    pub(crate) fn note_attempt(&self, attempt: &Attempt) -> Result<()> {
        self.write(ATTEMPT, attempt)
    }

    /// Where the bucket has packs of the local store, as far as that is known. What is not known is uploaded once more.
    pub(crate) fn sent(&self) -> Result<HashMap<PackId, PackRef>> {
        let bytes = match Folder::below(&self.path).and_then(|folder| folder.read(OsStr::new(SENT), FILE_BYTES_MAX)) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(HashMap::new()),
            other => other.map_err(self.failed("read", SENT))?,
        };
        let lines = bytes.split(|byte| *byte == b'\n');
        // A line that was cut off is that of a pack which is uploaded once more.
        let packs = lines.filter_map(|line| serde_json::from_slice::<SentPack>(line).ok());
        Ok(packs.map(|sent| (sent.pack, sent.there)).collect())
    }

    pub(crate) fn note_sent<'a>(&self, packs: impl Iterator<Item = (PackId, &'a PackRef)>) -> Result<()> {
        let mut lines = Vec::new();
        for (pack, there) in packs {
            // A line of its own, also behind one that was cut off.
            lines.push(b'\n');
            serde_json::to_writer(&mut lines, &SentPack { pack, there: there.clone() })
                .map_err(|e| self.failed("write", SENT)(io::Error::other(e)))?;
        }
        if lines.is_empty() {
            return Ok(());
        }
        let append = |folder: Folder| {
            let mut file = folder.open(OsStr::new(SENT), How::Make)?;
            io::Seek::seek(&mut file, io::SeekFrom::End(0))?;
            file.write_all(&lines)?;
            file.sync_data()
        };
        append(self.made()?).map_err(self.failed("write", SENT))
    }

    /// Takes the lock; none where another process has it.
    pub fn lock(&self) -> Result<Option<Lock>> {
        self.try_lock(LOCK)
    }

    /// Takes the lock, and waits for it so long; none where another process has it for longer.
    pub(crate) fn lock_within(&self, patience: Duration, progress: &dyn Progress) -> Result<Option<Lock>> {
        let began = Instant::now();
        loop {
            match self.lock()? {
                None if began.elapsed() < patience && !progress.is_cancelled() => std::thread::sleep(Duration::from_millis(50)),
                found => return Ok(found),
            }
        }
    }

    /// Waits until nobody has the lock. False at once where another process waits already: that one sees what this one would.
    pub fn wait_for_turn(&self) -> Result<bool> {
        let Some(_next) = self.try_lock(NEXT)? else { return Ok(false) };
        let file = self.made()?.open(OsStr::new(LOCK), How::Make).map_err(self.failed("open", LOCK))?;
        loop {
            match flock(&file, FlockOperation::LockExclusive) {
                Ok(()) => break,
                Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(self.failed("lock", LOCK)(e.into())),
            }
        }
        drop(Lock(file));
        Ok(true)
    }

    fn try_lock(&self, name: &'static str) -> Result<Option<Lock>> {
        let file = self.made()?.open(OsStr::new(name), How::Make).map_err(self.failed("open", name))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Lock(file))),
            Err(e) if e == rustix::io::Errno::WOULDBLOCK => Ok(None),
            Err(e) => Err(self.failed("lock", name)(e.into())),
        }
    }
}

impl MachineMemory for RemoteFolder {
    fn load(&self) -> parhelia_bucket::Result<Option<MachineState>> {
        self.machine().map_err(|e| parhelia_bucket::Error::State(e.to_string()))
    }

    fn save(&self, state: &MachineState) -> parhelia_bucket::Result<()> {
        let _writing = self.writing.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        self.keep_machine(state).map_err(|e| parhelia_bucket::Error::State(e.to_string()))
    }
}
