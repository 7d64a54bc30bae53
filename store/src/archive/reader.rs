//! The reader of an archive: its bytes within the limits, and what of a member is still to be read.

mod input;

use std::{
    io::{BufRead, BufReader, Read},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use parhelia_name::step::Step;

use super::source::{MeteredRead, Source, ZSTD_MAGIC};
use crate::{
    error::{Error, Result},
    format::TREE_DEPTH_MAX,
    name,
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
    input: Box<dyn MeteredRead + 'a>,
    path: PathBuf,
    pub(super) limits: Limits,
    /// The unread rest of the current member.
    pub(super) rest: Rest,
    pub(super) record: Option<Record>,
    pub(super) omitted_hex: Vec<u8>,
    pub(super) attributes_hex: Vec<u8>,
    expanded_bytes: u64,
    /// True once a header was read.
    pub(super) is_tar: bool,
    pub(super) ended: bool,
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
        let input: Box<dyn MeteredRead + 'a> =
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
    pub(super) fn not_an_archive(&self, beginning: &[u8]) -> Error {
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
