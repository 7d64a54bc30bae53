//! The one table of errnos: what a failed call at an entry of a live tree says, and what follows from it.
//!
//! An errno is no evidence that an entry is gone. `ENOENT` is also the answer of a path through `/proc` where that is not mounted, and of
//! programs behind FUSE that mean something else. Only a second look says so: the name is neither found nor listed any more
//! ([`Recheck`]). Whatever cannot be told counts as there.

use std::{io, os::fd::BorrowedFd};

use rustix::io::Errno;

use crate::{
    error::Side,
    sys::{self, Stat},
};

/// The result of a second look at a name after a call at it has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// The entry is there, and looks like this.
    There(Stat),
    /// Its folder has no entry of this name any more.
    Gone,
    /// Its folder itself was removed, and with it this entry. Another folder may have taken its name.
    FolderGone,
    /// It cannot be told: it is listed, say, and not found.
    Unknown,
}

/// A second look at names of one folder. The folder is listed at most once for each time that this may change an answer.
#[derive(Debug, Default)]
pub struct Recheck {
    listed: Option<Vec<Vec<u8>>>,
}

impl Recheck {
    /// Looks at a name again, by its open folder.
    pub fn presence(&mut self, folder: BorrowedFd<'_>, name: &[u8]) -> Presence {
        match sys::stat_at(folder, name) {
            Ok(stat) => Presence::There(stat),
            Err(Errno::NOENT) => self.absence(folder, name),
            Err(_) => Presence::Unknown,
        }
    }

    /// Looks for a name that is not found in a listing that is younger than the one it came from.
    fn absence(&mut self, folder: BorrowedFd<'_>, name: &[u8]) -> Presence {
        let has = |names: &[Vec<u8>]| names.binary_search_by(|listed| listed.as_slice().cmp(name)).is_ok();
        if self.listed.as_deref().is_some_and(|names| !has(names)) {
            return Presence::Gone;
        }
        match sys::names_anew(folder) {
            Ok(names) => {
                let is_listed = has(&names);
                self.listed = Some(names);
                match is_listed {
                    false => Presence::Gone,
                    // It may have come back.
                    true => sys::stat_at(folder, name).map_or(Presence::Unknown, Presence::There),
                }
            }
            Err(Errno::NOENT) if sys::stat_fd(folder).is_ok_and(|stat| stat.links == 0) => Presence::FolderGone,
            Err(_) => Presence::Unknown,
        }
    }
}

/// Looks again at one name of an open folder.
pub fn presence(folder: BorrowedFd<'_>, name: &[u8]) -> Presence {
    Recheck::default().presence(folder, name)
}

/// Calls at an entry of a live tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Looks at it: `stat`, `open`, reading its names, its target or its bytes.
    Read,
    /// Reads its extended attributes.
    ReadAttributes,
    /// Makes, changes or removes it, or something in it.
    Change,
    /// Gives a file another name.
    Link,
}

/// What follows from a failed call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The entry is gone: it is not there, and is not named.
    Gone,
    /// The filesystem has nothing of the kind: no extended attributes, no hard links. What can be done without them is done.
    None,
    /// This entry is passed over and named; others go on.
    Skip,
    /// The call fails alike for all that comes next: the operation stops.
    Fatal,
}

/// The table.
pub fn verdict(call: Call, errno: Errno, presence: Presence) -> Verdict {
    match (call, errno, presence) {
        (Call::ReadAttributes, Errno::OPNOTSUPP | Errno::NOSYS, _) => Verdict::None,
        // By EXDEV, the two names are on different mounts.
        (Call::Link, Errno::PERM | Errno::MLINK | Errno::XDEV | Errno::OPNOTSUPP | Errno::NOSYS, _) => Verdict::None,
        (Call::Change | Call::Link, errno, _) if concerns_one(errno) => Verdict::Skip,
        // A full disk, a failing one, one that has become read-only, a target that is gone.
        (Call::Change | Call::Link, ..) => Verdict::Fatal,
        (_, _, Presence::Gone | Presence::FolderGone) => Verdict::Gone,
        _ => Verdict::Skip,
    }
}

