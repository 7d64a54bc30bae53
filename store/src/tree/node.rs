//! A node: one entry of a folder, with everything about it that is kept.

use rustix::fs::FileType;

use super::extension;
use crate::{
    codec::{Decoder, Malformed, put_bytes, put_int, put_uint},
    format::{TARGET_BYTES_MAX, XATTR_NAME_BYTES_MAX},
    id::{BlobId, ID_BYTES, TreeId},
    meta::{Hole, Meta, Time, Xattr},
    name,
    sys::Stat,
};

/// Sums over everything below a folder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Entries of every kind, at every depth.
    pub entries: u64,
    /// Regular files.
    pub files: u64,
    /// Their bytes, holes included.
    pub bytes: u64,
    /// Folders, at every depth.
    pub folders: u64,
    /// Folders directly inside: a folder's link count is this + 2.
    pub subfolders: u64,
    /// Features that occur below: see [`features`].
    pub features: u8,
}

/// Bits of [`Totals::features`].
pub mod features {
    /// Something has extended attributes.
    pub const XATTR: u8 = 1;
    /// Something is hard-linked.
    pub const HARD_LINK: u8 = 2;
    /// Some file has holes.
    pub const SPARSE: u8 = 4;
    /// There is a fifo, socket or device.
    pub const SPECIAL: u8 = 8;
    /// Every bit that means something.
    pub(super) const ALL: u8 = XATTR | HARD_LINK | SPARSE | SPECIAL;
}

impl Totals {
    /// Counts one entry of the folder, and what is below it. Forged sums saturate.
    pub fn add(&mut self, node: &Node) {
        self.entries = self.entries.saturating_add(1);
        if !node.meta.xattrs.is_empty() {
            self.features |= features::XATTR;
        }
        if node.links > 1 {
            self.features |= features::HARD_LINK;
        }
        match &node.kind {
            Kind::File { size, holes, .. } => {
                self.files = self.files.saturating_add(1);
                self.bytes = self.bytes.saturating_add(*size);
                if !holes.is_empty() {
                    self.features |= features::SPARSE;
                }
            }
            Kind::Folder { totals, .. } => {
                self.subfolders = self.subfolders.saturating_add(1);
                self.folders = self.folders.saturating_add(totals.folders.saturating_add(1));
                self.entries = self.entries.saturating_add(totals.entries);
                self.files = self.files.saturating_add(totals.files);
                self.bytes = self.bytes.saturating_add(totals.bytes);
                self.features |= totals.features;
            }
            Kind::Symlink { .. } => {}
            Kind::Fifo | Kind::Socket | Kind::CharDevice { .. } | Kind::BlockDevice { .. } => {
                self.features |= features::SPECIAL;
            }
        }
    }

    /// Joins the sums over two parts of one folder.
    pub fn merge(&mut self, other: &Totals) {
        self.entries = self.entries.saturating_add(other.entries);
        self.files = self.files.saturating_add(other.files);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.folders = self.folders.saturating_add(other.folders);
        self.subfolders = self.subfolders.saturating_add(other.subfolders);
        self.features |= other.features;
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        for number in [self.entries, self.files, self.bytes, self.folders, self.subfolders] {
            put_uint(out, number);
        }
        out.push(self.features);
    }

    pub(super) fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Ok(Totals {
            entries: d.uint("totals")?,
            files: d.uint("totals")?,
            bytes: d.uint("totals")?,
            folders: d.uint("totals")?,
            subfolders: d.uint("totals")?,
            features: d.byte("totals").and_then(|found| match found & !features::ALL {
                0 => Ok(found),
                _ => Err(Malformed("features")),
            })?,
        })
    }
}

/// Type of a node, with the fields of that type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File {
        /// Its length in bytes.
        size: u64,
        /// Its content; [`BlobId::EMPTY`] for an empty file.
        blob: BlobId,
        /// Its holes, in order.
        holes: Vec<Hole>,
    },
    /// A folder.
    Folder {
        /// Its tree.
        tree: TreeId,
        /// Sums over what is in it.
        totals: Totals,
    },
    /// A symbolic link.
    Symlink {
        /// Its target, byte for byte.
        target: Vec<u8>,
    },
    /// A named pipe.
    Fifo,
    /// A Unix socket.
    Socket,
    /// A character device.
    CharDevice {
        /// Major number.
        major: u32,
        /// Minor number.
        minor: u32,
    },
    /// A block device.
    BlockDevice {
        /// Major number.
        major: u32,
        /// Minor number.
        minor: u32,
    },
}

