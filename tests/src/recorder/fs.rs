//! The disk as FUSE shows it. Every call is answered from memory; what changes something is noted first.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, SystemTime},
};

use fuser::{
    AccessFlags, BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, LockOwner,
    OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs,
    ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};

use super::{
    Shared, Times,
    disk::{Body, Disk, Ino, Inode, Op},
    history::Entry,
    lock,
    trap::{Call, Fault},
};

/// Nothing is remembered by the kernel, so that each call is seen.
const TTL: Duration = Duration::ZERO;
const BLOCKS_FREE: u64 = 1 << 20;

pub(super) struct Served {
    pub(super) shared: Arc<Mutex<Shared>>,
}

impl Shared {
    fn step(&mut self, call: Call, request: &Request) -> Result<(), Errno> {
        self.trap.as_mut().map_or(Ok(()), |trap| trap.step(call, request.pid()))
    }

    fn path_of(&self, ino: Ino) -> PathBuf {
        self.disk.path_of(ino).unwrap_or_default()
    }

    fn attribute(&self, ino: Ino, name: &OsStr) -> Option<Vec<u8>> {
        self.attributes.get(&ino)?.get(name).cloned()
    }

    /// The names of an inode's attributes, each with a NUL behind it.
    fn attribute_names(&self, ino: Ino) -> Vec<u8> {
        let names = self.attributes.get(&ino).into_iter().flatten();
        names.flat_map(|(name, _)| [name.as_encoded_bytes(), b"\0"].concat()).collect()
    }

    fn note(&mut self, path: PathBuf, op: Op) {
        self.disk.apply(&op);
        if self.is_logging {
            self.log.push(Entry { op, path });
        }
    }

    fn attr(&self, ino: Ino) -> Result<FileAttr, Errno> {
        let inode = self.disk.get(ino).ok_or(Errno::ENOENT)?;
        let (kind, size, rdev) = match &inode.body {
            Body::File(bytes) => (FileType::RegularFile, bytes.len() as u64, 0),
            Body::Folder(_) => (FileType::Directory, 4096, 0),
            Body::Symlink(target) => (FileType::Symlink, target.as_os_str().len() as u64, 0),
            Body::Special(kind, rdev) => (*kind, 0, *rdev),
        };
        let nlink = match self.disk.names(ino) {
            Some(names) => 2 + names.values().filter(|below| self.disk.names(**below).is_some()).count() as u32,
            None => self.disk.links(ino),
        };
        Ok(FileAttr {
            ino: INodeNo(ino),
            size,
            blocks: size.div_ceil(512),
            atime: inode.mtime,
            mtime: inode.mtime,
            ctime: inode.ctime,
            crtime: inode.ctime,
            kind,
            perm: (inode.mode & 0o7777) as u16,
            nlink,
            uid: inode.owner.0,
            gid: inode.owner.1,
            rdev,
            blksize: 4096,
            flags: 0,
        })
    }

    /// Makes something new under a name that is free.
    fn make(&mut self, request: &Request, parent: INodeNo, name: &OsStr, mode: u32, body: Body) -> Result<FileAttr, Errno> {
        self.step(Call::Make, request)?;
        if self.disk.find(parent.0, name).is_some() {
            return Err(Errno::EEXIST);
        }
        let ino = self.disk.new_ino();
        let now = self.disk.clock.now();
        let inode = Inode { body, mode: mode & 0o7777, owner: (request.uid(), request.gid()), mtime: now, ctime: now };
        let path = self.path_of(parent.0).join(name);
        self.modes.push((path.clone(), mode & 0o7777));
        self.note(path.clone(), Op::Make(ino, Box::new(inode)));
        self.note(path, Op::Name(parent.0, name.to_owned(), ino));
        self.attr(ino)
    }

    fn remove(&mut self, request: &Request, parent: INodeNo, name: &OsStr, folder: bool) -> Result<(), Errno> {
        self.step(Call::Remove, request)?;
        let ino = self.disk.find(parent.0, name).ok_or(Errno::ENOENT)?;
        match (self.disk.names(ino), folder) {
            (Some(_), false) => return Err(Errno::EISDIR),
            (None, true) => return Err(Errno::ENOTDIR),
            (Some(names), true) if !names.is_empty() => return Err(Errno::ENOTEMPTY),
            _ => {}
        }
        let path = self.path_of(parent.0).join(name);
        self.note(path, Op::Unname(parent.0, name.to_owned(), ino));
        Ok(())
    }

