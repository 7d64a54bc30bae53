//! Mounting: from a store and a mountpoint to a session that answers the kernel.

use std::{
    ffi::OsString,
    fs,
    io::{self, PipeWriter},
    path::{Path, PathBuf},
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    thread,
    time::Duration,
};

use parhelia_store::{Store, name, record::Checkpoint};
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use ulid::Ulid;

use crate::{
    activity::Activity,
    attach::{Attached, check_device},
    counts::{Counters, Counts},
    error::{Error, Result},
    fs::ReadOnly,
    guard::Guard,
    identity::{Identity, is_disconnected},
    keeper::{self, Kept, Wakes},
    mountinfo,
    notes::Notes,
    one_tree::OneTree,
    prefetch, push,
    root_view::RootView,
    state::Registration,
    unmount::{detach_dead, detach_if, resolved, unmount},
    view::View,
};

/// Takes a line for a log.
pub type Log = Arc<dyn Fn(&str) + Send + Sync>;

/// What to mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// The workspace of one checkpoint.
    Tree {
        /// The checkpoint.
        checkpoint: Ulid,
        /// A folder in it; empty for all of it.
        path: Vec<u8>,
    },
    /// Every checkpoint, by session, date and tag.
    Store,
}

impl What {
    /// As `parhelia mounts` shows it.
    fn text(&self) -> String {
        match self {
            What::Store => "store".into(),
            What::Tree { checkpoint, path } if path.is_empty() => checkpoint.to_string(),
            What::Tree { checkpoint, path } => format!("{checkpoint}:{}", name::display(path)),
        }
    }
}

/// How to mount.
#[derive(Clone)]
pub struct Options {
    /// Other users may look, as far as the modes and ACLs of the entries let them.
    pub allow_other: bool,
    /// How many requests are answered at a time; 0 for one per processor, and at least two.
    pub threads: usize,
    /// Bytes of decoded folders that are kept. Blocks of content have the store's own cache.
    pub tree_cache_bytes: u64,
    /// The command of a process that detaches the mount when this process dies: it calls [`crate::guard`] with the two arguments that
    /// are appended. Empty for none.
    pub guard: Vec<OsString>,
    /// Where damage is reported.
    pub log: Log,
    /// The content of a checkpoint's `manifest.json` in a mounted store.
    pub manifest: Manifest,
}

/// Renders what a checkpoint says of itself.
pub type Manifest = fn(&Checkpoint) -> Vec<u8>;

/// The sealed record, as it is stored.
fn sealed(checkpoint: &Checkpoint) -> Vec<u8> {
    checkpoint.sealed.clone().into()
}

impl Default for Options {
    fn default() -> Self {
        Options {
            allow_other: false,
            threads: 0,
            tree_cache_bytes: 16 << 20,
            guard: Vec::new(),
            log: Arc::new(|_| {}),
            manifest: sealed,
        }
    }
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Options { allow_other, threads, tree_cache_bytes, guard, .. } = self;
        f.debug_struct("Options")
            .field("allow_other", allow_other)
            .field("threads", threads)
            .field("tree_cache_bytes", tree_cache_bytes)
            .field("guard", guard)
            .finish_non_exhaustive()
    }
}

/// What the kernel reads ahead of a sequential reader, in KiB: two of its largest requests, so that one is answered while the reader
/// takes in the other. The default asks eight times as often.
const READ_AHEAD_KIB: u32 = 2048;
/// How long a session may take to end once it is unmounted.
const END_TIMEOUT: Duration = Duration::from_secs(2);

enum Event {
    Ended(io::Result<()>),
    Stop,
}

/// Asks a mount to end, from wherever: a signal handler's thread, for one.
#[derive(Clone, Debug)]
pub struct Stopper(Sender<Event>);

impl Stopper {
    /// Makes [`Mounted::wait`] unmount and return.
    pub fn stop(&self) {
        // Where nobody receives, it has ended already.
        let _ = self.0.send(Event::Stop);
    }
}

/// A mount that this process serves. Dropping it unmounts.
pub struct Mounted {
    mountpoint: PathBuf,
    identity: Identity,
    events: Receiver<Event>,
    stopper: Stopper,
    counters: Arc<Counters>,
    store: Arc<Store>,
    log: Log,
    has_ended: bool,
    _keeper: PipeWriter,
    guard: Option<Guard>,
    registration: Option<Registration>,
}

