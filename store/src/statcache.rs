//! The stat cache: what each entry of a workspace looked like when its content was last known, so that it need not be read again.
//!
//! One file per workspace. Every folder has a section; a folder's entry in its parent's section says where its own begins, so that a
//! walk finds each section without a search. An update appends what has changed, few entries of a folder as a patch of its section, then a
//! trailer; at last the header says where that is. When more than half of the file is out of use it is written anew. The trailer ties it to a checkpoint: while that exists, so does all content that
//! the cache names. A cache that does not decode is no cache. Each section names the filesystem that its folder was on, and the trailer
//! the clocks when the cache was written: stamps mean nothing on another filesystem, and less once somebody has set the clock back.

mod section;
mod writer;

use std::{
    borrow::Borrow,
    cell::RefCell,
    fs::File,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

pub use self::{section::Section, writer::Writer};

use crate::{
    clock::{self, CLOCK_BYTES, Clock},
    codec::Decoder,
    error::{IoContext, Result},
    files::{self, How},
    format::STAT_CACHE_MAGIC,
    id::{TreeId, Ulid},
    keys::{Part, Seal},
    layout::Layout,
    sys::Stat,
    tree::{Kind, Node, Time},
};

/// Magic, where the trailer is, and a checksum of both.
const HEADER_BYTES: usize = 20;
/// Length of the sealed part of the trailer, unsealed. Before it stands the magic, behind it a checksum of both.
const TRAILER_BODY_BYTES: usize = 72 + CLOCK_BYTES;

/// Removes all stat caches, so that the next create reads every file: content that a cache vouches for may be among what was lost.
pub(crate) fn forget_all(layout: &Layout) -> Result<()> {
    let folder = layout.cache();
    for path in files::list(&folder).at("read folder", &folder)? {
        if path.extension().is_some_and(|ending| ending == "stat") {
            files::remove(&path).at("remove", &path)?;
        }
    }
    Ok(())
}

fn trailer_bytes(seal: &Seal) -> usize {
    STAT_CACHE_MAGIC.len() + TRAILER_BODY_BYTES + seal.overhead() + 4
}

/// An entry as it was when its node was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheEntry {
    /// The entry as the checkpoint has it.
    pub node: Node,
    /// Inode number.
    pub ino: u64,
    /// Last change of content or metadata.
    pub ctime: Time,
    /// A later change could have left the same stamps: it was changed too shortly before it was read, or somebody had it open for
    /// writing.
    pub racy: bool,
    /// Of a folder: where its section begins; 0 where it has none.
    pub section: u64,
}

impl Borrow<Node> for CacheEntry {
    fn borrow(&self) -> &Node {
        &self.node
    }
}

impl CacheEntry {
    /// True if the entry looks as it did: type, size, inode, permissions, owner, number of names, and both times.
    pub fn looks_like(&self, stat: &Stat) -> bool {
        let meta = &self.node.meta;
        let same_kind = match self.node.kind {
            Kind::File { size, .. } => stat.is_file() && size == stat.size,
            Kind::Folder { .. } => stat.is_folder(),
            Kind::Symlink { .. } => stat.file_type() == rustix::fs::FileType::Symlink,
            _ => stat.special_kind().as_ref() == Some(&self.node.kind),
        };
        same_kind
            && self.ino == stat.ino
            && self.ctime == stat.ctime
            && meta.mtime == stat.mtime
            && (meta.mode, meta.uid, meta.gid) == (stat.mode & 0o7777, stat.uid, stat.gid)
            && (stat.is_folder() || self.node.links == stat.links)
    }
}

/// Trust in a cache, judged when a walk begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trust {
    /// Stamps of this time or later may have been given twice.
    set_back_to: Option<Time>,
    /// The cache is old enough for a file that looks as it did then to have settled, whatever clock stamps it.
    is_aged: bool,
}

/// Least age of a cache for a stamp in it, of a clock that cannot be read here, to have settled: the coarsest unit, and a second for
/// what such a filesystem takes its time to show.
const AGED_NANOS: i64 = 3_000_000_000;

impl Trust {
    /// In a cache, at this time. Without one there is nothing to believe.
    pub fn new(cache: Option<&StatCache>, now: &Clock) -> Self {
        let written = cache.map(|cache| cache.trailer.written);
        Trust {
            set_back_to: written.and_then(|written| written.set_back_to(now)),
            is_aged: written.is_some_and(|written| written.is_older_than(AGED_NANOS, now)),
        }
    }

    /// True if the clock was set back since the cache was written.
    pub fn is_limited(&self) -> bool {
        self.set_back_to.is_some()
    }

    /// True if an entry is what it was. It must be on the filesystem that its section names.
    pub fn is_unchanged(&self, cached: &CacheEntry, stat: &Stat) -> bool {
        let given_twice = self.set_back_to.is_some_and(|earliest| clock::is_racy(stat.ctime, earliest));
        !cached.racy && !given_twice && cached.looks_like(stat)
    }

