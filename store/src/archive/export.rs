//! Export: a checkpoint's workspace as a tar stream inside zstd.

use std::{
    collections::{HashMap, hash_map::Entry},
    io::{self, Write},
    path::PathBuf,
};

use tar::{EntryType, Header};

use super::{ARCHIVE_VERSION, COMMENT_PREFIX, acl, key, pax, pax::BLOCK};
use crate::{
    codec::put_bytes,
    error::{Error, Result},
    id::{BlobId, hex},
    links, omitted,
    progress::{self, Phase, Progress},
    record::Checkpoint,
    store::Store,
    tree::{Hole, Kind, Node},
};

/// zstd level of archives.
const LEVEL: i32 = 3;
/// A global header holds at most this many bytes of one long value.
const GLOBAL_BYTES_MAX: usize = 256 << 10;
/// A name at most this long stands in the header itself.
const NAME_FIELD_BYTES: usize = 100;

/// Counts of an export, and entries that a tar reader will not see.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExportReport {
    /// Members written.
    pub members: u64,
    /// Regular files among them, hard links to one already written aside.
    pub files: u64,
    /// Their bytes, holes included.
    pub bytes: u64,
    /// Bytes of the tar stream, before compression.
    pub tar_bytes: u64,
    /// Bytes of the archive.
    pub archive_bytes: u64,
    /// Sockets: tar has no place for them. They stand in comments.
    pub sockets: Vec<Vec<u8>>,
}

/// Writes a checkpoint's workspace as `.tar.zst` to `out`. Nothing is buffered whole.
pub fn export(store: &Store, checkpoint: &Checkpoint, out: &mut dyn Write, progress: &dyn Progress) -> Result<ExportReport> {
    let root = store.workspace_node(checkpoint)?;
    let (tree, totals) = root.as_folder().ok_or_else(|| Error::Invalid("the workspace is no folder".into()))?;
    progress.phase(Phase::Archive, Some(totals.files), Some(totals.bytes));
    let table = store.links(checkpoint)?;
    let counted = Counted { inner: out, bytes: 0 };
    let mut encoder = zstd::Encoder::new(counted, LEVEL).map_err(failed)?;
    encoder.include_checksum(true).map_err(failed)?;
    let mut tar = Writer { out: Counted { inner: encoder, bytes: 0 }, report: ExportReport::default() };
    tar.preamble(store, checkpoint)?;
    tar.member(store, b"", &root, None, progress)?;
    // A tar reader takes a link for one to a member before it, which need not be the group's leader.
    let mut first_paths: HashMap<links::Member, Vec<u8>> = HashMap::new();
    store.walk(tree, &mut |path, _, node| {
        progress::check(progress)?;
        let group = if node.links > 1 { table.member_at(path).map(|member| table.leader_of(member)) } else { None };
        let first = match group.map(|group| first_paths.entry(group)) {
            Some(Entry::Occupied(first)) => Some(first.into_mut().as_slice()),
            Some(Entry::Vacant(slot)) => {
                slot.insert(path.to_vec());
                None
            }
            None => None,
        };
        tar.member(store, path, node, first, progress).map_err(|e| e.at(path))?;
        Ok(true)
    })?;
    tar.out.write_all(&[0; 2 * BLOCK]).map_err(failed)?;
    let mut report = tar.report;
    report.tar_bytes = tar.out.bytes;
    let mut counted = tar.out.inner.finish().map_err(failed)?;
    counted.flush().map_err(failed)?;
    report.archive_bytes = counted.bytes;
    Ok(report)
}

fn failed(source: io::Error) -> Error {
    Error::Io { action: "write", path: PathBuf::from("archive"), source }
}

struct Counted<W> {
    inner: W,
    bytes: u64,
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.inner.write(bytes)?;
        self.bytes += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

struct Writer<W: Write> {
    out: W,
    report: ExportReport,
}

impl<W: Write> Writer<W> {
    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.out.write_all(bytes).map_err(failed)
    }

