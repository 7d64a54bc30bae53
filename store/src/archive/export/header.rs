//! Headers of members.

use std::io::Write;

use tar::{EntryType, Header};

use super::{NAME_FIELD_BYTES, Writer};
use crate::{
    archive::{COMMENT_PREFIX, acl, pax},
    error::Result,
    tree::{Kind, Node},
};

impl<W: Write> Writer<W> {
    pub(super) fn header(&mut self, member: Member<'_>) -> Result<()> {
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

pub(super) struct Member<'a> {
    node: &'a Node,
    name: Vec<u8>,
    target: Vec<u8>,
    pub(super) records: Vec<u8>,
    pub(super) kind: EntryType,
    size: u64,
    pub(super) device: Option<(u32, u32)>,
    /// Text that stands in the header in place of the name.
    field_name: Option<Vec<u8>>,
}

impl<'a> Member<'a> {
    pub(super) fn new(node: &'a Node, name: Vec<u8>) -> Self {
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

    pub(super) fn set_target(&mut self, target: &[u8]) {
        self.target = target.to_vec();
    }

    pub(super) fn set_size(&mut self, size: u64) {
        self.size = size;
        if in_octal(size, 1 << 33) != size {
            pax::put_record(&mut self.records, b"size", size.to_string().as_bytes());
        }
    }

    /// PAX sparse format 1.0: the map of data stands before the data.
    pub(super) fn make_sparse(&mut self, real_size: u64, stored: u64) {
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

pub(super) fn put_comment(records: &mut Vec<u8>, key: &str, value: &[u8]) {
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

pub(super) fn set_name(header: &mut Header, name: &[u8]) {
    let kept = name.len().min(NAME_FIELD_BYTES);
    if let Some(ustar) = header.as_ustar_mut() {
        ustar.name[..kept].copy_from_slice(&name[..kept]);
    }
}
