//! The folders above the checkpoints (sessions, dates and tags), and the manifests.

use std::time::{SystemTime, UNIX_EPOCH};

use fuser::{FileAttr, FileType, INodeNo};
use parhelia_store::{
    record::{Checkpoint, Part},
    tree::Time,
};

use super::StoreFilesystem;
use crate::{
    fault::Fault,
    filesystem::{
        EntryReply, FOREVER, entry,
        store::{
            catalogue::{Catalogue, LATEST},
            file_name::file_name,
            inode::{Inode, TOP},
            tags::TagEntry,
        },
    },
    tree::attr,
};

impl StoreFilesystem {
    pub(super) fn virtual_attr(&self, inode: Inode, kind: FileType, bytes: u64, links: u64, time: SystemTime) -> FileAttr {
        let (uid, gid) = self.owner;
        let perm = match kind {
            FileType::Directory => 0o555,
            FileType::Symlink => 0o777,
            // The manifest says what the owner's environment was, which is kept from others wherever it is.
            _ => 0o400,
        };
        FileAttr {
            ino: INodeNo(inode.number()),
            size: bytes,
            blocks: bytes.div_ceil(512),
            atime: time,
            mtime: time,
            ctime: time,
            crtime: time,
            kind,
            perm,
            nlink: u32::try_from(links).unwrap_or(1),
            uid,
            gid,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }

    pub(super) fn folder(&self, catalogue: &Catalogue, inode: Inode) -> Result<EntryReply, Fault> {
        let subfolders = match inode {
            Inode::Root => 3,
            Inode::Sessions => catalogue.sessions.len(),
            Inode::Session(number) => {
                let name = catalogue.session_names.get(&number).ok_or(Fault::Stale)?;
                catalogue.sessions.get(name).map_or(0, |session| session.checkpoints.len())
            }
            Inode::TagFolder(number) => {
                let entries = catalogue.tags.folders.get(&number).ok_or(Fault::Stale)?.entries.values();
                entries.filter(|entry| matches!(entry, TagEntry::Folder(_))).count()
            }
            _ => 0,
        };
        let attr = self.virtual_attr(inode, FileType::Directory, 0, subfolders as u64 + 2, catalogue.changed_at(inode));
        Ok(EntryReply { attr, ttl: FOREVER, generation: 0 })
    }

    pub(super) fn link(&self, catalogue: &Catalogue, inode: Inode, number: u64) -> Result<EntryReply, Fault> {
        self.link_at(catalogue, inode, number, 0)
    }

    /// The link of a tag, by its own number.
    pub(super) fn tag_link(&self, catalogue: &Catalogue, number: u64) -> Result<EntryReply, Fault> {
        let link = catalogue.tags.links.get(&number).ok_or(Fault::Stale)?;
        self.link_at(catalogue, Inode::TagLink(number), link.checkpoint, link.depth)
    }

    fn link_at(&self, catalogue: &Catalogue, inode: Inode, number: u64, depth: usize) -> Result<EntryReply, Fault> {
        let checkpoint = catalogue.checkpoint(number).ok_or(Fault::Stale)?;
        let bytes = self.target(inode, checkpoint, depth).len() as u64;
        let attr = self.virtual_attr(inode, FileType::Symlink, bytes, 1, created(checkpoint));
        Ok(shown_of(checkpoint, attr))
    }

    fn tag_entry(&self, catalogue: &Catalogue, entry: TagEntry) -> Result<EntryReply, Fault> {
        match entry {
            TagEntry::Folder(number) => self.folder(catalogue, Inode::TagFolder(number)),
            TagEntry::Link(number) => self.tag_link(catalogue, number),
        }
    }

    /// Target of a link that is `depth` folders below a folder of the root.
    pub(super) fn target(&self, inode: Inode, checkpoint: &Checkpoint, depth: usize) -> Vec<u8> {
        let id = checkpoint.id().into_bytes();
        match inode {
            Inode::Latest(_) => id,
            _ => [b"../".repeat(depth + 1).as_slice(), b"sessions/", file_name(&checkpoint.record.session).as_slice(), b"/", &id]
                .concat(),
        }
    }

    pub(super) fn manifest_shown(&self, number: u64, checkpoint: &Checkpoint) -> EntryReply {
        let bytes = (self.manifest)(&self.store, checkpoint).len() as u64;
        let inode = Inode::Manifest(number);
        shown_of(checkpoint, self.virtual_attr(inode, FileType::RegularFile, bytes, 1, created(checkpoint)))
    }

    /// The folder of a checkpoint as its session's folder lists it. To list it, it need not be opened.
    pub(super) fn checkpoint_shown(&self, number: u64, checkpoint: &Checkpoint) -> EntryReply {
        let inode = Inode::Entry(number, 0);
        let parts = checkpoint.record.parts.values().filter(|part| matches!(part, Part::Captured));
        let links = parts.count() as u64 + 2;
        let mut attr = self.virtual_attr(inode, FileType::Directory, 4096, links, created(checkpoint));
        attr.blocks = 8;
        shown_of(checkpoint, attr)
    }

    /// The entry of a virtual folder with this name.
    pub(super) fn virtual_child(&self, catalogue: &Catalogue, folder: Inode, name: &[u8]) -> Result<Option<EntryReply>, Fault> {
        match folder {
            Inode::Root => {
                let inode =
                    [Inode::Sessions, Inode::ByDate, Inode::TagFolder(TOP)].into_iter().find(|inode| root_name(*inode) == name);
                inode.map(|inode| self.folder(catalogue, inode)).transpose()
            }
            Inode::Sessions => {
                let session = catalogue.sessions.get(name);
                session.map(|session| self.folder(catalogue, Inode::Session(session.number))).transpose()
            }
            Inode::ByDate => {
                let found = catalogue.dated(name);
                found.map(|number| self.link(catalogue, Inode::Pointer(number), number)).transpose()
            }
            Inode::TagFolder(number) => {
                let found = catalogue.tags.folders.get(&number).ok_or(Fault::Stale)?.entries.get(name);
                found.map(|entry| self.tag_entry(catalogue, *entry)).transpose()
            }
            Inode::Session(number) => {
                let session_name = catalogue.session_names.get(&number).ok_or(Fault::Stale)?;
                if name == LATEST {
                    let latest = catalogue.sessions.get(session_name).and_then(|session| session.latest);
                    return latest.map(|number| self.link(catalogue, Inode::Latest(number), number)).transpose();
                }
                let named = catalogue.named(name);
                let here = named.filter(|(_, checkpoint)| file_name(&checkpoint.record.session) == *session_name);
                Ok(here.map(|(number, checkpoint)| self.checkpoint_shown(number, checkpoint)))
            }
            _ => Err(Fault::NotAFolder),
        }
    }

    /// The lines of a virtual folder behind `.` and `..`: key, which orders them and finds the place again, name, entry.
    pub(super) fn virtual_lines(
        &self,
        catalogue: &Catalogue,
        folder: Inode,
        from: u64,
    ) -> Result<Vec<(u64, Vec<u8>, EntryReply)>, Fault> {
        let mut lines = Vec::new();
        match folder {
            Inode::Root => {
                for (key, inode) in [Inode::Sessions, Inode::ByDate, Inode::TagFolder(TOP)].into_iter().enumerate() {
                    lines.push((key as u64, root_name(inode).to_vec(), self.folder(catalogue, inode)?));
                }
                lines.retain(|(key, ..)| *key >= from);
            }
            Inode::Sessions => {
                for (number, name) in catalogue.session_names.range(from..) {
                    lines.push((*number, name.clone(), self.folder(catalogue, Inode::Session(*number))?));
                }
            }
            Inode::ByDate => {
                for (number, name) in catalogue.dates.range(from..) {
                    lines.push((*number, name.clone(), self.link(catalogue, Inode::Pointer(*number), *number)?));
                }
            }
            Inode::TagFolder(number) => {
                let entries = catalogue.tags.folders.get(&number).ok_or(Fault::Stale)?.entries.iter().enumerate();
                for (key, (name, entry)) in entries.skip(usize::try_from(from).unwrap_or(usize::MAX)) {
                    lines.push((key as u64, name.clone(), self.tag_entry(catalogue, *entry)?));
                }
            }
            Inode::Session(number) => {
                let name = catalogue.session_names.get(&number).ok_or(Fault::Stale)?;
                let session = catalogue.sessions.get(name);
                let numbers = session.map_or(&[][..], |session| &session.checkpoints);
                // Numbers begin at 1, which leaves 0 for the link.
                if let (0, Some(latest)) = (from, session.and_then(|session| session.latest)) {
                    lines.push((0, LATEST.to_vec(), self.link(catalogue, Inode::Latest(latest), latest)?));
                }
                for number in &numbers[numbers.partition_point(|number| *number < from)..] {
                    let checkpoint = catalogue.checkpoint(*number).ok_or(Fault::Stale)?;
                    lines.push((*number, checkpoint.id().into_bytes(), self.checkpoint_shown(*number, checkpoint)));
                }
            }
            _ => return Err(Fault::NotAFolder),
        }
        Ok(lines)
    }

    /// The folder that holds a virtual folder.
    pub(super) fn virtual_parent(catalogue: &Catalogue, folder: Inode) -> Inode {
        match folder {
            Inode::Session(_) => Inode::Sessions,
            Inode::TagFolder(number) if number != TOP => {
                Inode::TagFolder(catalogue.tags.folders.get(&number).map_or(TOP, |folder| folder.parent))
            }
            _ => Inode::Root,
        }
    }

    /// The session folder that a checkpoint is in.
    pub(super) fn session_of(&self, catalogue: &Catalogue, number: u64) -> Result<EntryReply, Fault> {
        let checkpoint = catalogue.checkpoint(number).ok_or(Fault::Stale)?;
        let name = file_name(&checkpoint.record.session);
        let session = catalogue.sessions.get(&name).ok_or(Fault::Stale)?;
        self.folder(catalogue, Inode::Session(session.number))
    }
}

/// An entry of a checkpoint as the kernel is told of it. It is so until the kernel is told that the checkpoint is gone.
fn shown_of(checkpoint: &Checkpoint, attr: FileAttr) -> EntryReply {
    EntryReply { attr, ttl: FOREVER, generation: entry::generation(checkpoint.record.id) }
}

fn created(checkpoint: &Checkpoint) -> SystemTime {
    let at = checkpoint.record.created_at;
    attr::system_time(Time { secs: at.as_second(), nanos: at.subsec_nanosecond().unsigned_abs() }).max(UNIX_EPOCH)
}

fn root_name(inode: Inode) -> &'static [u8] {
    match inode {
        Inode::Sessions => b"sessions",
        Inode::ByDate => b"by-date",
        Inode::TagFolder(TOP) => b"by-tag",
        _ => b"",
    }
}