    fn rename(&mut self, from: (INodeNo, &OsStr), to: (INodeNo, &OsStr), flags: RenameFlags) -> Result<(), Errno> {
        let ino = self.disk.find(from.0.0, from.1).ok_or(Errno::ENOENT)?;
        if flags.contains(RenameFlags::RENAME_EXCHANGE) {
            self.disk.find(to.0.0, to.1).ok_or(Errno::ENOENT)?;
            let path = self.path_of(to.0.0).join(to.1);
            self.note(path, Op::Exchange((from.0.0, from.1.to_owned()), (to.0.0, to.1.to_owned())));
            return Ok(());
        }
        if let Some(there) = self.disk.find(to.0.0, to.1) {
            if flags.contains(RenameFlags::RENAME_NOREPLACE) {
                return Err(Errno::EEXIST);
            }
            match (self.disk.names(ino).is_some(), self.disk.names(there)) {
                (true, Some(names)) if !names.is_empty() => return Err(Errno::ENOTEMPTY),
                (true, None) => return Err(Errno::ENOTDIR),
                (false, Some(_)) => return Err(Errno::EISDIR),
                _ => {}
            }
            if there == ino {
                return Ok(());
            }
        }
        let path = self.path_of(to.0.0).join(to.1);
        self.note(path, Op::Rename((from.0.0, from.1.to_owned()), (to.0.0, to.1.to_owned()), ino));
        Ok(())
    }

    fn set(&mut self, request: &Request, ino: Ino, new: New) -> Result<FileAttr, Errno> {
        let path = self.path_of(ino);
        if let Some(size) = new.size {
            let is_longer = matches!(&self.disk.get(ino).ok_or(Errno::ENOENT)?.body, Body::File(b) if (b.len() as u64) < size);
            self.step(if is_longer { Call::Write } else { Call::Cut }, request)?;
            self.note(path.clone(), Op::Length(ino, size));
        }
        if new.mode.is_some() || new.uid.is_some() || new.gid.is_some() || new.mtime.is_some() {
            self.step(Call::Attributes, request)?;
            let inode = self.disk.get(ino).ok_or(Errno::ENOENT)?;
            let mtime = match new.mtime {
                Some(TimeOrNow::SpecificTime(time)) => self.disk.clock.stamp(time),
                Some(TimeOrNow::Now) => self.disk.clock.now(),
                None => inode.mtime,
            };
            let mode = new.mode.map_or(inode.mode, |mode| mode & 0o7777);
            let owner = (new.uid.unwrap_or(inode.owner.0), new.gid.unwrap_or(inode.owner.1));
            self.modes.push((path.clone(), mode));
            self.note(path, Op::Attributes(ino, mode, owner, mtime));
        }
        self.attr(ino)
    }
}

/// Attributes to set.
struct New {
    mode: Option<u32>,
    uid: Option<u32>,
    gid: Option<u32>,
    size: Option<u64>,
    mtime: Option<TimeOrNow>,
}

impl Disk {
    /// A path that leads to an inode; `None` for one without a name.
    fn path_of(&self, ino: Ino) -> Option<PathBuf> {
        fn search(disk: &Disk, folder: Ino, wanted: Ino) -> Option<PathBuf> {
            disk.names(folder)?.iter().find_map(|(name, below)| match *below == wanted {
                true => Some(PathBuf::from(name)),
                false => search(disk, *below, wanted).map(|rest| Path::new(name).join(rest)),
            })
        }
        if ino == super::ROOT { Some(PathBuf::new()) } else { search(self, super::ROOT, ino) }
    }
}

