//! Places of an index: in the store's folder, or, where that is not the caller's to write to, in his cache folder. A lock beside it lets one
//! process at a time write it, while nobody reads; SQLite's files are never replaced under anybody.

#![expect(clippy::disallowed_methods, reason = "makes a folder in the user's cache folder")]

use std::{
    fs::{self, DirBuilder, File},
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use parhelia_store::{
    Error as StoreError, Store,
    files::{self, How},
};
use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
};

use super::Fault;
use parhelia_host::{Error, Host, Observer, notice::Notice};

/// A wait for another search is told of after so long.
const SILENT: Duration = Duration::from_millis(500);
/// Files that SQLite makes beside its own while it writes.
const BESIDE: [&str; 3] = ["-journal", "-wal", "-shm"];

/// The way in which an index is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockMode {
    /// Beside other readers.
    Shared,
    /// By one process alone, which may write it.
    Alone,
}

/// The place of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// A folder, whose path has no symlinks in it.
    folder: PathBuf,
    name: String,
}

/// The places at which a store's index may lie, the best first. There is none for an encrypted store: the index is plain text.
pub fn candidates(store: &Store, host: &dyn Host) -> Vec<Place> {
    let mut places = Vec::new();
    if !store.layout().keys.seal.is_plain() {
        return places;
    }
    let is_own = fs::metadata(store.path()).is_ok_and(|meta| meta.uid() == rustix::process::geteuid().as_raw());
    // SQLite follows names that another owner of the store may have put there.
    if is_own
        && !store.is_read_only()
        && let Ok(folder) = store.layout().cache().canonicalize()
    {
        places.push(Place { folder, name: "search".into() });
    }
    places.extend(host.cache_folder().and_then(|cache| in_cache(store, &cache).ok()));
    places
}

/// The place in the caller's cache folder, which is made.
fn in_cache(store: &Store, cache: &Path) -> io::Result<Place> {
    let path = store.path().canonicalize()?;
    let hash = blake3::hash(path.as_os_str().as_encoded_bytes()).to_hex();
    let folder = cache.join("search");
    DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
    Ok(Place { folder: folder.canonicalize()?, name: format!("{}-{}", store.config().id, &hash[..16]) })
}

impl Place {
    /// The index.
    pub fn file(&self) -> PathBuf {
        self.folder.join(format!("{}.sqlite", self.name))
    }

    /// Makes the index's file where there is none: for its owner's eyes alone.
    pub fn make(&self) -> io::Result<()> {
        files::open(&self.file(), How::Make).map(drop)
    }

    /// Removes the index, which is held alone.
    pub fn clear(&self) -> io::Result<()> {
        for ending in BESIDE {
            files::remove(&self.folder.join(format!("{}.sqlite{ending}", self.name)))?;
        }
        files::remove(&self.file())
    }

    /// Waits until the index can be held so. It is let go of with the result.
    pub fn lock(&self, kept: LockMode, timeout: Duration, observer: &dyn Observer) -> Result<Lock, Fault> {
        let path = self.folder.join(format!("{}.lock", self.name));
        let operation = match kept {
            LockMode::Shared => FlockOperation::NonBlockingLockShared,
            LockMode::Alone => FlockOperation::NonBlockingLockExclusive,
        };
        let (began, mut was_told) = (Instant::now(), false);
        loop {
            // Opened anew each time, as somebody may delete it.
            let file = files::open(&path, How::Make).map_err(Fault::Closed)?;
            match flock(&file, operation) {
                Ok(()) if files::is_named(&file, &path) => return Ok(Lock(file)),
                Ok(()) | Err(Errno::WOULDBLOCK | Errno::INTR) => {}
                Err(error) => return Err(Fault::Closed(error.into())),
            }
            if observer.is_cancelled() {
                return Err(StoreError::Cancelled.into());
            }
            let waited = began.elapsed();
            if waited >= timeout {
                let text = "another search has not brought the index up to date yet: try again later";
                return Err(Error::Busy(text.into()).into());
            }
            if waited > SILENT && !was_told {
                observer.note(&Notice::WaitsForIndex);
                was_told = true;
            }
            thread::sleep(Duration::from_millis(5).min(timeout - waited));
        }
    }
}

/// An index is held.
#[derive(Debug)]
pub struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        // Also where a process that was just forked has the file open until it runs its program.
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}
