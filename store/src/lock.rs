//! The writer lock. The kernel decides who holds it (flock); the text in the file only tells people who that is.

use std::{
    fs::File,
    io::{Read, Seek, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use rustix::fs::{FlockOperation, flock};

use crate::{
    error::{Error, IoContext, Result},
    progress::{self, Progress},
};

/// Holds the writer lock until it is dropped, or its process ends.
#[derive(Debug)]
pub struct WriterLock(File);

impl WriterLock {
    /// Takes the lock, waiting up to `timeout`. Says who holds it when it has to wait.
    pub fn take(store: &Path, timeout: Duration, progress: &dyn Progress) -> Result<Self> {
        let path = store.join("lock");
        let mut file =
            File::options().read(true).write(true).create(true).truncate(false).mode(0o600).open(&path).at("open lock", &path)?;
        let began = Instant::now();
        let mut pause = Duration::from_millis(1);
        let mut said = false;
        while !try_lock(&file, &path)? {
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
        }
        let text = format!("process {} since {}\n", std::process::id(), jiff::Timestamp::now());
        // The text is for messages only, so that it cannot be written (a full disk) is no reason to fail.
        let _ = file.set_len(0).and_then(|()| file.rewind()).and_then(|()| file.write_all(text.as_bytes()));
        Ok(WriterLock(file))
    }
}

impl Drop for WriterLock {
    fn drop(&mut self) {
        release(&self.0);
    }
}

/// Lets one process at a time change RocksDB. It is another lock than the writer's, so that no commit waits for what can be derived.
/// Whoever needs both takes the writer's first.
#[derive(Debug)]
pub struct IndexLock(File);

impl IndexLock {
    /// Takes the lock, however long that takes: its holders are done in moments.
    pub fn take(store: &Path) -> Result<Self> {
        let path = store.join("lock.index");
        let file =
            File::options().read(true).write(true).create(true).truncate(false).mode(0o600).open(&path).at("open lock", &path)?;
        flock(&file, FlockOperation::LockExclusive).at("lock", &path)?;
        Ok(IndexLock(file))
    }
}

impl Drop for IndexLock {
    fn drop(&mut self) {
        release(&self.0);
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

fn holder(file: &mut File) -> String {
    let mut text = String::new();
    let read = file.rewind().and_then(|()| file.take(200).read_to_string(&mut text));
    match (read, text.trim()) {
        (Ok(_), "") | (Err(_), _) => "another process".to_owned(),
        (Ok(_), text) => match text.rsplit_once(" since ").and_then(|(_, at)| at.parse::<jiff::Timestamp>().ok()) {
            Some(at) => format!("{text} ({} s ago)", jiff::Timestamp::now().duration_since(at).as_secs().max(0)),
            None => text.to_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_taker_learns_who_holds_it() {
        let dir = tempfile::tempdir().unwrap();
        let first = WriterLock::take(dir.path(), Duration::ZERO, &()).unwrap();
        let refused = WriterLock::take(dir.path(), Duration::from_millis(5), &()).unwrap_err();
        assert!(refused.to_string().contains(&format!("process {}", std::process::id())), "{refused}");
        drop(first);
        WriterLock::take(dir.path(), Duration::ZERO, &()).unwrap();
    }
}
