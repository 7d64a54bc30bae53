//! One entry that is no folder: its node, and for a file its content.

use std::{
    os::fd::{AsFd, OwnedFd},
    sync::{Arc, Mutex, atomic::Ordering},
};

use rustix::io::Errno;

use super::{
    InodeDecision, OPEN_TRIES, WalkState, Worker, lock, may_be_replaced,
    pending::{EntryUpdate, Folder, ScanContext},
};
use crate::{
    attributes,
    create::{
        content::{Earlier, Failure, FileContent},
        judge::{Content, Judge},
    },
    errno::Recheck,
    error::Result,
    id::BlobId,
    name,
    omitted::Reason,
    record::Checkpoint,
    statcache::CacheEntry,
    sys::{self, Stat},
    tree::{Kind, Node},
};

/// A file that shrinks and grows around the longest one that is judged is looked at this often.
const JUDGED_TRIES: u32 = 8;

/// An entry that is to be looked at closely: the folder it is in, how that was looked at, whether the entry is on another filesystem, and
/// what the cache had.
pub(super) struct ReadRequest<'f> {
    pub(super) folder: &'f Folder,
    pub(super) fd: &'f OwnedFd,
    pub(super) looked: ScanContext,
    pub(super) elsewhere: bool,
    pub(super) old: Option<CacheEntry>,
}

impl WalkState<'_, '_> {
    /// A symlink, fifo, socket or device.
    pub(super) fn look(
        &self,
        reading: &ReadRequest<'_>,
        name: &[u8],
        stat: &Stat,
        path: &dyn Fn() -> Vec<u8>,
        recheck: &mut Recheck,
    ) -> Option<CacheEntry> {
        let fd = reading.fd.as_fd();
        let kind = match stat.special_kind() {
            Some(kind) => Ok(kind),
            None => sys::readlink_at(fd, name).map(|target| Kind::Symlink { target }),
        };
        match kind {
            Ok(kind) => {
                let found = attributes::of_entry(fd, name);
                let unread = found.why_unread();
                let node = Node { name: name.to_vec(), meta: stat.meta(found.known), links: stat.links, kind };
                let racy = unread.is_some() || reading.elsewhere || self.is_racy(&reading.looked, reading.old.as_ref(), stat);
                let now = CacheEntry { node, ino: stat.ino, ctime: stat.ctime, racy, section: 0 };
                Some(self.shown((stat, now, unread), &reading.looked, path))
            }
            Err(errno) => {
                self.omit_failed(reading.folder, path, errno, recheck.presence(fd, name));
                None
            }
        }
    }

    /// Content to show under a name of a file: its own, or that of all its names.
    fn shown(
        &self,
        (stat, now, unread): (&Stat, CacheEntry, Option<String>),
        looked: &ScanContext,
        path: &dyn Fn() -> Vec<u8>,
    ) -> CacheEntry {
        match stat.links > 1 {
            true => self.decided(&mut lock(&self.inode((stat.dev, stat.ino))), (now, unread), looked, path),
            false => {
                self.omit_attributes(path, unread);
                now
            }
        }
    }

    /// Decision on a file with several names, made or still to be made.
    fn inode(&self, file: (u64, u64)) -> Arc<Mutex<Option<InodeDecision>>> {
        lock(&self.inodes).entry(file).or_default().clone()
    }

