//! The stat cache: what each entry of a workspace looked like when its content was last known, so that it need not be read again.
//!
//! One file per workspace. Every folder has a section; a folder's entry in its parent's section says where its own begins, so that a
//! walk finds each section without a search. An update appends the sections that changed and replaces the file by rename; when more
//! than half of it is out of use it is written anew. The trailer ties it to a checkpoint: while that exists, so does all content that
//! the cache names. A cache that does not decode is no cache.

use std::{
    fs::{self, File},
    io::{BufWriter, Read, Seek, Write},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use crate::{
    codec::{Decoder, Malformed, put_uint},
    error::{IoContext, Result},
    files::{self, How},
    format::STAT_CACHE_MAGIC,
    id::{TreeId, Ulid},
    layout::Layout,
    sys::Stat,
    tree::{Kind, Node, Time},
};

const TRAILER_BYTES: usize = 92;
const STAT_BYTES: usize = 29;

/// An entry as it was when its node was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cached {
    /// The node.
    pub node: Node,
    /// Inode number.
    pub ino: u64,
    /// Last change of content or metadata.
    pub ctime: Time,
    /// It changed so shortly before it was read that a later change could bear the same time.
    pub racy: bool,
    /// Of a folder: where its section begins; 0 where it has none.
    pub section: u64,
}

impl std::borrow::Borrow<Node> for Cached {
    fn borrow(&self) -> &Node {
        &self.node
    }
}

impl Cached {
    /// Whether the entry still is what it was, as far as `stat` can tell.
    pub fn is_unchanged(&self, stat: &Stat) -> bool {
        let same_kind = match self.node.kind {
            Kind::File { size, .. } => stat.is_file() && size == stat.size,
            Kind::Folder { .. } => stat.is_folder(),
            Kind::Symlink { .. } => stat.file_type() == rustix::fs::FileType::Symlink,
            _ => stat.special_kind().as_ref() == Some(&self.node.kind),
        };
        same_kind && !self.racy && self.ino == stat.ino && self.ctime == stat.ctime && self.node.meta.mtime == stat.mtime
    }
}

/// What the cache knows of one folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// The folder's tree.
    pub tree: TreeId,
    /// Its entries, ordered by name.
    pub entries: Vec<Cached>,
}

impl Section {
    fn encode(&self) -> Vec<u8> {
        let (mut head, mut tail, mut stats) = (Vec::new(), Vec::new(), Vec::with_capacity(self.entries.len() * STAT_BYTES));
        for e in &self.entries {
            e.node.encode(&mut head, &mut tail);
            stats.extend_from_slice(&e.ino.to_le_bytes());
            stats.extend_from_slice(&e.ctime.secs.to_le_bytes());
            stats.extend_from_slice(&e.ctime.nanos.to_le_bytes());
            stats.push(u8::from(e.racy));
            stats.extend_from_slice(&e.section.to_le_bytes());
        }
        let mut out = vec![0; 8];
        out.extend_from_slice(&self.tree.0);
        put_uint(&mut out, self.entries.len() as u64);
        put_uint(&mut out, head.len() as u64);
        out.extend_from_slice(&stats);
        out.extend_from_slice(&head);
        out.extend_from_slice(&tail);
        let length = (out.len() - 8) as u32;
        let crc = crc32c::crc32c(&out[8..]);
        out[..4].copy_from_slice(&length.to_le_bytes());
        out[4..8].copy_from_slice(&crc.to_le_bytes());
        out
    }

    fn decode(body: &[u8]) -> Result<Self, Malformed> {
        let mut d = Decoder::new(body);
        let tree = TreeId(d.array("section")?);
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
        Ok(Section { tree, entries })
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
        };
        let told_end = d.u64("trailer").ok()?;
        d.take(8, "trailer").ok()?;
        let whole = d.u32("trailer").ok()? == crc32c::crc32c(&bytes[..TRAILER_BYTES - 4]);
        (magic == STAT_CACHE_MAGIC && told_end == end && whole).then_some(StatCache { file, end, trailer })
    }

    /// The section at an offset; `None` where it does not decode.
    pub fn section(&self, offset: u64) -> Option<Section> {
        read_section(&self.file, self.end, offset)
    }
}

fn read_section(file: &File, end: u64, offset: u64) -> Option<Section> {
    let mut head = [0; 8];
    if offset == 0 || offset.checked_add(8).is_none_or(|after| after > end) {
        return None;
    }
    file.read_exact_at(&mut head, offset).ok()?;
    let mut d = Decoder::new(&head);
    let (length, crc) = (d.u32("section").ok()?, d.u32("section").ok()?);
    if u64::from(length) > end - offset - 8 {
        return None;
    }
    let mut body = vec![0; length as usize];
    file.read_exact_at(&mut body, offset + 8).ok()?;
    (crc32c::crc32c(&body) == crc).then(|| Section::decode(&body).ok()).flatten()
}