/// True if a refused change says something of the one entry alone.
fn concerns_one(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::ACCESS
            | Errno::PERM
            | Errno::INVAL
            | Errno::ILSEQ
            | Errno::NAMETOOLONG
            | Errno::OPNOTSUPP
            | Errno::NOSYS
            | Errno::XDEV
            | Errno::BUSY
            | Errno::TXTBSY
            | Errno::FBIG
            | Errno::NODEV
            | Errno::NXIO
            | Errno::OVERFLOW
    )
}

/// True if a filesystem has said that it gives a file no other name.
pub fn has_no_links(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    errno.is_some_and(|errno| verdict(Call::Link, errno, Presence::Unknown) == Verdict::None)
}

/// True if a failed call says that stored bytes are gone or not what was written: never of a fault on another side than the store's, and never
/// of a want of permission, memory or file descriptors.
pub fn is_damage(side: Side, error: &io::Error) -> bool {
    side == Side::Store && matches!(Errno::from_io_error(error), Some(Errno::NOENT | Errno::IO))
}

#[cfg(test)]
mod tests {
    use std::{fs, os::fd::AsFd};

    use super::*;

    fn open(path: &std::path::Path) -> fs::File {
        fs::File::open(path).unwrap()
    }

    #[test]
    fn only_a_second_look_says_that_an_entry_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("folder");
        fs::create_dir(&path).unwrap();
        fs::write(path.join("here"), "x").unwrap();
        let folder = open(&path);
        let mut recheck = Recheck::default();
        assert!(matches!(recheck.presence(folder.as_fd(), b"here"), Presence::There(_)));
        assert_eq!(recheck.presence(folder.as_fd(), b"gone"), Presence::Gone);
        // The listing is older than this removal, and is not believed.
        fs::remove_file(path.join("here")).unwrap();
        assert_eq!(recheck.presence(folder.as_fd(), b"here"), Presence::Gone);
        fs::write(path.join("here"), "x").unwrap();
        assert!(matches!(recheck.presence(folder.as_fd(), b"here"), Presence::There(_)));
        fs::remove_dir_all(&path).unwrap();
        assert_eq!(presence(folder.as_fd(), b"here"), Presence::FolderGone);
        let file = open(std::path::Path::new("/proc/self/stat"));
        assert_eq!(presence(file.as_fd(), b"x"), Presence::Unknown);
    }

    #[test]
    fn an_errno_alone_takes_nothing_out_of_a_tree() {
        let there = Presence::There(sys::stat_fd(open(std::path::Path::new("/"))).unwrap());
        for errno in [Errno::NOENT, Errno::NOTDIR, Errno::STALE, Errno::IO, Errno::ACCESS, Errno::NOTCONN] {
            for presence in [there, Presence::Unknown] {
                assert_eq!(verdict(Call::Read, errno, presence), Verdict::Skip, "{errno}");
                assert_eq!(verdict(Call::ReadAttributes, errno, presence), Verdict::Skip, "{errno}");
            }
            assert_eq!(verdict(Call::Read, errno, Presence::Gone), Verdict::Gone, "{errno}");
        }
        assert_eq!(verdict(Call::ReadAttributes, Errno::OPNOTSUPP, there), Verdict::None);
        assert_eq!(verdict(Call::Link, Errno::XDEV, there), Verdict::None);
        for errno in [Errno::NOSPC, Errno::IO, Errno::ROFS, Errno::NOENT] {
            assert_eq!(verdict(Call::Change, errno, Presence::Gone), Verdict::Fatal, "{errno}");
        }
        assert_eq!(verdict(Call::Change, Errno::BUSY, there), Verdict::Skip);
        assert_eq!(verdict(Call::Read, Errno::MFILE, there), Verdict::Skip);
    }

    #[test]
    fn only_the_store_can_be_damaged() {
        let error = |errno: Errno| io::Error::from(errno);
        assert!(is_damage(Side::Store, &error(Errno::IO)) && is_damage(Side::Store, &error(Errno::NOENT)));
        assert!(!is_damage(Side::Target, &error(Errno::IO)) && !is_damage(Side::Source, &error(Errno::NOENT)));
        assert!(!is_damage(Side::Store, &error(Errno::MFILE)) && !is_damage(Side::Store, &error(Errno::ACCESS)));
    }
}
