//! From headers to validated members.

mod sparse;

use tar::{EntryType, Header};

use super::{
    ARCHIVE_VERSION, COMMENT_PREFIX, key,
    pax::{self, BLOCK},
    reader::{Reader, Rest},
};
use crate::{
    codec::Decoder,
    error::Result,
    format::{BLOCK_BYTES_MAX, TARGET_BYTES_MAX},
    name,
    record::Record,
    tree::{Hole, Kind, Meta, Node, Time, Xattr, is_xattr_name},
};

/// The kernel takes no longer value of an extended attribute (XATTR_SIZE_MAX).
const XATTR_BYTES_MAX: usize = 64 << 10;

/// Type of a member, with the fields of that type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberContent {
    /// A regular file; [`Reader::read_content`] gives its bytes.
    File {
        /// Its length, holes included.
        size: u64,
        /// Its holes, in order.
        holes: Vec<Hole>,
    },
    /// A folder; its entries are members of their own.
    Folder,
    /// A symbolic link.
    Symlink {
        /// Its target, byte for byte.
        target: Vec<u8>,
    },
    /// Another name of an earlier member.
    HardLink {
        /// The path of that member.
        leader: Vec<u8>,
    },
    /// A named pipe.
    Fifo,
    /// A Unix socket, which the archive has as a comment.
    Socket,
    /// A device that is read as bytes, such as a terminal.
    CharDevice {
        /// Number of the driver: the major part of `st_rdev`.
        major: u32,
        /// Number of the device at its driver: the minor part of `st_rdev`.
        minor: u32,
    },
    /// A device that is read in blocks, such as a disk.
    BlockDevice {
        /// Number of the driver: the major part of `st_rdev`.
        major: u32,
        /// Number of the device at its driver: the minor part of `st_rdev`.
        minor: u32,
    },
}

/// A member whose path, metadata and type can be used as they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its path from the archive's root; empty for the root itself.
    pub path: Vec<u8>,
    /// Its metadata.
    pub meta: Meta,
    /// Its link count, where the archive tells.
    pub links: u32,
    /// Its type and content.
    pub content: MemberContent,
}

/// Records of the headers before a member.
#[derive(Default)]
pub(super) struct ExtendedHeader {
    pub(super) path: Option<Vec<u8>>,
    pub(super) link: Option<Vec<u8>>,
    size: Option<u64>,
    mtime: Option<Time>,
    uid: Option<u32>,
    gid: Option<u32>,
    links: Option<u32>,
    xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    /// Memory that they take.
    xattrs_bytes: usize,
    sparse_major: Option<Vec<u8>>,
    sparse_real_size: Option<u64>,
    is_other_sparse: bool,
}

fn number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

