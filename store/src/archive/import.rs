//! Reading archives that anybody may have made: every member is validated before it is handed out.
//!
//! Refused, with the member's name: absolute paths, `..`, names and paths that no filesystem holds, hard links that lead out, sizes
//! that are absurd, data that expands beyond reason, what takes memory beyond reason, damaged headers. A symlink's target is content, and
//! may say anything.

mod input;

use parhelia_name::step::Step;
use std::{
    io::{BufRead, BufReader, Read},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use tar::{EntryType, Header};

pub use super::member::{Member, MemberContent};
use super::{
    member::{Extended, unhex},
    pax::BLOCK,
    source::{Expanding, Source, ZSTD_MAGIC},
};
use crate::{
    error::{Error, Result},
    format::TREE_DEPTH_MAX,
    name,
    omitted::{self, Omission},
    record::Record,
};

/// Limits of what is believed of an archive.
#[derive(Clone, Debug)]
pub struct Limits {
    /// No file may be longer, holes included.
    pub file_bytes_max: u64,
    /// Beyond [`Limits::expanded_bytes_free`], the tar stream may be this many times as long as what was read of the archive.
    pub expansion_max: u64,
    /// So many bytes of the tar stream are read whatever they were compressed from.
    pub expanded_bytes_free: u64,
    /// No extended header may be longer.
    pub header_bytes_max: u64,
    /// No path may be longer.
    pub path_bytes_max: usize,
    /// So many bytes are kept in memory of what an archive says, whatever its length.
    pub kept_bytes_free: u64,
    /// ... and so many more for each byte that was read of it. A header of a tar is 512 bytes, and no entry takes much more.
    pub kept_bytes_per_byte: u64,
}

/// First bytes of other formats, their names, and the programs that unpack them.
const OTHERS: [(&[u8], &str, &str); 4] = [
    (b"\x1f\x8b", "gzip", "zcat"),
    (b"\xfd7zXZ", "xz", "xzcat"),
    (b"BZh", "bzip2", "bzcat"),
    (b"\x04\x22\x4d\x18", "lz4", "lz4cat"),
];

impl Default for Limits {
    fn default() -> Self {
        Limits {
            file_bytes_max: 16 << 40,
            expansion_max: 2000,
            expanded_bytes_free: 1 << 30,
            header_bytes_max: 64 << 20,
            path_bytes_max: 1 << 20,
            kept_bytes_free: 256 << 20,
            kept_bytes_per_byte: 64,
        }
    }
}

/// Reads an archive, member by member.
pub struct Reader<'a> {
    input: Box<dyn Expanding + 'a>,
    path: PathBuf,
    pub(super) limits: Limits,
    /// The unread rest of the current member.
    pub(super) rest: Rest,
    pub(super) record: Option<Record>,
    pub(super) omitted_hex: Vec<u8>,
    pub(super) attributes_hex: Vec<u8>,
    expanded_bytes: u64,
    /// True once a header was read.
    is_tar: bool,
    ended: bool,
}

/// The part of a member that is still in the stream.
#[derive(Default)]
pub(super) struct Rest {
    pub(super) name: Vec<u8>,
    /// Ranges of data, in order.
    pub(super) map: Vec<(u64, u64)>,
    pub(super) stored_bytes: u64,
    pub(super) padding: u64,
}

impl<'a> Reader<'a> {
    /// Reads `.tar.zst` or `.tar` from a stream; `path` names it in messages.
    pub fn new(input: impl Read + 'a, path: &Path, limits: Limits) -> Result<Self> {
        let io = |source| Error::Io { action: "read", path: path.to_owned(), source };
        let mut input = BufReader::with_capacity(128 << 10, input);
        let is_zstd = input.fill_buf().map_err(io)?.starts_with(&ZSTD_MAGIC);
        let source = Source { inner: input, bytes: 0 };
        let input: Box<dyn Expanding + 'a> =
            if is_zstd { Box::new(zstd::Decoder::new(source).map_err(io)?) } else { Box::new(source) };
        Ok(Reader {
            input,
            path: path.to_owned(),
            limits,
            rest: Rest::default(),
            record: None,
            omitted_hex: Vec::new(),
            attributes_hex: Vec::new(),
            expanded_bytes: 0,
            is_tar: false,
            ended: false,
        })
    }

    /// The sealed record that the archive carries, if it was exported by parhelia. Known once the first member was read.
    pub fn record(&self) -> Option<&Record> {
        self.record.as_ref()
    }

    /// Entries that the capture of the exported checkpoint left out.
    pub fn omissions(&self) -> Result<Vec<Omission>> {
        let mut omissions = Vec::new();
        for hex in [&self.omitted_hex, &self.attributes_hex].into_iter().filter(|hex| !hex.is_empty()) {
            let bytes = unhex(hex).ok_or_else(|| self.refused(b"", "its list of omissions does not parse"))?;
            self.check_kept(b"", omitted::kept_bytes(&bytes))?;
            omissions.extend(omitted::decode(&bytes).map_err(|e| self.refused(b"", &e.to_string()))?);
        }
        omissions.sort_unstable();
        omissions.dedup();
        Ok(omissions)
    }

