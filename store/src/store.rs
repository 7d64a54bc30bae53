//! A store: its folder, its settings, and reading objects from it. What is done with a store lives in modules of its own.

use std::{
    fs,
    io::{self, Write},
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, RwLock, atomic::AtomicBool},
    time::Duration,
};

use crate::{
    codec::Malformed,
    config::Config,
    disk,
    error::{Error, IoContext, Result},
    files::{self, Folder, How},
    format::{BALLAST_BYTES, DEPTH_READ_MAX, PREFIX_BYTES_MAX},
    id::{BlobId, ObjectId, PackId, TreeId},
    journal::{Entry, Journal, Position},
    keys::{Ids, Keys},
    layout::Layout,
    lock::WriterLock,
    pack::{Block, BlockCache, Got, Location, ObjectKind, OnBases, PackFile, Read, Reuse},
    progress::Progress,
    record::Checkpoint,
    secrets::Secrets,
    tree::{self, TreeNode},
    view::{self, View},
};

/// How to open a store.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// Make it where there is none.
    pub create: bool,
    /// How long a commit waits for the writer lock.
    pub lock_timeout: Duration,
    /// How many bytes of decoded blocks are kept.
    pub cache_bytes: u64,
    /// The store's keys; those of one without encryption, of which all are.
    pub keys: Keys,
    /// What no checkpoint that is made through this handle takes in.
    pub secrets: Secrets,
}

impl OpenOptions {
    /// For the store of these keys.
    pub fn with(layout: &Layout) -> Self {
        OpenOptions { keys: layout.keys.clone(), ..OpenOptions::default() }
    }
}

impl Default for OpenOptions {
    fn default() -> Self {
        OpenOptions {
            create: false,
            lock_timeout: Duration::from_secs(60),
            cache_bytes: 64 << 20,
            keys: Keys::default(),
            secrets: Secrets::default(),
        }
    }
}

/// An open store.
pub struct Store {
    layout: Layout,
    config: Config,
    lock_timeout: Duration,
    secrets: Secrets,
    view: RwLock<Arc<View>>,
    /// Held by who makes a new view, so that no older one takes its place.
    renewing: Mutex<()>,
    blocks: BlockCache,
    packs: Mutex<lru::LruCache<PackId, Arc<PackFile>>>,
    /// A reader's pin could not be made, and that was said.
    pub(crate) reads_unpinned: AtomicBool,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Store({})", self.layout.root.display())
    }
}

/// What one read may take, of blocks that build on each other: more than writers make, and little enough for packs that somebody forged.
#[derive(Default)]
struct Budget {
    /// Blocks in a row that wait for their bases.
    depth: u32,
    /// Blocks that were read.
    reads: u32,
    /// Bytes that are held meanwhile.
    held_bytes: usize,
}

/// Our own blocks build on at most 25 others, and after repacking on those that their bases were copied to.
const READS_MAX: u32 = 4096;
const HELD_BYTES_MAX: usize = 256 << 20;

impl Budget {
    /// Whether one more base may be read; if not, why.
    fn check(&self) -> std::result::Result<(), &'static str> {
        if self.depth > DEPTH_READ_MAX {
            return Err("too many blocks build on each other");
        }
        match self.reads < READS_MAX && self.held_bytes < HELD_BYTES_MAX {
            true => Ok(()),
            false => Err("too much has to be read for it"),
        }
    }
}

/// Open packs at a time.
const PACK_FILES_MAX: NonZeroUsize = NonZeroUsize::new(48).expect("not zero");

