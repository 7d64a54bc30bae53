//! Table of the target tree: a line for each folder, and an encoded listing of those in which something is to
//! be done. A million files take about 150 bytes each.

use std::{
    collections::HashMap,
    num::NonZeroUsize,
    ops::Range,
    os::fd::OwnedFd,
    sync::{Arc, Mutex, PoisonError},
};

use rustix::io;

use crate::{
    clock,
    codec::Decoder,
    error::{Error, Result},
    filesystem::FilesystemId,
    id::{PackId, TreeId},
    name,
    pack::Location,
    statcache::CacheEntry,
    sys::{self, Stat},
    tree::{Meta, Node, Time},
};

/// By what the next checkpoint knows an entry again.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stamp {
    /// Inode number; 0 for an entry that was not made.
    pub ino: u64,
    /// Last change.
    pub ctime: Time,
    /// True if it must be looked at again.
    pub racy: bool,
}

impl Stamp {
    /// Of an entry in a folder that others may change, looked at at `now`.
    pub fn in_place(stat: &Stat, now: Time) -> Self {
        Stamp { ino: stat.ino, ctime: stat.ctime, racy: clock::is_racy(stat.ctime, now) }
    }

    /// Of an entry in a folder that nobody else knows yet, looked at right after its last change. Whoever changes its content later leaves
    /// another modification time, unless that of the checkpoint is as young. Where stamps count whole seconds, a change of its metadata
    /// alone could leave the same ones.
    pub fn private(stat: &Stat) -> Self {
        let racy = clock::is_racy(stat.mtime, stat.ctime) || stat.ctime.nanos == 0;
        Stamp { ino: stat.ino, ctime: stat.ctime, racy }
    }

    /// As the old stat cache has it.
    pub fn cached(cached: &CacheEntry) -> Self {
        Stamp { ino: cached.ino, ctime: cached.ctime, racy: cached.racy }
    }
}

/// A folder's entries, encoded.
#[derive(Debug, Default)]
pub struct EncodedListing {
    head: Vec<u8>,
    tail: Vec<u8>,
    starts: Vec<(u32, u32)>,
    /// One for each entry.
    pub stamps: Vec<Stamp>,
}

impl EncodedListing {
    /// Encodes these entries.
    pub fn new<'a>(nodes: impl Iterator<Item = &'a Node>, stamps: Vec<Stamp>) -> Self {
        let mut listing = EncodedListing { stamps, ..EncodedListing::default() };
        for node in nodes {
            listing.starts.push((listing.head.len() as u32, listing.tail.len() as u32));
            node.encode(&mut listing.head, &mut listing.tail);
        }
        listing.head.shrink_to_fit();
        listing.tail.shrink_to_fit();
        listing.stamps.resize(listing.starts.len(), Stamp::default());
        listing
    }

    /// Number of its entries.
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// One entry.
    pub fn node(&self, index: u32) -> Result<Node> {
        let broken = || Error::Invalid("a listing does not decode".into());
        let (head, tail) = *self.starts.get(index as usize).ok_or_else(broken)?;
        let mut head = Decoder::new(&self.head[head as usize..]);
        let mut tail = Decoder::new(&self.tail[tail as usize..]);
        Node::decode(&mut head, &mut tail).map_err(|_| broken())
    }
}

/// A folder of the target tree.
#[derive(Debug)]
pub struct Folder {
    /// The folder it is in; 0, the target itself, is in itself.
    pub parent: u32,
    /// Number of the entry in that folder.
    pub index: u32,
    /// Its name in that folder, byte for byte.
    pub name: Box<[u8]>,
    /// Its metadata, as the checkpoint has it.
    pub meta: Meta,
    /// Id of the tree that it has in the checkpoint.
    pub tree: TreeId,
    /// True if it has to be made.
    pub is_new: bool,
    /// True if the patterns want the folder itself, not only something in it.
    pub selected: bool,
    /// True if the patterns want it or something in it.
    pub wanted: bool,
    /// True if its metadata has to be set once everything in it is done.
    pub finish: bool,
    /// True if its metadata differed when it was compared.
    pub differs: bool,
    /// The filesystem that it is on; of a new one, that of the folder in which it is made.
    pub device: u64,
    /// The number of the mount that it is on, or is made on; 0 where the kernel does not tell.
    pub mount: u64,
    /// Its section in the old stat cache; 0 where there is none.
    pub old_section: u64,
    /// The folders in it, in order of name.
    pub children: Range<u32>,
    /// Its entries, where something is to be done with any of them or the old stat cache does not fit them.
    pub listing: Option<EncodedListing>,
    /// Its stamp after its metadata was set.
    pub stamp: Option<Stamp>,
    /// The filesystem that it was on when it was looked at; the one of its parent where it has to be made.
    pub filesystem: FilesystemId,
}

