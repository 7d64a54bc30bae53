//! A store: its folder, its settings, and reading objects from it. What is done with a store lives in modules of its own.

mod make;
mod objects;

use std::{
    collections::BTreeSet,
    fs,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, RwLock, atomic::AtomicBool},
    time::Duration,
};

use self::make::has_content;
pub(crate) use self::make::{make, make_ballast, missing};
use crate::{
    config::Config,
    error::{Error, IoContext, MissingStore, Result, Younger},
    fold::{NewFold, NoFold},
    id::PackId,
    journal::{Entry, Journal, Position},
    keys::{Ids, Keys},
    layout::Layout,
    lock::WriterLock,
    pack::{BlockCache, Location, PackFile},
    progress::Progress,
    record::Checkpoint,
    secrets::Secrets,
    seen::{self, Memory},
    view::{self, View},
};

/// Options for opening a store.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// Make it where there is none.
    pub create: bool,
    /// Make it also where this user had a store, which is not there any more: its disk may not be mounted.
    pub anew: bool,
    /// The packs of a store that is made get parity. Unit tests mostly go without, so that a damaged byte is damage.
    pub parity: bool,
    /// Longest time that a commit waits for the writer lock.
    pub lock_timeout: Duration,
    /// Bytes of decoded blocks that are kept.
    pub cache_bytes: u64,
    /// A folder of the user's, outside of the store, in which it is noted how far the store goes. None: nothing is noted or known.
    pub memory: Option<PathBuf>,
    /// What is made of its events; nothing, unless one is given.
    pub fold: NewFold,
    /// The store's keys; those of one without encryption, of which all are.
    pub keys: Keys,
    /// Files that no checkpoint takes in that is made through this handle.
    pub secrets: Secrets,
}

impl OpenOptions {
    /// For the store of these keys.
    pub fn with(layout: &Layout) -> Self {
        OpenOptions { keys: layout.keys.clone(), fold: layout.fold, ..OpenOptions::default() }
    }
}

impl Default for OpenOptions {
    fn default() -> Self {
        OpenOptions {
            create: false,
            anew: false,
            parity: !cfg!(test),
            lock_timeout: Duration::from_secs(60),
            cache_bytes: 64 << 20,
            memory: None,
            fold: NoFold::make,
            keys: Keys::default(),
            secrets: Secrets::default(),
        }
    }
}

/// An open store; it can be shared by threads.
pub struct Store {
    layout: Layout,
    config: Config,
    lock_timeout: Duration,
    secrets: Secrets,
    pub(crate) memory: Memory,
    pub(crate) absorbs_later: bool,
    view: RwLock<Arc<View>>,
    /// Held by who makes a new view, so that no older one takes its place.
    renewing: Mutex<()>,
    blocks: BlockCache,
    packs: Mutex<lru::LruCache<PackId, Arc<PackFile>>>,
    /// Blocks that could not be read because they are damaged.
    unreadable: Mutex<BTreeSet<Location>>,
    was_made: bool,
    /// A reader's pin could not be made, and that was said.
    pub(crate) reads_unpinned: AtomicBool,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Store({})", self.layout.root.display())
    }
}

/// Whoever came upon damage leaves word of it, whatever he read for.
impl Drop for Store {
    fn drop(&mut self) {
        self.note_unreadable();
    }
}

/// A store with less room than this takes no checkpoint that has something new, in bytes.
const ROOM_BYTES_MIN: u64 = 1 << 20;
/// A store that was full has room again once so many bytes are free.
pub const ROOM_AGAIN: u64 = ROOM_BYTES_MIN * 16;
/// Open packs at a time.
const PACK_FILES_MAX: NonZeroUsize = NonZeroUsize::new(48).expect("not zero");

impl Store {
    /// Opens the store in a folder.
    pub fn open(root: &Path, options: &OpenOptions) -> Result<Self> {
        Self::open_with(root, options, Self::open_view)
    }

    /// Opens another store as this one is: with its keys and its fold.
    pub(crate) fn open_like(root: &Path, layout: &Layout) -> Result<Self> {
        Self::open_with(root, &OpenOptions::with(layout), Self::open_view)
    }

    fn open_view(layout: &Layout) -> Result<View> {
        match View::open(layout) {
            // What RocksDB holds can be derived, so that losing it locks nobody out.
            Err(Error::Index { reason, .. }) => View::without_index(layout, &reason),
            other => other,
        }
    }

    /// Opens the store, and fails where RocksDB does.
    pub(crate) fn open_with_index(root: &Path, options: &OpenOptions) -> Result<Self> {
        Self::open_with(root, options, View::open)
    }

    /// Opens the store with what the journal and the packs alone tell, whatever state RocksDB is in.
    pub(crate) fn open_without_index(root: &Path, options: &OpenOptions) -> Result<Self> {
        Self::open_with(root, options, View::from_journal)
    }

