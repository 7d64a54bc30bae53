//! The identity of a mount: what tells it from every other mount that is, was or will be on the same folder.

use std::{
    fmt, io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::Path,
    str::FromStr,
};

use parhelia_store::id::Ulid;
use rustix::{
    fs::{AtFlags, CWD, Mode, OFlags, StatxFlags, openat, statat, statx},
    io::Errno,
};

/// `STATX_MNT_ID_UNIQUE`, since Linux 6.8: a number that no other mount gets until the next boot. An older kernel fills in `STATX_MNT_ID`,
/// which is used again; so does the device number of FUSE.
const MNT_ID_UNIQUE: StatxFlags = StatxFlags::from_bits_retain(0x4000);

/// A mount, by the kernel's numbers for it and for its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    mount: u64,
    major: u32,
    minor: u32,
}

impl Identity {
    /// The topmost mount on a path. The process that serves it is not asked.
    pub(crate) fn at(path: &Path) -> io::Result<Self> {
        Self::asked(CWD, path, AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT)
    }

    /// The mount that an open file is on.
    pub(crate) fn of(file: impl AsFd) -> io::Result<Self> {
        Self::asked(file.as_fd(), Path::new(""), AtFlags::EMPTY_PATH)
    }

    fn asked(folder: BorrowedFd<'_>, path: &Path, flags: AtFlags) -> io::Result<Self> {
        let found = statx(folder, path, flags | AtFlags::STATX_DONT_SYNC, StatxFlags::MNT_ID | MNT_ID_UNIQUE)?;
        Ok(Identity { mount: found.stx_mnt_id, major: found.stx_dev_major, minor: found.stx_dev_minor })
    }

    /// The device as `mountinfo` and sysfs name it.
    pub(crate) fn device(&self) -> String {
        format!("{}:{}", self.major, self.minor)
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.mount, self.major, self.minor)
    }
}

impl FromStr for Identity {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const NEEDED: &str = "not a mount's identity, which is MOUNT:MAJOR:MINOR";
        let mut numbers = text.splitn(3, ':');
        let mut next = || numbers.next().ok_or(NEEDED);
        let (mount, major, minor) = (next()?, next()?, next()?);
        Ok(Identity {
            mount: mount.parse().map_err(|_| NEEDED)?,
            major: major.parse().map_err(|_| NEEDED)?,
            minor: minor.parse().map_err(|_| NEEDED)?,
        })
    }
}

/// Opens the root of the topmost mount on a path. The process that serves it is not asked.
pub(crate) fn root_at(path: &Path) -> io::Result<OwnedFd> {
    Ok(openat(CWD, path, OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?)
}

/// True if the process that served a mount is gone. The kernel answers for the dead from memory, so that the question is about a
/// name that nobody has asked for. A question that is on its way when the process dies is answered "connection aborted".
pub(crate) fn is_disconnected(root: impl AsFd) -> bool {
    let unknown = format!("parhelia-{}", Ulid::generate());
    matches!(statat(root, unknown, AtFlags::SYMLINK_NOFOLLOW), Err(Errno::NOTCONN | Errno::CONNABORTED))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_is_told_by_path_file_and_text() {
        let (proc, root) = (Identity::at(Path::new("/proc")).unwrap(), Identity::at(Path::new("/")).unwrap());
        assert_ne!(proc, root);
        assert_eq!(Identity::of(root_at(Path::new("/proc")).unwrap()).unwrap(), proc);
        assert_eq!(proc.to_string().parse(), Ok(proc));
        for text in ["", "1", "1:2", "1:2:3:4", "a:b:c", "-1:0:0"] {
            assert!(text.parse::<Identity>().is_err(), "{text}");
        }
        assert!(!is_disconnected(root_at(Path::new("/proc")).unwrap()));
    }
}
