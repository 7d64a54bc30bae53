//! Writes files, in the order in which their content lies in the store, so that each block is decoded once.

mod links;

use std::{
    ops::Range,
    os::fd::{AsFd, BorrowedFd},
    sync::Arc,
};

use rustix::{
    fs::{FileType, Mode, OFlags},
    io::Errno,
};

use super::{
    held::{Hold, HoldCause},
    meta::{self, Current, Handle, MetaFailure},
    run::{Run, Stamps},
    table::{Action, Item, Source, Stamp},
};
use crate::{
    attributes,
    error::{Error, Result, TargetContext},
    id::BlobId,
    pack::{Block, ObjectKind},
    progress, sys, tasks,
    tree::{Hole, Kind, Node},
};

/// At most this many entries are written at a time by one thread.
const GROUP_MAX: usize = 256;
const NO_DEVICES: &str = "devices are not restored";

/// A file being written, in order.
struct Out<'a> {
    fd: BorrowedFd<'a>,
    holes: &'a [Hole],
    at: u64,
}

fn write_all(fd: BorrowedFd<'_>, mut bytes: &[u8], mut at: Option<u64>) -> rustix::io::Result<()> {
    while !bytes.is_empty() {
        let written = match at {
            Some(offset) => rustix::io::pwrite(fd, bytes, offset),
            None => rustix::io::write(fd, bytes),
        };
        match written {
            Ok(0) => return Err(Errno::IO),
            Ok(n) => {
                bytes = &bytes[n..];
                at = at.map(|offset| offset + n as u64);
            }
            Err(Errno::INTR) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

impl Out<'_> {
    /// Writes the next bytes, but for those that are in a hole.
    fn write(&mut self, piece: &[u8]) -> rustix::io::Result<()> {
        if self.holes.is_empty() {
            return write_all(self.fd, piece, None);
        }
        let end = self.at + piece.len() as u64;
        let mut at = self.at;
        while at < end {
            // The first hole that does not end before this place.
            let next = self.holes.partition_point(|hole| hole.start + hole.bytes <= at);
            let hole = self.holes.get(next).map_or(end..end, |hole| hole.start..hole.start + hole.bytes);
            let until = hole.start.clamp(at, end);
            let range = (at - self.at) as usize..(until - self.at) as usize;
            write_all(self.fd, &piece[range], Some(at))?;
            at = hole.end.min(end).max(until);
        }
        self.at = end;
        Ok(())
    }
}

impl Run<'_> {
    /// Writes every file, symlink and special file, links to others excepted.
    pub fn write_entries(&self) -> Result<Stamps> {
        let groups = self.groups();
        let parts =
            tasks::in_order(self.threads(), groups.len(), |i, done: &mut Stamps| self.write_group(groups[i].clone(), done))?;
        Ok(Stamps::sum(parts))
    }

    fn groups(&self) -> Vec<Range<usize>> {
        let items = &self.plan.items;
        let together =
            |a: &Item, b: &Item| (a.source, a.pack, a.offset) == (b.source, b.pack, b.offset) && a.source != Source::Recipe;
        let mut groups = Vec::new();
        let mut start = 0;
        for end in 1..=items.len() {
            if end == items.len() || end - start >= GROUP_MAX || !together(&items[end - 1], &items[end]) {
                groups.push(start..end);
                start = end;
            }
        }
        groups
    }

    fn write_group(&self, group: Range<usize>, done: &mut Stamps) -> Result<()> {
        let items = &self.plan.items[group];
        let mut block = None;
        for item in items.iter().filter(|item| item.action != Action::Meta && !self.is_unmade(item.folder)) {
            progress::check(self.progress)?;
            let node = self.plan.node(item.folder, item.index)?;
            let stamp = match &node.kind {
                // It only says that something is in the way of a folder.
                Kind::Folder { .. } => continue,
                Kind::File { size, blob, .. } => {
                    let stamp = self.write_file(item, &node, *size, *blob, &mut block);
                    let stamp =
                        stamp.map_err(|e| e.at(&super::table::entry_path(&self.plan.folders, item.folder, &node.name)))?;
                    self.progress.advance(1, *size);
                    stamp
                }
                _ => {
                    self.progress.advance(1, 0);
                    self.make_other(item, &node)?
                }
            };
            if let Some(stamp) = stamp {
                done.stamps.push((item.folder, item.index, stamp));
            }
        }
        Ok(())
    }

    fn write_file(
        &self,
        item: &Item,
        node: &Node,
        size: u64,
        blob: BlobId,
        block: &mut Option<Arc<Block>>,
    ) -> Result<Option<Stamp>> {
        let wrote = |outcome: rustix::io::Result<()>| outcome.at_target("write", self.path(item.folder, &node.name));
        match item.source {
            Source::Node => self.make_file(item, node, |_| Ok(())),
            Source::Recipe => {
                let reader = self.store.blob(blob, size)?;
                self.make_file(item, node, |out| {
                    reader.read_verified(|piece| {
                        progress::check(self.progress)?;
                        wrote(out.write(piece))
                    })
                })
            }
            Source::Chunk => {
                let block = self.chunk_block(item, blob, block)?;
                let bytes = block.object(blob.object()).unwrap_or_default();
                if bytes.len() as u64 != size {
                    let reason = format!("it has {} bytes, the tree says {size}", bytes.len());
                    let place = self.store.layout().packs();
                    return Err(Error::Corrupt { what: format!("chunk {blob}"), place, reason });
                }
                self.make_file(item, node, |out| wrote(out.write(bytes)))
            }
        }
    }

    /// The block that an item's chunk is in; the last one where it is the same. Where garbage collection has moved the chunk
    /// meanwhile, it is looked up again.
    fn chunk_block(&self, item: &Item, blob: BlobId, last: &mut Option<Arc<Block>>) -> Result<Arc<Block>> {
        if let Some(block) = last.as_ref().filter(|block| block.object(blob.object()).is_some()) {
            return Ok(block.clone());
        }
        let found = match self.plan.packs.location(item) {
            Some(location) => match self.store.block(location) {
                Err(e) if !e.is_not_found() => return Err(e),
                other => other.ok().filter(|block| block.object(blob.object()).is_some()),
            },
            None => None,
        };
        let block = match found {
            Some(block) => block,
            None => self.store.object_block(ObjectKind::Chunk, blob.object())?,
        };
        *last = Some(block.clone());
        Ok(block)
    }

    /// Makes a file under its present name, has `fill` write its content, and sets its metadata.
    fn make_file(&self, item: &Item, node: &Node, fill: impl FnOnce(&mut Out<'_>) -> Result<()>) -> Result<Option<Stamp>> {
        let failed = |action| move |e: Errno| (action, e);
        let path = || self.path(item.folder, &node.name);
        let is_private = self.plan.folders[item.folder as usize].is_new;
        let meta = self.plan.options.meta_of(&node.meta);
        let first_mode = if is_private && meta.xattrs.is_empty() { meta.mode & 0o777 } else { 0o600 };
        let opened = self.dirs.get(item.folder);
        let Some(folder) = self.unless_held(item.folder, item.index, &node.name, opened).at_target("open folder", path())? else {
            return Ok(None);
        };
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let now = self.name_now(item.folder, item.index, &node.name);
        let made = rustix::fs::openat(&folder, now.as_slice(), flags, Mode::from_raw_mode(first_mode));
        let Some(fd) = self.unless_held(item.folder, item.index, &node.name, made).at_target("create file", path())? else {
            // A server may have made it before it refused to open it.
            self.discard(item.folder, &now);
            return Ok(None);
        };
        let holes = match &node.kind {
            Kind::File { holes, .. } => holes.as_slice(),
            _ => &[],
        };
        let filled = match &node.kind {
            Kind::File { size, .. } if !holes.is_empty() => rustix::fs::ftruncate(&fd, *size).at_target("write", path()),
            _ => Ok(()),
        };
        if let Err(e) = filled.and_then(|()| fill(&mut Out { fd: fd.as_fd(), holes, at: 0 })) {
            // As where a file is longer than the filesystem takes.
            let Some(held) = e.target_errno().and_then(HoldCause::by) else { return Err(e) };
            self.discard(item.folder, &now);
            self.skip_entry(item.folder, item.index, &node.name, Hold::own(held));
            return Ok(None);
        }
        let set = || -> Result<(MetaFailure, Stamp), (&'static str, Errno)> {
            // A filesystem behind FUSE may write the content back later, and give the file another time by that.
            self.sync_file(item.folder, fd.as_fd()).map_err(failed("sync"))?;
            let current = match self.staging.created.as_ref().filter(|_| is_private) {
                Some(created) => Current { mode: first_mode & created.mode, ..created.clone() },
                None => {
                    let stat = sys::stat_fd(&fd).map_err(failed("read"))?;
                    let xattrs = self.plan.options.decided(attributes::of_open(fd.as_fd()).known);
                    Current { mode: stat.mode & 0o7777, uid: stat.uid, gid: stat.gid, xattrs }
                }
            };
            let applied = meta::apply(&Handle::Open(fd.as_fd()), &meta, &current);
            let refused = self.or_named(item.folder, &node.name, applied).map_err(failed("set metadata of"))?;
            self.sync_file(item.folder, fd.as_fd()).map_err(failed("sync"))?;
            Ok((refused, Stamp::private(&sys::stat_fd(&fd).map_err(failed("read"))?)))
        };
        let (refused, mut stamp) = set().or_else(|(action, e)| Err(e).at_target(action, path()))?;
        self.note(item.folder, &node.name, &node.meta, &refused);
        stamp.racy |= !refused.is_nothing();
        Ok(Some(stamp))
    }

    /// Makes a symlink, fifo, socket or device.
    fn make_other(&self, item: &Item, node: &Node) -> Result<Option<Stamp>> {
        let path = || self.path(item.folder, &node.name);
        let now = self.name_now(item.folder, item.index, &node.name);
        let opened = self.dirs.get(item.folder);
        let Some(folder) = self.unless_held(item.folder, item.index, &node.name, opened).at_target("open folder", path())? else {
            return Ok(None);
        };
        if self.plan.options.withholds(node) {
            self.withhold_entry(item.folder, item.index, &node.name, NO_DEVICES);
            return Ok(None);
        }
        let made = match &node.kind {
            Kind::Symlink { target } => rustix::fs::symlinkat(target.as_slice(), &folder, now.as_slice()),
            kind => {
                let (file_type, device) = match kind {
                    Kind::CharDevice { major, minor } => (FileType::CharacterDevice, rustix::fs::makedev(*major, *minor)),
                    Kind::BlockDevice { major, minor } => (FileType::BlockDevice, rustix::fs::makedev(*major, *minor)),
                    Kind::Socket => (FileType::Socket, 0),
                    _ => (FileType::Fifo, 0),
                };
                rustix::fs::mknodat(&folder, now.as_slice(), file_type, Mode::RUSR | Mode::WUSR, device)
            }
        };
        if self.unless_held(item.folder, item.index, &node.name, made).at_target("create", path())?.is_none() {
            self.discard(item.folder, &now);
            return Ok(None);
        }
        let set = self.set_meta(folder.as_fd(), &now, node, false);
        let refused = self.or_named(item.folder, &node.name, set).at_target("set metadata of", path())?;
        self.note(item.folder, &node.name, &node.meta, &refused);
        let stat = sys::stat_at(folder.as_fd(), &now).at_target("read", path())?;
        let mut stamp = Stamp::private(&stat);
        stamp.racy |= !refused.is_nothing();
        Ok(Some(stamp))
    }

    /// Sets the metadata of an entry of any type that is there, under whatever name. One that `keeps` its attributes may have more of them than
    /// the checkpoint.
    pub fn set_meta(&self, folder: BorrowedFd<'_>, now: &[u8], node: &Node, keeps: bool) -> rustix::io::Result<MetaFailure> {
        let meta = self.plan.options.meta_of(&node.meta);
        let stat = sys::stat_at(folder, now)?;
        let xattrs = self.plan.options.decided_of(attributes::of_entry(folder, now), &meta, keeps);
        let current = Current { mode: stat.mode & 0o7777, uid: stat.uid, gid: stat.gid, xattrs };
        let handle = match node.kind {
            Kind::Symlink { .. } => Handle::Symlink(folder, now),
            _ => Handle::find(folder, now)?,
        };
        meta::apply(&handle, &meta, &current)
    }
}
