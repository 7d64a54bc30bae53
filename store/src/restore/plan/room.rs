//! Whether the target's filesystem takes what is to be written, as far as it can be asked before anything is.

use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::Path,
};

use rustix::{
    fs::{Mode, OFlags, StatFs},
    io::Errno,
};

use crate::{
    error::{Error, Result, TargetContext},
    restore::{held, target::Target, walk::WalkFindings},
};

/// Filesystems in which the kernel shows itself, by their magic numbers: nothing can be made there.
const OF_THE_KERNEL: [u64; 8] = [
    0x9fa0,      // proc
    0x6265_6572, // sysfs
    0x0027_e0eb, // cgroup
    0x6367_7270, // cgroup2
    0x6462_6720, // debugfs
    0x7472_6163, // tracefs
    0x7363_6673, // securityfs
    0x1cd1,      // devpts
];

/// Filesystems that store each byte that is written, by their magic numbers. Others may compress, or find the same bytes elsewhere.
const EXACT: [u64; 3] = [
    0xef53,      // ext2, ext3, ext4
    0x5846_5342, // XFS
    0x0102_1994, // tmpfs
];

fn is_one_of(found: &StatFs, magics: &[u64]) -> bool {
    magics.contains(&(found.f_type as u64 & 0xffff_ffff))
}

/// Opens the folder in which the target of a restore is made, or the nearest one above that is there. Fails where nothing can be made in it.
pub(super) fn open_above(target: &Target) -> Result<Option<OwnedFd>> {
    let Target::Fresh { parent, .. } = target else { return Ok(None) };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let is_there = |above: &&Path| above.symlink_metadata().is_ok();
    let above = parent.ancestors().find(is_there).unwrap_or(parent);
    let fd = rustix::fs::open(above, flags, Mode::empty()).at_target("open folder", above)?;
    let path = || target.path();
    let is_the_kernels = rustix::fs::fstatfs(&fd).is_ok_and(|found| is_one_of(&found, &OF_THE_KERNEL));
    let made = if is_the_kernels { Err(Errno::OPNOTSUPP) } else { may_make(fd.as_fd()) };
    made.at_target("create folder", path())?;
    Ok(Some(fd))
}

fn may_make(folder: BorrowedFd<'_>) -> rustix::io::Result<()> {
    if held::HoldCause::of(folder, b"").is_some() {
        return Err(Errno::PERM);
    }
    match held::may_write(folder) {
        // Filesystems may answer that they cannot say.
        Err(Errno::NOSYS | Errno::OPNOTSUPP | Errno::INVAL) => Ok(()),
        other => other,
    }
}

/// Fails where what is found to be written is more than is free: it is all written before anything goes. Nothing is said where a filesystem
/// may store less than is written, and where something is on another one than the target.
pub(super) fn ensure_room(target: &Target, folder: BorrowedFd<'_>, found: &WalkFindings) -> Result<()> {
    let needed = found.counts.bytes.saturating_sub(found.hole_bytes);
    let device = found.folders.first().map(|top| top.device);
    if found.folders.iter().any(|line| !line.is_new && Some(line.device) != device) {
        return Ok(());
    }
    let exact = rustix::fs::fstatfs(folder).is_ok_and(|found| is_one_of(&found, &EXACT));
    let Ok(there) = rustix::fs::fstatvfs(folder) else { return Ok(()) };
    let blocks = if rustix::process::geteuid().is_root() { there.f_bfree } else { there.f_bavail };
    let free = blocks.saturating_mul(there.f_frsize);
    // A tmpfs without a limit has no blocks.
    match exact && there.f_blocks > 0 && needed > free {
        true => Err(Error::NoRoom { path: target.path(), needed, free }),
        false => Ok(()),
    }
}
