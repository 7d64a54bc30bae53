//! Calls to the kernel that no safe library offers: leases, the identity of a filesystem, and calls by an entry's name.
#![allow(unsafe_code)]

pub mod by_name;

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use rustix::{
    io::{Errno, Result},
    ioctl::{Getter, ioctl, opcode},
};

/// Of `asm-generic/fcntl.h`: the signal by which a broken lease is told.
const F_SETSIG: i32 = 10;

/// True if another open file of this inode can be written, or is mapped shared and writable. The file must be open for reading alone.
///
/// The kernel grants a read lease only on an inode that nobody has open for writing, in whatever process or namespace; a shared
/// writable mapping keeps its file open. The lease is given back at once, so that it delays nobody.
///
/// # Errors
/// `EACCES` for a file of another user, `EINVAL` on a filesystem without leases: it cannot be told.
pub fn is_open_for_writing(file: BorrowedFd<'_>) -> Result<bool> {
    let fd = file.as_raw_fd();
    let set = |command, value| match unsafe_fcntl(fd, command, value) {
        -1 => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL)),
        _ => Ok(()),
    };
    // Whoever opens the file for writing in this instant has the kernel signal us. SIGIO would end the process, SIGURG is ignored.
    set(F_SETSIG, libc::SIGURG)?;
    match set(libc::F_SETLEASE, libc::F_RDLCK) {
        Ok(()) => set(libc::F_SETLEASE, libc::F_UNLCK).map(|()| false),
        Err(Errno::AGAIN) => Ok(true),
        Err(e) => Err(e),
    }
}

fn unsafe_fcntl(fd: i32, command: i32, value: i32) -> i32 {
    // SAFETY: these commands take an integer and touch no memory of this process.
    unsafe { libc::fcntl(fd, command, value) }
}

/// `struct fsuuid2` of `linux/fs.h`.
#[repr(C)]
struct FsUuid {
    length: u8,
    bytes: [u8; 16],
}

/// `struct xfs_fsop_geom_v4` of `xfs/xfs_fs.h`, as far as it matters here.
#[repr(C)]
struct XfsGeometry {
    before: [u64; 8],
    uuid: [u8; 16],
    after: [u64; 4],
}

/// The UUID of the filesystem that an open file is on. `None` where it has none, or the kernel (before 6.9) does not tell.
pub fn filesystem_uuid(file: impl AsFd) -> Option<[u8; 16]> {
    // SAFETY: FS_IOC_GETFSUUID writes a `struct fsuuid2`, which any bytes are.
    let found = unsafe { ioctl(file, Getter::<{ opcode::read::<FsUuid>(0x15, 0) }, FsUuid>::new()) }.ok()?;
    (found.length > 0 && found.bytes != [0; 16]).then_some(found.bytes)
}

/// The UUID of the XFS filesystem that an open file is on, on kernels of any age.
pub fn xfs_uuid(file: impl AsFd) -> Option<[u8; 16]> {
    // SAFETY: XFS_IOC_FSGEOMETRY_V4 writes a `struct xfs_fsop_geom_v4` of 112 bytes, which any bytes are.
    let found = unsafe { ioctl(file, Getter::<{ opcode::read::<XfsGeometry>(b'X', 124) }, XfsGeometry>::new()) }.ok()?;
    Some(found.uuid)
}

#[cfg(test)]
mod tests {
    use std::{fs::File, io::Write};

    use super::*;

    #[test]
    fn writers_and_shared_mappings_are_seen_and_readers_are_not() {
        assert_eq!(size_of::<XfsGeometry>(), 112);
        for place in [std::env::temp_dir(), "/dev/shm".into()] {
            let dir = tempfile::tempdir_in(place).unwrap();
            let path = dir.path().join("file");
            let mut writer = File::create_new(&path).unwrap();
            writer.write_all(b"content").unwrap();
            let reader = File::open(&path).unwrap();
            assert_eq!(is_open_for_writing(reader.as_fd()), Ok(true));
            drop(writer);
            let other = File::open(&path).unwrap();
            // A process that another test forks in this moment has the file open until it runs its program.
            while is_open_for_writing(reader.as_fd()).unwrap() {
                std::thread::yield_now();
            }
            drop(other);
        }
    }
}
