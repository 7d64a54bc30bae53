//! One entry that is no folder: its node, and for a file its content.

use std::{
    os::fd::{AsFd, OwnedFd},
    sync::{Arc, Mutex, atomic::Ordering},
};

use rustix::io::Errno;

use super::{
    Shared, Worker, lock,
    pending::{Folder, Looked, Now},
};
use crate::{
    create::content::{Earlier, Failure, FileContent},
    error::Result,
    id::BlobId,
    name,
    omitted::Reason,
    record::Checkpoint,
    statcache::Cached,
    sys::{self, Stat},
    tree::{Kind, Node},
};

/// A file that shrinks and grows around the longest one that is judged is looked at this often.
const JUDGED_TRIES: u32 = 8;

/// An entry that is to be looked at closely: the folder it is in, how that was looked at, whether the entry is on another filesystem, and
/// what the cache had.
pub(super) struct Reading<'f> {
    pub(super) fd: &'f OwnedFd,
    pub(super) looked: Looked,
    pub(super) elsewhere: bool,
    pub(super) old: Option<Cached>,
}

impl Shared<'_, '_> {
    /// A symlink, fifo, socket or device.
    pub(super) fn look(&self, reading: &Reading<'_>, name: &[u8], stat: &Stat, path: &dyn Fn() -> Vec<u8>) -> Option<Cached> {
        let kind = match stat.special_kind() {
            Some(kind) => Ok(kind),
            None => sys::readlink_at(reading.fd.as_fd(), name).map(|target| Kind::Symlink { target }),
        };
        let found = kind.and_then(|kind| Ok((kind, sys::xattrs_at(reading.fd.as_fd(), name)?)));
        match found {
            Ok((kind, xattrs)) => {
                let node = Node { name: name.to_vec(), meta: stat.meta(xattrs), links: stat.links, kind };
                let racy = reading.elsewhere || self.is_racy(&reading.looked, reading.old.as_ref(), stat);
                let now = Cached { node, ino: stat.ino, ctime: stat.ctime, racy, section: 0 };
                match stat.links > 1 {
                    true => Some(self.decided(&mut lock(&self.inode((stat.dev, stat.ino))), now, &reading.looked, path)),
                    false => Some(now),
                }
            }
            Err(errno) => {
                self.omit_failed(path(), errno);
                None
            }
        }
    }

    /// Decision on a file with several names, made or still to be made.
    fn inode(&self, file: (u64, u64)) -> Arc<Mutex<Option<Cached>>> {
        lock(&self.inodes).entry(file).or_default().clone()
    }

    /// Content to show under a name of a file with several names: that decided on the file, or else `now`, which is decided on then. A file that
    /// has changed since is named. A filesystem that another machine or a program serves may still show old stamps under another name,
    /// so that they say nothing there.
    fn decided(&self, decision: &mut Option<Cached>, now: Cached, looked: &Looked, path: &dyn Fn() -> Vec<u8>) -> Cached {
        let Some(decided) = decision else {
            *decision = Some(now.clone());
            return now;
        };
        let has_changed = decided.ctime != now.ctime;
        if has_changed && looked.filesystem.is_stamped_here {
            self.omit(path(), Reason::Changing);
        }
        let mut shown = decided.clone();
        shown.node.name = now.node.name;
        shown.racy |= has_changed || now.racy;
        shown
    }

    /// The content to show under a name of a file with several names, where it looks as the cache has it.
    pub(super) fn as_decided(&self, file: (u64, u64), old: &Cached, looked: &Looked, path: &dyn Fn() -> Vec<u8>) -> Now {
        let shown = self.decided(&mut lock(&self.inode(file)), old.clone(), looked, path);
        if shown == *old { Now::AsBefore } else { Now::New(Box::new(shown)) }
    }