    fn pad(&mut self, bytes: u64) -> Result<()> {
        let over = (bytes % BLOCK as u64) as usize;
        if over == 0 { Ok(()) } else { self.put(&[0; BLOCK][over..]) }
    }

    /// A PAX header: `x` for the member behind it, `g` for all.
    fn pax(&mut self, kind: EntryType, label: &[u8], records: &[u8]) -> Result<()> {
        let mut header = Header::new_ustar();
        set_name(&mut header, &[b"./PaxHeaders/", label].concat());
        header.set_entry_type(kind);
        header.set_mode(0o644);
        header.set_size(records.len() as u64);
        header.set_cksum();
        self.put(header.as_bytes())?;
        self.put(records)?;
        self.pad(records.len() as u64)
    }

    fn global(&mut self, key: &str, value: &[u8]) -> Result<()> {
        let mut records = Vec::with_capacity(value.len() + 40);
        put_comment(&mut records, key, value);
        self.pax(EntryType::XGlobalHeader, key.as_bytes(), &records)
    }

    /// Writes the records of the whole archive: the sealed record and what capture left out.
    fn preamble(&mut self, store: &Store, checkpoint: &Checkpoint) -> Result<()> {
        self.global(key::VERSION, ARCHIVE_VERSION.as_bytes())?;
        self.global(key::RECORD, checkpoint.sealed.as_bytes())?;
        if checkpoint.record.omitted.is_some() {
            let list = hex(&omitted::encode(&store.omissions(checkpoint)?));
            for part in list.as_bytes().chunks(GLOBAL_BYTES_MAX) {
                self.global(key::OMITTED, part)?;
            }
        }
        Ok(())
    }

    fn member(&mut self, store: &Store, path: &[u8], node: &Node, leader: Option<&[u8]>, progress: &dyn Progress) -> Result<()> {
        if let Kind::Socket = node.kind {
            let mut bytes = Vec::new();
            put_bytes(&mut bytes, path);
            put_bytes(&mut bytes, leader.unwrap_or_default());
            node.encode(&mut bytes, &mut Vec::new());
            self.report.sockets.push(path.to_vec());
            return self.global(key::SOCKET, hex(&bytes).as_bytes());
        }
        self.report.members += 1;
        let mut name = if path.is_empty() { b"./".to_vec() } else { [b"./", path].concat() };
        if !path.is_empty() && node.as_folder().is_some() {
            name.push(b'/');
        }
        let mut member = Member::new(node, name);
        if node.links > 1 {
            put_comment(&mut member.records, key::LINKS, node.links.to_string().as_bytes());
        }
        if let Some(leader) = leader {
            member.kind = EntryType::Link;
            member.set_target(&[b"./", leader].concat());
            return self.header(member);
        }
        match &node.kind {
            Kind::File { size, blob, holes } => self.file(store, member, *blob, *size, holes, progress),
            Kind::Symlink { target } => {
                member.set_target(target);
                self.header(member)
            }
            Kind::CharDevice { major, minor } | Kind::BlockDevice { major, minor } => {
                // Seven octal digits; Linux has 12 bits of major and 20 of minor.
                if *major >= 1 << 21 || *minor >= 1 << 21 {
                    return Err(Error::Invalid(format!("the device number {major}:{minor} does not fit a tar header")));
                }
                member.device = Some((*major, *minor));
                self.header(member)
            }
            Kind::Folder { .. } | Kind::Fifo | Kind::Socket => self.header(member),
        }
    }