impl Served {
    fn lock(&self) -> MutexGuard<'_, Shared> {
        lock(&self.shared)
    }

    fn entry(result: Result<FileAttr, Errno>, reply: ReplyEntry) {
        match result {
            Ok(attr) => reply.entry(&TTL, &attr, Generation(0)),
            Err(e) => reply.error(e),
        }
    }

    fn attribute(bytes: &[u8], size: u32, reply: ReplyXattr) {
        match size as usize {
            0 => reply.size(bytes.len() as u32),
            size if size < bytes.len() => reply.error(Errno::ERANGE),
            _ => reply.data(bytes),
        }
    }

    fn done(result: Result<(), Errno>, reply: ReplyEmpty) {
        match result {
            Ok(()) => reply.ok(),
            Err(e) => reply.error(e),
        }
    }

    fn sync(&self, request: &Request, ino: INodeNo, reply: ReplyEmpty) {
        let mut shared = self.lock();
        let synced = shared.step(Call::Sync, request);
        let path = shared.path_of(ino.0);
        // Of who is killed, nothing is synced and nothing is given up: the next sync takes it along.
        let is_killed = shared.trap.as_ref().is_some_and(|trap| matches!(trap.fault, Fault::Kill));
        match (synced, shared.disk.names(ino.0)) {
            (Err(_), _) if is_killed => {}
            (Ok(()), _) => shared.note(path, Op::Sync(ino.0)),
            (Err(_), None) => shared.note(path, Op::FailedSync(ino.0)),
            // The names in a folder are in the filesystem's own log, which is tried again.
            (Err(_), Some(_)) => {}
        }
        Self::done(synced, reply);
    }

    fn open_as(&self, request: &Request, call: Call, reply: ReplyOpen) {
        match self.lock().step(call, request) {
            Ok(()) => reply.opened(FileHandle(0), FopenFlags::empty()),
            Err(e) => reply.error(e),
        }
    }
}

impl Filesystem for Served {
    fn lookup(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let mut shared = self.lock();
        let stepped = shared.step(Call::Find, request);
        let found = stepped.and_then(|()| shared.disk.find(parent.0, name).ok_or(Errno::ENOENT));
        Self::entry(found.and_then(|ino| shared.attr(ino)), reply);
    }

    fn getattr(&self, request: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let mut shared = self.lock();
        let stepped = shared.step(Call::Look, request);
        match stepped.and_then(|()| shared.attr(ino.0)) {
            Ok(attr) => reply.attr(&TTL, &attr),
            Err(e) => reply.error(e),
        }
    }

    fn setattr(
        &self,
        request: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        match self.lock().set(request, ino.0, New { mode, uid, gid, size, mtime }) {
            Ok(attr) => reply.attr(&TTL, &attr),
            Err(e) => reply.error(e),
        }
    }

    fn readlink(&self, request: &Request, ino: INodeNo, reply: ReplyData) {
        let mut shared = self.lock();
        if let Err(e) = shared.step(Call::Follow, request) {
            return reply.error(e);
        }
        match shared.disk.get(ino.0).map(|inode| &inode.body) {
            Some(Body::Symlink(target)) => reply.data(target.as_os_str().as_encoded_bytes()),
            _ => reply.error(Errno::EINVAL),
        }
    }

    fn mknod(&self, request: &Request, parent: INodeNo, name: &OsStr, mode: u32, umask: u32, rdev: u32, reply: ReplyEntry) {
        let body = match mode & 0o170_000 {
            0o010_000 => Body::Special(FileType::NamedPipe, rdev),
            0o140_000 => Body::Special(FileType::Socket, rdev),
            0o020_000 => Body::Special(FileType::CharDevice, rdev),
            0o060_000 => Body::Special(FileType::BlockDevice, rdev),
            _ => Body::File(Vec::new()),
        };
        Self::entry(self.lock().make(request, parent, name, mode & !umask, body), reply);
    }

    fn mkdir(&self, request: &Request, parent: INodeNo, name: &OsStr, mode: u32, umask: u32, reply: ReplyEntry) {
        Self::entry(self.lock().make(request, parent, name, mode & !umask, Body::Folder(BTreeMap::new())), reply);
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        Self::entry(self.lock().make(request, parent, name, 0o777, Body::Symlink(target.to_owned())), reply);
    }

    fn create(&self, request: &Request, parent: INodeNo, name: &OsStr, mode: u32, umask: u32, _: i32, reply: ReplyCreate) {
        match self.lock().make(request, parent, name, mode & !umask, Body::File(Vec::new())) {
            Ok(attr) => reply.created(&TTL, &attr, Generation(0), FileHandle(0), FopenFlags::empty()),
            Err(e) => reply.error(e),
        }
    }

    fn unlink(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        Self::done(self.lock().remove(request, parent, name, false), reply);
    }

    fn rmdir(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        Self::done(self.lock().remove(request, parent, name, true), reply);
    }

