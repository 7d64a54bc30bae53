//! Mounting: from a store and a mountpoint to a session that answers the kernel.

use std::{
    fs::{self, File},
    io,
    mem::{self, ManuallyDrop},
    os::fd::AsFd,
    path::{Path, PathBuf},
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use fuser::{Config, MountOption, Session, SessionACL};
use parhelia_store::{Store, name};
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use ulid::Ulid;

use crate::{
    counts::{Counters, Counts},
    error::{Error, Result},
    fs::ReadOnly,
    guard::Guard,
    mountinfo,
    notes::Notes,
    one_tree::OneTree,
    prefetch, push,
    root_view::{RootView, watch},
    state::{Registration, is_disconnected},
    unmount::{detach, resolved, unmount},
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
    /// Whether a mount whose process dies is detached by another one.
    pub guard: bool,
    /// Where damage is reported.
    pub log: Log,
}

impl Default for Options {
    fn default() -> Self {
        Options { allow_other: false, threads: 0, tree_cache_bytes: 16 << 20, guard: true, log: Arc::new(|_| {}) }
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
/// How often a mount that only waits closes packs that gc has removed.
const CLOSE_INTERVAL: Duration = Duration::from_secs(30);

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
    device: Option<String>,
    events: Receiver<Event>,
    stopper: Stopper,
    counters: Arc<Counters>,
    store: Arc<Store>,
    log: Log,
    has_ended: bool,
    _watch: Option<Sender<()>>,
    guard: Option<Guard>,
    _registration: Option<Registration>,
}

impl std::fmt::Debug for Mounted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Mounted({})", self.mountpoint.display())
    }
}

/// Mounts a checkpoint, or the whole store, read-only. When this returns, the mount answers.
pub fn mount(store: Arc<Store>, what: What, mountpoint: &Path, options: &Options) -> Result<Mounted> {
    let mountpoint = checked(&store, mountpoint)?;
    device()?;
    let acls = options.allow_other;
    // A mount of a store that cannot be written to serves as well; only nobody is told of it.
    let registration = Registration::new(&store, &mountpoint, what.text())
        .map_err(|e| (options.log)(&format!("{e}; `parhelia mounts` does not list this mount")))
        .ok();
    let (view, root): (Arc<dyn View>, Option<Arc<RootView>>) = match what {
        What::Tree { checkpoint, path } => {
            let pin = store.pin_for_reading([checkpoint], "mount", |text| (options.log)(text));
            let state = store.refresh()?;
            let found = state.checkpoints()?.iter().find(|c| c.record.id == checkpoint).cloned();
            let none = parhelia_store::Error::NoCheckpoint { selector: checkpoint.to_string() };
            let found = found.ok_or(none)?;
            (Arc::new(OneTree::new(&store, found, &path, options.tree_cache_bytes, acls, pin)?), None)
        }
        What::Store => {
            let root = Arc::new(RootView::new(&store, options.tree_cache_bytes, acls)?);
            (root.clone(), Some(root))
        }
    };
    let counters = Arc::new(Counters::default());
    let mut notes = Notes::default();
    let (prefetching, pushing) = (notes.listener(), notes.listener());
    let filesystem = ReadOnly::new(view.clone(), counters.clone(), options.log.clone(), notes);
    let config = config(options);
    let session = Session::new(filesystem, &mountpoint, &config).map_err(|source| refused(&mountpoint, source, options))?;
    let prefetching = prefetch::start(view.clone(), prefetching, counters.clone());
    // Without a connection of its own, nothing is pushed.
    let pushing = match session.as_fd().try_clone_to_owned() {
        Ok(device) => push::start(view, pushing, device, counters.clone()),
        Err(_) => None,
    };

    let (events_in, events) = channel();
    let ended = events_in.clone();
    let mut mounted = Mounted {
        mountpoint: mountpoint.clone(),
        device: None,
        events,
        stopper: Stopper(events_in),
        counters,
        store: store.clone(),
        log: options.log.clone(),
        has_ended: false,
        _watch: None,
        guard: options.guard.then(|| Guard::start(&mountpoint)).flatten(),
        _registration: registration,
    };
    let serving = serve(session, &mountpoint)?;
    let spawned = thread::Builder::new().name("mount".into()).spawn(move || {
        let result = serving.join().unwrap_or_else(|_| Err(io::Error::other("a thread of the mount panicked")));
        // They hold the view, and so the pin.
        for helper in [prefetching, pushing].into_iter().flatten() {
            let _ = helper.join();
        }
        let _ = ended.send(Event::Ended(result));
    });
    spawned.map_err(|source| Error::Io { action: "start a thread for", path: mountpoint.clone(), source })?;
    mounted.device = mountinfo::ours_at(&mountpoint)?.map(|line| line.device);
    if let Some(device) = &mounted.device {
        // Only root may; without it, long reads take more requests.
        let _ = fs::write(format!("/sys/class/bdi/{device}/read_ahead_kb"), READ_AHEAD_KIB.to_string());
    }
    statx(CWD, &mountpoint, AtFlags::empty(), StatxFlags::BASIC_STATS).map_err(|e| Error::Io {
        action: "stat",
        path: mountpoint.clone(),
        source: e.into(),
    })?;
    if let Some(root) = root {
        let (stop_in, stop) = channel();
        let (root, log) = (Arc::downgrade(&root), options.log.clone());
        let watcher = thread::Builder::new().name("watch".into()).spawn(move || watch(&root, &stop, &*log));
        mounted._watch = watcher.is_ok().then_some(stop_in);
    }
    Ok(mounted)
}

