//! Between the kernel and a [`ReadOnlyFilesystem`]: translation, and nothing else.

use std::{
    collections::HashSet,
    ffi::OsStr,
    io,
    os::unix::ffi::OsStrExt,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::SystemTime,
};

use fuser::{
    AccessFlags, BsdFileFlags, CopyFileRangeFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, Generation, INodeNo,
    InitFlags, IoctlFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request,
    TimeOrNow, WriteFlags,
};

use crate::{
    counts::{Counters, count},
    fault::Fault,
    filesystem::{EntryReply, Needs, ReadOnlyFilesystem},
    kernel::{Log, activity::Activity},
    readahead::{Readahead, tracker::AccessHint},
};

/// Requests that the kernel may have under way without somebody waiting for them, such as reading ahead.
const BACKGROUND_MAX: u16 = 64;
/// Damaged entries that are reported, each once.
const REPORTS_MAX: usize = 10_000;
const SEEK_DATA: i32 = 3;
const SEEK_HOLE: i32 = 4;
const BLOCK_BYTES: u32 = 4096;
/// The limit of native filesystems; the kernel would let through longer names.
const NAME_BYTES_MAX: usize = 255;

/// A filesystem as FUSE wants it.
pub struct FuseServer {
    filesystem: Arc<dyn ReadOnlyFilesystem>,
    needs: Needs,
    counters: Arc<Counters>,
    log: Log,
    readahead: Arc<Readahead>,
    activity: Arc<Activity>,
    reported: Mutex<HashSet<(u64, &'static str)>>,
}

impl FuseServer {
    /// Serves a filesystem.
    pub fn new(
        filesystem: Arc<dyn ReadOnlyFilesystem>,
        counters: Arc<Counters>,
        log: Log,
        readahead: Arc<Readahead>,
        activity: Arc<Activity>,
    ) -> Self {
        let needs = filesystem.needs();
        FuseServer { filesystem, needs, counters, log, readahead, activity, reported: Mutex::default() }
    }

    /// The errno of a fault. Damage is logged as well, with the path, once for each entry.
    fn errno(&self, action: &'static str, ino: INodeNo, fault: &Fault) -> Errno {
        let errno = fault.errno();
        if errno == Errno::EIO {
            let is_news = {
                let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
                reported.len() < REPORTS_MAX && reported.insert((ino.0, action))
            };
            if is_news {
                (self.log)(&format!("cannot {action} {}: {fault}", self.filesystem.path(ino.0)));
            }
        }
        errno
    }

    fn xattr_reply(&self, ino: INodeNo, found: Result<Vec<u8>, Fault>, size: u32, reply: ReplyXattr) {
        match found {
            Ok(value) if size == 0 => reply.size(u32::try_from(value.len()).unwrap_or(u32::MAX)),
            Ok(value) if value.len() <= size as usize => reply.data(&value),
            Ok(_) => reply.error(Fault::TooSmall.errno()),
            Err(e) => reply.error(self.errno("read attributes of", ino, &e)),
        }
    }
}

/// The generation that the kernel is told; of a filesystem's root it takes none but 0.
fn generation(shown: &EntryReply) -> Generation {
    Generation(if shown.attr.ino == INodeNo::ROOT { 0 } else { u64::from(shown.generation) })
}

/// The entry without an inode by which the kernel remembers that a name does not exist.
fn absent() -> FileAttr {
    let time = SystemTime::UNIX_EPOCH;
    FileAttr {
        ino: INodeNo(0),
        size: 0,
        blocks: 0,
        atime: time,
        mtime: time,
        ctime: time,
        crtime: time,
        kind: FileType::RegularFile,
        perm: 0,
        nlink: 0,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: BLOCK_BYTES,
        flags: 0,
    }
}

impl Filesystem for FuseServer {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let mut wanted = vec![
            InitFlags::FUSE_DO_READDIRPLUS,
            InitFlags::FUSE_PARALLEL_DIROPS,
            InitFlags::FUSE_CACHE_SYMLINKS,
            InitFlags::FUSE_NO_OPEN_SUPPORT,
            InitFlags::FUSE_NO_OPENDIR_SUPPORT,
            InitFlags::FUSE_ASYNC_DIO,
            InitFlags::FUSE_EXPORT_SUPPORT,
        ];
        if self.needs.fresh_folders {
            // The kernel then looks whether a folder's time has changed before it lists it from memory.
            wanted.push(InitFlags::FUSE_AUTO_INVAL_DATA);
        }
        if self.needs.acls {
            wanted.push(InitFlags::FUSE_POSIX_ACL);
        }
        for flag in wanted {
            // What an older kernel does not have makes things slower, not wrong.
            let _ = config.add_capabilities(flag);
        }
        let _ = config.set_max_background(BACKGROUND_MAX);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        count(&self.counters.lookup);
        self.activity.note();
        if name.len() > NAME_BYTES_MAX {
            return reply.error(Errno::ENAMETOOLONG);
        }
        match self.filesystem.lookup(parent.0, name.as_bytes()) {
            Ok(Ok(shown)) => reply.entry(&shown.ttl, &shown.attr, generation(&shown)),
            Ok(Err(ttl)) => reply.entry(&ttl, &absent(), Generation(0)),
            Err(e) => reply.error(self.errno("look up a name in", parent, &e)),
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        count(&self.counters.getattr);
        match self.filesystem.attr(ino.0) {
            Ok(EntryReply { attr, ttl, .. }) => reply.attr(&ttl, &attr),
            Err(e) => reply.error(self.errno("stat", ino, &e)),
        }
    }