    /// Writes a regular file's header, its map if it has holes, and its data.
    fn file(
        &mut self,
        store: &Store,
        mut member: Member<'_>,
        blob: BlobId,
        size: u64,
        holes: &[Hole],
        progress: &dyn Progress,
    ) -> Result<()> {
        let reader = store.blob(blob, size)?;
        let map = data_map(size, holes);
        if holes.is_empty() {
            member.set_size(size);
            self.header(member)?;
        } else {
            let text = map_text(&map);
            let stored = text.len() as u64 + map.iter().map(|(_, bytes)| bytes).sum::<u64>();
            member.make_sparse(size, stored);
            self.header(member)?;
            self.put(&text)?;
        }
        let mut written = 0u64;
        for (start, bytes) in &map {
            reader.read_range(*start..start + bytes, |piece| {
                progress::check(progress)?;
                written += piece.len() as u64;
                progress.advance(0, piece.len() as u64);
                self.put(piece)
            })?;
        }
        self.pad(written)?;
        self.report.files += 1;
        self.report.bytes = self.report.bytes.saturating_add(size);
        progress.advance(1, size - written);
        Ok(())
    }

    fn header(&mut self, member: Member<'_>) -> Result<()> {
        let mut header = Header::new_ustar();
        let Member { node, name, target, mut records, kind, size, device, field_name } = member;
        if name.len() > NAME_FIELD_BYTES {
            pax::put_record(&mut records, b"path", &name);
        }
        if target.len() > NAME_FIELD_BYTES {
            pax::put_record(&mut records, b"linkpath", &target);
        }
        put_meta(&mut records, node);
        if !records.is_empty() {
            let tail = node.name.len().saturating_sub(60);
            self.pax(EntryType::XHeader, &node.name[tail..], &records)?;
        }
        set_name(&mut header, field_name.as_deref().unwrap_or(&name));
        if let Some(ustar) = header.as_ustar_mut() {
            let kept = target.len().min(NAME_FIELD_BYTES);
            ustar.linkname[..kept].copy_from_slice(&target[..kept]);
            if let Some((major, minor)) = device {
                ustar.set_device_major(major);
                ustar.set_device_minor(minor);
            }
        }
        header.set_entry_type(kind);
        header.set_mode(node.meta.mode);
        header.set_uid(in_octal(u64::from(node.meta.uid), 1 << 21));
        header.set_gid(in_octal(u64::from(node.meta.gid), 1 << 21));
        header.set_mtime(in_octal(u64::try_from(node.meta.mtime.secs).unwrap_or(0), 1 << 33));
        header.set_size(in_octal(size, 1 << 33));
        header.set_cksum();
        self.put(header.as_bytes())
    }
}

/// The number where its header field can hold it; else 0, and a PAX record has it.
fn in_octal(number: u64, limit: u64) -> u64 {
    if number < limit { number } else { 0 }
}

struct Member<'a> {
    node: &'a Node,
    name: Vec<u8>,
    target: Vec<u8>,
    records: Vec<u8>,
    kind: EntryType,
    size: u64,
    device: Option<(u32, u32)>,
    /// Text that stands in the header in place of the name.
    field_name: Option<Vec<u8>>,
}

impl<'a> Member<'a> {
    fn new(node: &'a Node, name: Vec<u8>) -> Self {
        let kind = match node.kind {
            Kind::File { .. } | Kind::Socket => EntryType::Regular,
            Kind::Folder { .. } => EntryType::Directory,
            Kind::Symlink { .. } => EntryType::Symlink,
            Kind::Fifo => EntryType::Fifo,
            Kind::CharDevice { .. } => EntryType::Char,
            Kind::BlockDevice { .. } => EntryType::Block,
        };
        Member { node, name, target: Vec::new(), records: Vec::new(), kind, size: 0, device: None, field_name: None }
    }

    fn set_target(&mut self, target: &[u8]) {
        self.target = target.to_vec();
    }

    fn set_size(&mut self, size: u64) {
        self.size = size;
        if in_octal(size, 1 << 33) != size {
            pax::put_record(&mut self.records, b"size", size.to_string().as_bytes());
        }
    }

