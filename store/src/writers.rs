//! Files that somebody may change without leaving a new stamp.
//!
//! A store to a shared mapping moves a file's times when it first touches a page, and not again until that page is written back; a long
//! `write` moves them when it begins. So what was read of a file that is open for writing must be read again the next time. A file
//! that nobody has open for writing when it is read can only be changed by somebody who opens it later, which moves its times.
//!
//! Changes that remain unseen: mappings of a file that belongs to another user, or lies on an overlay, by a process that this user may not look
//! into; and changes by another machine that its server has not told of.

use std::{collections::HashSet, fs, os::fd::BorrowedFd, sync::OnceLock};

use crate::{
    clock,
    filesystem::Filesystem,
    kernel,
    sys::{self, Stat},
    tree::Time,
};

/// Finds out who may write to files. It looks at processes at most once.
#[derive(Debug, Default)]
pub struct Writers(OnceLock<MappedFiles>);

/// The files that were mapped shared and writable at a time.
#[derive(Debug)]
struct MappedFiles {
    /// Before the first process was looked at.
    at: Time,
    /// Their inode numbers. Devices are left out: btrfs and overlay show other ones here than `stat` does.
    inodes: HashSet<u64>,
    /// False where there is no `/proc` that could tell.
    is_known: bool,
}

impl Writers {
    /// True if a file, open for reading and about to be read, may change without a new stamp. `stat` is not older than the opening.
    pub fn may_change_unseen(&self, file: BorrowedFd<'_>, filesystem: &Filesystem, stat: &Stat) -> bool {
        match kernel::is_open_for_writing(file) {
            Ok(true) => true,
            Ok(false) if !filesystem.hides_mappings => false,
            // Another user's file, or a filesystem that cannot tell: only processes can be asked.
            Ok(false) | Err(_) => {
                let mapped = self.0.get_or_init(MappedFiles::now);
                !mapped.is_known || mapped.inodes.contains(&stat.ino) || clock::is_racy(stat.ctime, mapped.at)
            }
        }
    }
}

impl MappedFiles {
    fn now() -> Self {
        let at = clock::now();
        let mut inodes = HashSet::new();
        for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
            if process.file_name().as_encoded_bytes().iter().all(u8::is_ascii_digit) {
                // Gone by now, or another user's.
                let maps = fs::read(process.path().join("maps")).unwrap_or_default();
                inodes.extend(maps.split(|b| *b == b'\n').filter_map(mapped_inode));
            }
        }
        MappedFiles { at, inodes, is_known: sys::has_proc() }
    }
}

/// The inode of a line of `/proc/PID/maps`, if that is a shared writable mapping of a file.
fn mapped_inode(line: &[u8]) -> Option<u64> {
    let mut fields = line.split(|b| *b == b' ').filter(|field| !field.is_empty());
    let permissions = fields.nth(1)?;
    if permissions.get(1) != Some(&b'w') || permissions.get(3) != Some(&b's') {
        return None;
    }
    let inode = std::str::from_utf8(fields.nth(2)?).ok()?.parse().ok()?;
    (inode != 0).then_some(inode)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_shared_writable_mappings_of_files_count() {
        for (line, expected) in [
            ("7f1c2a000000-7f1c2a001000 rw-s 00000000 fe:00 1315842                    /w/data base", Some(1315842)),
            ("7f1c2a000000-7f1c2a001000 r--s 00000000 fe:00 1315842                    /w/data", None),
            ("7f1c2a000000-7f1c2a001000 rw-p 00000000 fe:00 1315842                    /w/data", None),
            ("7f1c2a000000-7f1c2a001000 rw-s 00000000 00:00 0", None),
            ("", None),
        ] {
            assert_eq!(mapped_inode(line.as_bytes()), expected, "{line}");
        }
    }
}
