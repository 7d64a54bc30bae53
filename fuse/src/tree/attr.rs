//! A node as `stat` shows it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{FileAttr, FileType, INodeNo};
use parhelia_store::tree::{Hole, Kind, Node, Time};

/// The size of a folder itself, as on ext4.
const FOLDER_BYTES: u64 = 4096;
const BLOCK_BYTES: u32 = 4096;

/// The file type of a node.
pub fn file_type(kind: &Kind) -> FileType {
    match kind {
        Kind::File { .. } => FileType::RegularFile,
        Kind::Folder { .. } => FileType::Directory,
        Kind::Symlink { .. } => FileType::Symlink,
        Kind::Fifo => FileType::NamedPipe,
        Kind::Socket => FileType::Socket,
        Kind::CharDevice { .. } => FileType::CharDevice,
        Kind::BlockDevice { .. } => FileType::BlockDevice,
    }
}

/// A time as the standard library knows it. One that it cannot express becomes 1970.
pub fn system_time(time: Time) -> SystemTime {
    let whole = Duration::from_secs(time.secs.unsigned_abs());
    let base = if time.secs >= 0 { UNIX_EPOCH.checked_add(whole) } else { UNIX_EPOCH.checked_sub(whole) };
    base.and_then(|base| base.checked_add(Duration::from_nanos(u64::from(time.nanos)))).unwrap_or(UNIX_EPOCH)
}

/// A device number as the kernel takes it from a filesystem: 12 bits of major and 20 of minor, interleaved.
fn device_number(major: u32, minor: u32) -> u32 {
    (minor & 0xff) | ((major & 0xfff) << 8) | ((minor & 0xfff_ff00) << 12)
}

/// Units of 512 bytes that a file takes: whole pages of what is not a hole.
fn blocks(size: u64, holes: &[Hole]) -> u64 {
    let empty: u64 = holes.iter().map(|hole| hole.bytes).sum();
    size.saturating_sub(empty).div_ceil(u64::from(BLOCK_BYTES)) * u64::from(BLOCK_BYTES / 512)
}

/// Everything that `stat` says of a node, under this inode number.
pub fn of(node: &Node, ino: u64) -> FileAttr {
    let time = system_time(node.meta.mtime);
    let (size, blocks, nlink) = match &node.kind {
        Kind::File { size, holes, .. } => (*size, blocks(*size, holes), node.links),
        Kind::Folder { totals, .. } => {
            (FOLDER_BYTES, FOLDER_BYTES / 512, u32::try_from(totals.subfolders.saturating_add(2)).unwrap_or(1))
        }
        _ => (node.size(), 0, node.links),
    };
    let rdev = match node.kind {
        Kind::CharDevice { major, minor } | Kind::BlockDevice { major, minor } => device_number(major, minor),
        _ => 0,
    };
    FileAttr {
        ino: INodeNo(ino),
        size,
        blocks,
        atime: time,
        mtime: time,
        ctime: time,
        crtime: time,
        kind: file_type(&node.kind),
        perm: (node.meta.mode & 0o7777) as u16,
        nlink,
        uid: node.meta.uid,
        gid: node.meta.gid,
        rdev,
        blksize: BLOCK_BYTES,
        flags: 0,
    }
}

/// The first place at or behind `offset` that is data, or that is a hole; the end of the file counts as a hole. `None` where there is
/// none.
pub fn seek(size: u64, holes: &[Hole], offset: u64, wants_data: bool) -> Option<u64> {
    if offset >= size {
        return None;
    }
    let next = holes.iter().find(|hole| hole.start.saturating_add(hole.bytes) > offset);
    match (next, wants_data) {
        (Some(hole), true) if hole.start <= offset => {
            // Holes that touch are one.
            let end = hole.start + hole.bytes;
            if end >= size { None } else { seek(size, holes, end, true) }
        }
        (_, true) => Some(offset),
        (Some(hole), false) => Some(hole.start.max(offset)),
        (None, false) => Some(size),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_1970_and_absurd_ones_do_not_panic() {
        let early = system_time(Time { secs: -2, nanos: 800_000_000 });
        assert_eq!(UNIX_EPOCH.duration_since(early).unwrap(), Duration::from_millis(1200));
        for secs in [i64::MIN, i64::MAX] {
            system_time(Time { secs, nanos: 999_999_999 });
        }
    }

    #[test]
    fn device_numbers_are_packed_as_the_kernel_unpacks_them() {
        let packed = device_number(0x123, 0xabcde);
        assert_eq!(((packed & 0xfff00) >> 8, (packed & 0xff) | ((packed >> 12) & 0xfff00)), (0x123, 0xabcde));
    }

    #[test]
    fn seeking_finds_data_and_holes() {
        let holes = [Hole { start: 0, bytes: 4096 }, Hole { start: 4096, bytes: 4096 }, Hole { start: 16384, bytes: 4096 }];
        assert_eq!(seek(20480, &holes, 0, true), Some(8192));
        assert_eq!(seek(20480, &holes, 0, false), Some(0));
        assert_eq!(seek(20480, &holes, 9000, false), Some(16384));
        assert_eq!(seek(20480, &holes, 17000, true), None);
        assert_eq!(seek(30000, &holes, 17000, true), Some(20480));
        assert_eq!(seek(30000, &holes, 25000, false), Some(30000));
        assert_eq!(seek(30000, &holes, 30000, false), None);
    }
}