/// Finds entries by their paths in a stat cache that is not complete yet.
pub struct Lookup {
    file: File,
    end: u64,
    root_section: u64,
}

impl Lookup {
    /// The entry at a path from the workspace folder.
    pub fn find(&self, path: &[u8]) -> Option<Node> {
        let mut parts = crate::name::components(path).peekable();
        let mut offset = self.root_section;
        while let Some(part) = parts.next() {
            let mut section = read_section(&self.file, self.end, offset)?;
            let at = section.entries.binary_search_by(|entry| entry.node.name.as_slice().cmp(part)).ok()?;
            let found = section.entries.swap_remove(at);
            if parts.peek().is_none() {
                return Some(found.node);
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
        let bytes = section.encode();
        self.out.write_all(&bytes).at("write stat cache", &self.temporary)?;
        let offset = self.end;
        self.end += bytes.len() as u64;
        self.appended += bytes.len() as u64;
        Ok(offset)
    }

    /// Finds what has been written so far, below the folder whose section begins at `root_section`.
    pub fn lookup(&mut self, root_section: u64) -> Option<Lookup> {
        self.out.flush().ok()?;
        Some(Lookup { file: files::open(&self.temporary, How::Read).ok()?, end: self.end, root_section })
    }

    /// Completes the cache and puts it in the old one's place. It is not synced: a torn one does not decode.
    pub fn finish(mut self, root_section: u64, base: Ulid, root: TreeId) -> Result<()> {
        let mut out = STAT_CACHE_MAGIC.to_vec();
        out.extend_from_slice(&root_section.to_le_bytes());
        // Each appended section stands for one that was in use, but for new folders, so the old figure is close enough.
        let used = if self.keeps_old { self.used_before.max(self.appended) } else { self.appended };
        out.extend_from_slice(&used.to_le_bytes());
        out.extend_from_slice(&base.to_bytes());
        out.extend_from_slice(&root.0);
        out.extend_from_slice(&self.end.to_le_bytes());
        out.extend_from_slice(&[0; 8]);
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
mod tests {
    use super::*;
    use crate::{id::BlobId, tree::Meta};

    fn section(names: &[&str], child: u64) -> Section {
        let entry = |name: &&str| Cached {
            node: Node {
                name: name.as_bytes().to_vec(),
                meta: Meta::default(),
                links: 1,
                kind: Kind::File { size: 3, blob: BlobId::of(b"abc"), holes: vec![] },
            },
            ino: 7,
            ctime: Time { secs: 1, nanos: 2 },
            racy: false,
            section: child,
        };
        Section { tree: TreeId([9; 32]), entries: names.iter().map(entry).collect() }
    }

    #[test]
    fn sections_come_back_and_survive_an_update() {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout { root: dir.path().to_owned() };
        fs::create_dir(layout.cache()).unwrap();
        let workspace = Path::new("/invented/workspace");
        assert!(StatCache::open(&layout, workspace).is_none());
        let mut writer = Writer::create(&layout, workspace, None).unwrap();
        let child = writer.append(&section(&["x", "y"], 0)).unwrap();
        let root = writer.append(&section(&["sub"], child)).unwrap();
        writer.finish(root, Ulid::generate(), TreeId([1; 32])).unwrap();
        let cache = StatCache::open(&layout, workspace).unwrap();
        let found = cache.section(cache.trailer.root_section).unwrap();
        assert_eq!(found, section(&["sub"], child));
        let mut writer = Writer::create(&layout, workspace, Some(&cache)).unwrap();
        assert!(writer.keeps_old);
        let root = writer.append(&section(&["sub", "sub2"], child)).unwrap();
        writer.finish(root, Ulid::generate(), TreeId([2; 32])).unwrap();
        let cache = StatCache::open(&layout, workspace).unwrap();
        assert_eq!(cache.section(child).unwrap(), section(&["x", "y"], 0));
    }

    #[test]
    fn a_damaged_cache_is_no_cache() {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout { root: dir.path().to_owned() };
        fs::create_dir(layout.cache()).unwrap();
        let workspace = Path::new("/invented/workspace");
        let mut writer = Writer::create(&layout, workspace, None).unwrap();
        let root = writer.append(&section(&["a", "b"], 0)).unwrap();
        writer.finish(root, Ulid::generate(), TreeId([1; 32])).unwrap();
        let path = path_for(&layout, workspace);
        let good = fs::read(&path).unwrap();
        for i in 8..good.len() {
            let mut bytes = good.clone();
            bytes[i] ^= 4;
            fs::write(&path, &bytes).unwrap();
            let section = StatCache::open(&layout, workspace).and_then(|c| c.section(c.trailer.root_section));
            assert!(section.is_none(), "byte {i}");
        }
    }
}