impl Kind {
    fn number(&self) -> u8 {
        match self {
            Kind::File { .. } => 0,
            Kind::Folder { .. } => 1,
            Kind::Symlink { .. } => 2,
            Kind::Fifo => 3,
            Kind::Socket => 4,
            Kind::CharDevice { .. } => 5,
            Kind::BlockDevice { .. } => 6,
        }
    }

    /// The kind's name, as `--json` and messages give it.
    pub fn name(&self) -> &'static str {
        ["file", "folder", "symlink", "fifo", "socket", "char-device", "block-device"][usize::from(self.number())]
    }
}

impl Stat {
    /// The kind of an entry that is neither file, folder nor symlink.
    pub fn special_kind(&self) -> Option<Kind> {
        let (major, minor) = (rustix::fs::major(self.rdev), rustix::fs::minor(self.rdev));
        match self.file_type() {
            FileType::Fifo => Some(Kind::Fifo),
            FileType::Socket => Some(Kind::Socket),
            FileType::CharacterDevice => Some(Kind::CharDevice { major, minor }),
            FileType::BlockDevice => Some(Kind::BlockDevice { major, minor }),
            _ => None,
        }
    }
}

/// One entry of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its name.
    pub name: Vec<u8>,
    /// Its metadata.
    pub meta: Meta,
    /// Its link count when it was captured; 1 for folders.
    pub links: u32,
    /// Its type.
    pub kind: Kind,
}

const HARD_LINKED: u8 = 0x10;
const WITH_XATTRS: u8 = 0x20;
const WITH_HOLES: u8 = 0x40;
/// This release writes none.
const WITH_EXTENSIONS: u8 = 0x80;
/// A bit without a meaning.
const UNKNOWN: u8 = 0x08;

impl Node {
    /// The id that stands in the tail of the tree for this node: its blob's or tree's.
    fn tail_id(&self) -> Option<[u8; ID_BYTES]> {
        match &self.kind {
            Kind::File { size, blob, .. } if *size > 0 => Some(blob.0),
            Kind::Folder { tree, .. } => Some(tree.0),
            _ => None,
        }
    }

    /// The folder's tree and sums, if it is one.
    pub fn as_folder(&self) -> Option<(TreeId, &Totals)> {
        match &self.kind {
            Kind::Folder { tree, totals } => Some((*tree, totals)),
            _ => None,
        }
    }

    /// The length of a file; of a symlink's target; 0 for everything else.
    pub fn size(&self) -> u64 {
        match &self.kind {
            Kind::File { size, .. } => *size,
            Kind::Symlink { target } => target.len() as u64,
            _ => 0,
        }
    }

    /// Appends the node to a leaf: its fields to `head`, the id of its content to `tail`.
    pub fn encode(&self, head: &mut Vec<u8>, tail: &mut Vec<u8>) {
        let holes = match &self.kind {
            Kind::File { holes, .. } => holes.as_slice(),
            _ => &[],
        };
        let mut flags = self.kind.number();
        for (set, flag) in
            [(self.links > 1, HARD_LINKED), (!self.meta.xattrs.is_empty(), WITH_XATTRS), (!holes.is_empty(), WITH_HOLES)]
        {
            flags |= if set { flag } else { 0 };
        }
        head.push(flags);
        put_bytes(head, &self.name);
        for number in [self.meta.mode, self.meta.uid, self.meta.gid] {
            put_uint(head, u64::from(number));
        }
        put_int(head, self.meta.mtime.secs);
        head.extend_from_slice(&self.meta.mtime.nanos.to_le_bytes());
        if self.links > 1 {
            put_uint(head, u64::from(self.links));
        }
        if !self.meta.xattrs.is_empty() {
            put_uint(head, self.meta.xattrs.len() as u64);
            for (name, value) in &self.meta.xattrs {
                put_bytes(head, name);
                put_bytes(head, value);
            }
        }
        match &self.kind {
            Kind::File { size, .. } => put_uint(head, *size),
            Kind::Folder { totals, .. } => totals.encode(head),
            Kind::Symlink { target } => put_bytes(head, target),
            Kind::Fifo | Kind::Socket => {}
            Kind::CharDevice { major, minor } | Kind::BlockDevice { major, minor } => {
                put_uint(head, u64::from(*major));
                put_uint(head, u64::from(*minor));
            }
        }
        if !holes.is_empty() {
            put_uint(head, holes.len() as u64);
            let mut end = 0;
            for hole in holes {
                put_uint(head, hole.start - end);
                put_uint(head, hole.bytes);
                end = hole.start + hole.bytes;
            }
        }
        if let Some(id) = self.tail_id() {
            tail.extend_from_slice(&id);
        }
    }