impl std::fmt::Debug for Mounted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Mounted({})", self.mountpoint.display())
    }
}

/// Mounts a checkpoint, or the whole store, read-only. When this returns, the mount answers.
pub fn mount(store: Arc<Store>, what: What, mountpoint: &Path, options: &Options) -> Result<Mounted> {
    let mountpoint = checked(&store, mountpoint)?;
    let failed = |source| Error::Io { action: "start a thread for", path: mountpoint.clone(), source };
    check_device()?;
    let acls = options.allow_other;
    // A mount of a store that cannot be written to serves as well; only nobody is told of it.
    let registration = Registration::new(&store, &mountpoint, what.text())
        .map_err(|e| (options.log)(&format!("{e}; `parhelia mounts` does not list this mount")))
        .ok();
    let view: Arc<dyn View> = match what {
        What::Tree { checkpoint, path } => {
            let pin = store.pin_for_reading([checkpoint], "mount", |text| (options.log)(text));
            let none = parhelia_store::Error::NoCheckpoint { selector: checkpoint.to_string() };
            let found = store.refresh()?.checkpoint(checkpoint)?.ok_or(none)?;
            Arc::new(OneTree::new(&store, found, &path, options.tree_cache_bytes, acls, pin)?)
        }
        What::Store => Arc::new(RootView::new(&store, options.tree_cache_bytes, acls, options.manifest)?),
    };
    let counters = Arc::new(Counters::default());
    let mut notes = Notes::default();
    let (prefetching, pushing) = (notes.listener(), notes.listener());
    let (activity, read) = Activity::new().map_err(failed)?;
    let (stop, keeper) = io::pipe().map_err(failed)?;
    let activity = Arc::new(activity);
    let filesystem = ReadOnly::new(view.clone(), counters.clone(), options.log.clone(), notes, activity.clone());
    let attached = Attached::new(filesystem, &mountpoint, options)?;
    let (identity, notifier) = (attached.identity, attached.notifier());
    let prefetching = prefetch::start(view.clone(), prefetching, counters.clone());
    // Without a connection of its own, nothing is pushed.
    let pushing = match attached.device() {
        Ok(device) => push::start(view.clone(), pushing, device, counters.clone()),
        Err(_) => None,
    };

    let (events_in, events) = channel();
    let ended = events_in.clone();
    let mounted = Mounted {
        mountpoint: mountpoint.clone(),
        identity,
        events,
        stopper: Stopper(events_in),
        counters,
        store: store.clone(),
        log: options.log.clone(),
        has_ended: false,
        _keeper: keeper,
        guard: Guard::start(&options.guard, &mountpoint, identity),
        registration,
    };
    let serving = attached.serve(&mountpoint)?;
    let spawned = thread::Builder::new().name("mount".into()).spawn(move || {
        let result = serving.join().unwrap_or_else(|_| Err(io::Error::other("a thread of the mount panicked")));
        // They hold the view, and so the pin.
        for helper in [prefetching, pushing].into_iter().flatten() {
            let _ = helper.join();
        }
        let _ = ended.send(Event::Ended(result));
    });
    spawned.map_err(failed)?;
    // Only root may; without it, long reads take more requests.
    let _ = fs::write(format!("/sys/class/bdi/{}/read_ahead_kb", identity.device()), READ_AHEAD_KIB.to_string());
    statx(CWD, &mountpoint, AtFlags::empty(), StatxFlags::BASIC_STATS).map_err(|e| Error::Io {
        action: "stat",
        path: mountpoint.clone(),
        source: e.into(),
    })?;
    let busy_mark = mounted.registration.as_ref().map(Registration::busy_mark);
    let (store, view, log) = (Arc::downgrade(&store), Arc::downgrade(&view), options.log.clone());
    let kept = Kept { store, view, notifier, activity, busy_mark, log };
    keeper::start(kept, Wakes { stop, read }).map_err(failed)?;
    Ok(mounted)
}