impl Store {
    /// Opens the store in a folder.
    pub fn open(root: &Path, options: &OpenOptions) -> Result<Self> {
        Self::open_with(root, options, Self::open_view)
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
        let layout = Layout { root: root.to_owned(), keys: options.keys.clone() };
        match fs::symlink_metadata(layout.config()) {
            Ok(_) => {}
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                if !options.create {
                    return Err(missing(root));
                }
                make(&layout)?;
            }
            Err(e) if e.kind() == std::io::ErrorKind::NotADirectory => {
                return Err(Error::NotAStore { path: root.to_owned(), reason: "not a folder".into() });
            }
            Err(e) => return Err(e).at("open store", root),
        }
        let config = Config::read(&layout.config(), root)?;
        layout.make_missing();
        let view = view(&layout)?;
        Ok(Store {
            layout,
            config,
            lock_timeout: options.lock_timeout,
            secrets: options.secrets.clone(),
            view: RwLock::new(Arc::new(view)),
            renewing: Mutex::default(),
            blocks: BlockCache::new(options.cache_bytes),
            packs: Mutex::new(lru::LruCache::new(PACK_FILES_MAX)),
            reads_unpinned: AtomicBool::new(false),
        })
    }

    /// The store's folder.
    pub fn path(&self) -> &Path {
        &self.layout.root
    }

    /// True if it lies on a filesystem, or is reached through a mount, that takes no writes from anybody.
    pub fn is_read_only(&self) -> bool {
        rustix::fs::statvfs(self.path()).is_ok_and(|found| found.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY))
    }

    /// How long to wait for what another process holds.
    pub fn lock_timeout(&self) -> Duration {
        self.lock_timeout
    }

    /// Where things are in it.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Makes its ids.
    pub fn ids(&self) -> &Ids {
        &self.layout.keys.ids
    }

    /// What never enters it through this handle.
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

    /// Takes in what other processes have committed since. Returns the new state.
    pub fn refresh(&self) -> Result<Arc<View>> {
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
        Journal::of(&self.layout).append(&tail, entries)
    }

    /// The state of the store, with nothing in it that somebody else may still take back or that a power cut would: whatever is not to be
    /// undone is decided by this.
    pub(crate) fn view_under(&self, _lock: &WriterLock) -> Result<Arc<View>> {
        let view = self.refresh()?;
        Journal::of(&self.layout).sync()?;
        Ok(view)
    }

    /// Fails where the store has a feature with which this release must not write to it.
    pub(crate) fn check_writable(&self) -> Result<()> {
        self.config.check_writable(&self.layout.root)
    }

    /// Takes the writer lock.
    pub(crate) fn lock(&self, progress: &dyn Progress) -> Result<WriterLock> {
        self.check_writable()?;
        WriterLock::take(&self.layout.root, self.lock_timeout, progress)
    }

    /// An open pack.
    pub(crate) fn pack(&self, id: PackId) -> Result<Arc<PackFile>> {
        let mut packs = self.packs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pack) = packs.get(&id) {
            return Ok(pack.clone());
        }
        let pack = Arc::new(PackFile::open(&self.layout, id)?);
        packs.put(id, pack.clone());
        Ok(pack)
    }

    /// Closes packs whose files are gone, so that their bytes are free.
    pub(crate) fn close_packs(&self, gone: &[PackId]) {
        let mut packs = self.packs.lock().unwrap_or_else(PoisonError::into_inner);
        for id in gone {
            packs.pop(id);
        }
    }

    /// The same for those that other processes have removed. Who holds a store open without looking at it calls this now and then.
    pub fn close_removed_packs(&self) {
        let mut packs = self.packs.lock().unwrap_or_else(PoisonError::into_inner);
        let removed: Vec<PackId> = packs.iter().filter(|(_, pack)| pack.is_removed()).map(|(id, _)| *id).collect();
        for id in removed {
            packs.pop(&id);
        }
    }

    /// The decoded block at a place, from the cache or from its pack. One reader decodes it, others wait for that.
    pub fn block(&self, location: Location) -> Result<Arc<Block>> {
        self.block_for(location, Reuse::Likely)
    }

    /// The same, for whoever may or may not come back to it.
    pub fn block_for(&self, location: Location, reuse: Reuse) -> Result<Arc<Block>> {
        self.block_within(location, reuse, &mut Budget::default())
    }

    /// The same, of a block on which others may build.
    fn block_within(&self, location: Location, reuse: Reuse, budget: &mut Budget) -> Result<Arc<Block>> {
        let got = self.blocks.get(location, reuse, || {
            budget.reads += 1;
            self.pack(location.pack)?.read_block(location)
        });
        let block = match got? {
            Got::Block(block) => return Ok(block),
            Got::OnBases(block) => block,
        };
        let (prefix, depth) = self.bases(&block, budget)?;
        match self.blocks.get(location, reuse, || block.decode(&prefix, depth).map(Read::Block))? {
            Got::Block(block) => Ok(block),
            // Nothing but the block that was just decoded is given back.
            Got::OnBases(_) => self.decode(Read::OnBases(block)).map(Arc::new),
        }
    }

    /// The bytes of a block's bases, in order, and how many blocks in a row were decoded for them.
    fn bases(&self, block: &OnBases, budget: &mut Budget) -> Result<(Vec<u8>, u32)> {
        let (mut prefix, mut depth) = (Vec::new(), 0);
        budget.depth += 1;
        budget.held_bytes += block.payload_bytes();
        for (kind, id) in block.bases() {
            budget.check().map_err(|reason| block.lacks(id, &reason))?;
            let base = self
                .object_block_within(kind, id, budget)
                .map_err(|e| if e.is_damage() { block.lacks_for(id, &e) } else { e })?;
            let bytes = base.object(id).unwrap_or_default();
            prefix.extend_from_slice(bytes);
            budget.held_bytes += bytes.len();
            depth = depth.max(base.depth);
            if prefix.len() > PREFIX_BYTES_MAX {
                return Err(block.lacks(id, &"with the others it is too long"));
            }
        }
        budget.depth -= 1;
        budget.held_bytes -= prefix.len() + block.payload_bytes();
        Ok((prefix, depth))
    }

    /// Decodes a block that was read from a pack, and keeps neither it nor its pack.
    pub(crate) fn decode(&self, read: Read) -> Result<Block> {
        match read {
            Read::Block(block) => Ok(block),
            Read::OnBases(block) => {
                let (prefix, depth) = self.bases(&block, &mut Budget::default())?;
                block.decode(&prefix, depth)
            }
        }
    }

    /// How many blocks were read and decoded so far, those of trees included. Others were found in the cache.
    pub fn decoded_blocks(&self) -> u64 {
        self.blocks.decoded()
    }

    /// Keeps decoded blocks within one of so many equal shares of [`OpenOptions::cache_bytes`] from now on.
    pub fn share_cache(&self, shares: u64) {
        self.blocks.share(shares);
    }

    /// How many bytes of decoded blocks are kept at most.
    pub fn cache_bytes(&self) -> u64 {
        self.blocks.bytes_max()
    }

    /// How many bytes of decoded blocks are for those who go through long files.
    pub fn passing_bytes(&self) -> u64 {
        self.blocks.passing_bytes()
    }

    /// Where the next block of the same pack lies; `None` behind the last one, or where the pack is damaged or gone.
    pub fn block_after(&self, location: Location) -> Option<Location> {
        let offset = location.offset.checked_add(u64::from(location.block_bytes))?;
        let directory = self.pack(location.pack).ok()?.read_directory(offset).ok()?;
        Some(Location { pack: location.pack, offset, block_bytes: u32::try_from(directory.block_bytes()).ok()? })
    }

    /// Where an object lies.
    pub fn locate(&self, kind: ObjectKind, id: ObjectId) -> Result<Location> {
        let missing = || Error::Missing { kind: kind.name(), id: id.to_string() };
        self.view().locate(id)?.ok_or_else(missing)
    }

    fn locate_block(&self, kind: ObjectKind, id: ObjectId, budget: &mut Budget) -> Result<(Location, Arc<Block>)> {
        let location = self.locate(kind, id)?;
        Ok((location, self.block_within(location, Reuse::Likely, budget).map_err(|e| of_object(e, kind, id))?))
    }

    /// Looks an object up again, as long as the journal grows: it may be moved more than once.
    fn locate_moved_block(&self, kind: ObjectKind, id: ObjectId, budget: &mut Budget) -> Result<(Location, Arc<Block>)> {
        loop {
            let before = self.view().end().clone();
            self.reopen()?;
            match self.locate_block(kind, id, budget) {
                Err(e) if e.is_damage() && *self.view().end() != before => {}
                Err(Error::Io { path, source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
                    let what = format!("{} {id}", kind.name());
                    return Err(Error::Corrupt { what, place: path, reason: "the pack is missing".into() });
                }
                other => return other,
            }
        }
    }

    /// The block that holds an object, of which [`Block::object`] gives the bytes. Where garbage collection has moved the object
    /// meanwhile, it is looked up again.
    pub fn object_block(&self, kind: ObjectKind, id: ObjectId) -> Result<Arc<Block>> {
        self.object_block_within(kind, id, &mut Budget::default())
    }

    fn object_block_within(&self, kind: ObjectKind, id: ObjectId, budget: &mut Budget) -> Result<Arc<Block>> {
        let before = self.view();
        let (location, block) = match self.locate_block(kind, id, budget) {
            Err(e) if is_missing(&e) => self.locate_moved_block(kind, id, budget)?,
            // What its block builds on may be gone because the object is somewhere else by now.
            Err(e) if e.is_damage() && self.has_moved_on(before.end())? => self.locate_moved_block(kind, id, budget)?,
            other => other?,
        };
        match block.object(id) {
            Some(_) => Ok(block),
            None => Err(Error::Corrupt {
                what: format!("{} {id}", kind.name()),
                place: self.layout.pack(location.pack),
                reason: format!("the block at {} does not hold it", location.offset),
            }),
        }
    }

    /// Whether the journal has grown since this place.
    fn has_moved_on(&self, before: &Position) -> Result<bool> {
        Ok(*self.refresh()?.end() != *before)
    }

    /// Reads an object and lets `read` make something of its bytes.
    pub fn read_object<T>(&self, kind: ObjectKind, id: ObjectId, read: impl FnOnce(&[u8]) -> Result<T, Malformed>) -> Result<T> {
        let block = self.object_block(kind, id)?;
        let bytes = block.object(id).unwrap_or_default();
        read(bytes).map_err(|e| Error::Corrupt {
            what: format!("{} {id}", kind.name()),
            place: self.layout.packs(),
            reason: e.to_string(),
        })
    }

    /// Reads a tree node.
    pub fn tree_node(&self, id: TreeId) -> Result<TreeNode> {
        self.read_object(ObjectKind::Tree, id.object(), tree::decode)
    }

    /// Whether a blob is stored as one chunk under its own id.
    pub(crate) fn is_single_chunk(&self, blob: BlobId, size: u64) -> Result<bool> {
        if size > u64::from(self.config.chunking.bytes_max) {
            return Ok(false);
        }
        let found = match self.view().locate(blob.object()) {
            Err(e) if e.is_not_found() => self.reopen()?.locate(blob.object())?,
            other => other?,
        };
        Ok(found.is_some())
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
}

/// Names the object that a damaged block was read for.
fn of_object(e: Error, kind: ObjectKind, id: ObjectId) -> Error {
    match e {
        Error::Corrupt { what, place, reason } => {
            let object = format!("{} {id}", kind.name());
            let what = if what.starts_with(&object) { what } else { format!("{object} ({what})") };
            Error::Corrupt { what, place, reason }
        }
        other => other,
    }
}

/// Whether an object may be somewhere else by now.
fn is_missing(e: &Error) -> bool {
    e.is_not_found() || matches!(e, Error::Missing { .. })
}

fn missing(root: &Path) -> Error {
    match fs::read_dir(root).map(Iterator::count) {
        Ok(0) => Error::NoStore { path: root.to_owned(), hint: "the folder is empty; `checkpoint create` makes a store" },
        Ok(_) => Error::NotAStore { path: root.to_owned(), reason: "it has no store.json".into() },
        Err(e) if e.kind() == std::io::ErrorKind::NotADirectory => {
            Error::NotAStore { path: root.to_owned(), reason: "not a folder".into() }
        }
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            Error::Io { action: "open store", path: root.to_owned(), source: e }
        }
        Err(_) => Error::NoStore { path: root.to_owned(), hint: "`checkpoint create` makes one; --store chooses another" },
    }
}

