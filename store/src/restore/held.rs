//! Entries that this process cannot change: because of their inode's flags, of a mount, of permissions, or because nothing can be learned of
//! them. The plan asks before anything is touched. Such entries stay as they are and are named, and keep nothing else from being restored.
//!
//! Every answer comes from the kernel's own memory (`statx` without a sync, `faccessat2`), so that a dead server of a filesystem is not waited
//! for. What the plan could not foresee, and the system refuses later, is judged by the one table ([`errno`]).

use std::{
    fmt, io,
    os::fd::{AsFd, BorrowedFd},
};

use rustix::{
    fs::{Access, AtFlags, Mode, OFlags, StatVfsMountFlags, StatxAttributes, StatxFlags},
    io::Errno,
};

use crate::{
    errno::{self, Call, Presence, Verdict},
    sys::{self, Stat},
};

/// The cause that holds an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HoldCause {
    /// It cannot be changed at all (`chattr +i`).
    Immutable,
    /// It can only grow (`chattr +a`).
    AppendOnly,
    /// It is on a filesystem, or a mount, that is read-only.
    ReadOnly,
    /// It is a mount of its own: it can be neither replaced nor removed.
    Mounted,
    /// This user may not change it.
    NotPermitted,
    /// A folder that this user may not enter or list.
    Closed,
    /// It has extended attributes that cannot be read, and would lose them.
    Unlisted,
    /// The system does not let it be looked at, and says this: the errno.
    Unseen(i32),
    /// The system refused for a reason of its own: the errno.
    Refused(i32),
}

/// The entry that has the cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Of {
    /// The entry by itself.
    Itself,
    /// The folder that it is in.
    Folder,
}

/// The reason for which an entry cannot be changed, made or removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hold(pub HoldCause, pub Of);

impl HoldCause {
    /// The cause behind a refused change that concerns one entry: it is named, and the rest goes on. None where nothing more can be done.
    pub fn by(errno: Errno) -> Option<Self> {
        match errno::verdict(Call::Change, errno, Presence::Unknown) {
            Verdict::Skip if errno == Errno::ACCESS => Some(HoldCause::NotPermitted),
            Verdict::Skip => Some(HoldCause::Refused(errno.raw_os_error())),
            _ => None,
        }
    }

    /// The cause behind an answer that was given for one entry, where all others are gone on with.
    pub fn after(errno: Errno) -> Self {
        match errno {
            Errno::ROFS => HoldCause::ReadOnly,
            other => Self::by(other).unwrap_or(HoldCause::Refused(other.raw_os_error())),
        }
    }

    /// The cause behind an answer to a look at an entry. What is gone is not held.
    pub fn unseen(errno: Errno) -> Self {
        match errno {
            Errno::ACCESS | Errno::PERM => HoldCause::Closed,
            other => HoldCause::Unseen(other.raw_os_error()),
        }
    }

    /// Looks at the flags of an entry of an open folder, or with an empty name of the folder itself, and whether it is a mount of its own.
    /// A filesystem without such flags holds nothing.
    pub fn of(folder: BorrowedFd<'_>, name: &[u8]) -> Option<Self> {
        let found = attributes(folder, name)?;
        match () {
            () if found.contains(StatxAttributes::IMMUTABLE) => Some(HoldCause::Immutable),
            () if found.contains(StatxAttributes::APPEND) => Some(HoldCause::AppendOnly),
            () if !name.is_empty() && found.contains(StatxAttributes::MOUNT_ROOT) => Some(HoldCause::Mounted),
            () => None,
        }
    }

    /// The cause that keeps names from being made and removed in an open folder. A folder that its owner has closed to himself is opened for
    /// the time.
    pub fn inside(folder: BorrowedFd<'_>) -> Option<Self> {
        Self::of(folder, b"").or_else(|| match may_write(folder) {
            Ok(()) => None,
            Err(Errno::ROFS) => Some(HoldCause::ReadOnly),
            Err(Errno::ACCESS) => (!sys::stat_fd(folder).is_ok_and(|stat| is_closed(&stat))).then_some(HoldCause::NotPermitted),
            // Filesystems may answer that they cannot say.
            Err(Errno::NOSYS | Errno::OPNOTSUPP | Errno::INVAL) => None,
            Err(Errno::PERM) => Some(HoldCause::NotPermitted),
            Err(e) => Some(HoldCause::Unseen(e.raw_os_error())),
        })
    }

    /// The cause that keeps an entry that is there from getting another mode, owner or time. `inside` is that of its folder.
    pub fn meta(folder: BorrowedFd<'_>, name: &[u8], stat: &Stat, inside: impl Fn() -> Option<HoldCause>) -> Option<Self> {
        match Self::of(folder, name) {
            Some(HoldCause::Mounted) if is_read_only(folder, name) => return Some(HoldCause::ReadOnly),
            Some(HoldCause::Mounted) => {}
            None if inside() == Some(HoldCause::ReadOnly) => return Some(HoldCause::ReadOnly),
            None => {}
            held => return held,
        }
        if stat.is_folder() && is_frozen(folder, name) {
            return Some(HoldCause::ReadOnly);
        }
        (!is_owner(stat)).then_some(HoldCause::NotPermitted)
    }
}