    fn readlink(&self, _: &Request, ino: INodeNo, reply: ReplyData) {
        count(&self.counters.readlink);
        match self.filesystem.readlink(ino.0) {
            Ok(target) => reply.data(&target),
            Err(e) => reply.error(self.errno("read the link", ino, &e)),
        }
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        count(&self.counters.other);
        // From here on the kernel opens and closes by itself, and keeps what it has read.
        reply.error(Errno::ENOSYS);
    }

    fn opendir(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        count(&self.counters.other);
        reply.error(Errno::ENOSYS);
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        count(&self.counters.other);
        reply.error(Errno::ENOSYS);
    }

    fn access(&self, _: &Request, _: INodeNo, _: AccessFlags, reply: ReplyEmpty) {
        count(&self.counters.other);
        reply.error(Errno::ENOSYS);
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        count(&self.counters.other);
        reply.error(Errno::ENOSYS);
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        count(&self.counters.other);
        reply.error(Errno::ENOSYS);
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        count(&self.counters.read);
        self.activity.note();
        if offset == 0 {
            self.readahead.note(AccessHint::Read(ino.0));
        }
        let mut reply = Some(reply);
        let read = self.filesystem.read(ino.0, offset, u64::from(size), &mut |bytes| {
            if let Some(reply) = reply.take() {
                reply.data(bytes);
            }
        });
        let Some(reply) = reply else { return };
        match read {
            Ok(()) => reply.data(&[]),
            Err(e) => reply.error(self.errno("read", ino, &e)),
        }
    }

    fn readdir(&self, _: &Request, ino: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        count(&self.counters.readdir);
        let listed = self.filesystem.list(ino.0, offset, &mut |line| {
            let attr = &line.shown.attr;
            !reply.add(attr.ino, line.next, attr.kind, OsStr::from_bytes(line.name))
        });
        match listed {
            Ok(()) => reply.ok(),
            Err(e) => reply.error(self.errno("list", ino, &e)),
        }
    }

    fn readdirplus(&self, _: &Request, ino: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectoryPlus) {
        count(&self.counters.readdirplus);
        self.activity.note();
        let listed = self.filesystem.list(ino.0, offset, &mut |line| {
            let EntryReply { attr, ttl, .. } = &line.shown;
            !reply.add(attr.ino, line.next, OsStr::from_bytes(line.name), ttl, attr, generation(&line.shown))
        });
        match listed {
            Ok(()) => reply.ok(),
            Err(e) => reply.error(self.errno("list", ino, &e)),
        }
        if offset == 0 {
            self.readahead.note(AccessHint::Listed(ino.0));
        }
    }

    fn statfs(&self, _: &Request, ino: INodeNo, reply: ReplyStatfs) {
        count(&self.counters.other);
        match self.filesystem.space() {
            Ok(space) => {
                let blocks = space.bytes.div_ceil(u64::from(BLOCK_BYTES));
                reply.statfs(blocks, 0, 0, space.entries, 0, BLOCK_BYTES, NAME_BYTES_MAX as u32, BLOCK_BYTES);
            }
            Err(e) => reply.error(self.errno("sum up", ino, &e)),
        }
    }