    /// Content to show under a name of a file with several names: that decided on the file, or else `now`, which is decided on then. A file that
    /// has changed since is named. A filesystem that another machine or a program serves may still show old stamps under another name,
    /// so that they say nothing there.
    fn decided(
        &self,
        decision: &mut Option<InodeDecision>,
        (now, unread): (CacheEntry, Option<String>),
        looked: &ScanContext,
        path: &dyn Fn() -> Vec<u8>,
    ) -> CacheEntry {
        let Some(InodeDecision { cached: decided, unread }) = decision else {
            self.omit_attributes(path, unread.clone());
            *decision = Some(InodeDecision { cached: now.clone(), unread });
            return now;
        };
        self.omit_attributes(path, unread.clone());
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
    pub(super) fn as_decided(
        &self,
        file: (u64, u64),
        old: &CacheEntry,
        looked: &ScanContext,
        path: &dyn Fn() -> Vec<u8>,
    ) -> EntryUpdate {
        let shown = self.decided(&mut lock(&self.inode(file)), (old.clone(), None), looked, path);
        if shown == *old { EntryUpdate::AsBefore } else { EntryUpdate::New(Box::new(shown)) }
    }

    /// Reads files of a folder, one after the other.
    pub(super) fn read_slots(&self, folder: &Arc<Folder>, fd: &OwnedFd, slots: &[usize], worker: &mut Worker<'_>) -> Result<()> {
        let mut recheck = Recheck::default();
        for &i in slots {
            if self.tasks.is_stopped() {
                return Ok(());
            }
            let (reading, entry_name) = {
                let mut state = lock(&folder.state);
                let (looked, elsewhere, old) = (state.looked, state.slots[i].elsewhere, state.old(i).cloned());
                (ReadRequest { folder, fd, looked, elsewhere, old }, std::mem::take(&mut state.names[i]))
            };
            let path = || name::join(&folder.path(), &entry_name);
            let now = self.read_or_name(&reading, &entry_name, &path, &mut recheck, worker)?;
            let now = now.map(|now| CacheEntry { node: Node { name: entry_name, ..now.node }, ..now });
            lock(&folder.state).slots[i].now = now.into();
        }
        Ok(())
    }

    /// Reads a file. None where it is left out, which is then recorded, or gone.
    fn read_or_name(
        &self,
        reading: &ReadRequest<'_>,
        entry_name: &[u8],
        path: &dyn Fn() -> Vec<u8>,
        recheck: &mut Recheck,
        worker: &mut Worker<'_>,
    ) -> Result<Option<CacheEntry>> {
        for attempt in 1.. {
            match self.read_file(reading, entry_name, path, worker) {
                Ok(now) => return Ok(now),
                Err(Failure::Store(error)) => return Err(error),
                Err(Failure::Unreadable(errno)) => {
                    let presence = recheck.presence(reading.fd.as_fd(), entry_name);
                    if attempt < OPEN_TRIES && may_be_replaced(errno, presence) {
                        continue;
                    }
                    self.omit_failed(reading.folder, path, errno, presence);
                    return Ok(None);
                }
            }
        }
        Ok(None)
    }

    /// Reads a file; none where the judge leaves it out. The name in the node is for the caller to fill in.
    fn read_file(
        &self,
        reading: &ReadRequest<'_>,
        entry_name: &[u8],
        path: &dyn Fn() -> Vec<u8>,
        worker: &mut Worker<'_>,
    ) -> Result<Option<CacheEntry>, Failure> {
        let fd = sys::open_file_at(reading.fd.as_fd(), entry_name)?;
        let stat = sys::stat_fd(&fd)?;
        if !stat.is_file() {
            return Err(Failure::Unreadable(Errno::AGAIN));
        }
        if stat.links == 1 {
            let Some((now, unread)) = self.read_open(reading, &fd, &stat, entry_name, path, worker)? else { return Ok(None) };
            self.omit_attributes(path, unread);
            return Ok(Some(now));
        }
        let inode = self.inode((stat.dev, stat.ino));
        let mut decision = lock(&inode);
        let now = match &*decision {
            Some(InodeDecision { cached, .. }) => {
                Some((CacheEntry { ctime: stat.ctime, racy: cached.racy || reading.elsewhere, ..cached.clone() }, None))
            }
            None => self.read_open(reading, &fd, &stat, entry_name, path, worker)?,
        };
        Ok(now.map(|now| self.decided(&mut decision, now, &reading.looked, path)))
    }

    /// Reads a file that is open: what it is, and the reason for which some of its attributes were not read.
    fn read_open(
        &self,
        reading: &ReadRequest<'_>,
        fd: &OwnedFd,
        stat: &Stat,
        entry_name: &[u8],
        path: &dyn Fn() -> Vec<u8>,
        worker: &mut Worker<'_>,
    ) -> Result<Option<(CacheEntry, Option<String>)>, Failure> {
        let old = reading.old.as_ref();
        let found = attributes::of_open(fd.as_fd());
        let unread = found.why_unread();
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
        let now = CacheEntry {
            node: Node {
                name: Vec::new(),
                meta: stat.meta(found.known),
                links: stat.links,
                kind: Kind::File { size: stat.size, blob: content.blob, holes: content.holes },
            },
            ino: stat.ino,
            ctime: stat.ctime,
            racy: unread.is_some() || content.changing || !settled || !is_known(stat),
            section: 0,
        };
        Ok(Some((now, unread)))
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
            // One of no length may hold something all the same.
            let is_due = |judge: &Judge| judge.leaves_out() && (before.size == 0 || judge.sees(before.size));
            let Some((judge, last)) = self.walk.judge.filter(|(judge, _)| is_due(judge)) else {
                return Ok(Some(self.read_looked_at(fd, entry_name, path, earlier, worker)?));
            };
            let Some(bytes) = judged_bytes(fd, judge, before.size)? else {
                return Ok(Some(worker.reader.read(fd, entry_name, earlier, &mut worker.batch, None)?));
            };
            let after = sys::stat_fd(fd)?;
            // One that has another length than it says is still if it reads the same once more.
            let is_still = after.is_unchanged(&before)
                && (bytes.len() as u64 == before.size || judged_bytes(fd, judge, before.size)?.as_ref() == Some(&bytes));
            if !is_still && !judge.sees(after.size.max(bytes.len() as u64)) {
                // It is no file to be judged any more.
                continue;
            }
            let (path, blob) = (path(), worker.reader.ids().blob(&bytes));
            if let Some(reason) = judge.reason(&Content { path: &path, blob, bytes: &bytes })
                && !last.is_some_and(|last| self.has(last, &path, blob))
            {
                self.omit(path, Reason::Excluded(reason));
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

    /// Reads an open file's content, of which nothing is left out, and shows it to a judge who only looks.
    fn read_looked_at(
        &self,
        fd: &OwnedFd,
        entry_name: &[u8],
        path: &dyn Fn() -> Vec<u8>,
        earlier: &Earlier<'_>,
        worker: &mut Worker<'_>,
    ) -> Result<FileContent, Failure> {
        let Some((judge, _)) = self.walk.judge.filter(|(judge, _)| !judge.leaves_out()) else {
            return worker.reader.read(fd, entry_name, earlier, &mut worker.batch, None);
        };
        let look = |blob, bytes: &[u8]| {
            if judge.sees(bytes.len() as u64) {
                judge.reason(&Content { path: &path(), blob, bytes });
            }
        };
        worker.reader.read(fd, entry_name, earlier, &mut worker.batch, Some(&look))
    }
}

/// The bytes of a file of which `stat` tells a length. None if there are more of them than are judged.
fn judged_bytes(fd: &OwnedFd, judge: &Judge, told: u64) -> Result<Option<Vec<u8>>, Errno> {
    // One byte more, to notice that it is longer.
    let mut want = told + 1;
    loop {
        let bytes = sys::first_bytes(fd.as_fd(), want as usize)?;
        if (bytes.len() as u64) < want {
            return Ok(Some(bytes));
        }
        if !judge.sees(want) {
            return Ok(None);
        }
        want *= 2;
    }
}