    fn open_with(root: &Path, options: &OpenOptions, view: impl FnOnce(&Layout) -> Result<View>) -> Result<Self> {
        let mut layout = Layout { root: root.to_owned(), keys: options.keys.clone(), has_parity: false, fold: options.fold };
        let mut was_made = false;
        match fs::symlink_metadata(layout.config()) {
            Ok(_) => {}
            Err(e) if e.kind() == std::io::ErrorKind::NotFound && Config::has_copy(&layout) => {}
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                if !options.create {
                    return Err(missing(&layout));
                }
                if let Some(earlier) = Self::missing_at(root, options.memory.as_deref()).filter(|_| !options.anew) {
                    return Err(Error::StoreMissing(Box::new(earlier)));
                }
                was_made = make(&layout, &Config::new(options.parity))?;
            }
            Err(e) if e.kind() == std::io::ErrorKind::NotADirectory => {
                return Err(Error::NotAStore { path: root.to_owned(), reason: "not a folder".into() });
            }
            Err(e) => return Err(e).at("open store", root),
        }
        let config = Config::of(&layout)?;
        layout.has_parity = config.has_parity();
        layout.make_missing();
        let (memory, view) = Memory::open(options.memory.as_deref(), &layout, config.id, || {
            let view = view(&layout)?;
            Ok((view.end().clone(), view))
        })?;
        Ok(Store {
            memory,
            layout,
            config,
            lock_timeout: options.lock_timeout,
            secrets: options.secrets.clone(),
            absorbs_later: false,
            view: RwLock::new(Arc::new(view)),
            renewing: Mutex::default(),
            blocks: BlockCache::new(options.cache_bytes),
            packs: Mutex::new(lru::LruCache::new(PACK_FILES_MAX)),
            unreadable: Mutex::default(),
            was_made,
            reads_unpinned: AtomicBool::new(false),
        })
    }

    /// True if there was no store, and it was made when this handle was opened.
    pub fn was_made(&self) -> bool {
        self.was_made
    }

    /// The store that this user had in a folder where there is none; none where nobody knows of one. `memory` is the folder of
    /// [`OpenOptions::memory`].
    pub fn missing_at(root: &Path, memory: Option<&Path>) -> Option<MissingStore> {
        let layout = Layout::new(root);
        let is_there = layout.config().exists() || Config::has_copy(&layout) || has_content(&layout);
        memory.filter(|_| !is_there).and_then(|memory| seen::last_at(memory, root))
    }

    /// A copy of its settings that is damaged while the other one is whole: its path and the fault.
    pub fn settings_fault(&self) -> Option<(PathBuf, String)> {
        let fault = Config::faults(&self.layout).ok().flatten()?;
        Some((fault.path, fault.reason))
    }

    /// The store's folder.
    pub fn path(&self) -> &Path {
        &self.layout.root
    }

    /// True if it lies on a filesystem, or is reached through a mount, that takes no writes from anybody.
    pub fn is_read_only(&self) -> bool {
        rustix::fs::statvfs(self.path()).is_ok_and(|found| found.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY))
    }

    /// Bytes that are free for this user on the filesystem that it lies on; none where that cannot be told.
    pub fn free_bytes(&self) -> Option<u64> {
        crate::filesystem::free_bytes(self.path())
    }

    /// Bytes that are free where these are too few for a checkpoint that has something new; none where there is room, or that cannot be told.
    pub fn free_when_full(&self) -> Option<u64> {
        self.free_bytes().filter(|free| *free < ROOM_BYTES_MIN && !self.is_read_only())
    }

    /// Longest time to wait for what another process holds.
    pub fn lock_timeout(&self) -> Duration {
        self.lock_timeout
    }

    /// The paths in it.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The maker of ids of its objects, by its key where it is encrypted.
    pub fn ids(&self) -> &Ids {
        &self.layout.keys.ids
    }

    /// Files that never enter it through this handle.
    pub fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    /// Its settings.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The state of the store when it was opened or last refreshed.
    pub fn view(&self) -> Arc<View> {
        self.view.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The error of a store that was opened and is not in its place any more; none while it is there. Damage is another matter.
    pub fn absence(&self) -> Option<Error> {
        let is_missing = fs::symlink_metadata(self.layout.config()).is_err_and(|e| e.kind() == std::io::ErrorKind::NotFound);
        let is_gone = is_missing && !Config::has_copy(&self.layout) && !has_content(&self.layout);
        is_gone.then(|| Error::NoStore {
            path: self.path().to_owned(),
            hint: "it was there and is moved, deleted, or on a disk that is not mounted any more; move it back there, or mount its disk"
                .into(),
        })
    }

    /// Takes in what other processes have committed since. Returns the new state. Fails where the store is not in its place any more.
    pub fn refresh(&self) -> Result<Arc<View>> {
        if let Some(gone) = self.absence() {
            return Err(gone);
        }
        if !self.view().is_stale()? {
            return Ok(self.view());
        }
        let _renewing = self.renewing.lock().unwrap_or_else(PoisonError::into_inner);
        let current = self.view();
        if !current.is_stale()? {
            return Ok(current);
        }
        self.close_removed_packs();
        let refreshed = || match current.refreshed() {
            // What RocksDB took in before this view was made is not in the journal any more.
            Err(Error::Index { .. }) => Self::open_view(&self.layout),
            other => other,
        };
        if !current.has_long_tail() {
            let next = refreshed()?;
            if !next.has_long_tail() {
                return self.set_view(next);
            }
        }
        // Most of the tail is in RocksDB by now, but not as it was when it was opened.
        match self.open_anew() {
            // The journal alone tells what is new as well.
            Err(Error::Index { .. }) => self.set_view(refreshed()?),
            other => other,
        }
    }

    /// Opens everything anew, RocksDB included.
    pub(crate) fn reopen(&self) -> Result<Arc<View>> {
        let _renewing = self.renewing.lock().unwrap_or_else(PoisonError::into_inner);
        match self.open_anew() {
            // Somebody may just be replacing it.
            Err(Error::Index { .. }) => self.set_view(Self::open_view(&self.layout)?),
            other => other,
        }
    }

    fn open_anew(&self) -> Result<Arc<View>> {
        match self.view().is_in_place_of_index() {
            true => self.set_view(Self::open_view(&self.layout)?),
            false => self.set_view(View::open(&self.layout)?),
        }
    }

    fn set_view(&self, view: View) -> Result<Arc<View>> {
        let view = Arc::new(view);
        *self.view.write().unwrap_or_else(PoisonError::into_inner) = view.clone();
        Ok(view)
    }

    /// Appends to the journal. It is for the caller to refresh the view again.
    pub(crate) fn append(&self, lock: &WriterLock, entries: &[Entry]) -> Result<Position> {
        let (_, tail) = self.latest(lock)?;
        Journal::of(&self.layout).append(&tail, entries).inspect(|end| self.memory.appended(end))
    }

    /// Says how the store is behind what this user has seen of it at its place; `None` where it is not, or nobody knows.
    pub fn younger(&self) -> Option<&Younger> {
        self.memory.younger()
    }

    /// Fails where the store is behind what this user has seen of it: what it does not know of may need what would be removed.
    pub fn ensure_not_younger(&self) -> Result<()> {
        self.younger().map_or(Ok(()), |younger| Err(Error::Younger(Box::new(younger.clone()))))
    }

    /// Takes the store as it is now for the newest state of it.
    pub fn accept_older(&self) -> Result<()> {
        self.memory.write(self.view().end())
    }

    /// The state of the store, with nothing in it that somebody else may still take back or that a power cut would: whatever is not to be
    /// undone is decided by this.
    pub(crate) fn view_under(&self, _lock: &WriterLock) -> Result<Arc<View>> {
        let view = self.refresh()?;
        if let Some(damage) = view.damage() {
            return Err(damage);
        }
        Journal::of(&self.layout).sync()?;
        Ok(view)
    }

    /// Fails where the store has a feature with which this release must not write to it, or a journal that was read around damage: what stands
    /// there may be about anything.
    pub fn check_writable(&self) -> Result<()> {
        self.config.check_writable(&self.layout.root)?;
        self.view().damage().map_or(Ok(()), Err)
    }

    /// Takes the writer lock.
    pub(crate) fn lock(&self, progress: &dyn Progress) -> Result<WriterLock> {
        self.config.check_writable(&self.layout.root)?;
        let lock = WriterLock::take(&self.layout.root, self.lock_timeout, progress)?;
        Config::make_copy(&self.layout);
        Ok(lock)
    }

    /// The checkpoints that exist, in order of commit.
    pub fn checkpoints(&self) -> Result<Vec<Checkpoint>> {
        self.view().checkpoints().map(<[Checkpoint]>::to_vec)
    }

    /// Moves the journal's tail into RocksDB, so that the next opening has less to read.
    pub fn absorb(&self) -> Result<()> {
        let settled = self.view_under(&self.lock(&())?)?;
        view::absorb(&self.layout, &Default::default(), settled.end())?;
        self.reopen()?;
        Ok(())
    }

    /// Leaves it to the caller to bring RocksDB up to date by [`Store::absorb_if_due`], now and then: it takes longer than to commit an event.
    pub fn absorbing_later(mut self) -> Self {
        self.absorbs_later = true;
        self
    }

    /// Moves the journal's tail into RocksDB where it has grown so long that this is due. Who uses the store meanwhile does not wait: the view that
    /// they have is good, and is replaced once the new one is there.
    pub fn absorb_if_due(&self) -> Result<()> {
        if !self.view().wants_absorbing() || crate::files::host(&self.layout.root).is_some() {
            return Ok(());
        }
        let settled = self.view_under(&self.lock(&())?)?;
        view::absorb(&self.layout, &Default::default(), settled.end())?;
        let opened = View::open(&self.layout)?;
        let _renewing = self.renewing.lock().unwrap_or_else(PoisonError::into_inner);
        self.set_view(opened.refreshed()?).map(drop)
    }
}

/// The default store: `$XDG_DATA_HOME/parhelia` as the caller has resolved it.
pub fn default_path(data_folder: &Path) -> PathBuf {
    data_folder.join("parhelia")
}
