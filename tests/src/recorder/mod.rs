//! A filesystem for tests that keeps what was written apart from what was synced.
//!
//! It lies in memory, is mounted with FUSE, and the real binary works on it without knowing. Every change and every sync is noted in
//! order, so that afterwards the disk can be rebuilt as a power cut would have left it at any step: [`History::image`]. A [`Trap`] makes
//! the n-th call of some kind fail, or kills the process that makes it.

mod disk;
mod fs;
mod history;
mod trap;

use std::{
    collections::{BTreeMap, HashMap},
    ffi::OsString,
    ops::Range,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

pub use disk::{Body, Clock, Disk, Ino, Inode, Op, ROOT};
pub use history::{Cut, Dice, Entry, History};
pub use trap::{Call, Fault, Trap};

use fs::Served;
use rustix::{
    io::Errno,
    mount::{UnmountFlags, unmount},
};

/// Parts of the mounted filesystem.
#[derive(Default)]
struct Shared {
    disk: Disk,
    /// The disk when the log began.
    base: Disk,
    log: Vec<Entry>,
    is_logging: bool,
    trap: Option<Trap>,
    /// Bytes that cannot be read.
    unreadable: HashMap<Ino, Bad>,
    /// Files that cannot be opened.
    closed: HashMap<Ino, Times>,
    /// Extended attributes, which no history has.
    attributes: HashMap<Ino, BTreeMap<OsString, Vec<u8>>>,
    /// Modes that any file or folder ever had, with its path.
    modes: Vec<(PathBuf, u32)>,
}

/// The calls of one kind that fail, by their number.
struct Times {
    failing: Range<u64>,
    seen: u64,
}

impl Times {
    fn fails(&mut self) -> bool {
        self.seen += 1;
        self.failing.contains(&(self.seen - 1))
    }
}

/// A bad place of a file.
struct Bad {
    bytes: Range<u64>,
    times: Times,
}

/// A mounted recorder. Dropping it unmounts.
pub struct Recorder {
    shared: Arc<Mutex<Shared>>,
    session: Option<fuser::BackgroundSession>,
    mountpoint: tempfile::TempDir,
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Recorder {
    /// Mounts an empty one.
    pub fn mount() -> Self {
        let mountpoint = tempfile::tempdir().unwrap_or_else(|e| panic!("no scratch folder: {e}"));
        let shared = Arc::new(Mutex::new(Shared { is_logging: true, ..Shared::default() }));
        let mut config = fuser::Config::default();
        config.mount_options =
            vec![fuser::MountOption::FSName("recorder".into()), fuser::MountOption::DefaultPermissions, fuser::MountOption::Suid];
        config.acl = fuser::SessionACL::All;
        let served = Served { shared: shared.clone() };
        let session = fuser::spawn_mount(served, mountpoint.path(), &config);
        let session = session.unwrap_or_else(|e| panic!("this test needs root and /dev/fuse: {e}"));
        Recorder { shared, session: Some(session), mountpoint }
    }

    /// The folder that is recorded.
    pub fn path(&self) -> &Path {
        self.mountpoint.path()
    }

    /// Notes that something has happened outside, and returns how many entries the log has.
    pub fn mark(&self) -> usize {
        lock(&self.shared).log.len()
    }

    /// Everything that was noted so far.
    pub fn history(&self) -> History {
        let shared = lock(&self.shared);
        History::new(shared.base.clone(), shared.log.clone())
    }

    /// The power goes now, and comes again. Nothing in the recorder may be open.
    pub fn cut(&self, cut: Cut) {
        let history = self.history();
        let disk = history.image(history.entries.len(), cut);
        let mut shared = lock(&self.shared);
        shared.log.clear();
        (shared.base, shared.disk) = (disk.clone(), disk);
    }

    /// The disk as it is now.
    pub fn disk(&self) -> Disk {
        lock(&self.shared).disk.clone()
    }

    /// Stops noting changes, for runs that only inject faults.
    pub fn stop_logging(&self) {
        let mut shared = lock(&self.shared);
        shared.is_logging = false;
        shared.log.clear();
    }

    /// Lets another clock stamp what changes from now on.
    pub fn set_clock(&self, clock: Clock) {
        lock(&self.shared).disk.clock = clock;
    }

    /// Copies a folder of the recorder's root to another name, without any call from outside.
    pub fn copy(&self, from: &str, to: &str) {
        lock(&self.shared).disk.copy(from, to);
    }

    /// Makes the disk forget a folder of the recorder's root and all that is in it.
    pub fn forget(&self, name: &str) {
        lock(&self.shared).disk.forget(name);
    }

    /// Gives what is at a path of the recorder an extended attribute.
    pub fn set_attribute(&self, path: &str, name: &str, value: &[u8]) {
        let mut shared = lock(&self.shared);
        let ino = shared.disk.at(Path::new(path)).unwrap_or_else(|| panic!("there is no {path}"));
        shared.attributes.entry(ino).or_default().insert(name.into(), value.to_vec());
    }

    /// Has reading these bytes of a file fail, as where sectors of a disk are bad.
    pub fn spoil(&self, path: &str, bytes: Range<u64>) {
        self.spoil_reads(path, bytes, 0..u64::MAX);
    }

    /// Of the reads that come upon these bytes of a file, has those with these numbers fail, from 0.
    pub fn spoil_reads(&self, path: &str, bytes: Range<u64>, failing: Range<u64>) {
        let mut shared = lock(&self.shared);
        let ino = shared.disk.at(Path::new(path)).unwrap_or_else(|| panic!("there is no {path}"));
        shared.unreadable.insert(ino, Bad { bytes, times: Times { failing, seen: 0 } });
    }

    /// Of the calls that open a file, has those with these numbers fail, from 0.
    pub fn spoil_opens(&self, path: &str, failing: Range<u64>) {
        let mut shared = lock(&self.shared);
        let ino = shared.disk.at(Path::new(path)).unwrap_or_else(|| panic!("there is no {path}"));
        shared.closed.insert(ino, Times { failing, seen: 0 });
    }

    /// Has everything be read again.
    pub fn mend(&self) {
        let mut shared = lock(&self.shared);
        shared.unreadable.clear();
        shared.closed.clear();
    }

    /// Arms a trap, in place of the one before.
    pub fn arm(&self, trap: Trap) {
        lock(&self.shared).trap = Some(trap);
    }

    /// Takes the trap away; says how many calls it saw, and whether it went off.
    pub fn disarm(&self) -> (u64, bool) {
        lock(&self.shared).trap.take().map_or((0, false), |trap| (trap.seen, trap.has_gone_off))
    }

    /// Every mode that a file or folder was made with or given, with its path in the recorder.
    pub fn modes(&self) -> Vec<(PathBuf, u32)> {
        lock(&self.shared).modes.clone()
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        let Some(session) = self.session.take() else { return };
        // A process that was killed may still be on its way out.
        let until = Instant::now() + Duration::from_secs(10);
        while unmount(self.mountpoint.path(), UnmountFlags::empty()) == Err(Errno::BUSY) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = session.umount_and_join();
    }
}