    /// Reads files of a folder, one after the other.
    pub(super) fn read_slots(&self, folder: &Arc<Folder>, fd: &OwnedFd, slots: &[usize], worker: &mut Worker<'_>) -> Result<()> {
        for &i in slots {
            if self.tasks.is_stopped() {
                return Ok(());
            }
            let (reading, entry_name) = {
                let mut state = lock(&folder.state);
                let (looked, elsewhere, old) = (state.looked, state.slots[i].elsewhere, state.old(i).cloned());
                (Reading { fd, looked, elsewhere, old }, std::mem::take(&mut state.names[i]))
            };
            let path = || name::join(&folder.path(), &entry_name);
            let now = match self.read_file(&reading, &entry_name, &path, worker) {
                Ok(now) => now,
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

    /// Reads a file; none where the judge leaves it out. The name in the node is for the caller to fill in.
    fn read_file(
        &self,
        reading: &Reading<'_>,
        entry_name: &[u8],
        path: &dyn Fn() -> Vec<u8>,
        worker: &mut Worker<'_>,
    ) -> Result<Option<Cached>, Failure> {
        let fd = sys::open_file_at(reading.fd.as_fd(), entry_name)?;
        let stat = sys::stat_fd(&fd)?;
        if !stat.is_file() {
            return Err(Failure::Unreadable(Errno::AGAIN));
        }
        if stat.links == 1 {
            return self.read_open(reading, &fd, &stat, entry_name, path, worker);
        }
        let inode = self.inode((stat.dev, stat.ino));
        let mut decision = lock(&inode);
        let now = match &*decision {
            Some(decided) => Some(Cached { ctime: stat.ctime, racy: decided.racy || reading.elsewhere, ..decided.clone() }),
            None => self.read_open(reading, &fd, &stat, entry_name, path, worker)?,
        };
        Ok(now.map(|now| self.decided(&mut decision, now, &reading.looked, path)))
    }

    fn read_open(
        &self,
        reading: &Reading<'_>,
        fd: &OwnedFd,
        stat: &Stat,
        entry_name: &[u8],
        path: &dyn Fn() -> Vec<u8>,
        worker: &mut Worker<'_>,
    ) -> Result<Option<Cached>, Failure> {
        let old = reading.old.as_ref();
        let xattrs = sys::xattrs_fd(fd.as_fd())?;
        let is_known = |stat: &Stat| !reading.elsewhere && !self.is_racy(&reading.looked, old, stat);
        // Before the first byte is read, and only where it makes a difference.
        let settled = is_known(stat) && !self.writers.may_change_unseen(fd.as_fd(), &reading.looked.filesystem, stat);
        let before = old.and_then(|old| match &old.node.kind {
            Kind::File { size, blob, .. } => Some((*blob, *size)),
            _ => None,
        });
        let earlier = Earlier::new(self.walk.store, before);
        let Some(content) = self.read_judged(fd, entry_name, path, &earlier, worker)? else { return Ok(None) };
        self.files_read.fetch_add(1, Ordering::Relaxed);
        self.bytes_read.fetch_add(content.stat.size, Ordering::Relaxed);
        if content.changing {
            self.omit(path(), Reason::Changing);
        }
        let stat = &content.stat;
        Ok(Some(Cached {
            node: Node {
                name: Vec::new(),
                meta: stat.meta(xattrs),
                links: stat.links,
                kind: Kind::File { size: stat.size, blob: content.blob, holes: content.holes },
            },
            ino: stat.ino,
            ctime: stat.ctime,
            racy: content.changing || !settled || !is_known(stat),
            section: 0,
        }))
    }

    /// True if a checkpoint has a file with this content.
    fn has(&self, checkpoint: &Checkpoint, path: &[u8], content: BlobId) -> bool {
        let found = self.walk.store.node_at(checkpoint, path);
        found.is_ok_and(|node| matches!(node.kind, Kind::File { blob, .. } if blob == content))
    }

    /// Reads an open file's content; none where the judge leaves it out. The very bytes that it has seen are stored.
    fn read_judged(
        &self,
        fd: &OwnedFd,
        entry_name: &[u8],
        path: &dyn Fn() -> Vec<u8>,
        earlier: &Earlier<'_>,
        worker: &mut Worker<'_>,
    ) -> Result<Option<FileContent>, Failure> {
        for _ in 0..JUDGED_TRIES {
            let before = sys::stat_fd(fd)?;
            let Some((judge, last)) = self.walk.judge.filter(|(judge, _)| judge.sees(before.size)) else {
                let content = worker.reader.read(fd, entry_name, earlier, &mut worker.batch)?;
                return Ok(Some(content));
            };
            // One byte more, to notice growth.
            let bytes = sys::first_bytes(fd.as_fd(), before.size as usize + 1)?;
            let after = sys::stat_fd(fd)?;
            let is_still = after.is_unchanged(&before) && bytes.len() as u64 == before.size;
            if !is_still && !judge.sees(after.size.max(bytes.len() as u64)) {
                // It is no file to be judged any more.
                continue;
            }
            if let Some(reason) = judge.reason(&path(), &bytes)
                && !last.is_some_and(|last| self.has(last, &path(), worker.reader.ids().blob(&bytes)))
            {
                self.omit(path(), Reason::Excluded(reason));
                return Ok(None);
            }
            let holes =
                if is_still && before.blocks * 512 < before.size { sys::holes(fd.as_fd(), before.size)? } else { Vec::new() };
            let stat = Stat { size: bytes.len() as u64, ..after };
            let content = FileContent { blob: BlobId::EMPTY, stat, holes, changing: !is_still };
            return Ok(Some(worker.reader.keep(&bytes, entry_name, content, earlier, &mut worker.batch)?));
        }
        Err(Failure::Unreadable(Errno::AGAIN))
    }
}