/// The path of a folder from the target; empty for the target itself.
pub fn folder_path(folders: &[Folder], folder: u32) -> Vec<u8> {
    let mut parts: Vec<&[u8]> = Vec::new();
    let mut at = folder;
    while at != 0 {
        let Some(line) = folders.get(at as usize) else { break };
        parts.push(&line.name);
        at = line.parent;
    }
    parts.reverse();
    parts.join(&b'/')
}

/// The path of an entry from the target.
pub fn entry_path(folders: &[Folder], folder: u32, entry: &[u8]) -> Vec<u8> {
    name::join(&folder_path(folders, folder), entry)
}

/// Action on an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// There is none of this name.
    Create,
    /// There is one with other content.
    Replace,
    /// There is one of another type.
    Exchange,
    /// Only its metadata differs.
    Meta,
}

/// Source of an entry's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// It is all in the node.
    Node,
    /// It has a recipe.
    Recipe,
    /// It is one chunk of the block at its place.
    Chunk,
}

/// An entry that something has to be done with. Where its content lies comes first, because items are sorted by that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Item {
    /// Source of its content.
    pub source: Source,
    /// The pack, by its number in the plan.
    pub pack: u32,
    /// The block's offset in it.
    pub offset: u64,
    /// The block's length.
    pub block_bytes: u32,
    /// The folder it is in.
    pub folder: u32,
    /// Number of the entry in that folder.
    pub index: u32,
    /// The work that is to be done with it.
    pub action: Action,
}

/// The packs that items lie in, by number.
#[derive(Debug, Default)]
pub struct Packs {
    /// The packs.
    pub ids: Vec<PackId>,
    numbers: HashMap<PackId, u32>,
}

impl Packs {
    /// The number of a pack.
    pub fn number(&mut self, id: PackId) -> u32 {
        *self.numbers.entry(id).or_insert_with(|| {
            self.ids.push(id);
            (self.ids.len() - 1) as u32
        })
    }

    /// Location of an item.
    pub fn location(&self, item: &Item) -> Option<Location> {
        let pack = *self.ids.get(item.pack as usize)?;
        Some(Location { pack, offset: item.offset, block_bytes: item.block_bytes })
    }
}

/// Open folders at a time.
const FOLDERS_OPEN_MAX: NonZeroUsize = NonZeroUsize::new(256).expect("not zero");

/// Opens folders of the target by number, each from the one it is in, so that no symlink is ever followed and no path is too long.
pub struct Dirs<'a> {
    root: Arc<OwnedFd>,
    /// A folder's parent and its name there at the moment.
    step: &'a (dyn Fn(u32) -> (u32, Vec<u8>) + Sync),
    open: Mutex<lru::LruCache<u32, Arc<OwnedFd>>>,
}

impl<'a> Dirs<'a> {
    /// Folder 0 is open already.
    pub fn new(root: Arc<OwnedFd>, step: &'a (dyn Fn(u32) -> (u32, Vec<u8>) + Sync)) -> Self {
        Dirs { root, step, open: Mutex::new(lru::LruCache::new(FOLDERS_OPEN_MAX)) }
    }

    fn known(&self, folder: u32) -> Option<Arc<OwnedFd>> {
        if folder == 0 {
            return Some(self.root.clone());
        }
        self.open.lock().unwrap_or_else(PoisonError::into_inner).get(&folder).cloned()
    }

    /// The open folder.
    pub fn get(&self, folder: u32) -> io::Result<Arc<OwnedFd>> {
        let mut missing = Vec::new();
        let mut at = folder;
        let mut fd = loop {
            match self.known(at) {
                Some(fd) => break fd,
                None => {
                    let (parent, name) = (self.step)(at);
                    missing.push((at, name));
                    at = parent;
                }
            }
        };
        for (number, name) in missing.iter().rev() {
            fd = Arc::new(sys::open_folder_at(std::os::fd::AsFd::as_fd(&*fd), name)?);
            self.open.lock().unwrap_or_else(PoisonError::into_inner).put(*number, fd.clone());
        }
        Ok(fd)
    }
}