impl Reader<'_> {
    pub(super) fn take_global(&mut self, bytes: &[u8]) -> Result<Option<Member>> {
        let records = pax::records(bytes).ok_or_else(|| self.refused(b"", "a global header does not parse"))?;
        let mut socket = None;
        for (_, value) in records.into_iter().filter(|(key, _)| *key == b"comment") {
            let Some((key, value)) = ours(value) else { continue };
            match key {
                key::VERSION if value != ARCHIVE_VERSION.as_bytes() => {
                    let reason = format!("it was exported by a newer release (version {})", name::display(value));
                    return Err(self.refused(b"", &reason));
                }
                key::RECORD => {
                    let broken = || self.refused(b"", "its checkpoint record does not parse");
                    let sealed = String::from_utf8(value.to_vec()).map_err(|_| broken())?;
                    self.record = Some(Record::decode(&sealed).map_err(|_| broken())?);
                }
                key::OMITTED | key::ATTRIBUTES => {
                    let hex = if key == key::OMITTED { &mut self.omitted_hex } else { &mut self.attributes_hex };
                    if (hex.len() + value.len()) as u64 > 2 * self.limits.header_bytes_max {
                        return Err(self.refused(b"", "its list of omissions is too long"));
                    }
                    hex.extend_from_slice(value);
                }
                key::SOCKET => socket = Some(self.socket(value)?),
                _ => {}
            }
        }
        Ok(socket)
    }

    fn socket(&self, value: &[u8]) -> Result<Member> {
        let broken = || self.refused(b"", "a socket does not parse");
        let bytes = unhex(value).ok_or_else(broken)?;
        let mut d = Decoder::new(&bytes);
        let path = d.bytes("socket").map_err(|_| broken())?.to_vec();
        let leader = d.bytes("socket").map_err(|_| broken())?.to_vec();
        let node = Node::decode(&mut d, &mut Decoder::new(&[])).map_err(|_| broken())?;
        if node.kind != Kind::Socket {
            return Err(broken());
        }
        let path = self.checked_path(&path)?;
        let content = if leader.is_empty() {
            MemberContent::Socket
        } else {
            MemberContent::HardLink { leader: self.checked_path(&leader)? }
        };
        Ok(Member { path, meta: node.meta, links: node.links, content })
    }

    pub(super) fn take_extended(&self, bytes: &[u8], label: &[u8], extended: &mut ExtendedHeader) -> Result<()> {
        let records = pax::records(bytes).ok_or_else(|| self.refused(label, "its extended header does not parse"))?;
        for (key, value) in records {
            let bad = || self.refused(label, &format!("its {} does not parse", name::display(key)));
            let id = || number(value).and_then(|n| u32::try_from(n).ok()).ok_or_else(bad);
            match key {
                b"path" => extended.path = Some(value.to_vec()),
                b"GNU.sparse.name" => extended.path = Some(value.to_vec()),
                b"linkpath" => extended.link = Some(value.to_vec()),
                b"size" => extended.size = Some(number(value).ok_or_else(bad)?),
                b"mtime" => extended.mtime = Some(pax::parse_time(value).ok_or_else(bad)?),
                b"uid" => extended.uid = Some(id()?),
                b"gid" => extended.gid = Some(id()?),
                b"GNU.sparse.major" => extended.sparse_major = Some(value.to_vec()),
                b"GNU.sparse.realsize" => extended.sparse_real_size = Some(number(value).ok_or_else(bad)?),
                b"GNU.sparse.map" | b"GNU.sparse.numblocks" | b"GNU.sparse.size" => extended.is_other_sparse = true,
                b"comment" => {
                    if let Some((key::LINKS, value)) = ours(value) {
                        extended.links = number(value).and_then(|n| u32::try_from(n).ok());
                    }
                }
                _ => {
                    if let Some(xattr) = key.strip_prefix(b"SCHILY.xattr.") {
                        extended.xattrs_bytes += xattr.len() + value.len() + size_of::<Xattr>();
                        if extended.xattrs_bytes > BLOCK_BYTES_MAX {
                            let member = extended.path.as_deref().unwrap_or(label);
                            return Err(self.refused(member, "its extended attributes are more than a tree holds"));
                        }
                        extended.xattrs.push((pax::unescape_xattr(xattr), value.to_vec()));
                    }
                }
            }
        }
        Ok(())
    }

    pub(super) fn member(&mut self, header: &Header, label: &[u8], size: u64, mut extended: ExtendedHeader) -> Result<Member> {
        let xattrs = std::mem::take(&mut extended.xattrs);
        let raw_path = extended.path.as_deref().unwrap_or(label);
        let path = self.checked_path(raw_path)?;
        let xattrs = self.checked_xattrs(raw_path, xattrs)?;
        let meta = self.meta(header, raw_path, &extended, xattrs)?;
        let stored = extended.size.unwrap_or(size);
        let content = self.content(header, raw_path, &path, stored, &extended)?;
        if extended.is_other_sparse && extended.sparse_major.is_none() {
            return Err(
                self.refused(raw_path, "it is sparse in an old form; make the archive with `tar --sparse --format=posix`")
            );
        }
        let data_bytes = if let MemberContent::File { size, .. } = content { size } else { 0 };
        if data_bytes > self.limits.file_bytes_max {
            return Err(self.refused(raw_path, &format!("{data_bytes} bytes are too many for one file")));
        }
        let padding = data_bytes.next_multiple_of(BLOCK as u64) - data_bytes;
        let name = raw_path.to_vec();
        self.rest = Rest { name, map: vec![(0, data_bytes)], stored_bytes: data_bytes, padding };
        let content = match (content, extended.sparse_major.as_deref()) {
            (MemberContent::File { .. }, Some(b"1")) => self.sparse(extended.sparse_real_size)?,
            (MemberContent::File { .. }, Some(_)) => return Err(self.refused(raw_path, "it is sparse in an unknown form")),
            (content, _) => content,
        };
        Ok(Member { path, meta, links: extended.links.unwrap_or(1).max(1), content })
    }

    /// Extended attributes in the order of a tree. Refuses those that no system holds.
    fn checked_xattrs(&self, raw_path: &[u8], mut xattrs: Vec<Xattr>) -> Result<Vec<Xattr>> {
        if let Some((name, value)) = xattrs.iter().find(|(_, value)| value.len() > XATTR_BYTES_MAX) {
            let reason = format!(
                "its extended attribute {} has {} bytes, and no system takes more than {XATTR_BYTES_MAX}",
                name::display(name),
                value.len()
            );
            return Err(self.refused(raw_path, &reason));
        }
        if let Some((name, _)) = xattrs.iter().find(|(name, _)| !is_xattr_name(name)) {
            let reason = format!("no system has an extended attribute with its name `{}`", name::display(name));
            return Err(self.refused(raw_path, &reason));
        }
        xattrs.sort();
        xattrs.dedup_by(|a, b| a.0 == b.0);
        Ok(xattrs)
    }

    /// A member's metadata: extended records go before the header's fields.
    fn meta(&self, header: &Header, raw_path: &[u8], extended: &ExtendedHeader, xattrs: Vec<Xattr>) -> Result<Meta> {
        let bad = |what: &str| self.refused(raw_path, &format!("its {what} does not parse"));
        let id = |number: std::io::Result<u64>| number.ok().and_then(|n| u32::try_from(n).ok());
        Ok(Meta {
            mode: header.mode().map_err(|_| bad("mode"))? & 0o7777,
            uid: extended.uid.or_else(|| id(header.uid())).ok_or_else(|| bad("owner"))?,
            gid: extended.gid.or_else(|| id(header.gid())).ok_or_else(|| bad("group"))?,
            mtime: match extended.mtime {
                Some(time) => time,
                None => Time { secs: header.mtime().map_err(|_| bad("mtime"))? as i64, nanos: 0 },
            },
            xattrs,
        })
    }

    /// The type of a member, with its target, leader or device. A file has `stored` bytes and no holes yet.
    fn content(
        &self,
        header: &Header,
        raw_path: &[u8],
        path: &[u8],
        stored: u64,
        extended: &ExtendedHeader,
    ) -> Result<MemberContent> {
        let kind = header.entry_type();
        let is_file = kind.is_file() || kind.is_contiguous();
        let is_folder = kind.is_dir() || is_file && header.as_ustar().is_none() && raw_path.ends_with(b"/");
        if path.is_empty() && !is_folder {
            return Err(self.refused(raw_path, "the archive's root is no folder"));
        }
        let link =
            || extended.link.clone().or_else(|| header.link_name_bytes().map(|name| name.into_owned())).unwrap_or_default();
        let device = || -> Option<(u32, u32)> { Some((header.device_major().ok()??, header.device_minor().ok()??)) };
        let content = match kind {
            _ if is_folder => MemberContent::Folder,
            _ if is_file => MemberContent::File { size: stored, holes: Vec::new() },
            EntryType::Link => MemberContent::HardLink { leader: self.checked_path(&link())? },
            EntryType::Symlink => MemberContent::Symlink { target: link() },
            EntryType::Fifo => MemberContent::Fifo,
            EntryType::Char | EntryType::Block => {
                let (major, minor) = device().ok_or_else(|| self.refused(raw_path, "its device number does not parse"))?;
                if kind == EntryType::Char {
                    MemberContent::CharDevice { major, minor }
                } else {
                    MemberContent::BlockDevice { major, minor }
                }
            }
            other => {
                let reason = format!("members of type '{}' are not supported", name::display(&[other.as_byte()]));
                return Err(self.refused(raw_path, &reason));
            }
        };
        match &content {
            MemberContent::HardLink { leader } if leader.is_empty() || leader == path => {
                Err(self.refused(raw_path, "it is a hard link to nothing that can be linked"))
            }
            MemberContent::Symlink { target } if target.is_empty() || target.len() > TARGET_BYTES_MAX => {
                Err(self.refused(raw_path, "it is a symlink with a target that no filesystem holds"))
            }
            _ => Ok(content),
        }
    }
}

/// A comment of ours: its key and value.
fn ours(comment: &[u8]) -> Option<(&str, &[u8])> {
    let rest = comment.strip_prefix(COMMENT_PREFIX.as_bytes())?;
    let equals = rest.iter().position(|&b| b == b'=')?;
    Some((std::str::from_utf8(&rest[..equals]).ok()?, &rest[equals + 1..]))
}

pub(super) fn unhex(text: &[u8]) -> Option<Vec<u8>> {
    let digit = |b: u8| (b as char).to_digit(16);
    if !text.len().is_multiple_of(2) {
        return None;
    }
    text.chunks_exact(2).map(|pair| Some((digit(pair[0])? * 16 + digit(pair[1])?) as u8)).collect()
}