/// Answers the kernel in threads of its own, until the session ends.
///
/// A session of fuser unmounts its mountpoint when it is over, whatever is mounted there by then. So its handle is taken from it, and the
/// rest is forgotten: with it stays one descriptor of a connection that is over. Whoever unmounts is [`Mounted`], which looks first.
fn serve(session: Session<ReadOnly>, mountpoint: &Path) -> Result<JoinHandle<io::Result<()>>> {
    let failed = |source| Error::Io { action: "start a thread for", path: mountpoint.to_owned(), source };
    let stand_in = thread::Builder::new().spawn(|| Ok(())).map_err(failed)?;
    let mut session = ManuallyDrop::new(session.spawn().map_err(failed)?);
    Ok(mem::replace(&mut session.guard, stand_in))
}

/// The mountpoint as the kernel will know it, if it can be one.
fn checked(store: &Store, mountpoint: &Path) -> Result<PathBuf> {
    let refuse = |reason: String| Error::Mountpoint { mountpoint: mountpoint.to_owned(), reason };
    let path = resolved(mountpoint);
    if mountinfo::ours_at(&path)?.is_some() {
        if !is_disconnected(&path) {
            return Err(refuse("a parhelia mount is there already; unmount it first, or choose another folder".into()));
        }
        // Its process died.
        detach(&path)?;
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

/// Whether this user may use FUSE at all.
fn device() -> Result<()> {
    let hint = |e: &io::Error| match e.kind() {
        io::ErrorKind::PermissionDenied => {
            "only root may mount here; to let users, `chmod 666 /dev/fuse` as root (udev rules make it last), \
             and install fuse3 for fusermount3"
        }
        _ => "load the module with `modprobe fuse` as root; in a container, give it the device (--device /dev/fuse)",
    };
    match File::options().read(true).write(true).open("/dev/fuse") {
        Ok(_) => Ok(()),
        Err(source) => Err(Error::NoFuse { hint: hint(&source), source }),
    }
}

/// Whether fusermount3 can be had, which can unmount for a dead process.
fn has_helper() -> bool {
    ["/usr/bin", "/bin", "/usr/local/bin", "/usr/sbin"].iter().any(|folder| Path::new(folder).join("fusermount3").exists())
}

fn config(options: &Options) -> Config {
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::RO,
        MountOption::NoAtime,
        MountOption::NoDev,
        MountOption::NoSuid,
        MountOption::DefaultPermissions,
        MountOption::FSName("parhelia".into()),
        // As a custom option it reaches the kernel by both ways of mounting.
        MountOption::CUSTOM("subtype=parhelia".into()),
    ];
    config.acl = if options.allow_other { SessionACL::All } else { SessionACL::Owner };
    let threads = match options.threads {
        0 => thread::available_parallelism().map_or(2, usize::from).min(8),
        n => n,
    };
    config.n_threads = Some(threads.max(2));
    config
}

fn refused(mountpoint: &Path, source: io::Error, options: &Options) -> Error {
    let said = source.to_string();
    let hint = if said.contains("user_allow_other") {
        "; let root add `user_allow_other` to /etc/fuse.conf, or mount without --allow-other"
    } else if !has_helper() && !rustix::process::geteuid().is_root() {
        "; install fuse3 for fusermount3, by which users mount"
    } else if options.allow_other {
        "; --allow-other may be what is refused"
    } else {
        ""
    };
    Error::Refused { mountpoint: mountpoint.to_owned(), source, hint }
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
        let event = loop {
            match self.events.recv_timeout(CLOSE_INTERVAL) {
                Err(RecvTimeoutError::Timeout) => self.store.close_removed_packs(),
                other => break other,
            }
        };
        match event {
            Ok(Event::Ended(result)) => self.ended(result),
            Ok(Event::Stop) | Err(_) => match self.unmount() {
                Err(Error::Busy { .. }) => {
                    detach(&self.mountpoint)?;
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
        unmount(&self.mountpoint)?;
        match self.await_end() {
            Some(result) => self.ended(result),
            None => Ok(()),
        }
    }

    fn ended(&mut self, result: io::Result<()>) -> Result<()> {
        self.has_ended = true;
        // A session ends because it was unmounted, or because its connection was cut, which leaves a mount that does not answer. One that
        // answers came after it, with the device number that it had.
        let is_left = self.device.is_some() && self.is_mounted() && (result.is_err() || is_disconnected(&self.mountpoint));
        if is_left {
            let _ = detach(&self.mountpoint);
        }
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
        let now = mountinfo::ours_at(&self.mountpoint).ok().flatten().map(|line| line.device);
        now.is_some() && (self.device.is_none() || now == self.device)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if !self.has_ended && self.is_mounted() && unmount(&self.mountpoint).is_err() {
            let _ = detach(&self.mountpoint);
        } else if !self.has_ended {
            let _ = self.await_end();
        }
        // Before the registration goes, so that nobody finds a mount that nobody guards.
        drop(self.guard.take());
    }
}
