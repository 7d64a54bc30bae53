//! The writer lock. The kernel decides who holds it (flock); the text in the file only tells people who that is.
//!
//! Somebody may delete the file `lock` while it is held, and the next process would lock another file of that name. So the holder also locks the
//! folder `journal`, which nobody can delete and lose nothing: two processes never append at once, whatever becomes of `lock`.

use std::{
    fs::File,
    io::{Read, Seek, Write},
    os::fd::OwnedFd,
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
        let text = format!("process {} since {}\n", std::process::id(), clock::timestamp());
        let file = &mut lock.file;
        // The text is for messages only, so that it cannot be written (a full disk) is no reason to fail.
        let _ = file.set_len(0).and_then(|()| file.rewind()).and_then(|()| file.write_all(text.as_bytes()));
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
            Some(at) => format!("{text} ({} s ago)", clock::timestamp().duration_since(at).as_secs().max(0)),
            None => text.to_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    fn store_folder() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("journal")).unwrap();
        dir
    }

    #[test]
    fn a_deleted_lock_is_made_again_and_lets_nobody_in_beside_its_holder() {
        let dir = store_folder();
        let path = dir.path().join("lock");
        let first = WriterLock::take(dir.path(), Duration::ZERO, &()).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(WriterLock::take(dir.path(), Duration::from_millis(3), &()), Err(Error::Locked { .. })));
        drop(first);
        let second = WriterLock::take(dir.path(), Duration::ZERO, &()).unwrap();
        assert!(files::is_named(&second.file, &path));
    }

    #[test]
    fn who_waits_for_a_lock_that_is_deleted_takes_the_new_one() {
        let dir = store_folder();
        let path = dir.path().join("lock");
        // Older releases hold the file alone.
        let held = files::open_top(&path, How::Make).unwrap();
        flock(&held, FlockOperation::LockExclusive).unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| WriterLock::take(dir.path(), Duration::from_secs(60), &()).unwrap());
            std::fs::remove_file(&path).unwrap();
            let taken = waiting.join().unwrap();
            assert!(files::is_named(&taken.file, &path));
        });
    }

    #[test]
    fn a_lock_that_is_a_link_or_a_fifo_is_refused() {
        let dir = store_folder();
        let (path, victim) = (dir.path().join("lock"), dir.path().join("victim"));
        std::fs::write(&victim, "untouched").unwrap();
        std::os::unix::fs::symlink(&victim, &path).unwrap();
        let refused = WriterLock::take(dir.path(), Duration::ZERO, &()).unwrap_err();
        assert!(refused.to_string().contains("a symbolic link"), "{refused}");
        assert_eq!(std::fs::read(&victim).unwrap(), b"untouched");
        std::fs::remove_file(&path).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0).unwrap();
        let refused = WriterLock::take(dir.path(), Duration::ZERO, &()).unwrap_err();
        assert!(refused.to_string().contains("a fifo"), "{refused}");
    }

    #[test]
    fn who_waits_says_so_once_and_takes_the_lock_as_soon_as_it_is_free() {
        /// Lets go of the lock when somebody waits for it.
        struct LetsGo(Mutex<Option<WriterLock>>, Mutex<Vec<String>>);
        impl Progress for LetsGo {
            fn notice(&self, text: &str) {
                self.1.lock().unwrap().push(text.to_owned());
                self.0.lock().unwrap().take();
            }
        }
        let dir = store_folder();
        let held = WriterLock::take(dir.path(), Duration::ZERO, &()).unwrap();
        let (holds, began) = (LetsGo(Mutex::new(Some(held)), Mutex::default()), Instant::now());
        WriterLock::take(dir.path(), Duration::from_secs(60), &holds).unwrap();
        assert!(began.elapsed() >= Duration::from_millis(500), "said before anybody would have noticed");
        let said = holds.1.into_inner().unwrap();
        assert!(said.len() == 1 && said[0].contains(&format!("process {}", std::process::id())), "{said:?}");
    }

    #[test]
    fn waiting_ends_where_it_is_interrupted() {
        struct Cancelled;
        impl Progress for Cancelled {
            fn is_cancelled(&self) -> bool {
                true
            }
        }
        let dir = store_folder();
        let _held = WriterLock::take(dir.path(), Duration::ZERO, &()).unwrap();
        let waited = WriterLock::take(dir.path(), Duration::from_secs(60), &Cancelled).unwrap_err();
        assert_eq!(waited.to_string(), "interrupted");
    }

    #[test]
    fn the_file_alone_or_the_journal_alone_keeps_others_out() {
        let dir = store_folder();
        let file = files::open_top(&dir.path().join("lock"), How::Make).unwrap();
        flock(&file, FlockOperation::LockExclusive).unwrap();
        assert!(matches!(WriterLock::take(dir.path(), Duration::ZERO, &()), Err(Error::Locked { .. })));
        drop(file);
        let folder = File::open(dir.path().join("journal")).unwrap();
        flock(&folder, FlockOperation::LockExclusive).unwrap();
        assert!(matches!(WriterLock::take(dir.path(), Duration::ZERO, &()), Err(Error::Locked { .. })));
        // What was taken of it before was let go.
        let file = files::open_top(&dir.path().join("lock"), How::Make).unwrap();
        flock(&file, FlockOperation::NonBlockingLockExclusive).unwrap();
        drop((folder, file));
        WriterLock::take(dir.path(), Duration::ZERO, &()).unwrap();
    }

    #[test]
    fn of_the_index_too_who_waits_for_a_lock_that_is_deleted_takes_the_new_one() {
        let dir = store_folder();
        let path = dir.path().join("lock.index");
        let held = files::open_top(&path, How::Make).unwrap();
        flock(&held, FlockOperation::LockExclusive).unwrap();
        std::fs::remove_file(&path).unwrap();
        let first = IndexLock::take(dir.path()).unwrap();
        assert!(files::is_named(&first.file, &path) && first.folder.is_some());
        let folder = File::open(dir.path()).unwrap();
        assert!(flock(&folder, FlockOperation::NonBlockingLockExclusive).is_err());
        drop(first);
        flock(&folder, FlockOperation::NonBlockingLockExclusive).unwrap();
    }

    #[test]
    fn a_holder_is_told_as_far_as_it_is_known() {
        let dir = store_folder();
        let told = |text: &str| {
            std::fs::write(dir.path().join("text"), text).unwrap();
            holder(&mut files::open_top(&dir.path().join("text"), How::Write).unwrap())
        };
        assert_eq!(told(""), "another process");
        assert_eq!(told(" \n"), "another process");
        assert_eq!(told("process 7\n"), "process 7");
        assert_eq!(told("process 7 since then"), "process 7 since then");
        let since = told("process 7 since 2020-01-01T00:00:00Z\n");
        assert!(since.starts_with("process 7 since 2020-01-01T00:00:00Z (") && since.ends_with(" s ago)"), "{since}");
        assert_eq!(told("process 7 since 9000-01-01T00:00:00Z"), "process 7 since 9000-01-01T00:00:00Z (0 s ago)");
        assert_eq!(told(&"x".repeat(300)).len(), 200);
    }

    #[test]
    fn the_second_taker_learns_who_holds_it() {
        let dir = store_folder();
        let first = WriterLock::take(dir.path(), Duration::ZERO, &()).unwrap();
        let refused = WriterLock::take(dir.path(), Duration::from_millis(5), &()).unwrap_err();
        assert!(refused.to_string().contains(&format!("process {}", std::process::id())), "{refused}");
        drop(first);
        WriterLock::take(dir.path(), Duration::ZERO, &()).unwrap();
    }
}