    /// PAX sparse format 1.0: the map of data stands before the data.
    fn make_sparse(&mut self, real_size: u64, stored: u64) {
        pax::put_record(&mut self.records, b"GNU.sparse.major", b"1");
        pax::put_record(&mut self.records, b"GNU.sparse.minor", b"0");
        pax::put_record(&mut self.records, b"GNU.sparse.name", &self.name);
        pax::put_record(&mut self.records, b"GNU.sparse.realsize", real_size.to_string().as_bytes());
        self.set_size(stored);
        let tail = self.node.name.len().saturating_sub(60);
        self.field_name = Some([b"./GNUSparseFile.0/", &self.node.name[tail..]].concat());
        self.name.truncate(NAME_FIELD_BYTES);
    }
}

fn put_comment(records: &mut Vec<u8>, key: &str, value: &[u8]) {
    pax::put_record(records, b"comment", &[COMMENT_PREFIX.as_bytes(), key.as_bytes(), b"=", value].concat());
}

/// Puts metadata that the header's own fields cannot hold into records.
fn put_meta(records: &mut Vec<u8>, node: &Node) {
    let meta = &node.meta;
    if meta.mtime.nanos != 0 || !(0..1 << 33).contains(&meta.mtime.secs) {
        pax::put_record(records, b"mtime", pax::time_text(meta.mtime).as_bytes());
    }
    for (key, id) in [(&b"uid"[..], meta.uid), (b"gid", meta.gid)] {
        if id >= 1 << 21 {
            pax::put_record(records, key, id.to_string().as_bytes());
        }
    }
    // ACLs twice, as GNU tar writes them: as text, which `--acls` restores, and as they are.
    for (xattr, key) in [(acl::ACCESS, &b"SCHILY.acl.access"[..]), (acl::DEFAULT, b"SCHILY.acl.default")] {
        let text = meta.xattrs.iter().find(|(name, _)| name == xattr).and_then(|(_, value)| acl::to_text(value));
        if let Some(text) = text {
            pax::put_record(records, key, text.as_bytes());
        }
    }
    for (name, value) in &meta.xattrs {
        pax::put_record(records, &[b"SCHILY.xattr.", &pax::escape_xattr(name)[..]].concat(), value);
    }
}

fn set_name(header: &mut Header, name: &[u8]) {
    let kept = name.len().min(NAME_FIELD_BYTES);
    if let Some(ustar) = header.as_ustar_mut() {
        ustar.name[..kept].copy_from_slice(&name[..kept]);
    }
}

/// The ranges between the holes, as start and length. Where the file ends in a hole, an empty one at its end.
fn data_map(size: u64, holes: &[Hole]) -> Vec<(u64, u64)> {
    let mut map = Vec::with_capacity(holes.len() + 1);
    let mut at = 0;
    for hole in holes {
        if hole.start > at {
            map.push((at, hole.start - at));
        }
        at = hole.start + hole.bytes;
    }
    if at < size || !holes.is_empty() {
        map.push((at, size - at));
    }
    map
}

fn map_text(map: &[(u64, u64)]) -> Vec<u8> {
    let mut text = format!("{}\n", map.len());
    for (start, bytes) in map {
        text.push_str(&format!("{start}\n{bytes}\n"));
    }
    let mut text = text.into_bytes();
    text.resize(text.len().next_multiple_of(BLOCK), 0);
    text
}

#[cfg(test)]
mod unit {
    use super::*;

    #[test]
    fn the_map_covers_what_is_no_hole() {
        assert_eq!(data_map(5, &[]), [(0, 5)]);
        assert_eq!(data_map(0, &[]), []);
        let holes = [Hole { start: 0, bytes: 10 }, Hole { start: 10, bytes: 5 }, Hole { start: 20, bytes: 5 }];
        assert_eq!(data_map(25, &holes), [(15, 5), (25, 0)]);
        assert_eq!(data_map(30, &holes), [(15, 5), (25, 5)]);
        assert_eq!(map_text(&[(15, 5)]).len(), BLOCK);
    }
}
