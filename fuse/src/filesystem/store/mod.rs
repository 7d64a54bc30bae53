//! The whole store as a filesystem:
//!
//! ```text
//! sessions/<session>/<checkpoint id>/{workspace,state,manifest.json}
//! sessions/<session>/latest -> <checkpoint id>
//! by-date/<time>-<checkpoint id> -> ../sessions/<session>/<checkpoint id>
//! by-tag/<tag> -> ../sessions/<session>/<checkpoint id>; its parts are folders, and `@` is the tag that its folder is called after
//! ```
//!
//! The kernel caches all of it. Inside a checkpoint nothing changes. When something is committed or deleted, the kernel is told which names
//! and folders above the checkpoints are not any more what they were (by the keeper of the mount), so that it appears or disappears without mounting
//! anew.

mod catalogue;
mod file_name;
mod inode;
mod numbers;
mod open;
mod tags;
mod virtual_folders;

use std::{
    mem,
    num::NonZeroUsize,
    sync::{Arc, Mutex, PoisonError, RwLock},
    time::Duration,
};

use lru::LruCache;
use parhelia_store::{Result, Store, record::Checkpoint};

use crate::{
    content::Content,
    fault::Fault,
    filesystem::{
        EntryReply, FOREVER, Invalidation, Line, Needs, ReadOnlyFilesystem, Space, entry,
        store::{catalogue::Catalogue, inode::Inode, numbers::Numbers, open::Open},
    },
    readahead::{Entry, Next, Readahead, Scope, Source},
    tree::{attr, nodes::TreeNodes},
};

pub use file_name::file_name;

/// Checkpoints that are open, and pinned, at a time.
const OPEN_MAX: NonZeroUsize = NonZeroUsize::new(64).expect("not zero");
const MANIFEST: &[u8] = b"manifest.json";

/// The state from which new lists are made.
#[derive(Default)]
struct RefreshState {
    numbers: Numbers,
    /// Everything that the kernel was told and that is not so any more.
    outdated: Vec<Invalidation>,
}

/// Renders the `manifest.json` of a checkpoint.
pub type Manifest = fn(&Store, &Checkpoint) -> Vec<u8>;