/// True if a folder is the top of what is read-only, though the one that it is in is not and nothing is mounted there: a snapshot of btrfs.
fn is_frozen(above: BorrowedFd<'_>, name: &[u8]) -> bool {
    matches!(rustix::fs::accessat(above, name, Access::WRITE_OK, AtFlags::EACCESS | AtFlags::SYMLINK_NOFOLLOW), Err(Errno::ROFS))
}

fn attributes(folder: BorrowedFd<'_>, name: &[u8]) -> Option<StatxAttributes> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW | AtFlags::STATX_DONT_SYNC;
    rustix::fs::statx(folder, name, flags, StatxFlags::empty()).ok().map(|found| found.stx_attributes)
}

/// True if an entry of an open folder is a mount of its own, which may be dead.
pub fn is_mount(folder: BorrowedFd<'_>, name: &[u8]) -> bool {
    attributes(folder, name).is_some_and(|found| found.contains(StatxAttributes::MOUNT_ROOT))
}

/// Asks whether names may be made in an open folder.
pub fn may_write(folder: BorrowedFd<'_>) -> rustix::io::Result<()> {
    let access = Access::WRITE_OK | Access::EXEC_OK;
    match rustix::fs::accessat(folder, ".", access, AtFlags::EACCESS) {
        // A kernel without faccessat2.
        Err(Errno::NOSYS | Errno::INVAL) => rustix::fs::accessat(folder, ".", access, AtFlags::empty()),
        other => other,
    }
}

/// True if the mount that an entry of an open folder is on is read-only.
fn is_read_only(folder: BorrowedFd<'_>, name: &[u8]) -> bool {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let found = rustix::fs::openat(folder, name, flags, Mode::empty()).and_then(|fd| rustix::fs::fstatvfs(fd.as_fd()));
    found.is_ok_and(|found| found.f_flag.contains(StatVfsMountFlags::RDONLY))
}

/// True if this user may set the metadata of what has this owner. What privileges root lacks in a container shows when it is tried.
fn is_owner(stat: &Stat) -> bool {
    let user = rustix::process::geteuid();
    user.is_root() || stat.uid == user.as_raw()
}

/// True if a folder with a sticky bit keeps this user from removing an entry of somebody else.
pub fn is_stuck(folder: BorrowedFd<'_>, entry: &Stat) -> bool {
    !is_owner(entry) && sys::stat_fd(folder).is_ok_and(|above| above.mode & 0o1000 != 0 && !is_owner(&above))
}

/// True if a folder is this user's, who yet may not change what is in it.
pub fn is_closed(stat: &Stat) -> bool {
    let user = rustix::process::geteuid();
    !user.is_root() && stat.uid == user.as_raw() && stat.mode & 0o700 != 0o700
}

impl Hold {
    /// The hold of an entry by its own cause.
    pub fn own(held: HoldCause) -> Self {
        Hold(held, Of::Itself)
    }

    /// The hold of an entry by its folder's cause.
    pub fn inside(held: HoldCause) -> Self {
        Hold(held, Of::Folder)
    }

    /// The reason for which a folder stays that holds such an entry, the path of which is given.
    pub fn around(self, path: &str) -> String {
        match self.0 {
            HoldCause::Immutable => "it, or something in it, is immutable (`chattr -R -i` lets it be removed)".into(),
            HoldCause::AppendOnly => "it, or something in it, is append-only (`chattr -R -a` lets it be removed)".into(),
            _ => format!("{path} in it cannot be removed: {self}"),
        }
    }
}

impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (it, of) = match self.1 {
            Of::Itself => ("it", ""),
            Of::Folder => ("its folder", " in its folder"),
        };
        match self.0 {
            HoldCause::Immutable => write!(f, "{it} is immutable (`chattr -i` lets it be changed)"),
            HoldCause::AppendOnly => write!(f, "{it} is append-only (`chattr -a` lets it be changed)"),
            HoldCause::ReadOnly => write!(f, "{it} is on a read-only filesystem or mount"),
            HoldCause::Mounted => write!(f, "{it} is a mount of its own (unmount it, or change it by what is mounted)"),
            HoldCause::NotPermitted => write!(f, "this user may not change {it}"),
            HoldCause::Closed => write!(f, "this user may not look into {it}"),
            HoldCause::Unlisted => write!(f, "{it} has extended attributes that cannot be read, and would lose them"),
            HoldCause::Unseen(errno) => write!(f, "{it} cannot be looked at: {}", io::Error::from_raw_os_error(errno)),
            HoldCause::Refused(errno) => write!(f, "{}{of}", io::Error::from_raw_os_error(errno)),
        }
    }
}