/// Makes an empty store. Two processes may do so at once: one's settings win, and both then read those.
fn make(layout: &Layout) -> Result<()> {
    let root = &layout.root;
    disk::make_folder_durable(root)?;
    let ours = ["packs", "journal", "view", "pins", "cache", "mounts", "lock", "lock.index", "ballast"];
    for entry in fs::read_dir(root).at("read folder", root)? {
        let name = entry.at("read folder", root)?.file_name();
        let name = name.to_string_lossy();
        if !ours.contains(&name.as_ref()) && !name.starts_with("store.") {
            return Err(Error::NotAStore { path: root.clone(), reason: "it has other files and no store.json".into() });
        }
    }
    for folder in layout.folders() {
        files::make_folder(&folder).at("create folder", &folder)?;
    }
    let _lock = WriterLock::take(root, Duration::from_secs(10), &())?;
    if layout.config().exists() {
        return Ok(());
    }
    make_ballast(layout);
    // Made now, so that the first commit does not do it while it holds the lock.
    view::absorb(layout, &Default::default(), &Position::start())?;
    // What makes the folder a store comes last: where it is, the folders are, too.
    disk::sync_folder(root)?;
    let text = serde_json::to_vec_pretty(&Config::new()).unwrap_or_default();
    match Folder::top(root).and_then(|folder| folder.write_synced("store.json".as_ref(), &text, true)) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => Err(e).at("write", layout.config()),
        _ => Ok(()),
    }
}

/// Writes the ballast anew, after gc has released it. A disk without room for it is no reason to fail.
pub(crate) fn make_ballast(layout: &Layout) {
    let write = || -> io::Result<()> {
        let mut file = files::open_top(&layout.ballast(), How::Make)?;
        file.set_len(0)?;
        // Not zeros, which some filesystems do not allocate.
        let noise: Vec<u8> = (0..1u32 << 14).flat_map(|i| i.wrapping_mul(0x9e37_79b9).to_le_bytes()).collect();
        for _ in 0..BALLAST_BYTES / noise.len() as u64 {
            file.write_all(&noise)?;
        }
        Ok(())
    };
    if write().is_err() {
        let _ = fs::remove_file(layout.ballast());
    }
}

/// The default store: `$XDG_DATA_HOME/parhelia` as the caller has resolved it.
pub fn default_path(data_folder: &Path) -> PathBuf {
    data_folder.join("parhelia")
}