    fn getxattr(&self, _: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        count(&self.counters.xattr);
        if !self.needs.xattrs {
            return reply.error(Errno::ENOSYS);
        }
        self.xattr_reply(ino, self.filesystem.xattr(ino.0, name.as_bytes()), size, reply);
    }

    fn listxattr(&self, _: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        count(&self.counters.xattr);
        if !self.needs.xattrs {
            return reply.error(Errno::ENOSYS);
        }
        self.xattr_reply(ino, self.filesystem.xattr_names(ino.0), size, reply);
    }

    fn lseek(&self, _: &Request, ino: INodeNo, _: FileHandle, offset: i64, whence: i32, reply: ReplyLseek) {
        count(&self.counters.other);
        if !self.needs.holes {
            return reply.error(Errno::ENOSYS);
        }
        let sought = match (u64::try_from(offset), whence) {
            (Ok(offset), SEEK_DATA | SEEK_HOLE) => self.filesystem.seek(ino.0, offset, whence == SEEK_DATA),
            (Err(_), SEEK_DATA | SEEK_HOLE) => Err(Fault::PastEnd),
            _ => Err(Fault::Invalid),
        };
        match sought {
            Ok(offset) => reply.offset(i64::try_from(offset).unwrap_or(i64::MAX)),
            Err(e) => reply.error(self.errno("seek in", ino, &e)),
        }
    }

    fn ioctl(&self, _: &Request, _: INodeNo, _: FileHandle, _: IoctlFlags, _: u32, _: &[u8], _: u32, reply: ReplyIoctl) {
        reply.error(Errno::ENOTTY);
    }

    // Everything that changes something. The mount is read-only, so the kernel refuses these before they come here.

    fn setattr(
        &self,
        _: &Request,
        _: INodeNo,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        reply.error(Errno::EROFS);
    }

    fn mknod(&self, _: &Request, _: INodeNo, _: &OsStr, _: u32, _: u32, _: u32, reply: ReplyEntry) {
        reply.error(Errno::EROFS);
    }

    fn mkdir(&self, _: &Request, _: INodeNo, _: &OsStr, _: u32, _: u32, reply: ReplyEntry) {
        reply.error(Errno::EROFS);
    }

    fn unlink(&self, _: &Request, _: INodeNo, _: &OsStr, reply: ReplyEmpty) {
        reply.error(Errno::EROFS);
    }

    fn rmdir(&self, _: &Request, _: INodeNo, _: &OsStr, reply: ReplyEmpty) {
        reply.error(Errno::EROFS);
    }

    fn symlink(&self, _: &Request, _: INodeNo, _: &OsStr, _: &Path, reply: ReplyEntry) {
        reply.error(Errno::EROFS);
    }

    fn rename(&self, _: &Request, _: INodeNo, _: &OsStr, _: INodeNo, _: &OsStr, _: RenameFlags, reply: ReplyEmpty) {
        reply.error(Errno::EROFS);
    }

    fn link(&self, _: &Request, _: INodeNo, _: INodeNo, _: &OsStr, reply: ReplyEntry) {
        reply.error(Errno::EROFS);
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        _: u64,
        _: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        reply.error(Errno::EROFS);
    }

    fn create(&self, _: &Request, _: INodeNo, _: &OsStr, _: u32, _: u32, _: i32, reply: ReplyCreate) {
        reply.error(Errno::EROFS);
    }

    fn setxattr(&self, _: &Request, _: INodeNo, _: &OsStr, _: &[u8], _: i32, _: u32, reply: ReplyEmpty) {
        reply.error(Errno::EROFS);
    }

    fn removexattr(&self, _: &Request, _: INodeNo, _: &OsStr, reply: ReplyEmpty) {
        reply.error(Errno::EROFS);
    }

    fn fallocate(&self, _: &Request, _: INodeNo, _: FileHandle, _: u64, _: u64, _: i32, reply: ReplyEmpty) {
        reply.error(Errno::EROFS);
    }

    fn copy_file_range(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        _: u64,
        _: INodeNo,
        _: FileHandle,
        _: u64,
        _: u64,
        _: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        reply.error(Errno::EROFS);
    }
}