    /// True if an entry that is being read, and looked like `cached` when the cache was written, has settled.
    pub fn is_past_doubt(&self, cached: &CacheEntry, stat: &Stat) -> bool {
        self.is_aged && cached.looks_like(stat)
    }
}

/// Facts about the whole cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trailer {
    /// Offset of the workspace folder's section.
    pub root_section: u64,
    /// Bytes of the sections in use.
    pub used_bytes: u64,
    /// The checkpoint that keeps the content alive.
    pub base: Ulid,
    /// Id of the root tree of that checkpoint.
    pub root: TreeId,
    /// The clocks when the cache was written.
    pub written: Clock,
    /// Time at which every file was last read, whatever its stamps said; in seconds.
    pub read_all_at_secs: i64,
}

/// An open stat cache.
#[derive(Debug)]
pub struct StatCache {
    file: File,
    end: u64,
    seal: Seal,
    /// The trailer that was written last.
    pub trailer: Trailer,
}

/// Path of a workspace's cache; by the folder's canonical path.
pub fn path_for(layout: &Layout, workspace: &Path) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    layout.cache().join(format!("{}.stat", layout.keys.ids.name(workspace.as_os_str().as_bytes())))
}

impl StatCache {
    /// Opens a workspace's cache; `None` where there is none that can be used.
    pub fn open(layout: &Layout, workspace: &Path) -> Option<Self> {
        let file = files::open(&path_for(layout, workspace), How::Read).ok()?;
        let end = end_of(&file)?;
        let seal = layout.keys.seal.clone();
        let mut bytes = vec![0; trailer_bytes(&seal)];
        file.read_exact_at(&mut bytes, end).ok()?;
        let (told, crc) = bytes.split_last_chunk::<4>()?;
        let (magic, body) = told.split_first_chunk::<8>()?;
        if *magic != STAT_CACHE_MAGIC || crc32c::crc32c(told) != u32::from_le_bytes(*crc) {
            return None;
        }
        let body = seal.open(Part::Cache, body).ok()?;
        let mut d = Decoder::new(&body);
        let trailer = Trailer {
            root_section: d.u64("trailer").ok()?,
            used_bytes: d.u64("trailer").ok()?,
            base: Ulid::from_bytes(d.array("trailer").ok()?),
            root: TreeId(d.array("trailer").ok()?),
            written: Clock::decode(&mut d).ok()?,
            read_all_at_secs: d.u64("trailer").ok()? as i64,
        };
        Some(StatCache { file, end, seal, trailer })
    }

    /// The section at an offset; `None` where it does not decode.
    pub fn section(&self, offset: u64) -> Option<Section> {
        section::read(&self.file, self.end, offset, &self.seal)
    }
}

/// The header of a file whose trailer begins at `end`.
fn header(end: u64) -> [u8; HEADER_BYTES] {
    let mut out = [0; HEADER_BYTES];
    out[..8].copy_from_slice(&STAT_CACHE_MAGIC);
    out[8..16].copy_from_slice(&end.to_le_bytes());
    let crc = crc32c::crc32c(&out[..16]);
    out[16..].copy_from_slice(&crc.to_le_bytes());
    out
}

/// The trailer's offset, by the header.
fn end_of(file: &File) -> Option<u64> {
    let mut found = [0; HEADER_BYTES];
    file.read_exact_at(&mut found, 0).ok()?;
    let end = Decoder::new(&found[8..16]).u64("header").ok()?;
    (found == header(end)).then_some(end)
}

/// Finds entries by their paths in a stat cache that is not complete yet. The folders of the last path are kept, so that paths in their
/// order read each folder once.
pub struct Lookup {
    file: File,
    end: u64,
    seal: Seal,
    root_section: u64,
    /// The folders on the way to the last path, with where they begin.
    folders: RefCell<Vec<(u64, Section)>>,
}

impl Lookup {
    fn new(file: File, end: u64, seal: Seal, root_section: u64) -> Self {
        Lookup { file, end, seal, root_section, folders: RefCell::default() }
    }

    /// The entry at a path from the workspace folder.
    pub fn find(&self, path: &[u8]) -> Option<Node> {
        let mut folders = self.folders.borrow_mut();
        let mut parts = crate::name::components(path).enumerate().peekable();
        let mut offset = self.root_section;
        while let Some((depth, part)) = parts.next() {
            if folders.get(depth).is_none_or(|(at, _)| *at != offset) {
                folders.truncate(depth);
                folders.push((offset, section::read(&self.file, self.end, offset, &self.seal)?));
            }
            let entries = &folders.get(depth)?.1.entries;
            let at = entries.binary_search_by(|entry| entry.node.name.as_slice().cmp(part)).ok()?;
            let found = entries.get(at)?;
            if parts.peek().is_none() {
                return Some(found.node.clone());
            }
            offset = found.section;
        }
        None
    }
}

#[cfg(test)]
mod tests;