    /// Reads a node that [`Node::encode`] wrote, and refuses what it cannot have written.
    pub fn decode(head: &mut Decoder<'_>, tail: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let flags = head.byte("node")?;
        let node_name = head.bytes("node name")?;
        if !name::is_valid(node_name) || flags & UNKNOWN != 0 {
            return Err(Malformed("node name"));
        }
        let mode = head.uint32("mode")?;
        let (uid, gid) = (head.uint32("uid")?, head.uint32("gid")?);
        let mtime = Time { secs: head.int("mtime")?, nanos: head.u32("mtime")? };
        if mode > 0o7777 || mtime.nanos >= 1_000_000_000 {
            return Err(Malformed("mode or mtime"));
        }
        let links = if flags & HARD_LINKED != 0 { head.uint32("links")? } else { 1 };
        if flags & HARD_LINKED != 0 && links < 2 {
            return Err(Malformed("links"));
        }
        let xattrs = if flags & WITH_XATTRS != 0 { decode_xattrs(head)? } else { Vec::new() };
        let mut kind = match flags & 0x07 {
            0 => {
                let size = head.uint("size")?;
                let blob = if size == 0 { BlobId::EMPTY } else { BlobId(tail.array("blob id")?) };
                Kind::File { size, blob, holes: Vec::new() }
            }
            1 => Kind::Folder { totals: Totals::decode(head)?, tree: TreeId(tail.array("tree id")?) },
            2 => {
                let target = head.bytes("symlink")?;
                if target.is_empty() || target.len() > TARGET_BYTES_MAX || target.contains(&0) {
                    return Err(Malformed("symlink"));
                }
                Kind::Symlink { target: target.to_vec() }
            }
            3 => Kind::Fifo,
            4 => Kind::Socket,
            5 => Kind::CharDevice { major: head.uint32("device")?, minor: head.uint32("device")? },
            6 => Kind::BlockDevice { major: head.uint32("device")?, minor: head.uint32("device")? },
            _ => return Err(Malformed("node kind")),
        };
        if flags & WITH_HOLES != 0 {
            let Kind::File { size, holes, .. } = &mut kind else { return Err(Malformed("holes")) };
            let count = head.count(2, "holes")?;
            if count == 0 {
                return Err(Malformed("holes"));
            }
            let mut end = 0u64;
            for number in 0..count {
                let (distance, bytes) = (head.uint("hole")?, head.uint("hole")?);
                // Two holes without data between them are one.
                if bytes == 0 || distance == 0 && number > 0 {
                    return Err(Malformed("hole"));
                }
                let start = end.checked_add(distance).ok_or(Malformed("hole"))?;
                end = start.checked_add(bytes).filter(|end| end <= size).ok_or(Malformed("hole"))?;
                holes.push(Hole { start, bytes });
            }
        }
        if flags & WITH_EXTENSIONS != 0 {
            extension::skip(head)?;
        }
        Ok(Node { name: node_name.to_vec(), meta: Meta { mode, uid, gid, mtime, xattrs }, links, kind })
    }
}

/// Attributes in order of name, each once.
fn decode_xattrs(head: &mut Decoder<'_>) -> Result<Vec<Xattr>, Malformed> {
    let count = head.count(2, "xattrs")?;
    let mut xattrs: Vec<Xattr> = Vec::new();
    for _ in 0..count {
        let (name, value) = (head.bytes("xattr")?, head.bytes("xattr")?);
        if !is_xattr_name(name) || xattrs.last().is_some_and(|(last, _)| &last[..] >= name) {
            return Err(Malformed("name of an xattr"));
        }
        xattrs.push((name.to_vec(), value.to_vec()));
    }
    if xattrs.is_empty() { Err(Malformed("xattrs")) } else { Ok(xattrs) }
}

/// True if a filesystem can have an attribute with this name.
pub fn is_xattr_name(name: &[u8]) -> bool {
    !name.is_empty() && name.len() <= XATTR_NAME_BYTES_MAX && !name.contains(&0)
}
