//! Export: a checkpoint's workspace as a tar stream inside zstd.

mod header;
mod sparse;

use std::{
    collections::{HashMap, hash_map::Entry},
    io::{self, Write},
    path::PathBuf,
};

use schemars::JsonSchema;
use serde::Serialize;

use tar::{EntryType, Header};

use self::{
    header::{Member, put_comment, set_name},
    sparse::{data_map, map_text},
};
use super::{ARCHIVE_VERSION, key, pax::BLOCK};
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ExportReport {
    /// Members of the archive.
    pub members: u64,
    /// Regular files among them, without hard links to one already written.
    pub files: u64,
    /// Length of these files in bytes, holes included.
    pub bytes: u64,
    /// Bytes of the archive before it was compressed.
    pub tar_bytes: u64,
    /// Bytes of the archive.
    pub archive_bytes: u64,
    /// Sockets, for which it has no place.
    // Comments of the archive name them.
    #[serde(serialize_with = "crate::json::length")]
    #[schemars(with = "u64")]
    pub sockets: Vec<Vec<u8>>,
}

/// Writes a checkpoint's workspace as `.tar.zst` to `out`. Nothing is buffered whole.
pub fn export(store: &Store, checkpoint: &Checkpoint, out: &mut dyn Write, progress: &dyn Progress) -> Result<ExportReport> {
    let root = store.workspace_node(checkpoint)?;
    let (tree, totals) = root.as_folder().ok_or_else(|| Error::Invalid("the workspace is no folder".into()))?;
    progress.phase(Phase::Archive, Some(totals.files), Some(totals.bytes));
    let table = store.links(checkpoint)?;
    let counted = CountingWriter { inner: out, bytes: 0 };
    let mut encoder = zstd::Encoder::new(counted, LEVEL).map_err(failed)?;
    encoder.include_checksum(true).map_err(failed)?;
    let mut tar = Writer { out: CountingWriter { inner: encoder, bytes: 0 }, report: ExportReport::default() };
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

struct CountingWriter<W> {
    inner: W,
    bytes: u64,
}

impl<W: Write> Write for CountingWriter<W> {
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
            // Releases before that of the second list refuse what they do not know of in the first.
            let (attributes, left_out) = omitted::split_attributes(&store.omissions(checkpoint)?);
            for (key, list) in [(key::OMITTED, left_out), (key::ATTRIBUTES, attributes)] {
                if key == key::ATTRIBUTES && list.is_empty() {
                    continue;
                }
                for part in hex(&omitted::encode(&list)).as_bytes().chunks(GLOBAL_BYTES_MAX) {
                    self.global(key, part)?;
                }
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
}
