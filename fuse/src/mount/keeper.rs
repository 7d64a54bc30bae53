//! The keeper of a mount: a thread that looks after it while nobody asks. It adjusts the mount's share of memory to how many mounts are
//! read, closes packs that gc has removed, and tells the kernel what in a mounted store is not so any more.
//!
//! Only this thread may tell the kernel. To drop a name, the kernel locks the folder; and it keeps a folder locked while it waits for the
//! answer to a look-up or a list. A thread that answers, or one that holds what an answering thread waits for, could wait here for itself.

use std::{
    ffi::OsStr,
    io::{self, PipeReader, Read},
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    sync::{Arc, Weak},
    thread,
    time::{Duration, Instant},
};

use fuser::{INodeNo, Notifier};
use parhelia_store::{Store, layout::Layout};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::inotify::{self, CreateFlags, WatchFlags},
    io::Errno,
};

use crate::{
    filesystem::{Invalidation, ReadOnlyFilesystem},
    kernel::{Log, activity::Activity},
    mount::registry::{BusyMark, count_busy},
};

/// The interval at which a mounted store is looked at. inotify tells of changes that are made on this machine; this finds those of others.
const STORE_INTERVAL: Duration = Duration::from_millis(500);
/// The interval at which everything else is looked at.
const CALM_INTERVAL: Duration = Duration::from_secs(30);
/// A mount that is not read for this long, or up to twice as long, is idle.
const IDLE_INTERVAL: Duration = Duration::from_secs(10);
/// The shares of which an idle mount has one: the least there is.
const IDLE_SHARES: u64 = u64::MAX;

/// The things that a keeper looks after.
pub(crate) struct Keeper {
    /// The store, and what of it is mounted. The mount ends with their last owner, which is not its keeper.
    pub(crate) store: Weak<Store>,
    pub(crate) filesystem: Weak<dyn ReadOnlyFilesystem>,
    /// The means to tell the kernel.
    pub(crate) notifier: Notifier,
    pub(crate) activity: Arc<Activity>,
    /// The mark by which other mounts see that this one is read. `None` where the mount is not registered.
    pub(crate) busy_mark: Option<BusyMark>,
    /// The log to which failures are reported.
    pub(crate) log: Log,
}

/// The events that wake a keeper, apart from time.
pub(crate) struct Wakes {
    /// Is closed when the mount is over.
    pub(crate) stop: PipeReader,
    /// Has a byte when an idle mount is read.
    pub(crate) read: PipeReader,
}

/// Starts the thread. It ends when the mount is over, or the filesystem is gone.
pub(crate) fn start(kept: Keeper, wakes: Wakes) -> io::Result<()> {
    thread::Builder::new().name("keeper".into()).spawn(move || kept.work(wakes)).map(drop)
}

impl Keeper {
    fn work(self, mut wakes: Wakes) {
        let Some((store, filesystem)) = self.kept() else { return };
        let (layout, follows_store) = (store.layout().clone(), filesystem.needs().fresh_folders);
        drop((store, filesystem));
        let changes = watched(&layout, follows_store).ok();
        let calm = if follows_store || changes.is_none() { STORE_INTERVAL } else { CALM_INTERVAL };
        let (mut is_busy, mut looked_at) = (false, Instant::now());
        let (mut shares, mut untold, mut is_failing) = (IDLE_SHARES, Vec::new(), false);
        loop {
            let interval = if is_busy { calm.min(IDLE_INTERVAL) } else { calm };
            let was_busy = is_busy;
            match wakes.wait(changes.as_ref(), interval) {
                WakeReason::Over => return,
                WakeReason::Read => (is_busy, looked_at) = (true, Instant::now()),
                WakeReason::Else if is_busy && looked_at.elapsed() >= IDLE_INTERVAL => {
                    (is_busy, looked_at) = (self.activity.look(), Instant::now());
                }
                WakeReason::Else => {}
            }
            if is_busy != was_busy
                && let Some(mark) = &self.busy_mark
            {
                mark.set(is_busy);
            }
            let Some((store, filesystem)) = self.kept() else { return };
            store.close_removed_packs();
            let now = if is_busy { count_busy(&layout.mounts()) } else { IDLE_SHARES };
            if now != shares {
                store.share_cache(now);
                filesystem.share(now);
                shares = now;
            }
            match filesystem.outdated() {
                Ok(news) => {
                    untold.extend(news);
                    is_failing = false;
                }
                Err(e) if !is_failing => {
                    (self.log)(&format!("cannot look for new checkpoints: {e}"));
                    is_failing = true;
                }
                Err(_) => {}
            }
            drop((store, filesystem));
            // A notification that fails, as for lack of memory, is sent again in the next round.
            untold.retain(|outdated| self.tell(outdated).is_err());
        }
    }

    fn kept(&self) -> Option<(Arc<Store>, Arc<dyn ReadOnlyFilesystem>)> {
        self.store.upgrade().zip(self.filesystem.upgrade())
    }

    fn tell(&self, outdated: &Invalidation) -> io::Result<()> {
        match outdated {
            Invalidation::Inode(ino) => self.notifier.inval_inode(INodeNo(*ino), 0, 0),
            Invalidation::Name(folder, name) => self.notifier.inval_entry(INodeNo(*folder), OsStr::from_bytes(name)),
        }
    }
}

/// A file that becomes readable when another mount begins or ceases to be read and, if it is wanted, when something is committed.
fn watched(layout: &Layout, commits: bool) -> rustix::io::Result<OwnedFd> {
    let changes = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
    // Busy marks come and go.
    inotify::add_watch(&changes, layout.mounts(), WatchFlags::CREATE | WatchFlags::DELETE)?;
    if commits {
        inotify::add_watch(&changes, layout.journal(), WatchFlags::MODIFY | WatchFlags::CREATE | WatchFlags::MOVED_TO)?;
    }
    Ok(changes)
}

/// The reason why a keeper goes on.
enum WakeReason {
    /// The mount is over.
    Over,
    /// It was idle, and is read.
    Read,
    /// Something has changed, or the time is over.
    Else,
}

impl Wakes {
    /// Waits for a change, or as long as the interval.
    fn wait(&mut self, changes: Option<&OwnedFd>, interval: Duration) -> WakeReason {
        let mut files = vec![PollFd::new(&self.stop, PollFlags::IN), PollFd::new(&self.read, PollFlags::IN)];
        files.extend(changes.map(|changes| PollFd::new(changes, PollFlags::IN)));
        let timeout = Timespec { tv_sec: interval.as_secs().cast_signed(), tv_nsec: i64::from(interval.subsec_nanos()) };
        match poll(&mut files, Some(&timeout)) {
            Ok(_) => {}
            Err(Errno::INTR) => return WakeReason::Else,
            // Without a way to wait it would never rest.
            Err(_) => thread::sleep(interval),
        }
        let [is_over, is_read] = [0, 1].map(|file: usize| !files[file].revents().is_empty());
        if is_over {
            return WakeReason::Over;
        }
        // Which changes they were does not matter.
        let mut events = [0; 4096];
        while changes.is_some_and(|changes| rustix::io::read(changes, &mut events).is_ok_and(|bytes| bytes > 0)) {}
        match is_read.then(|| self.read.read(&mut events)) {
            Some(Ok(1..)) => WakeReason::Read,
            _ => WakeReason::Else,
        }
    }
}
