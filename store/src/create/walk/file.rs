//! One entry that is no folder: its node, and for a file its content.

use std::{
    os::fd::{AsFd, OwnedFd},
    sync::{Arc, atomic::Ordering},
};

use rustix::io::Errno;

use super::{Folder, Shared, Worker, lock};
use crate::{
    create::content::Failure,
    error::Result,
    format::SINGLE_CHUNK_BYTES,
    id::BlobId,
    name,
    omitted::Reason,
    recipe::ChunkRun,
    statcache::Cached,
    sys::{self, Stat},
    tree::{Kind, Node, Time},
};

impl Shared<'_, '_> {
    /// A symlink, fifo, socket or device.
    pub(super) fn look(&self, fd: &OwnedFd, entry_name: &[u8], stat: &Stat, read_at: Time, path: Vec<u8>) -> Option<Cached> {
        let kind = match stat.special_kind() {
            Some(kind) => Ok(kind),
            None => sys::readlink_at(fd.as_fd(), entry_name).map(|target| Kind::Symlink { target }),
        };
        let looked = kind.and_then(|kind| Ok((kind, sys::xattrs_at(fd.as_fd(), entry_name)?)));
        match looked {
            Ok((kind, xattrs)) => {
                let node = Node { name: entry_name.to_vec(), meta: stat.meta(xattrs), links: stat.links, kind };
                let racy = self.is_racy(stat, read_at);
                Some(Cached { node, ino: stat.ino, ctime: stat.ctime, racy, section: 0 })
            }
            Err(errno) => {
                self.omit_failed(path, errno);
                None
            }
        }
    }

    /// Reads files of a folder, one after the other.
    pub(super) fn read_slots(&self, folder: &Arc<Folder>, fd: &OwnedFd, slots: &[usize], worker: &mut Worker<'_>) -> Result<()> {
        for &i in slots {
            if self.stopped.load(Ordering::Relaxed) {
                return Ok(());
            }
            let (entry_name, old, read_at) = {
                let mut state = lock(&folder.state);
                let old = state.old(i).and_then(|old| match old.node.kind {
                    Kind::File { size, blob, .. } => Some((blob, size)),
                    _ => None,
                });
                (std::mem::take(&mut state.names[i]), old, state.read_at)
            };
            let path = || name::join(&folder.path(), &entry_name);
            let read = self.read_file(fd, &entry_name, old, read_at, &path, worker);
            let now = match read {
                Ok(now) => Some(now),
                Err(Failure::Unreadable(errno)) => {
                    self.omit_failed(path(), errno);
                    None
                }
                Err(Failure::Store(error)) => return Err(error),
            };
            let now = now.map(|now| Cached { node: Node { name: entry_name, ..now.node }, ..now });
            lock(&folder.state).slots[i].now = now.into();
        }
        Ok(())
    }

    /// Reads a file. The name in the node is for the caller to fill in.

    fn read_file(
        &self,
        folder: &OwnedFd,
        entry_name: &[u8],
        old: Option<(BlobId, u64)>,
        read_at: Time,
        path: &dyn Fn() -> Vec<u8>,
        worker: &mut Worker<'_>,
    ) -> Result<Cached, Failure> {
        let fd = sys::open_file_at(folder.as_fd(), entry_name)?;
        let stat = sys::stat_fd(&fd)?;
        if !stat.is_file() {
            return Err(Failure::Unreadable(Errno::AGAIN));
        }
        let xattrs = sys::xattrs_fd(fd.as_fd())?;
        let cached = |stat: &Stat, blob, holes, changing: bool| Cached {
            node: Node {
                name: Vec::new(),
                meta: stat.meta(xattrs.clone()),
                links: stat.links,
                kind: Kind::File { size: stat.size, blob, holes },
            },
            ino: stat.ino,
            ctime: stat.ctime,
            racy: changing || self.is_racy(stat, read_at),
            section: 0,
        };
        let file = (stat.dev, stat.ino);
        if stat.links > 1 {
            let known = lock(&self.known_links).get(&file).cloned();
            if let Some((ctime, blob, size, holes)) = known
                && ctime == stat.ctime
                && size == stat.size
            {
                return Ok(cached(&stat, blob, holes, false));
            }
        }
        let before = || self.chunks_before(old, &stat);
        let content = worker.reader.read(&fd, entry_name, &before, &mut worker.batch)?;
        self.files_read.fetch_add(1, Ordering::Relaxed);
        self.bytes_read.fetch_add(content.stat.size, Ordering::Relaxed);
        if content.changing {
            self.omit(path(), Reason::Changing);
        } else if stat.links > 1 {
            let known = (content.stat.ctime, content.blob, content.stat.size, content.holes.clone());
            lock(&self.known_links).insert(file, known);
        }
        Ok(cached(&content.stat, content.blob, content.holes, content.changing))
    }

    /// The chunks of what a large file held before, if it is likely that it still begins with them.
    fn chunks_before(&self, old: Option<(BlobId, u64)>, stat: &Stat) -> Vec<ChunkRun> {
        let Some((blob, size)) = old else { return Vec::new() };
        if size as usize <= SINGLE_CHUNK_BYTES || size > stat.size || !self.walk.sink.keeps_content() {
            return Vec::new();
        }
        self.walk.store.blob(blob, size).map(|reader| reader.runs().to_vec()).unwrap_or_default()
    }
}
