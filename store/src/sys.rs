//! System calls of the store: entries relative to open folders, so that neither long paths nor a swapped symlink
//! can lead anywhere else.

use std::{
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    sync::OnceLock,
};

use rustix::{
    fs::{AtFlags, FileType, Mode, OFlags, RawDir, SeekFrom, StatxFlags},
    io::{Errno, Result},
};

use crate::{
    kernel::by_name,
    meta::{Hole, Meta, Time, Xattr},
};

/// Statfs type of `/proc`.
const PROC: u64 = 0x9fa0;

/// The fields of `stat` for an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Type and permission bits.
    pub mode: u32,
    /// Filesystem it is on.
    pub dev: u64,
    /// Inode number.
    pub ino: u64,
    /// Number of names that the inode has.
    pub links: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Length in bytes.
    pub size: u64,
    /// Allocated units of 512 bytes.
    pub blocks: u64,
    /// Device number, of devices.
    pub rdev: u64,
    /// Last change of content.
    pub mtime: Time,
    /// Last change of content or metadata.
    pub ctime: Time,
}

impl Stat {
    /// True if a file with this one and an earlier one was not changed between them, by its length and stamps.
    pub fn is_unchanged(&self, before: &Stat) -> bool {
        (self.size, self.mtime, self.ctime) == (before.size, before.mtime, before.ctime)
    }

    fn new(s: &rustix::fs::Stat) -> Self {
        Stat {
            mode: s.st_mode,
            dev: s.st_dev,
            ino: s.st_ino,
            links: u32::try_from(s.st_nlink).unwrap_or(u32::MAX),
            uid: s.st_uid,
            gid: s.st_gid,
            size: s.st_size as u64,
            blocks: s.st_blocks as u64,
            rdev: s.st_rdev,
            mtime: Time { secs: s.st_mtime, nanos: s.st_mtime_nsec as u32 },
            ctime: Time { secs: s.st_ctime, nanos: s.st_ctime_nsec as u32 },
        }
    }

    /// The type bits of `mode`.
    pub fn file_type(&self) -> FileType {
        FileType::from_raw_mode(self.mode)
    }

    /// True if it is a folder.
    pub fn is_folder(&self) -> bool {
        self.file_type() == FileType::Directory
    }

    /// True if it is a regular file.
    pub fn is_file(&self) -> bool {
        self.file_type() == FileType::RegularFile
    }

    /// The metadata that trees keep, with these extended attributes.
    pub fn meta(&self, xattrs: Vec<Xattr>) -> Meta {
        Meta { mode: self.mode & 0o7777, uid: self.uid, gid: self.gid, mtime: self.mtime, xattrs }
    }
}

/// Stats an entry of an open folder; a symlink itself, not its target.
pub fn stat_at(folder: BorrowedFd<'_>, name: &[u8]) -> Result<Stat> {
    rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).map(|s| Stat::new(&s))
}

/// Stats an open file.
pub fn stat_fd(fd: impl AsFd) -> Result<Stat> {
    rustix::fs::fstat(fd).map(|s| Stat::new(&s))
}

/// The number of the mount that an entry of an open folder is on; of the folder itself with an empty name. `None` before Linux 5.8. A call that
/// fails says nothing of the mount.
pub fn mount_id(folder: BorrowedFd<'_>, name: &[u8]) -> Result<Option<u64>> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW | AtFlags::STATX_DONT_SYNC;
    let found = rustix::fs::statx(folder, name, flags, StatxFlags::MNT_ID)?;
    Ok((found.stx_mask & StatxFlags::MNT_ID.bits() != 0).then_some(found.stx_mnt_id))
}

/// True if an open folder is the root of a mount; false before Linux 5.8, which does not tell.
pub fn is_mount_root(folder: BorrowedFd<'_>) -> bool {
    rustix::fs::statx(folder, "", AtFlags::EMPTY_PATH, StatxFlags::empty())
        .is_ok_and(|found| found.stx_attributes.contains(rustix::fs::StatxAttributes::MOUNT_ROOT))
}