    fn rename(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let mut shared = self.lock();
        let stepped = shared.step(Call::Rename, request);
        Self::done(stepped.and_then(|()| shared.rename((parent, name), (new_parent, new_name), flags)), reply);
    }

    fn link(&self, request: &Request, ino: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let mut shared = self.lock();
        let linked = shared.step(Call::Make, request).and_then(|()| match shared.disk.find(parent.0, name) {
            Some(_) => Err(Errno::EEXIST),
            None => {
                let path = shared.path_of(parent.0).join(name);
                shared.note(path, Op::Name(parent.0, name.to_owned(), ino.0));
                shared.attr(ino.0)
            }
        });
        Self::entry(linked, reply);
    }

    fn open(&self, request: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        if self.lock().closed.get_mut(&ino.0).is_some_and(Times::fails) {
            return reply.error(Errno::EIO);
        }
        self.open_as(request, Call::Open, reply);
    }

    fn opendir(&self, request: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        self.open_as(request, Call::OpenFolder, reply);
    }

    fn read(
        &self,
        request: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let mut shared = self.lock();
        let shared = &mut *shared;
        if let Err(e) = shared.step(Call::Read, request) {
            return reply.error(e);
        }
        match shared.disk.get(ino.0).map(|inode| &inode.body) {
            Some(Body::File(bytes)) => {
                let start = bytes.len().min(offset as usize);
                let end = bytes.len().min(start + size as usize);
                let bad = shared.unreadable.get_mut(&ino.0);
                let bad = bad.filter(|bad| (start as u64) < bad.bytes.end && bad.bytes.start < end as u64);
                if bad.is_some_and(|bad| bad.times.fails()) {
                    return reply.error(Errno::EIO);
                }
                reply.data(&bytes[start..end]);
            }
            _ => reply.error(Errno::EISDIR),
        }
    }

    fn write(
        &self,
        request: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let mut shared = self.lock();
        match shared.step(Call::Write, request) {
            Ok(()) => {
                let path = shared.path_of(ino.0);
                shared.note(path, Op::Write(ino.0, offset, data.to_vec()));
                reply.written(data.len() as u32);
            }
            Err(e) => reply.error(e),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, request: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.sync(request, ino, reply);
    }

    fn fsyncdir(&self, request: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.sync(request, ino, reply);
    }

    fn readdir(&self, request: &Request, ino: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let mut shared = self.lock();
        if let Err(e) = shared.step(Call::List, request) {
            return reply.error(e);
        }
        let Some(names) = shared.disk.names(ino.0) else { return reply.error(Errno::ENOTDIR) };
        let dots = [(OsStr::new("."), ino.0), (OsStr::new(".."), ino.0)];
        let all = dots.into_iter().chain(names.iter().map(|(name, ino)| (name.as_os_str(), *ino)));
        for (i, (name, ino)) in all.enumerate().skip(offset as usize) {
            let Ok(attr) = shared.attr(ino) else { continue };
            if reply.add(INodeNo(ino), i as u64 + 1, attr.kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn statfs(&self, request: &Request, _: INodeNo, reply: ReplyStatfs) {
        if let Err(e) = self.lock().step(Call::Space, request) {
            return reply.error(e);
        }
        reply.statfs(BLOCKS_FREE, BLOCKS_FREE, BLOCKS_FREE, BLOCKS_FREE, BLOCKS_FREE, 4096, 255, 4096);
    }

    fn access(&self, _: &Request, _: INodeNo, _: AccessFlags, reply: ReplyEmpty) {
        reply.ok();
    }

    fn getxattr(&self, request: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let mut shared = self.lock();
        match shared.attribute(ino.0, name) {
            // The kernel asks for some by itself.
            None => reply.error(Errno::ENODATA),
            Some(value) => match shared.step(Call::ReadAttribute, request) {
                Ok(()) => Self::attribute(&value, size, reply),
                Err(e) => reply.error(e),
            },
        }
    }

    fn listxattr(&self, request: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        let mut shared = self.lock();
        match shared.step(Call::ListAttributes, request) {
            Ok(()) => Self::attribute(&shared.attribute_names(ino.0), size, reply),
            Err(e) => reply.error(e),
        }
    }

    fn fallocate(&self, _: &Request, _: INodeNo, _: FileHandle, _: u64, _: u64, _: i32, reply: ReplyEmpty) {
        reply.error(Errno::EOPNOTSUPP);
    }
}