/// The mountpoint as the kernel will know it, if it can be one.
fn checked(store: &Store, mountpoint: &Path) -> Result<PathBuf> {
    let refuse = |reason: String| Error::Mountpoint { mountpoint: mountpoint.to_owned(), reason };
    let path = resolved(mountpoint);
    // One whose process died makes room. Its guard may be faster.
    if mountinfo::ours_at(&path)?.is_some() && !detach_dead(&path)? && mountinfo::ours_at(&path)?.is_some() {
        return Err(refuse("a parhelia mount is there already; unmount it first, or choose another folder".into()));
    }
    match fs::metadata(&path) {
        Ok(found) if found.is_dir() => {}
        Ok(_) => return Err(refuse("it is not a folder".into())),
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Err(refuse("there is no such folder; make it first".into())),
        Err(e) => return Err(refuse(e.to_string())),
    }
    let root = resolved(store.path());
    if path.starts_with(&root) {
        return Err(refuse("it is the store, or inside it; choose another folder".into()));
    }
    if root.starts_with(&path) {
        return Err(refuse("the store is inside it, and would be hidden; choose another folder".into()));
    }
    // Whoever may not list it is told by the mount itself what he may not.
    if fs::read_dir(&path).is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(refuse(
            "it is not empty, and what is in it would be hidden; choose an empty folder, such as a new one".into(),
        ));
    }
    Ok(path)
}

impl Mounted {
    /// Where it is mounted.
    pub fn mountpoint(&self) -> &Path {
        &self.mountpoint
    }

    /// What can end [`Mounted::wait`].
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// How many requests have come from the kernel so far.
    pub fn counts(&self) -> Counts {
        self.counters.read()
    }

    /// What was done, for the log.
    fn account(&self) -> String {
        format!("unmounted after {}; {} blocks decoded", self.counts(), self.store.decoded_blocks())
    }

    /// Serves until somebody unmounts, or asks the [`Stopper`] to. A mount that is in use when it is asked is detached: it is gone
    /// for everybody who looks from then on, and those who use it get errors.
    pub fn wait(mut self) -> Result<()> {
        let ended = self.await_event();
        (self.log)(&self.account());
        ended
    }

    fn await_event(&mut self) -> Result<()> {
        match self.events.recv() {
            Ok(Event::Ended(result)) => self.ended(result),
            Ok(Event::Stop) | Err(_) => match self.unmount() {
                Err(Error::Busy { .. }) => {
                    detach_if(&self.mountpoint, |_, found| found == self.identity)?;
                    self.has_ended = true;
                    Ok(())
                }
                other => other,
            },
        }
    }

    /// Unmounts. Where somebody uses the mount, says who, and leaves it.
    pub fn unmount(&mut self) -> Result<()> {
        if self.has_ended || !self.is_mounted() {
            return Ok(());
        }
        match unmount(&self.mountpoint) {
            // Somebody else was faster.
            Ok(()) | Err(Error::NotMounted { .. }) => {}
            Err(e) => return Err(e),
        }
        match self.await_end() {
            Some(result) => self.ended(result),
            None => Ok(()),
        }
    }

    fn ended(&mut self, result: io::Result<()>) -> Result<()> {
        self.has_ended = true;
        // A session ends because it was unmounted, or because its connection was cut, which leaves a mount that does not answer. Where the
        // kernel uses its numbers again, one that answers came later.
        let is_left = |root: &_, found| found == self.identity && (result.is_err() || is_disconnected(root));
        let _ = detach_if(&self.mountpoint, is_left);
        result.map_err(|source| Error::Io { action: "serve", path: self.mountpoint.clone(), source })
    }

    fn await_end(&self) -> Option<io::Result<()>> {
        loop {
            match self.events.recv_timeout(END_TIMEOUT) {
                Ok(Event::Ended(result)) => return Some(result),
                Ok(Event::Stop) => {}
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return None,
            }
        }
    }

    /// Whether what is mounted there is this mount, and not one that came after it.
    fn is_mounted(&self) -> bool {
        Identity::at(&self.mountpoint).is_ok_and(|now| now == self.identity)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if !self.has_ended && self.is_mounted() && unmount(&self.mountpoint).is_err() {
            let _ = detach_if(&self.mountpoint, |_, found| found == self.identity);
        } else if !self.has_ended {
            let _ = self.await_end();
        }
        // Before the registration goes, so that nobody finds a mount that nobody guards.
        drop(self.guard.take());
    }
}
