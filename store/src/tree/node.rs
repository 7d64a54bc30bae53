//! A node: one entry of a folder, with everything about it that is kept.

mod kind;
mod totals;

pub use self::{
    kind::Kind,
    totals::{Totals, features},
};
use super::extension;
use crate::{
    codec::{DecodeError, Decoder, put_bytes, put_int, put_uint},
    format::{TARGET_BYTES_MAX, XATTR_NAME_BYTES_MAX},
    id::{BlobId, ID_BYTES, TreeId},
    meta::{Hole, Meta, Time, Xattr},
    name,
};

/// One entry of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its name in the folder: 1 to 255 bytes, without `/` and NUL.
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
    pub fn decode(head: &mut Decoder<'_>, tail: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let flags = head.byte("node")?;
        let node_name = head.bytes("node name")?;
        if !name::is_valid(node_name) || flags & UNKNOWN != 0 {
            return Err(DecodeError("node name"));
        }
        let mode = head.uint32("mode")?;
        let (uid, gid) = (head.uint32("uid")?, head.uint32("gid")?);
        let mtime = Time { secs: head.int("mtime")?, nanos: head.u32("mtime")? };
        if mode > 0o7777 || mtime.nanos >= 1_000_000_000 {
            return Err(DecodeError("mode or mtime"));
        }
        let links = if flags & HARD_LINKED != 0 { head.uint32("links")? } else { 1 };
        if flags & HARD_LINKED != 0 && links < 2 {
            return Err(DecodeError("links"));
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
                    return Err(DecodeError("symlink"));
                }
                Kind::Symlink { target: target.to_vec() }
            }
            3 => Kind::Fifo,
            4 => Kind::Socket,
            5 => Kind::CharDevice { major: head.uint32("device")?, minor: head.uint32("device")? },
            6 => Kind::BlockDevice { major: head.uint32("device")?, minor: head.uint32("device")? },
            _ => return Err(DecodeError("node kind")),
        };
        if flags & WITH_HOLES != 0 {
            let Kind::File { size, holes, .. } = &mut kind else { return Err(DecodeError("holes")) };
            let count = head.count(2, "holes")?;
            if count == 0 {
                return Err(DecodeError("holes"));
            }
            let mut end = 0u64;
            for number in 0..count {
                let (distance, bytes) = (head.uint("hole")?, head.uint("hole")?);
                // Two holes without data between them are one.
                if bytes == 0 || distance == 0 && number > 0 {
                    return Err(DecodeError("hole"));
                }
                let start = end.checked_add(distance).ok_or(DecodeError("hole"))?;
                end = start.checked_add(bytes).filter(|end| end <= size).ok_or(DecodeError("hole"))?;
                holes.push(Hole { start, bytes });
            }
        }
        if flags & WITH_EXTENSIONS != 0 {
            extension::skip(head)?;
        }
        Ok(Node { name: node_name.to_vec(), meta: Meta { mode, uid, gid, mtime, xattrs }, links, kind })
    }
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
}

/// Attributes in order of name, each once.
fn decode_xattrs(head: &mut Decoder<'_>) -> Result<Vec<Xattr>, DecodeError> {
    let count = head.count(2, "xattrs")?;
    let mut xattrs: Vec<Xattr> = Vec::new();
    for _ in 0..count {
        let (name, value) = (head.bytes("xattr")?, head.bytes("xattr")?);
        if !is_xattr_name(name) || xattrs.last().is_some_and(|(last, _)| &last[..] >= name) {
            return Err(DecodeError("name of an xattr"));
        }
        xattrs.push((name.to_vec(), value.to_vec()));
    }
    if xattrs.is_empty() { Err(DecodeError("xattrs")) } else { Ok(xattrs) }
}

/// True if a filesystem can have an attribute with this name.
pub fn is_xattr_name(name: &[u8]) -> bool {
    !name.is_empty() && name.len() <= XATTR_NAME_BYTES_MAX && !name.contains(&0)
}
