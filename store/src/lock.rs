//! The writer lock. The kernel decides who holds it (flock); the text in the file only tells people who that is.
//!
//! Somebody may delete the file `lock` while it is held, and the next process would lock another file of that name. So the holder also locks the
//! folder `journal`, which nobody can delete and lose nothing: two processes never append at once, whatever becomes of `lock`.

use std::{
    fs::File,
    io::{ErrorKind, Read, Seek},
    os::{fd::OwnedFd, unix::fs::FileExt},
    path::Path,
    thread,
    time::{Duration, Instant},
};

use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
};

use crate::{
    clock,
    error::{Error, IoContext, Result},
    files::{self, Folder, How},
    progress::{self, Progress},
};

/// Holds the writer lock until it is dropped, or its process ends.
#[derive(Debug)]
pub struct WriterLock {
    file: File,
    /// None where the filesystem cannot lock folders, as NFS.
    journal: Option<OwnedFd>,
}

impl WriterLock {
    /// Takes the lock, waiting up to `timeout`. Says who holds it when it has to wait.
    pub fn take(store: &Path, timeout: Duration, progress: &dyn Progress) -> Result<Self> {
        let path = store.join("lock");
        let began = Instant::now();
        let mut pause = Duration::from_millis(1);
        let mut said = false;
        let mut lock = loop {
            // Opened anew each time: the file may be deleted, and made again by others, while this process waits.
            let mut file = files::open_top(&path, How::Make).at("open lock", &path)?;
            if let Some(journal) = try_both(&file, &path, store)? {
                break WriterLock { file, journal };
            }
            progress::check(progress)?;
            let waited = began.elapsed();
            if waited >= timeout || waited > Duration::from_millis(500) && !said {
                let holder = holder(&mut file);
                if waited >= timeout {
                    let waited_ms = waited.as_millis() as u64;
                    return Err(Error::Locked { path: store.to_owned(), holder, waited_ms });
                }
                progress.notice(&format!("waiting for the store's lock, held by {holder}"));
                said = true;
            }
            thread::sleep(pause.min(timeout.saturating_sub(waited)));
            pause = (pause * 2).min(Duration::from_millis(20));
        };
        note_holder(&mut lock.file);
        Ok(lock)
    }
}

impl Drop for WriterLock {
    fn drop(&mut self) {
        if let Some(journal) = &self.journal {
            let _ = flock(journal, FlockOperation::Unlock);
        }
        release(&self.file);
    }
}

/// Locks the file that the path names, and then the journal's folder. `None` where somebody else has one of them.
fn try_both(file: &File, path: &Path, store: &Path) -> Result<Option<Option<OwnedFd>>> {
    if !try_lock(file, path)? {
        return Ok(None);
    }
    if !files::is_named(file, path) {
        release(file);
        return Ok(None);
    }
    let folder = store.join("journal");
    let journal = Folder::below(&folder).and_then(|opened| opened.listable()).at("open folder", &folder)?;
    match flock(&journal, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(Some(journal))),
        Err(Errno::WOULDBLOCK | Errno::INTR) => {
            release(file);
            Ok(None)
        }
        Err(_) => Ok(Some(None)),
    }
}

/// Lets one process at a time change RocksDB. It is another lock than the writer's, so that no commit waits for what can be derived.
/// Whoever needs both takes the writer's first.
#[derive(Debug)]
pub struct IndexLock {
    file: File,
    /// The store's folder, which is locked for the same reason as the journal's is.
    folder: Option<OwnedFd>,
}

impl IndexLock {
    /// Takes the lock, however long that takes: its holders are done in moments.
    pub fn take(store: &Path) -> Result<Self> {
        let path = store.join("lock.index");
        loop {
            let file = files::open_top(&path, How::Make).at("open lock", &path)?;
            flock(&file, FlockOperation::LockExclusive).at("lock", &path)?;
            if files::is_named(&file, &path) {
                let folder = Folder::top(store).and_then(|opened| opened.listable()).at("open folder", store)?;
                let is_locked = flock(&folder, FlockOperation::LockExclusive).is_ok();
                return Ok(IndexLock { file, folder: is_locked.then_some(folder) });
            }
        }
    }
}

impl Drop for IndexLock {
    fn drop(&mut self) {
        if let Some(folder) = &self.folder {
            let _ = flock(folder, FlockOperation::Unlock);
        }
        release(&self.file);
    }
}

/// A look whether the lock of a service is held takes no longer.
const LOOK: Duration = Duration::from_millis(100);

/// True if a service of a store runs. The lock is shared for a moment, which a service that starts waits for.
pub fn has_service(store: &Path) -> bool {
    let Ok(file) = files::open_top(&store.join("lock.service"), How::Read) else { return false };
    match flock(&file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => {
            release(&file);
            false
        }
        Err(e) => e == Errno::WOULDBLOCK,
    }
}

/// Held by the one service of a store as long as it runs. Of a store that takes no writes, there may be several, which change nothing.
#[derive(Debug)]
pub struct ServiceLock {
    file: Option<File>,
}

impl ServiceLock {
    /// Takes the lock, or says who has it.
    pub fn take(store: &Path) -> Result<Result<Self, String>> {
        let path = store.join("lock.service");
        let began = Instant::now();
        loop {
            let mut file = match files::open_top(&path, How::Make) {
                Err(e) if e.kind() == ErrorKind::ReadOnlyFilesystem => return Ok(Ok(ServiceLock { file: None })),
                opened => opened.at("open lock", &path)?,
            };
            if !try_lock(&file, &path)? {
                if began.elapsed() > LOOK {
                    return Ok(Err(holder(&mut file)));
                }
                thread::sleep(LOOK / 20);
                continue;
            }
            if files::is_named(&file, &path) {
                note_holder(&mut file);
                return Ok(Ok(ServiceLock { file: Some(file) }));
            }
        }
    }
}

impl Drop for ServiceLock {
    fn drop(&mut self) {
        if let Some(file) = &self.file {
            release(file);
        }
    }
}

/// Lets go of a lock, also where a process that was just forked has the file open until it runs its program: that it is closed here alone
/// would not.
pub(crate) fn release(file: &File) {
    let _ = flock(file, FlockOperation::Unlock);
}

fn try_lock(file: &File, path: &Path) -> Result<bool> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(e) if e == rustix::io::Errno::WOULDBLOCK || e == rustix::io::Errno::INTR => Ok(false),
        Err(e) => Err(e).at("lock", path),
    }
}

/// The length of a holder's text, which is shorter.
const HOLDER_BYTES: usize = 79;

/// Writes into a lock's file who has it. The text is for messages only, so that it cannot be written (a full disk) is no reason to fail.
fn note_holder(file: &mut File) {
    let mut text = format!("process {} since {}", std::process::id(), clock::timestamp());
    // Filled up to a fixed length: to cut a file costs more than all else about a lock.
    text = format!("{text:HOLDER_BYTES$}\n");
    let _ = file.write_all_at(text.as_bytes(), 0);
}

fn holder(file: &mut File) -> String {
    let mut text = String::new();
    let read = file.rewind().and_then(|()| file.take(200).read_to_string(&mut text));
    match (read, text.trim()) {
        (Ok(_), "") | (Err(_), _) => "another process".to_owned(),
        (Ok(_), text) => match text.rsplit_once(" since ").and_then(|(_, at)| at.parse::<jiff::Timestamp>().ok()) {
            Some(at) => format!("{text} ({} s ago)", clock::timestamp().duration_since(at).as_secs().max(0)),
            None => text.to_owned(),
        },
    }
}

#[cfg(test)]
mod tests;
