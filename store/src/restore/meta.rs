//! Sets the metadata of what was made or found: owner, attributes, mode, times, in the order in which one does not undo another.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::{
    fs::{AtFlags, Gid, Mode, OFlags, Timespec, Timestamps, UTIME_NOW, Uid, XattrFlags},
    io::{Errno, Result},
};

use crate::{
    attributes, sys,
    tree::{Meta, Xattr},
};

/// An entry, by the means that its type allows.
pub enum Handle<'a> {
    /// An open file or folder.
    Open(BorrowedFd<'a>),
    /// Anything but a symlink, found but not opened, in a folder.
    Found(OwnedFd, BorrowedFd<'a>, &'a [u8]),
    /// A symlink in a folder.
    Symlink(BorrowedFd<'a>, &'a [u8]),
}

impl<'a> Handle<'a> {
    /// Finds an entry that must not be a symlink, without opening it.
    pub fn find(folder: BorrowedFd<'a>, name: &'a [u8]) -> Result<Handle<'a>> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat(folder, name, flags, Mode::empty()).map(|fd| Handle::Found(fd, folder, name))
    }

    fn chown(&self, uid: u32, gid: u32) -> Result<()> {
        let (uid, gid) = (Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)));
        match self {
            Handle::Open(fd) => rustix::fs::fchown(fd, uid, gid),
            Handle::Found(fd, ..) => rustix::fs::chownat(fd, "", uid, gid, AtFlags::EMPTY_PATH),
            Handle::Symlink(folder, name) => rustix::fs::chownat(folder, *name, uid, gid, AtFlags::SYMLINK_NOFOLLOW),
        }
    }

    fn chmod(&self, mode: u32) -> Result<()> {
        match self {
            Handle::Open(fd) => rustix::fs::fchmod(fd, Mode::from_raw_mode(mode)),
            Handle::Found(fd, ..) => sys::chmod_found(fd.as_fd(), mode),
            Handle::Symlink(..) => Ok(()),
        }
    }

    fn set_xattr(&self, name: &[u8], value: &[u8]) -> Result<()> {
        match self {
            Handle::Open(fd) => rustix::fs::fsetxattr(fd, name, value, XattrFlags::empty()),
            Handle::Found(_, folder, entry) | Handle::Symlink(folder, entry) => attributes::set(*folder, entry, name, value),
        }
    }

    fn remove_xattr(&self, name: &[u8]) -> Result<()> {
        match self {
            Handle::Open(fd) => rustix::fs::fremovexattr(fd, name),
            Handle::Found(_, folder, entry) | Handle::Symlink(folder, entry) => attributes::remove(*folder, entry, name),
        }
    }

    fn set_mtime(&self, meta: &Meta) -> Result<()> {
        let times = Timestamps {
            // Not omitted: programs behind FUSE may pass over a call that sets one of the two.
            last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
            last_modification: Timespec { tv_sec: meta.mtime.secs, tv_nsec: meta.mtime.nanos.into() },
        };
        match self {
            Handle::Open(fd) => rustix::fs::futimens(fd, &times),
            Handle::Found(fd, ..) => rustix::fs::utimensat(fd, "", &times, AtFlags::EMPTY_PATH),
            Handle::Symlink(folder, name) => rustix::fs::utimensat(folder, *name, &times, AtFlags::SYMLINK_NOFOLLOW),
        }
    }
}

/// Metadata of an entry before they are set.
#[derive(Clone, Debug, Default)]
pub struct Current {
    /// Permission bits.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Extended attributes.
    pub xattrs: Vec<Xattr>,
}

/// Metadata that could not be set.
#[derive(Debug, Default)]
pub struct MetaFailure {
    /// The owner, for want of privilege.
    pub owner: bool,
    /// Attributes that the filesystem or the privileges do not allow.
    pub xattrs: Vec<(Vec<u8>, Errno)>,
    /// True if mode or time are not what they should be either.
    pub rest: bool,
}

impl MetaFailure {
    /// True if everything is as it should be.
    pub fn is_nothing(&self) -> bool {
        !self.owner && self.xattrs.is_empty() && !self.rest
    }
}

/// Gives an entry its metadata.
pub fn apply(handle: &Handle<'_>, meta: &Meta, current: &Current) -> Result<MetaFailure> {
    let mut refused = MetaFailure::default();
    let chowns = (current.uid, current.gid) != (meta.uid, meta.gid);
    if chowns {
        match handle.chown(meta.uid, meta.gid) {
            Err(Errno::PERM | Errno::INVAL) => refused.owner = true,
            other => other?,
        }
    }
    let mut changes_mode = false;
    for (name, _) in current.xattrs.iter().filter(|(name, _)| !meta.xattrs.iter().any(|(wanted, _)| wanted == name)) {
        changes_mode = true;
        match handle.remove_xattr(name) {
            Ok(()) | Err(Errno::NODATA) => {}
            Err(e) => refused.xattrs.push((name.clone(), e)),
        }
    }
    for xattr in meta.xattrs.iter().filter(|xattr| !current.xattrs.contains(xattr)) {
        changes_mode = true;
        if let Err(e) = handle.set_xattr(&xattr.0, &xattr.1) {
            refused.xattrs.push((xattr.0.clone(), e));
        }
    }
    // A program that runs as its owner must not run as somebody else.
    let mode = if refused.owner { meta.mode & !0o6000 } else { meta.mode };
    if mode != current.mode || changes_mode || chowns && mode & 0o6000 != 0 {
        handle.chmod(mode)?;
    }
    handle.set_mtime(meta)?;
    Ok(refused)
}

/// Empties what a new folder has inherited, so that nothing in it inherits any of it.
pub fn make_private(folder: BorrowedFd<'_>) -> Result<()> {
    for name in ["system.posix_acl_default", "system.posix_acl_access"] {
        let _ = rustix::fs::fremovexattr(folder, name);
    }
    rustix::fs::fchmod(folder, Mode::from_raw_mode(0o700))
}
