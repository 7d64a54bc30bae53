//! The stat cache: what each entry of a workspace looked like when its content was last known, so that it need not be read again.
//!
//! One file per workspace. Every folder has a section; a folder's entry in its parent's section says where its own begins, so that a
//! walk finds each section without a search. An update appends the sections that changed and replaces the file by rename; when more
//! than half of it is out of use it is written anew. The trailer ties it to a checkpoint: while that exists, so does all content that
//! the cache names. A cache that does not decode is no cache. Each section names the filesystem that its folder was on, and the trailer
//! the clocks when the cache was written: stamps mean nothing on another filesystem, and less once somebody has set the clock back.

use std::{
    borrow::Borrow,
    cell::RefCell,
    fs::{self, File},
    io::{BufWriter, Read, Seek, Write},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use crate::{
    clock::{self, CLOCK_BYTES, Clock},
    codec::{Decoder, Malformed, put_uint},
    error::{IoContext, Result},
    files::{self, How},
    filesystem::FilesystemId,
    format::STAT_CACHE_MAGIC,
    id::{TreeId, Ulid},
    layout::Layout,
    sys::Stat,
    tree::{Kind, Node, Time},
};

const TRAILER_BYTES: usize = 92 + CLOCK_BYTES;
const STAT_BYTES: usize = 29;
/// A section of more entries is written and read in parts of this many, so that a big folder's bytes are never in memory at once.
const PART_ENTRIES: usize = 16 << 10;
/// Set in a part's length if another part follows; its CRC is complemented then.
const MORE: u32 = 1 << 31;

/// An entry as it was when its node was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cached {
    /// The node.
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

impl Borrow<Node> for Cached {
    fn borrow(&self) -> &Node {
        &self.node
    }
}

impl Cached {
    /// Whether the entry looks as it did: type, size, inode, permissions, owner, number of names, and both times.
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

/// What may be believed of a cache, judged when a walk begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trust {
    /// Stamps of this time or later may have been given twice.
    set_back_to: Option<Time>,
    /// The cache is old enough for a file that looks as it did then to have settled, whatever clock stamps it.
    is_aged: bool,
}

/// How old a cache must be for a stamp in it, of a clock that cannot be read here, to have settled: the coarsest unit, and a second for
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

    /// Whether the clock was set back since the cache was written.
    pub fn is_limited(&self) -> bool {
        self.set_back_to.is_some()
    }

    /// Whether an entry is what it was. It must be on the filesystem that its section names.
    pub fn is_unchanged(&self, cached: &Cached, stat: &Stat) -> bool {
        let given_twice = self.set_back_to.is_some_and(|earliest| clock::is_racy(stat.ctime, earliest));
        !cached.racy && !given_twice && cached.looks_like(stat)
    }

    /// Whether an entry that is being read, and looked like `cached` when the cache was written, has settled.
    pub fn has_settled(&self, cached: &Cached, stat: &Stat) -> bool {
        self.is_aged && cached.looks_like(stat)
    }
}

/// What the cache knows of one folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// The folder's tree.
    pub tree: TreeId,
    /// The filesystem that the folder was on, and the entries that are not [racy](Cached::racy).
    pub filesystem: FilesystemId,
    /// Its entries, ordered by name.
    pub entries: Vec<Cached>,
}

impl Section {
    fn encode_part<T: Borrow<Cached>>(tree: TreeId, filesystem: FilesystemId, entries: &[T], more: bool) -> Vec<u8> {
        let (mut head, mut tail, mut stats) = (Vec::new(), Vec::new(), Vec::with_capacity(entries.len() * STAT_BYTES));
        for e in entries {
            let e: &Cached = e.borrow();
            e.node.encode(&mut head, &mut tail);
            stats.extend_from_slice(&e.ino.to_le_bytes());
            stats.extend_from_slice(&e.ctime.secs.to_le_bytes());
            stats.extend_from_slice(&e.ctime.nanos.to_le_bytes());
            stats.push(u8::from(e.racy));
            stats.extend_from_slice(&e.section.to_le_bytes());
        }
        let mut out = vec![0; 8];
        out.extend_from_slice(&tree.0);
        out.extend_from_slice(&filesystem.0);
        put_uint(&mut out, entries.len() as u64);
        put_uint(&mut out, head.len() as u64);
        out.extend_from_slice(&stats);
        out.extend_from_slice(&head);
        out.extend_from_slice(&tail);
        let (length, crc) = ((out.len() - 8) as u32, crc32c::crc32c(&out[8..]));
        let (length, crc) = if more { (length | MORE, !crc) } else { (length, crc) };
        out[..4].copy_from_slice(&length.to_le_bytes());
        out[4..8].copy_from_slice(&crc.to_le_bytes());
        out
    }

