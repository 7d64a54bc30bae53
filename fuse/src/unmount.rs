//! Unmounting, by the system call where we may, by `fusermount3` where only it may.

use std::{
    io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use rustix::{
    io::Errno,
    mount::{UnmountFlags, unmount as unmount_call},
};

use crate::{
    error::{Error, Result},
    mountinfo,
};

/// Unmounts what is mounted on a path. Where somebody uses it, says who.
pub fn unmount(mountpoint: &Path) -> Result<()> {
    let mountpoint = resolved(mountpoint);
    if mountinfo::ours_at(&mountpoint)?.is_none() {
        return Err(Error::NotMounted { mountpoint });
    }
    attempt(&mountpoint, UnmountFlags::NOFOLLOW, &["-u", "--"])
}

/// Takes a mount out of the tree of folders at once. Who uses it keeps it until he is done.
pub fn detach(mountpoint: &Path) -> Result<()> {
    let mountpoint = resolved(mountpoint);
    if mountinfo::ours_at(&mountpoint)?.is_none() {
        return Err(Error::NotMounted { mountpoint });
    }
    attempt(&mountpoint, UnmountFlags::NOFOLLOW | UnmountFlags::DETACH, &["-u", "-z", "--"])
}

fn attempt(mountpoint: &Path, flags: UnmountFlags, helper_args: &[&str]) -> Result<()> {
    let failed = |source: io::Error| Error::Io { action: "unmount", path: mountpoint.to_owned(), source };
    match unmount_call(mountpoint, flags) {
        Ok(()) => Ok(()),
        Err(Errno::BUSY) => Err(busy(mountpoint)),
        Err(Errno::PERM) => {
            let output = Command::new("fusermount3").args(helper_args).arg(mountpoint).stdin(Stdio::null()).output();
            let output = output.map_err(|e| failed(io::Error::new(e.kind(), format!("fusermount3: {e}"))))?;
            let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            match output.status.success() {
                true => Ok(()),
                false if said.contains("busy") => Err(busy(mountpoint)),
                false => Err(failed(io::Error::other(said))),
            }
        }
        Err(e) => Err(failed(e.into())),
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
