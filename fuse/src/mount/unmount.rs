//! Unmounting, by the system call where we may, by `fusermount3` where only it may.

use std::{
    io,
    os::fd::{AsRawFd, OwnedFd},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use rustix::{
    io::Errno,
    mount::{UnmountFlags, unmount as unmount_call},
};

use crate::{
    error::{Error, Result},
    mount::{
        identity::{Identity, is_disconnected, root_at},
        mountinfo,
    },
};

/// A mount that is in use is tried again so often...
const BUSY_TRIES: u32 = 20;
/// ... each time after this pause.
const BUSY_PAUSE: Duration = Duration::from_millis(25);

/// Unmounts what is mounted on a path. Where somebody uses it, says who.
pub fn unmount(mountpoint: &Path) -> Result<()> {
    let mountpoint = resolved(mountpoint);
    if mountinfo::ours_at(&mountpoint)?.is_none() {
        return Err(Error::NotMounted { mountpoint });
    }
    // A reference to the mount would keep it busy, so that it cannot be held while it is unmounted.
    let mut unmounted = unmount_call(&mountpoint, UnmountFlags::NOFOLLOW);
    // Whoever has just used it may still have it: a program that ends, or one that is being started and inherits what another had open.
    for _ in 0..BUSY_TRIES {
        if unmounted != Err(Errno::BUSY) {
            break;
        }
        thread::sleep(BUSY_PAUSE);
        unmounted = unmount_call(&mountpoint, UnmountFlags::NOFOLLOW);
    }
    match unmounted {
        Ok(()) => Ok(()),
        Err(Errno::BUSY) => Err(busy(&mountpoint)),
        Err(Errno::PERM) => by_helper(&mountpoint, &["-u", "--"]),
        // Somebody else was faster.
        Err(Errno::INVAL) if mountinfo::ours_at(&mountpoint)?.is_none() => Err(Error::NotMounted { mountpoint }),
        Err(e) => Err(failed(&mountpoint, e.into())),
    }
}

/// Takes a mount out of the tree of folders at once. A process that uses it keeps it until it is done.
pub fn detach(mountpoint: &Path) -> Result<()> {
    let mountpoint = resolved(mountpoint);
    if detach_if(&mountpoint, |_, _| true)? { Ok(()) } else { Err(Error::NotMounted { mountpoint }) }
}

/// Detaches the mount on a path if its process is dead. Returns whether it did.
pub(crate) fn detach_dead(mountpoint: &Path) -> Result<bool> {
    detach_if(mountpoint, |root, _| is_disconnected(root))
}

/// Detaches the mount on a path if it is one of ours and `is_meant` says so of its root. Returns whether it did.
///
/// The root is held open meanwhile, and the kernel is told to detach what that root belongs to. By the path alone it would detach whatever
/// has come there since it was looked at. Only `fusermount3`, by which users unmount, takes nothing but a path.
pub(crate) fn detach_if(mountpoint: &Path, is_meant: impl FnOnce(&OwnedFd, Identity) -> bool) -> Result<bool> {
    let failed = |source| failed(mountpoint, source);
    let Some(line) = mountinfo::ours_at(mountpoint)? else { return Ok(false) };
    let root = root_at(mountpoint).map_err(failed)?;
    let identity = Identity::of(&root).map_err(failed)?;
    if identity.device() != line.device || !is_meant(&root, identity) {
        return Ok(false);
    }
    match unmount_call(format!("/proc/self/fd/{}", root.as_raw_fd()), UnmountFlags::DETACH) {
        Ok(()) => Ok(true),
        // It is nowhere any more.
        Err(Errno::INVAL) => Ok(false),
        Err(Errno::PERM) => {
            let is_there = || Identity::at(mountpoint).is_ok_and(|now| now == identity);
            if !is_there() {
                return Ok(false);
            }
            match by_helper(mountpoint, &["-u", "-z", "--"]) {
                Err(_) if !is_there() => Ok(false),
                other => other.map(|()| true),
            }
        }
        Err(e) => Err(failed(e.into())),
    }
}

fn failed(mountpoint: &Path, source: io::Error) -> Error {
    Error::Io { action: "unmount", path: mountpoint.to_owned(), source }
}

fn by_helper(mountpoint: &Path, args: &[&str]) -> Result<()> {
    let failed = |source| failed(mountpoint, source);
    let output = Command::new("fusermount3").args(args).arg(mountpoint).stdin(Stdio::null()).output();
    let output = output.map_err(|e| failed(io::Error::new(e.kind(), format!("fusermount3: {e}"))))?;
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    match output.status.success() {
        true => Ok(()),
        false if said.contains("busy") => Err(busy(mountpoint)),
        false => Err(failed(io::Error::other(said))),
    }
}

fn busy(mountpoint: &Path) -> Error {
    Error::Busy {
        mountpoint: mountpoint.to_owned(),
        holders: mountinfo::holders(mountpoint),
        inside: mountinfo::inside(mountpoint),
    }
}

/// The path as the kernel's list of mounts has it. A mountpoint that does not answer cannot be resolved itself; its parent can.
pub(crate) fn resolved(mountpoint: &Path) -> PathBuf {
    let parent = || Some(mountpoint.parent()?.canonicalize().ok()?.join(mountpoint.file_name()?));
    mountpoint.canonicalize().ok().or_else(parent).unwrap_or_else(|| mountpoint.to_owned())
}
