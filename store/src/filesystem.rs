//! The filesystems that a walk meets: how to know one again, and whose clock stamps its files.
//!
//! Inode numbers and stamps mean something on one filesystem only. Another one may be mounted at the same path tomorrow (an image, a
//! disk, a mounted checkpoint) with the same numbers and times, and a device number says nothing: it is given to the next one.

use std::{
    collections::HashMap,
    os::fd::BorrowedFd,
    path::Path,
    sync::{Mutex, PoisonError},
};

use rustix::fs::{AtFlags, StatxFlags};

use crate::{clock::Clock, kernel, mounts, sys};

/// Statfs types whose `f_fsid` belongs to the filesystem itself, not to the device: ext2/3/4, btrfs, tmpfs, ZFS, bcachefs.
const FSID_IS_OWN: [u64; 5] = [EXT, BTRFS, TMPFS, 0x2fc1_2fc1, 0xca45_1a4e];
/// Statfs types known by where they are mounted from: NFS, SMB (three generations), Ceph, AFS.
const SOURCE_IS_OWN: [u64; 6] = [0x6969, 0x517b, 0xfe53_4d42, 0xff53_4d42, 0x00c3_6400, 0x5346_414f];
/// Statfs types whose files this kernel stamps by its own clock: the above, overlay, XFS, F2FS, ramfs, squashfs, EROFS, ISO 9660, UDF, FAT,
/// exFAT, NTFS (both drivers), JFS, HFS+, NILFS, Minix.
const STAMPED_HERE: [u64; 19] = [
    OVERLAY,
    XFS,
    0xf2f5_2010,
    0x8584_58f6,
    0x7371_7368,
    0xe0f5_e1e2,
    0x9660,
    0x1501_3346,
    0x4d44,
    0x2011_bab0,
    0x7366_746e,
    0x5346_544e,
    0x3153_464a,
    0x482b,
    0x4858,
    0x3434,
    0x137f,
    0x2468,
    0x4d5a,
];
const EXT: u64 = 0xef53;
const BTRFS: u64 = 0x9123_683e;
const TMPFS: u64 = 0x0102_1994;
const XFS: u64 = 0x5846_5342;
const OVERLAY: u64 = 0x794c_7630;
/// `STATX_MNT_ID_UNIQUE`, since Linux 6.8: a mount's number that no other mount ever gets.
const MOUNT_ID_UNIQUE: u32 = 0x4000;

/// Identity of a filesystem.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FilesystemId(pub [u8; 16]);

impl FilesystemId {
    /// True if it tells one filesystem from another. One that has nothing to be known by is taken for another each time.
    pub fn is_known(self) -> bool {
        self != Self::default()
    }

    /// True if both are known, and the same.
    pub fn is_same(self, other: Self) -> bool {
        self == other && self.is_known()
    }
}

/// A filesystem, as the stat cache has to know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filesystem {
    /// Its identity.
    pub id: FilesystemId,
    /// True if its stamps are of this machine's clock. Those of a server or of a program may be of another.
    pub is_stamped_here: bool,
    /// True if a file's mapping belongs to another inode than the one that is seen (overlay).
    pub hides_mappings: bool,
    /// Known by a mount's number: what lies on another mount of it has another id.
    by_mount: bool,
}

impl Filesystem {
    /// True if it is known by the same id when it is mounted again.
    pub fn is_lasting(&self) -> bool {
        !self.by_mount
    }
}

impl Default for Filesystem {
    /// One of which nothing is known.
    fn default() -> Self {
        Filesystem { id: FilesystemId::default(), is_stamped_here: false, hides_mappings: true, by_mount: false }
    }
}

/// The filesystems met so far, by device.
#[derive(Debug, Default)]
pub struct Filesystems(Mutex<HashMap<u64, Filesystem>>);