/// The whole store as a filesystem.
pub struct StoreFilesystem {
    store: Arc<Store>,
    nodes: Arc<TreeNodes>,
    content: Content,
    catalogue: RwLock<Arc<Catalogue>>,
    /// Held while new lists are made.
    renewing: Mutex<RefreshState>,
    open: Mutex<LruCache<u64, Arc<Open>>>,
    owner: (u32, u32),
    acls: bool,
    manifest: Manifest,
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl StoreFilesystem {
    /// Shows a store.
    pub fn new(
        store: &Arc<Store>,
        tree_cache_bytes: u64,
        acls: bool,
        manifest: Manifest,
        readahead: Arc<Readahead>,
    ) -> Result<Self> {
        let mut renewing = RefreshState::default();
        let state = store.refresh()?;
        let catalogue = Catalogue::new(state, None, &mut renewing.numbers)?;
        Ok(StoreFilesystem {
            store: store.clone(),
            nodes: Arc::new(TreeNodes::new(store.clone(), tree_cache_bytes)),
            content: Content::new(store.clone(), readahead),
            catalogue: RwLock::new(Arc::new(catalogue)),
            renewing: Mutex::new(renewing),
            open: Mutex::new(LruCache::new(OPEN_MAX)),
            owner: (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw()),
            acls,
            manifest,
        })
    }

    fn listed(&self) -> Arc<Catalogue> {
        self.catalogue.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The lists as of now.
    fn fresh(&self) -> Result<Arc<Catalogue>> {
        let state = self.store.refresh()?;
        let current = self.listed();
        if current.is_of(&state) {
            return Ok(current);
        }
        let mut renewing = locked(&self.renewing);
        let (state, current) = (self.store.view(), self.listed());
        if current.is_of(&state) {
            return Ok(current);
        }
        let next = Arc::new(Catalogue::new(state, Some(&current), &mut renewing.numbers)?);
        *self.catalogue.write().unwrap_or_else(PoisonError::into_inner) = next.clone();
        // Invalidations are queued once the new catalogue is published. The kernel orders them with answers under way.
        renewing.outdated.extend(next.outdated(&current));
        drop(renewing);
        let gone: Vec<u64> = {
            let open = locked(&self.open);
            open.iter().map(|(number, _)| *number).filter(|number| next.checkpoint(*number).is_none()).collect()
        };
        for number in gone {
            // Whoever reads in it right now keeps the pin until that is done.
            let closed = locked(&self.open).pop(&number);
            drop(closed);
        }
        Ok(next)
    }

    fn inode(&self, ino: u64) -> Result<Inode, Fault> {
        Inode::from_number(ino).ok_or(Fault::Stale)
    }

    /// Lists a folder of a checkpoint; the topmost one has its manifest at the end.
    fn list_entry(&self, number: u64, position: u64, from: u64, visit: &mut dyn FnMut(Line<'_>) -> bool) -> Result<(), Fault> {
        const MANIFEST_AT: u64 = 1 << 62;
        let (open, folder) = self.found(number, position)?;
        let parent = match position {
            0 => self.session_of(&*self.fresh()?, number)?,
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
            let shown = self.manifest_shown(number, open.tree.checkpoint());
            visit(Line { name: MANIFEST, shown, next: MANIFEST_AT + 1 });
        }
        Ok(())
    }
}

impl Source for StoreFilesystem {
    fn read(&self, ino: u64, offset: u64, bytes: u64, take: &mut dyn FnMut(&[u8])) -> Result<(), Fault> {
        if let Inode::Manifest(number) = self.inode(ino)? {
            let catalogue = self.fresh()?;
            let text = (self.manifest)(&self.store, catalogue.checkpoint(number).ok_or(Fault::Stale)?);
            let from = usize::try_from(offset).unwrap_or(usize::MAX).min(text.len());
            let until = from.saturating_add(usize::try_from(bytes).unwrap_or(usize::MAX)).min(text.len());
            take(&text[from..until]);
            return Ok(());
        }
        let (_open, found) = self.entry(ino)?;
        entry::read(&self.content, &found, offset, bytes, take)
    }

    fn entries(&self, ino: u64, scope: Scope, visit: &mut dyn FnMut(Entry) -> Next) -> Result<(), Fault> {
        let (open, found) = self.entry(ino)?;
        entry::entries(&open.tree, &found, scope, visit)
    }

    fn prefetch(&self, ino: u64) -> Result<(), Fault> {
        entry::prefetch(&self.content, &self.entry(ino)?.1)
    }

    fn cache_bytes(&self) -> u64 {
        self.store.cache_bytes()
    }
}

impl ReadOnlyFilesystem for StoreFilesystem {
    fn needs(&self) -> Needs {
        Needs { xattrs: true, holes: true, fresh_folders: true, acls: self.acls }
    }

    fn lookup(&self, folder: u64, name: &[u8]) -> Result<Result<EntryReply, Duration>, Fault> {
        match self.inode(folder)? {
            Inode::Entry(number, 0) if name == MANIFEST => {
                let catalogue = self.fresh()?;
                Ok(Ok(self.manifest_shown(number, catalogue.checkpoint(number).ok_or(Fault::Stale)?)))
            }
            Inode::Entry(number, position) => {
                let (open, found) = self.found(number, position)?;
                match name {
                    b"." => return entry::shown(&open.tree, &found).map(Ok),
                    b".." if position == 0 => return self.session_of(&*self.fresh()?, number).map(Ok),
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
                    b".." => self.folder(&catalogue, Self::virtual_parent(&catalogue, folder)).map(Ok),
                    _ => self.virtual_child(&catalogue, folder, name)?.map(Ok).ok_or(Fault::NoEntry),
                }
            }
        }
    }

    fn attr(&self, ino: u64) -> Result<EntryReply, Fault> {
        match self.inode(ino)? {
            Inode::Entry(number, 0) => {
                let catalogue = self.fresh()?;
                Ok(self.checkpoint_shown(number, catalogue.checkpoint(number).ok_or(Fault::Stale)?))
            }
            Inode::Entry(number, position) => {
                let (open, found) = self.found(number, position)?;
                entry::shown(&open.tree, &found)
            }
            Inode::Manifest(number) => {
                let catalogue = self.fresh()?;
                Ok(self.manifest_shown(number, catalogue.checkpoint(number).ok_or(Fault::Stale)?))
            }
            inode @ (Inode::Latest(number) | Inode::Pointer(number)) => self.link(&*self.fresh()?, inode, number),
            Inode::TagLink(number) => self.tag_link(&*self.fresh()?, number),
            folder => self.folder(&*self.fresh()?, folder),
        }
    }

    fn list(&self, ino: u64, from: u64, visit: &mut dyn FnMut(Line<'_>) -> bool) -> Result<(), Fault> {
        let folder = match self.inode(ino)? {
            Inode::Entry(number, position) => return self.list_entry(number, position, from, visit),
            folder => folder,
        };
        let catalogue = self.fresh()?;
        let own = self.folder(&catalogue, folder)?;
        let parent = self.folder(&catalogue, Self::virtual_parent(&catalogue, folder))?;
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
            inode @ (Inode::Latest(number) | Inode::Pointer(number)) => {
                let catalogue = self.fresh()?;
                Ok(self.target(inode, catalogue.checkpoint(number).ok_or(Fault::Stale)?, 0))
            }
            inode @ Inode::TagLink(number) => {
                let catalogue = self.fresh()?;
                let link = catalogue.tags.links.get(&number).ok_or(Fault::Stale)?;
                Ok(self.target(inode, catalogue.checkpoint(link.checkpoint).ok_or(Fault::Stale)?, link.depth))
            }
            _ => entry::readlink(&self.entry(ino)?.1),
        }
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
            Inode::Entry(number, position) => entry::xattr(&self.found(number, position)?.1, name),
            _ => Err(Fault::NoAttribute),
        }
    }

    fn xattr_names(&self, ino: u64) -> Result<Vec<u8>, Fault> {
        match self.inode(ino)? {
            Inode::Entry(number, position) => Ok(entry::xattr_names(&self.found(number, position)?.1)),
            _ => Ok(Vec::new()),
        }
    }

    fn space(&self) -> Result<Space, Fault> {
        let catalogue = self.fresh()?;
        let (bytes, entries) = catalogue.sums();
        let tags = catalogue.tags.folders.len() + catalogue.tags.links.len();
        let virtuals = 4 + (catalogue.sessions.len() + tags) as u64 + 4 * catalogue.count() as u64;
        Ok(Space { bytes, entries: entries.saturating_add(virtuals) })
    }

    fn share(&self, shares: u64) {
        self.nodes.share(shares);
        self.content.share(shares);
    }

    fn outdated(&self) -> Result<Vec<Invalidation>, Fault> {
        self.fresh()?;
        Ok(mem::take(&mut locked(&self.renewing).outdated))
    }

    fn path(&self, ino: u64) -> String {
        match Inode::from_number(ino) {
            Some(Inode::Entry(number, position)) => match self.opened(number) {
                Ok(open) => format!("{}:{}", open.tree.checkpoint().id(), open.tree.path(position)),
                Err(_) => format!("entry {position} of checkpoint {number}"),
            },
            Some(other) => format!("{other:?}"),
            None => format!("inode {ino}"),
        }
    }
}