/// Sets the permission bits of an entry that was found (`O_PATH`) and not opened.
pub fn chmod_found(found: BorrowedFd<'_>, mode: u32) -> Result<()> {
    match by_name::chmod_found(found, mode) {
        // Linux before 6.6, or a sandbox that does not know the call.
        Err(Errno::NOSYS | Errno::PERM) if has_proc() => {
            rustix::fs::chmod(format!("/proc/self/fd/{}", found.as_raw_fd()), Mode::from_raw_mode(mode))
        }
        done => done,
    }
}

/// True if paths through `/proc/self/fd` lead somewhere. A folder of that name alone does not: it would answer that there is no such entry.
pub fn has_proc() -> bool {
    static HAS: OnceLock<bool> = OnceLock::new();
    *HAS.get_or_init(|| rustix::fs::statfs("/proc/self/fd").is_ok_and(|found| found.f_type as u64 & 0xffff_ffff == PROC))
}

/// Opens a folder that is an entry of an open one; fails on a symlink.
pub fn open_folder_at(folder: BorrowedFd<'_>, name: &[u8]) -> Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(folder, name, flags, Mode::empty())
}

/// Opens a file for reading. Neither follows a symlink nor waits for a fifo's writer, and leaves the access time alone where it may.
pub fn open_file_at(folder: BorrowedFd<'_>, name: &[u8]) -> Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    match rustix::fs::openat(folder, name, flags | OFlags::NOATIME, Mode::empty()) {
        Err(Errno::PERM) => rustix::fs::openat(folder, name, flags, Mode::empty()),
        other => other,
    }
}

/// The bytes of an open file from its beginning on, at most so many. Its position stays.
pub fn first_bytes(fd: BorrowedFd<'_>, bytes_max: usize) -> Result<Vec<u8>> {
    let (mut bytes, mut filled) = (vec![0; bytes_max], 0);
    while filled < bytes_max {
        match rustix::io::pread(fd, &mut bytes[filled..], filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(Errno::INTR) => {}
            Err(e) => return Err(e),
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

/// The names in an open folder, ordered, without `.` and `..`.
pub fn names(folder: BorrowedFd<'_>) -> Result<Vec<Vec<u8>>> {
    // It may have been listed before.
    rustix::fs::seek(folder, SeekFrom::Start(0))?;
    let mut buffer = Vec::with_capacity(32 << 10);
    let mut entries = RawDir::new(folder, buffer.spare_capacity_mut());
    let mut names = Vec::new();
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.push(name.to_vec());
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// The names in an open folder, by a description of its own: others may be listing the folder by this one.
pub fn names_anew(folder: BorrowedFd<'_>) -> Result<Vec<Vec<u8>>> {
    names(open_folder_at(folder, b".")?.as_fd())
}

/// The target of a symlink in an open folder.
pub fn readlink_at(folder: BorrowedFd<'_>, name: &[u8]) -> Result<Vec<u8>> {
    rustix::fs::readlinkat(folder, name, Vec::new()).map(|target| target.into_bytes())
}

/// The holes of an open file of this length, in order. The file's offset is moved.
pub fn holes(fd: BorrowedFd<'_>, size: u64) -> Result<Vec<Hole>> {
    let mut holes = Vec::new();
    let mut at = 0;
    while at < size {
        let start = match rustix::fs::seek(fd, SeekFrom::Hole(at)) {
            // The filesystem does not tell.
            Err(Errno::INVAL) if at == 0 => return Ok(Vec::new()),
            Err(Errno::NXIO) => break,
            other => other?,
        };
        if start >= size {
            break;
        }
        let end = match rustix::fs::seek(fd, SeekFrom::Data(start)) {
            Err(Errno::NXIO) => size,
            other => other?.min(size),
        };
        Hole::add(&mut holes, start, end);
        at = end.max(start + 1);
    }
    rustix::fs::seek(fd, SeekFrom::Start(0))?;
    Ok(holes)
}

/// True if a folder is on a filesystem that a program serves with FUSE.
pub fn is_fuse(folder: BorrowedFd<'_>) -> bool {
    const FUSE: u64 = 0x6573_5546;
    rustix::fs::fstatfs(folder).is_ok_and(|s| s.f_type as u64 & 0xffff_ffff == FUSE)
}
