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
    // A program that another test begins has the file for a moment, too: closing it would not let go of the lock.
    flock(&file, FlockOperation::Unlock).unwrap();
    let folder = File::open(dir.path().join("journal")).unwrap();
    flock(&folder, FlockOperation::LockExclusive).unwrap();
    assert!(matches!(WriterLock::take(dir.path(), Duration::ZERO, &()), Err(Error::Locked { .. })));
    // What was taken of it before was let go.
    let file = files::open_top(&dir.path().join("lock"), How::Make).unwrap();
    flock(&file, FlockOperation::NonBlockingLockExclusive).unwrap();
    flock(&folder, FlockOperation::Unlock).unwrap();
    flock(&file, FlockOperation::Unlock).unwrap();
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

#[test]
fn a_look_for_a_service_keeps_none_from_starting() {
    let dir = store_folder();
    assert!(!has_service(dir.path()), "there is no lock yet");
    let service = ServiceLock::take(dir.path()).unwrap().unwrap();
    assert!(has_service(dir.path()));
    let other = ServiceLock::take(dir.path()).unwrap().unwrap_err();
    assert!(other.contains(&format!("process {}", std::process::id())), "{other}");
    drop(service);
    assert!(!has_service(dir.path()));
    // Somebody looks at the same moment.
    let looking = files::open_top(&dir.path().join("lock.service"), How::Read).unwrap();
    flock(&looking, FlockOperation::LockShared).unwrap();
    let gone = thread::spawn(move || {
        thread::sleep(LOOK / 10);
        release(&looking);
    });
    ServiceLock::take(dir.path()).unwrap().unwrap();
    gone.join().unwrap();
}