impl Filesystems {
    /// The filesystem that an open file or folder is on, whose device is known.
    pub fn of(&self, file: BorrowedFd<'_>, device: u64) -> Filesystem {
        let known = self.lock().get(&device).copied();
        let found = known.unwrap_or_else(|| {
            let found = identify(file);
            self.lock().insert(device, found);
            found
        });
        match found.by_mount {
            true => Filesystem { id: by_mount(file), ..found },
            false => found,
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Filesystem>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The filesystem that an open file or folder is on.
pub fn of(file: BorrowedFd<'_>) -> Filesystem {
    Filesystems::default().of(file, sys::stat_fd(file).map_or(0, |stat| stat.dev))
}

/// Bytes that are free for this user on the filesystem of a path; none where that cannot be told.
pub(crate) fn free_bytes(path: &Path) -> Option<u64> {
    rustix::fs::statvfs(path).ok().map(|found| found.f_bavail.saturating_mul(found.f_frsize))
}

fn identify(file: BorrowedFd<'_>) -> Filesystem {
    let Ok(stat) = rustix::fs::fstatfs(file) else { return Filesystem::default() };
    let kind = stat.f_type as u64 & 0xffff_ffff;
    let fsid = rustix::fs::fstatvfs(file).map_or(0, |stat| stat.f_fsid);
    let uuid = kernel::filesystem_uuid(file).or_else(|| (kind == XFS).then(|| kernel::xfs_uuid(file)).flatten());
    let own_fsid = (fsid != 0 && (FSID_IS_OWN.contains(&kind) || kind == OVERLAY)).then_some(fsid);
    let mounted_from = match kind {
        OVERLAY => mount_of(file).map(|mount| mount.options),
        _ if SOURCE_IS_OWN.contains(&kind) => mount_of(file).map(|mount| mount.source),
        _ => None,
    };
    let is_identified = match kind {
        // Its own number is that of one of its layers.
        OVERLAY => mounted_from.is_some(),
        _ => uuid.is_some() || own_fsid.is_some() || mounted_from.is_some(),
    };
    let id = match is_identified {
        true => hash(&[
            &kind.to_le_bytes(),
            &uuid.unwrap_or_default(),
            &own_fsid.unwrap_or_default().to_le_bytes(),
            &mounted_from.unwrap_or_default(),
        ]),
        false => FilesystemId::default(),
    };
    Filesystem {
        id,
        is_stamped_here: STAMPED_HERE.contains(&kind) || FSID_IS_OWN.contains(&kind),
        hides_mappings: kind == OVERLAY,
        by_mount: !is_identified,
    }
}

/// The mount that an open file or folder was reached by. Its device number would not do: overlay gives its files others.
pub(crate) fn mount_of(file: BorrowedFd<'_>) -> Option<mounts::Mount> {
    let id = sys::mount_id(file, b"").ok()??;
    mounts::all().ok()?.into_iter().find(|mount| mount.id == id)
}

/// The id of a filesystem that is known by nothing but its mount, and so by another each time it is mounted.
fn by_mount(file: BorrowedFd<'_>) -> FilesystemId {
    let flags = StatxFlags::from_bits_retain(MOUNT_ID_UNIQUE);
    let boot = Clock::now().boot;
    // Numbers of mounts begin anew with each start of the machine.
    if boot == [0; 16] {
        return FilesystemId::default();
    }
    match rustix::fs::statx(file, Path::new(""), AtFlags::EMPTY_PATH, flags) {
        Ok(found) if found.stx_mask & MOUNT_ID_UNIQUE != 0 => hash(&[b"mount", &boot, &found.stx_mnt_id.to_le_bytes()]),
        _ => FilesystemId::default(),
    }
}

fn hash(parts: &[&[u8]]) -> FilesystemId {
    let mut hasher = blake3::Hasher::new_derive_key("parhelia 2026-11 filesystem identity");
    for part in parts {
        hasher.update(&(part.len() as u64).to_le_bytes()).update(part);
    }
    let mut id = [0; 16];
    hasher.finalize_xof().fill(&mut id);
    FilesystemId(id)
}

#[cfg(test)]
mod tests {
    use std::{fs::File, os::fd::AsFd};

    use super::*;

    #[test]
    fn filesystems_are_told_apart_and_known_again() {
        let id = |path: &str| of(File::open(path).unwrap().as_fd());
        let (here, memory, proc) = (id("/"), id("/dev/shm"), id("/proc"));
        assert!(here.id.is_same(id("/").id) && memory.id.is_same(id("/dev/shm").id));
        assert!(!here.id.is_same(memory.id) && !here.id.is_same(proc.id) && !memory.id.is_same(proc.id));
        assert!(memory.is_stamped_here && !proc.is_stamped_here);
        assert!(!FilesystemId::default().is_same(FilesystemId::default()));
    }
}
