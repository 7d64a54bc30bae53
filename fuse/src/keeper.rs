//! The keeper of a mount: a thread that looks after it while nobody asks. It adjusts the mount's share of memory to the number of mounts,
//! closes packs that gc has removed, and tells the kernel what in a mounted store is not so any more.
//!
//! Only this thread may tell the kernel. To drop a name, the kernel locks the folder; and it keeps a folder locked while it waits for the
//! answer to a look-up or a list. A thread that answers, or one that holds what an answering thread waits for, could wait here for itself.

use std::{
    ffi::OsStr,
    io::{self, PipeReader},
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    sync::{Arc, Weak},
    thread,
    time::Duration,
};

use fuser::{INodeNo, Notifier};
use parhelia_store::{Store, layout::Layout};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::inotify::{self, CreateFlags, WatchFlags},
    io::Errno,
};

use crate::{
    mount::Log,
    state::count_alive,
    view::{Outdated, View},
};

/// How often a store is looked at. Where the kernel tells of changes, as it does of those that are made on this machine, this is but the
/// fallback.
const STORE_INTERVAL: Duration = Duration::from_millis(500);
/// How often everything else is looked at.
const CALM_INTERVAL: Duration = Duration::from_secs(30);

/// What a keeper looks after.
pub(crate) struct Kept {
    /// The store, and what of it is mounted. The mount ends with their last owner, which is not its keeper.
    pub(crate) store: Weak<Store>,
    pub(crate) view: Weak<dyn View>,
    /// What tells the kernel.
    pub(crate) notifier: Notifier,
    /// Where failures are reported.
    pub(crate) log: Log,
}

/// Starts the thread. It ends when the other end of `stop` is closed, or the view is gone.
pub(crate) fn start(kept: Kept, stop: PipeReader) -> io::Result<()> {
    thread::Builder::new().name("keeper".into()).spawn(move || kept.work(&stop)).map(drop)
}

impl Kept {
    fn work(self, stop: &PipeReader) {
        let Some((store, view)) = self.kept() else { return };
        let (layout, follows_store) = (store.layout().clone(), view.needs().fresh_folders);
        drop((store, view));
        let changes = watched(&layout, follows_store).ok();
        let interval = if follows_store || changes.is_none() { STORE_INTERVAL } else { CALM_INTERVAL };
        let (mut shares, mut untold, mut is_failing) = (0, Vec::new(), false);
        while !is_stopped(stop, changes.as_ref(), interval) {
            let Some((store, view)) = self.kept() else { return };
            store.close_removed_packs();
            let mounts = count_alive(&layout.mounts());
            if mounts != shares {
                share(&store, &*view, mounts);
                shares = mounts;
            }
            match view.outdated() {
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
            drop((store, view));
            // What the kernel has no memory for now it is told again.
            untold.retain(|outdated| self.tell(outdated).is_err());
        }
    }

    fn kept(&self) -> Option<(Arc<Store>, Arc<dyn View>)> {
        self.store.upgrade().zip(self.view.upgrade())
    }

    fn tell(&self, outdated: &Outdated) -> io::Result<()> {
        match outdated {
            Outdated::Inode(ino) => self.notifier.inval_inode(INodeNo(*ino), 0, 0),
            Outdated::Name(folder, name) => self.notifier.inval_entry(INodeNo(*folder), OsStr::from_bytes(name)),
        }
    }
}

/// Keeps the caches of a mount within its share, as one of so many mounts.
pub(crate) fn share(store: &Store, view: &dyn View, mounts: u64) {
    store.share_cache(mounts);
    view.share(mounts);
}

/// What becomes readable when a mount of the store comes or goes and, if it is wanted, when something is committed.
fn watched(layout: &Layout, commits: bool) -> rustix::io::Result<OwnedFd> {
    let changes = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
    inotify::add_watch(&changes, layout.mounts(), WatchFlags::MOVED_TO | WatchFlags::DELETE)?;
    if commits {
        inotify::add_watch(&changes, layout.journal(), WatchFlags::MODIFY | WatchFlags::CREATE | WatchFlags::MOVED_TO)?;
    }
    Ok(changes)
}

/// Waits for a change, or as long as the interval. Returns whether the mount is over.
fn is_stopped(stop: &PipeReader, changes: Option<&OwnedFd>, interval: Duration) -> bool {
    let mut files = vec![PollFd::new(stop, PollFlags::IN)];
    files.extend(changes.map(|changes| PollFd::new(changes, PollFlags::IN)));
    let timeout = Timespec { tv_sec: interval.as_secs().cast_signed(), tv_nsec: i64::from(interval.subsec_nanos()) };
    match poll(&mut files, Some(&timeout)) {
        Ok(_) => {}
        Err(Errno::INTR) => return false,
        // Without a way to wait it would run for ever.
        Err(_) => thread::sleep(interval),
    }
    if !files[0].revents().is_empty() {
        return true;
    }
    // Which changes they were does not matter.
    let mut events = [0; 4096];
    while changes.is_some_and(|changes| rustix::io::read(changes, &mut events).is_ok_and(|bytes| bytes > 0)) {}
    false
}
