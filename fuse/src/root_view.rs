//! The whole store as a filesystem:
//!
//! ```text
//! sessions/<session>/<checkpoint id>/{workspace,state,manifest.json}
//! sessions/<session>/latest -> <checkpoint id>
//! by-date/<time>-<checkpoint id> -> ../sessions/<session>/<checkpoint id>
//! by-tag/<tag> -> ../sessions/<session>/<checkpoint id>
//! ```
//!
//! The folders above the checkpoints are never cached by the kernel, so what is committed appears, and what is deleted disappears,
//! without mounting anew. Inside a checkpoint nothing changes, and everything is cached.

use std::{
    num::NonZeroUsize,
    sync::{Arc, Mutex, PoisonError, RwLock, Weak, mpsc},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use fuser::{FileAttr, FileType, INodeNo};
use lru::LruCache;
use parhelia_store::{
    Error, Result, Store,
    manifest::{Manifest, WORKSPACE_FOLDER},
    pin::Pin,
    record::Checkpoint,
    tree::{Kind, Meta, Node, Time, Totals, TreeNode},
};

use crate::{
    attr,
    catalogue::{Catalogue, SessionNumbers},
    content::Content,
    entry,
    errno::Fault,
    inode::Inode,
    mount::TagSource,
    parts::{Parts, positions_of},
    tree_view::{Found, TreeView},
    view::{FOREVER, Line, Needs, Shown, Space, View},
};

/// What may change has no TTL: the kernel asks each time.
const NEVER: Duration = Duration::ZERO;
/// How many checkpoints are open, and pinned, at a time.
const OPEN_MAX: NonZeroUsize = NonZeroUsize::new(64).expect("not zero");
/// How often the store is looked at when nobody asks.
pub const WATCH_INTERVAL: Duration = Duration::from_millis(500);

const MANIFEST: &[u8] = b"manifest.json";
const LATEST: &[u8] = b"latest";

/// A checkpoint whose tree is looked at. It is pinned as long as anything reads it.
struct Open {
    tree: TreeView,
    _pin: Mutex<Pin>,
}

/// The whole store.
pub struct RootView {
    store: Arc<Store>,
    parts: Arc<Parts>,
    content: Content,
    catalogue: RwLock<Arc<Catalogue>>,
    numbers: Mutex<SessionNumbers>,
    open: Mutex<LruCache<u64, Arc<Open>>>,
    tags: Option<TagSource>,
    owner: (u32, u32),
    acls: bool,
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl RootView {
    /// Shows a store.
    pub fn new(store: &Arc<Store>, parts_bytes: u64, tags: Option<TagSource>, acls: bool) -> Result<Self> {
        let mut numbers = SessionNumbers::new();
        let state = store.refresh()?;
        let catalogue = Catalogue::new(state, SystemTime::now(), &mut numbers, tags.as_ref())?;
        Ok(RootView {
            store: store.clone(),
            parts: Arc::new(Parts::new(store.clone(), parts_bytes)),
            content: Content::new(store.clone()),
            catalogue: RwLock::new(Arc::new(catalogue)),
            numbers: Mutex::new(numbers),
            open: Mutex::new(LruCache::new(OPEN_MAX)),
            tags,
            owner: (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw()),
            acls,
        })
    }

    /// The lists as of now.
    fn fresh(&self) -> Result<Arc<Catalogue>> {
        let state = self.store.refresh()?;
        let current = self.catalogue.read().unwrap_or_else(PoisonError::into_inner).clone();
        if current.is_of(&state) {
            return Ok(current);
        }
        let mut numbers = locked(&self.numbers);
        let mut place = self.catalogue.write().unwrap_or_else(PoisonError::into_inner);
        if place.is_of(&state) {
            return Ok(place.clone());
        }
        // Two changes in one tick of the clock are still two.
        let changed_at = SystemTime::now().max(place.changed_at + Duration::from_nanos(1));
        let next = Arc::new(Catalogue::new(state, changed_at, &mut numbers, self.tags.as_ref())?);
        *place = next.clone();
        drop((place, numbers));
        let gone: Vec<u64> = {
            let open = locked(&self.open);
            open.iter().map(|(sequence, _)| *sequence).filter(|sequence| next.checkpoint(*sequence).is_none()).collect()
        };
        for sequence in gone {
            // Whoever reads in it right now keeps the pin until that is done.
            let closed = locked(&self.open).pop(&sequence);
            drop(closed);
        }
        Ok(next)
    }

    /// A checkpoint's tree, pinned.
    fn opened(&self, sequence: u64) -> Result<Arc<Open>, Fault> {
        if let Some(open) = locked(&self.open).get(&sequence) {
            return Ok(open.clone());
        }
        let id = self.fresh()?.checkpoint(sequence).ok_or(Fault::Stale)?.record.id;
        let mut pin = Pin::take(&self.store.layout().pins(), false, "mount")?;
        pin.add([id])?;
        // Whether it is still there counts once it is pinned.
        let checkpoint = self.fresh()?.checkpoint(sequence).ok_or(Fault::Stale)?.clone();
        let tree = self.tree(checkpoint)?;
        let opened = Arc::new(Open { tree, _pin: Mutex::new(pin) });
        let mut open = locked(&self.open);
        if let Some(other) = open.get(&sequence) {
            return Ok(other.clone());
        }
        let evicted = open.push(sequence, opened.clone());
        drop(open);
        drop(evicted);
        Ok(opened)
    }

    /// A checkpoint's root tree, with the folder that stands for it on top.
    fn tree(&self, checkpoint: Checkpoint) -> Result<TreeView> {
        let root = checkpoint.record.root;
        let TreeNode::Leaf(nodes) = self.store.tree_node(root)? else {
            let place = self.store.layout().packs();
            return Err(Error::Corrupt { what: format!("tree {root}"), place, reason: "it is no root".into() });
        };
        let (mut totals, mut links_from, mut position) = (Totals::default(), 0, 1u64);
        for node in &nodes {
            if node.name == WORKSPACE_FOLDER.as_bytes() {
                links_from = position;
            }
            totals.add(node);
            position = position.saturating_add(positions_of(node));
        }
        let created = checkpoint.record.created_at;
        let mtime = Time { secs: created.as_second(), nanos: created.subsec_nanosecond().unsigned_abs() };
        let (uid, gid) = self.owner;
        let meta = Meta { mode: 0o555, uid, gid, mtime, xattrs: Vec::new() };
        let top = Node { name: checkpoint.id().into_bytes(), meta, links: 1, kind: Kind::Folder { tree: root, totals } };
        let base = Inode::Entry(checkpoint.sequence, 0).number();
        Ok(TreeView::new(self.parts.clone(), top, base, checkpoint, links_from))
    }

    /// An entry inside a checkpoint.
    fn found(&self, sequence: u64, position: u64) -> Result<(Arc<Open>, Found), Fault> {
        let open = self.opened(sequence)?;
        let found = open.tree.locate(position)?.ok_or(Fault::Stale)?;
        Ok((open, found))
    }

    /// The entry that an inode number of a checkpoint's tree stands for; anything else is no file.
    fn entry(&self, ino: u64) -> Result<(Arc<Open>, Found), Fault> {
        match Inode::from_number(ino) {
            Some(Inode::Entry(sequence, position)) => self.found(sequence, position),
            Some(_) => Err(Fault::Invalid),
            None => Err(Fault::Stale),
        }
    }

    fn virtual_attr(&self, inode: Inode, kind: FileType, bytes: u64, links: u64, time: SystemTime) -> FileAttr {
        let (uid, gid) = self.owner;
        let perm = match kind {
            FileType::Directory => 0o555,
            FileType::Symlink => 0o777,
            _ => 0o444,
        };
        FileAttr {
            ino: INodeNo(inode.number()),
            size: bytes,
            blocks: bytes.div_ceil(512),
            atime: time,
            mtime: time,
            ctime: time,
            crtime: time,
            kind,
            perm,
            nlink: u32::try_from(links).unwrap_or(1),
            uid,
            gid,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }

    fn folder(&self, catalogue: &Catalogue, inode: Inode) -> Result<Shown, Fault> {
        let subfolders = match inode {
            Inode::Root => 3,
            Inode::Sessions => catalogue.sessions.len(),
            Inode::Session(number) => {
                let name = catalogue.session_names.get(&number).ok_or(Fault::Stale)?;
                catalogue.sessions.get(name).map_or(0, |session| session.checkpoints.len())
            }
            _ => 0,
        };
        let attr = self.virtual_attr(inode, FileType::Directory, 0, subfolders as u64 + 2, catalogue.changed_at);
        Ok(Shown { attr, ttl: NEVER })
    }

    fn link(&self, catalogue: &Catalogue, inode: Inode, sequence: u64) -> Result<Shown, Fault> {
        let checkpoint = catalogue.checkpoint(sequence).ok_or(Fault::Stale)?;
        let bytes = self.target(inode, checkpoint).len() as u64;
        Ok(Shown { attr: self.virtual_attr(inode, FileType::Symlink, bytes, 1, created(checkpoint)), ttl: NEVER })
    }

    fn target(&self, inode: Inode, checkpoint: &Checkpoint) -> Vec<u8> {
        let id = checkpoint.id().into_bytes();
        match inode {
            Inode::Latest(_) => id,
            _ => [b"../sessions/", crate::catalogue::file_name(&checkpoint.record.session).as_slice(), b"/", &id].concat(),
        }
    }

    fn manifest(&self, checkpoint: &Checkpoint) -> Vec<u8> {
        let mut text = serde_json::to_vec_pretty(&Manifest::of(checkpoint).to_json()).unwrap_or_default();
        text.push(b'\n');
        text
    }

    fn manifest_shown(&self, checkpoint: &Checkpoint) -> Shown {
        let bytes = self.manifest(checkpoint).len() as u64;
        let inode = Inode::Manifest(checkpoint.sequence);
        Shown { attr: self.virtual_attr(inode, FileType::RegularFile, bytes, 1, created(checkpoint)), ttl: FOREVER }
    }

    /// The folder of a checkpoint as its session's folder lists it. To list it, it need not be opened.
    fn checkpoint_shown(&self, checkpoint: &Checkpoint) -> Shown {
        let inode = Inode::Entry(checkpoint.sequence, 0);
        let parts = checkpoint.record.parts.values().filter(|part| matches!(part, parhelia_store::record::Part::Captured));
        let links = parts.count() as u64 + 2;
        let mut attr = self.virtual_attr(inode, FileType::Directory, 4096, links, created(checkpoint));
        attr.blocks = 8;
        Shown { attr, ttl: NEVER }
    }

    fn inode(&self, ino: u64) -> Result<Inode, Fault> {
        Inode::from_number(ino).ok_or(Fault::Stale)
    }

    /// The entry of a virtual folder with this name.
    fn virtual_child(&self, catalogue: &Catalogue, folder: Inode, name: &[u8]) -> Result<Option<Shown>, Fault> {
        match folder {
            Inode::Root => {
                let inode = [Inode::Sessions, Inode::ByDate, Inode::ByTag].into_iter().find(|inode| root_name(*inode) == name);
                inode.map(|inode| self.folder(catalogue, inode)).transpose()
            }
            Inode::Sessions => {
                let session = catalogue.sessions.get(name);
                session.map(|session| self.folder(catalogue, Inode::Session(session.number))).transpose()
            }
            Inode::ByDate => {
                let found = catalogue.dated(name);
                found.map(|sequence| self.link(catalogue, Inode::Pointer(sequence), sequence)).transpose()
            }
            Inode::ByTag => {
                let found = catalogue.tags.get(name);
                found.map(|sequence| self.link(catalogue, Inode::Pointer(*sequence), *sequence)).transpose()
            }
            Inode::Session(number) => {
                let session_name = catalogue.session_names.get(&number).ok_or(Fault::Stale)?;
                if name == LATEST {
                    let latest = catalogue.sessions.get(session_name).and_then(|session| session.checkpoints.last());
                    return latest.map(|sequence| self.link(catalogue, Inode::Latest(*sequence), *sequence)).transpose();
                }
                let checkpoint = catalogue.named(name);
                let here = checkpoint.filter(|c| crate::catalogue::file_name(&c.record.session) == *session_name);
                Ok(here.map(|checkpoint| self.checkpoint_shown(checkpoint)))
            }
            _ => Err(Fault::NotAFolder),
        }
    }

    /// The lines of a virtual folder behind `.` and `..`: key, which orders them and finds the place again, name, entry.
    fn virtual_lines(&self, catalogue: &Catalogue, folder: Inode, from: u64) -> Result<Vec<(u64, Vec<u8>, Shown)>, Fault> {
        let mut lines = Vec::new();
        match folder {
            Inode::Root => {
                for (key, inode) in [Inode::Sessions, Inode::ByDate, Inode::ByTag].into_iter().enumerate() {
                    lines.push((key as u64, root_name(inode).to_vec(), self.folder(catalogue, inode)?));
                }
                lines.retain(|(key, ..)| *key >= from);
            }
            Inode::Sessions => {
                for (number, name) in catalogue.session_names.range(from..) {
                    lines.push((*number, name.clone(), self.folder(catalogue, Inode::Session(*number))?));
                }
            }
            Inode::ByDate => {
                for (sequence, name) in catalogue.dates.range(from..) {
                    lines.push((*sequence, name.clone(), self.link(catalogue, Inode::Pointer(*sequence), *sequence)?));
                }
            }
            Inode::ByTag => {
                for (key, (name, sequence)) in catalogue.tags.iter().enumerate().skip(usize::try_from(from).unwrap_or(usize::MAX))
                {
                    lines.push((key as u64, name.clone(), self.link(catalogue, Inode::Pointer(*sequence), *sequence)?));
                }
            }
            Inode::Session(number) => {
                let name = catalogue.session_names.get(&number).ok_or(Fault::Stale)?;
                let sequences = catalogue.sessions.get(name).map_or(&[][..], |session| &session.checkpoints);
                // Sequences begin at 1, which leaves 0 for the link.
                if let (0, Some(latest)) = (from, sequences.last()) {
                    lines.push((0, LATEST.to_vec(), self.link(catalogue, Inode::Latest(*latest), *latest)?));
                }
                for sequence in &sequences[sequences.partition_point(|sequence| *sequence < from)..] {
                    let checkpoint = catalogue.checkpoint(*sequence).ok_or(Fault::Stale)?;
                    lines.push((*sequence, checkpoint.id().into_bytes(), self.checkpoint_shown(checkpoint)));
                }
            }
            _ => return Err(Fault::NotAFolder),
        }
        Ok(lines)
    }

    /// What holds a virtual folder.
    fn virtual_parent(folder: Inode) -> Inode {
        match folder {
            Inode::Session(_) => Inode::Sessions,
            _ => Inode::Root,
        }
    }

    /// The session folder that a checkpoint is in.
    fn session_of(&self, catalogue: &Catalogue, sequence: u64) -> Result<Shown, Fault> {
        let checkpoint = catalogue.checkpoint(sequence).ok_or(Fault::Stale)?;
        let name = crate::catalogue::file_name(&checkpoint.record.session);
        let session = catalogue.sessions.get(&name).ok_or(Fault::Stale)?;
        self.folder(catalogue, Inode::Session(session.number))
    }

    /// Lists a folder of a checkpoint; the topmost one has its manifest at the end.
    fn list_entry(&self, sequence: u64, position: u64, from: u64, visit: &mut dyn FnMut(Line<'_>) -> bool) -> Result<(), Fault> {
        const MANIFEST_AT: u64 = 1 << 62;
        let (open, folder) = self.found(sequence, position)?;
        let parent = match position {
            0 => self.session_of(&*self.fresh()?, sequence)?,
            _ => entry::shown(&open.tree, &open.tree.locate(folder.parent)?.ok_or(Fault::Stale)?)?,
        };
        let mut goes_on = true;
        if from < MANIFEST_AT {
            entry::list(&open.tree, &folder, parent, from, &mut |line| {
                goes_on = visit(line);
                goes_on
            })?;
        }
        if position == 0 && goes_on && from <= MANIFEST_AT {
            let shown = self.manifest_shown(open.tree.checkpoint());
            visit(Line { name: MANIFEST, shown, next: MANIFEST_AT + 1 });
        }
        Ok(())
    }
}

fn created(checkpoint: &Checkpoint) -> SystemTime {
    let at = checkpoint.record.created_at;
    attr::system_time(Time { secs: at.as_second(), nanos: at.subsec_nanosecond().unsigned_abs() }).max(UNIX_EPOCH)
}

fn root_name(inode: Inode) -> &'static [u8] {
    match inode {
        Inode::Sessions => b"sessions",
        Inode::ByDate => b"by-date",
        Inode::ByTag => b"by-tag",
        _ => b"",
    }
}

impl View for RootView {
    fn needs(&self) -> Needs {
        Needs { xattrs: true, holes: true, fresh_folders: true, acls: self.acls }
    }

    fn lookup(&self, folder: u64, name: &[u8]) -> Result<Result<Shown, Duration>, Fault> {
        match self.inode(folder)? {
            Inode::Entry(sequence, 0) if name == MANIFEST => {
                let catalogue = self.fresh()?;
                Ok(Ok(self.manifest_shown(catalogue.checkpoint(sequence).ok_or(Fault::Stale)?)))
            }
            Inode::Entry(sequence, position) => {
                let (open, found) = self.found(sequence, position)?;
                match name {
                    b"." => return entry::shown(&open.tree, &found).map(Ok),
                    b".." if position == 0 => return self.session_of(&*self.fresh()?, sequence).map(Ok),
                    b".." => {
                        let parent = open.tree.locate(found.parent)?.ok_or(Fault::Stale)?;
                        return entry::shown(&open.tree, &parent).map(Ok);
                    }
                    _ if found.folder().is_none() => return Err(Fault::NotAFolder),
                    _ => {}
                }
                match open.tree.child(&found, name)? {
                    Some(found) => entry::shown(&open.tree, &found).map(Ok),
                    None => Ok(Err(FOREVER)),
                }
            }
            folder => {
                let catalogue = self.fresh()?;
                match name {
                    b"." => self.folder(&catalogue, folder).map(Ok),
                    b".." => self.folder(&catalogue, Self::virtual_parent(folder)).map(Ok),
                    _ => self.virtual_child(&catalogue, folder, name)?.map(Ok).ok_or(Fault::NoEntry),
                }
            }
        }
    }

    fn attr(&self, ino: u64) -> Result<Shown, Fault> {
        match self.inode(ino)? {
            Inode::Entry(sequence, 0) => {
                let catalogue = self.fresh()?;
                Ok(self.checkpoint_shown(catalogue.checkpoint(sequence).ok_or(Fault::Stale)?))
            }
            Inode::Entry(sequence, position) => {
                let (open, found) = self.found(sequence, position)?;
                entry::shown(&open.tree, &found)
            }
            Inode::Manifest(sequence) => {
                let catalogue = self.fresh()?;
                Ok(self.manifest_shown(catalogue.checkpoint(sequence).ok_or(Fault::Stale)?))
            }
            inode @ (Inode::Latest(sequence) | Inode::Pointer(sequence)) => self.link(&*self.fresh()?, inode, sequence),
            folder => self.folder(&*self.fresh()?, folder),
        }
    }

    fn list(&self, ino: u64, from: u64, visit: &mut dyn FnMut(Line<'_>) -> bool) -> Result<(), Fault> {
        let folder = match self.inode(ino)? {
            Inode::Entry(sequence, position) => return self.list_entry(sequence, position, from, visit),
            folder => folder,
        };
        let catalogue = self.fresh()?;
        let own = self.folder(&catalogue, folder)?;
        let parent = self.folder(&catalogue, Self::virtual_parent(folder))?;
        if from < 1 && !visit(Line { name: b".", shown: own, next: 1 }) {
            return Ok(());
        }
        if from < 2 && !visit(Line { name: b"..", shown: parent, next: 2 }) {
            return Ok(());
        }
        for (key, name, shown) in self.virtual_lines(&catalogue, folder, from.saturating_sub(2))? {
            if !visit(Line { name: &name, shown, next: key.saturating_add(3) }) {
                break;
            }
        }
        Ok(())
    }

    fn readlink(&self, ino: u64) -> Result<Vec<u8>, Fault> {
        match self.inode(ino)? {
            inode @ (Inode::Latest(sequence) | Inode::Pointer(sequence)) => {
                let catalogue = self.fresh()?;
                Ok(self.target(inode, catalogue.checkpoint(sequence).ok_or(Fault::Stale)?))
            }
            _ => entry::readlink(&self.entry(ino)?.1),
        }
    }

    fn read(&self, ino: u64, offset: u64, bytes: u64, take: &mut dyn FnMut(&[u8])) -> Result<(), Fault> {
        if let Inode::Manifest(sequence) = self.inode(ino)? {
            let catalogue = self.fresh()?;
            let text = self.manifest(catalogue.checkpoint(sequence).ok_or(Fault::Stale)?);
            let from = usize::try_from(offset).unwrap_or(usize::MAX).min(text.len());
            let until = from.saturating_add(usize::try_from(bytes).unwrap_or(usize::MAX)).min(text.len());
            take(&text[from..until]);
            return Ok(());
        }
        let (_open, found) = self.entry(ino)?;
        entry::read(&self.content, &found, offset, bytes, take)
    }

    fn seek(&self, ino: u64, offset: u64, wants_data: bool) -> Result<u64, Fault> {
        if let Inode::Manifest(_) = self.inode(ino)? {
            let bytes = self.attr(ino)?.attr.size;
            return attr::seek(bytes, &[], offset, wants_data).ok_or(Fault::PastEnd);
        }
        entry::seek(&self.entry(ino)?.1, offset, wants_data)
    }

    fn xattr(&self, ino: u64, name: &[u8]) -> Result<Vec<u8>, Fault> {
        match self.inode(ino)? {
            Inode::Entry(sequence, position) => entry::xattr(&self.found(sequence, position)?.1, name),
            _ => Err(Fault::NoAttribute),
        }
    }

    fn xattr_names(&self, ino: u64) -> Result<Vec<u8>, Fault> {
        match self.inode(ino)? {
            Inode::Entry(sequence, position) => Ok(entry::xattr_names(&self.found(sequence, position)?.1)),
            _ => Ok(Vec::new()),
        }
    }

    fn space(&self) -> Result<Space, Fault> {
        let catalogue = self.fresh()?;
        let (bytes, entries) = catalogue.sums();
        let virtuals = 4 + catalogue.sessions.len() as u64 + 4 * catalogue.sequences().count() as u64;
        Ok(Space { bytes, entries: entries.saturating_add(virtuals) })
    }

    fn path(&self, ino: u64) -> String {
        match Inode::from_number(ino) {
            Some(Inode::Entry(sequence, position)) => match self.opened(sequence) {
                Ok(open) => format!("{}:{}", open.tree.checkpoint().id(), open.tree.path(position)),
                Err(_) => format!("entry {position} of commit {sequence}"),
            },
            Some(other) => format!("{other:?}"),
            None => format!("inode {ino}"),
        }
    }
}

/// Lets go of deleted checkpoints, and takes in new ones, while nobody asks. Ends when `stop` is closed or the view is gone.
pub fn watch(view: &Weak<RootView>, stop: &mpsc::Receiver<()>, log: &dyn Fn(&str)) {
    let mut is_failing = false;
    while let Err(mpsc::RecvTimeoutError::Timeout) = stop.recv_timeout(WATCH_INTERVAL) {
        let Some(view) = view.upgrade() else { return };
        let looked = view.fresh();
        if let (Err(e), false) = (&looked, is_failing) {
            log(&format!("cannot look for new checkpoints: {e}"));
        }
        is_failing = looked.is_err();
    }
}
