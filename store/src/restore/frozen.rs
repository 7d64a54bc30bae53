//! Entries that nobody may change, root neither, because of their inode's flags (`chattr +i`, `chattr +a`): they stay as they are, and are named.

use std::os::fd::BorrowedFd;

use rustix::fs::{AtFlags, StatxAttributes, StatxFlags};

/// The flag that holds an entry. Of a folder it holds what is in it, too: an entry gets its name by a rename, which both forbid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frozen {
    /// It cannot be changed at all.
    Immutable,
    /// It can only grow.
    AppendOnly,
}

impl Frozen {
    /// Looks at an entry of an open folder, or with an empty name at the folder itself. A filesystem without such flags holds nothing.
    pub fn of(folder: BorrowedFd<'_>, name: &[u8]) -> Option<Self> {
        let flags = AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW;
        let found = rustix::fs::statx(folder, name, flags, StatxFlags::empty()).ok()?.stx_attributes;
        match () {
            () if found.contains(StatxAttributes::IMMUTABLE) => Some(Frozen::Immutable),
            () if found.contains(StatxAttributes::APPEND) => Some(Frozen::AppendOnly),
            () => None,
        }
    }

    /// The reason for which an entry stays that has it.
    pub fn reason(self) -> &'static str {
        match self {
            Frozen::Immutable => "it is immutable (`chattr -i` lets it be changed)",
            Frozen::AppendOnly => "it is append-only (`chattr -a` lets it be changed)",
        }
    }

    /// The reason for which an entry stays, or is not made, whose folder has it.
    pub fn reason_inside(self) -> &'static str {
        match self {
            Frozen::Immutable => "its folder is immutable (`chattr -i` lets it be changed)",
            Frozen::AppendOnly => "its folder is append-only (`chattr -a` lets it be changed)",
        }
    }

    /// The reason for which something stays that has it, or holds something which has it, or is in a folder that has.
    pub fn reason_around(self) -> &'static str {
        match self {
            Frozen::Immutable => "it, or something in it, is immutable (`chattr -R -i` lets it be removed)",
            Frozen::AppendOnly => "it, or something in it, is append-only (`chattr -R -a` lets it be removed)",
        }
    }
}