    fn decode(body: &[u8]) -> Result<Self, Malformed> {
        let mut d = Decoder::new(body);
        let tree = TreeId(d.array("section")?);
        let filesystem = FilesystemId(d.array("section")?);
        let count = d.count(STAT_BYTES, "section")?;
        let head_bytes = d.uint("section")? as usize;
        let mut stats = Decoder::new(d.take(count * STAT_BYTES, "section")?);
        let mut head = Decoder::new(d.take(head_bytes, "section")?);
        let mut entries = Vec::with_capacity(count);
        for _ in 0..count {
            let ino = stats.u64("section")?;
            let ctime = Time { secs: stats.u64("section")? as i64, nanos: stats.u32("section")? };
            let racy = stats.byte("section")? != 0;
            let section = stats.u64("section")?;
            entries.push(Cached { node: Node::decode(&mut head, &mut d)?, ino, ctime, racy, section });
        }
        Ok(Section { tree, filesystem, entries })
    }
}

/// What the trailer says of the whole cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trailer {
    /// Where the workspace folder's section begins.
    pub root_section: u64,
    /// Bytes of the sections in use.
    pub used_bytes: u64,
    /// The checkpoint that keeps the content alive.
    pub base: Ulid,
    /// Its root.
    pub root: TreeId,
    /// The clocks when the cache was written.
    pub written: Clock,
    /// When every file was last read, whatever its stamps said; in seconds.
    pub read_all_at_secs: i64,
}

/// An open stat cache.
#[derive(Debug)]
pub struct StatCache {
    file: File,
    end: u64,
    /// What it says of itself.
    pub trailer: Trailer,
}

/// Where the cache of a workspace is; by the folder's canonical path.
pub fn path_for(layout: &Layout, workspace: &Path) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    let hash = blake3::hash(workspace.as_os_str().as_bytes());
    layout.cache().join(format!("{}.stat", &hash.to_hex()[..32]))
}

impl StatCache {
    /// Opens a workspace's cache; `None` where there is none that can be used.
    pub fn open(layout: &Layout, workspace: &Path) -> Option<Self> {
        let file = files::open(&path_for(layout, workspace), How::Read).ok()?;
        let end = file.metadata().ok()?.len().checked_sub(TRAILER_BYTES as u64)?;
        let mut bytes = [0; TRAILER_BYTES];
        file.read_exact_at(&mut bytes, end).ok()?;
        let mut d = Decoder::new(&bytes);
        let magic: [u8; 8] = d.array("trailer").ok()?;
        let trailer = Trailer {
            root_section: d.u64("trailer").ok()?,
            used_bytes: d.u64("trailer").ok()?,
            base: Ulid::from_bytes(d.array("trailer").ok()?),
            root: TreeId(d.array("trailer").ok()?),
            written: Clock::decode(&mut d).ok()?,
            read_all_at_secs: d.u64("trailer").ok()? as i64,
        };
        let told_end = d.u64("trailer").ok()?;
        let whole = d.u32("trailer").ok()? == crc32c::crc32c(&bytes[..TRAILER_BYTES - 4]);
        (magic == STAT_CACHE_MAGIC && told_end == end && whole).then_some(StatCache { file, end, trailer })
    }

    /// The section at an offset; `None` where it does not decode.
    pub fn section(&self, offset: u64) -> Option<Section> {
        read_section(&self.file, self.end, offset)
    }
}

fn read_section(file: &File, end: u64, offset: u64) -> Option<Section> {
    let (mut section, mut next) = read_part(file, end, offset)?;
    while let Some(offset) = next {
        let part;
        (part, next) = read_part(file, end, offset)?;
        section.entries.extend(part.entries);
    }
    Some(section)
}

/// A part of a section, and where the next one begins.
fn read_part(file: &File, end: u64, offset: u64) -> Option<(Section, Option<u64>)> {
    let mut head = [0; 8];
    if offset == 0 || offset.checked_add(8).is_none_or(|after| after > end) {
        return None;
    }
    file.read_exact_at(&mut head, offset).ok()?;
    let mut d = Decoder::new(&head);
    let (length, crc) = (d.u32("section").ok()?, d.u32("section").ok()?);
    let (length, crc, more) = if length & MORE != 0 { (length & !MORE, !crc, true) } else { (length, crc, false) };
    if u64::from(length) > end - offset - 8 {
        return None;
    }
    let mut body = vec![0; length as usize];
    file.read_exact_at(&mut body, offset + 8).ok()?;
    let part = (crc32c::crc32c(&body) == crc).then(|| Section::decode(&body).ok()).flatten()?;
    Some((part, more.then_some(offset + 8 + u64::from(length))))
}

/// Finds entries by their paths in a stat cache that is not complete yet. The folders of the last path are kept, so that paths in their
/// order read each folder once.
pub struct Lookup {
    file: File,
    end: u64,
    root_section: u64,
    /// The folders on the way to the last path, with where they begin.
    folders: RefCell<Vec<(u64, Section)>>,
}