    /// The next member; nothing at the end. What was not read of the one before is passed over.
    pub fn next_member(&mut self) -> Result<Option<Member>> {
        self.skip_rest()?;
        let mut extended = Extended::default();
        let mut block = [0u8; BLOCK];
        while !self.ended {
            if !self.read_block(&mut block)? || block == [0; BLOCK] {
                self.ended = true;
                self.drain()?;
                break;
            }
            let header = Header::from_byte_slice(&block);
            let label = header.path_bytes().into_owned();
            if !checksum_fits(header, &block) {
                let is_tar = self.is_tar || block[257..262] == *b"ustar";
                return Err(if is_tar { self.refused(&label, "its header is damaged") } else { self.not_an_archive(&block) });
            }
            self.is_tar = true;
            let size = header.entry_size().map_err(|_| self.refused(&label, "its size does not parse"))?;
            match header.entry_type() {
                EntryType::XGlobalHeader => {
                    let bytes = self.read_extended(&label, size)?;
                    if let Some(socket) = self.take_global(&bytes)? {
                        return Ok(Some(socket));
                    }
                }
                EntryType::XHeader => {
                    let bytes = self.read_extended(&label, size)?;
                    self.take_extended(&bytes, &label, &mut extended)?;
                }
                EntryType::GNULongName => {
                    extended.path.get_or_insert(without_nul(self.read_extended(&label, size)?));
                }
                EntryType::GNULongLink => {
                    extended.link.get_or_insert(without_nul(self.read_extended(&label, size)?));
                }
                _ => return self.member(header, &label, size, extended).map(Some),
            }
        }
        Ok(None)
    }

    /// Gives the current file's data, each piece with its offset; holes are passed over.
    pub fn read_content(&mut self, mut take: impl FnMut(u64, &[u8]) -> Result<()>) -> Result<()> {
        let mut buffer = vec![0; 128 << 10];
        for (start, bytes) in std::mem::take(&mut self.rest.map) {
            let mut at = 0;
            while at < bytes {
                let wanted = buffer.len().min(usize::try_from(bytes - at).unwrap_or(usize::MAX));
                self.read_exact(&mut buffer[..wanted])?;
                self.rest.stored_bytes -= wanted as u64;
                take(start + at, &buffer[..wanted])?;
                at += wanted as u64;
            }
        }
        Ok(())
    }

    /// An error that names a member.
    pub(crate) fn refused(&self, member: &[u8], reason: &str) -> Error {
        let member = if member.is_empty() { "(header)".to_owned() } else { name::display(member) };
        Error::Archive { path: self.path.clone(), member, reason: reason.to_owned() }
    }

    /// The error for a stream that begins as no archive does.
    fn not_an_archive(&self, beginning: &[u8]) -> Error {
        let found = OTHERS.iter().find(|(magic, ..)| beginning.starts_with(magic));
        let hint = found.map(|(_, name, program)| {
            let unpacks = format!("{program} {}", name::shell(self.path.as_os_str().as_bytes()));
            format!("; it looks like {name}\n{} imports a tar in it", Step::ImportBehind(unpacks))
        });
        Error::NotAnArchive { path: self.path.clone(), hint: hint.unwrap_or_default() }
    }

    /// Refuses an archive of which more has to be kept in memory than its length accounts for: little of it can say much, as of folders
    /// that members lie in, of attributes that hard links repeat, and of holes.
    pub(crate) fn check_kept(&self, member: &[u8], bytes: u64) -> Result<()> {
        let limits = &self.limits;
        let allowed = self.input.source_bytes().saturating_mul(limits.kept_bytes_per_byte).saturating_add(limits.kept_bytes_free);
        if bytes > allowed {
            let reason = format!("with it, {bytes} bytes would have to be kept in memory; the archive is refused as a bomb");
            return Err(self.refused(member, &reason));
        }
        Ok(())
    }

    /// The path, without `./` and doubled slashes, if it stays inside the archive's root.
    pub(super) fn checked_path(&self, path: &[u8]) -> Result<Vec<u8>> {
        if path.starts_with(b"/") {
            return Err(self.refused(path, "its path is absolute; members must lie inside the archive's root"));
        }
        if path.len() > self.limits.path_bytes_max {
            return Err(self.refused(&path[..200], "its path is too long"));
        }
        let parts: Vec<&[u8]> = name::components(path).collect();
        if parts.contains(&&b".."[..]) {
            return Err(self.refused(path, "its path leads out of the archive's root"));
        }
        // The deepest folder may hold entries.
        if parts.len() > TREE_DEPTH_MAX + 1 {
            return Err(self.refused(&path[..200], &format!("folders nest deeper than {TREE_DEPTH_MAX} in its path")));
        }
        if parts.iter().any(|part| !name::is_valid(part)) {
            return Err(self.refused(path, "its path is none that a filesystem holds"));
        }
        Ok(parts.join(&b'/'))
    }
}

fn without_nul(mut bytes: Vec<u8>) -> Vec<u8> {
    if let Some(end) = bytes.iter().position(|&b| b == 0) {
        bytes.truncate(end);
    }
    bytes
}

fn checksum_fits(header: &Header, block: &[u8; BLOCK]) -> bool {
    let sum = |range: std::ops::Range<usize>| block[range].iter().map(|b| u32::from(*b)).sum::<u32>();
    header.cksum().is_ok_and(|stated| stated == sum(0..148) + 8 * u32::from(b' ') + sum(156..BLOCK))
}