impl Lookup {
    /// The entry at a path from the workspace folder.
    pub fn find(&self, path: &[u8]) -> Option<Node> {
        let mut folders = self.folders.borrow_mut();
        let mut parts = crate::name::components(path).enumerate().peekable();
        let mut offset = self.root_section;
        while let Some((depth, part)) = parts.next() {
            if folders.get(depth).is_none_or(|(at, _)| *at != offset) {
                folders.truncate(depth);
                folders.push((offset, read_section(&self.file, self.end, offset)?));
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

/// Writes a new stat cache beside the old one.
pub struct Writer {
    path: PathBuf,
    temporary: PathBuf,
    out: BufWriter<File>,
    end: u64,
    /// Whether the old sections were kept, so that their offsets still hold.
    pub keeps_old: bool,
    appended: u64,
    used_before: u64,
}

impl Writer {
    /// Starts a new cache for a workspace, as a continuation of `old` where that is worth it.
    pub fn create(layout: &Layout, workspace: &Path, old: Option<&StatCache>) -> Result<Self> {
        let path = path_for(layout, workspace);
        let temporary = path.with_extension(format!("{}.tmp", crate::id::OpId::generate()));
        let mut file = files::open(&temporary, How::New).at("create stat cache", &temporary)?;
        let mut end = 8;
        let old = old.filter(|old| old.end <= 2 * old.trailer.used_bytes + (1 << 20));
        match old {
            Some(old) => {
                let mut from = &old.file;
                from.rewind().at("read stat cache", &path)?;
                std::io::copy(&mut from.take(old.end), &mut file).at("write stat cache", &temporary)?;
                end = old.end;
            }
            None => file.write_all(&STAT_CACHE_MAGIC).at("write stat cache", &temporary)?,
        }
        Ok(Writer {
            path,
            temporary,
            out: BufWriter::with_capacity(256 << 10, file),
            end,
            keeps_old: old.is_some(),
            appended: 0,
            used_before: old.map_or(0, |old| old.trailer.used_bytes),
        })
    }

    /// Appends a section and says where it begins.
    pub fn append(&mut self, section: &Section) -> Result<u64> {
        self.append_entries(section.tree, section.filesystem, &section.entries)
    }

    /// As [`Writer::append`], for a folder of this tree, on this filesystem, and these entries.
    pub fn append_entries<T: Borrow<Cached>>(&mut self, tree: TreeId, filesystem: FilesystemId, entries: &[T]) -> Result<u64> {
        let offset = self.end;
        let mut rest = entries;
        loop {
            let (part, behind) = rest.split_at(rest.len().min(PART_ENTRIES));
            let bytes = Section::encode_part(tree, filesystem, part, !behind.is_empty());
            self.out.write_all(&bytes).at("write stat cache", &self.temporary)?;
            self.end += bytes.len() as u64;
            self.appended += bytes.len() as u64;
            if behind.is_empty() {
                return Ok(offset);
            }
            rest = behind;
        }
    }

    /// Finds what has been written so far, below the folder whose section begins at `root_section`.
    pub fn lookup(&mut self, root_section: u64) -> Option<Lookup> {
        self.out.flush().ok()?;
        let file = files::open(&self.temporary, How::Read).ok()?;
        Some(Lookup { file, end: self.end, root_section, folders: RefCell::default() })
    }

    /// Completes the cache and puts it in the old one's place. It is not synced: a torn one does not decode. `written` are the clocks
    /// before anything was looked at.
    pub fn finish(mut self, root_section: u64, base: Ulid, root: TreeId, written: &Clock, read_all_at_secs: i64) -> Result<()> {
        let mut out = STAT_CACHE_MAGIC.to_vec();
        out.extend_from_slice(&root_section.to_le_bytes());
        // Each appended section stands for one that was in use, but for new folders, so the old figure is close enough.
        let used = if self.keeps_old { self.used_before.max(self.appended) } else { self.appended };
        out.extend_from_slice(&used.to_le_bytes());
        out.extend_from_slice(&base.to_bytes());
        out.extend_from_slice(&root.0);
        written.encode(&mut out);
        out.extend_from_slice(&read_all_at_secs.to_le_bytes());
        out.extend_from_slice(&self.end.to_le_bytes());
        let crc = crc32c::crc32c(&out);
        out.extend_from_slice(&crc.to_le_bytes());
        let temporary = self.temporary.clone();
        self.out.write_all(&out).and_then(|()| self.out.flush()).at("write stat cache", &temporary)?;
        fs::rename(&temporary, &self.path).at("replace stat cache", &self.path)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // After `finish` the name is gone already.
        let _ = fs::remove_file(&self.temporary);
    }
}

#[cfg(test)]
mod tests;
