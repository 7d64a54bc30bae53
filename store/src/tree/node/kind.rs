//! Kinds of entries.

use rustix::fs::FileType;

use super::totals::Totals;
use crate::{
    id::{BlobId, TreeId},
    meta::Hole,
    sys::Stat,
};

/// Type of a node, with the fields of that type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file, whose content is a blob.
    File {
        /// Its length in bytes.
        size: u64,
        /// Its content; [`BlobId::EMPTY`] for an empty file.
        blob: BlobId,
        /// Its holes, in order.
        holes: Vec<Hole>,
    },
    /// A folder, whose entries are a tree of their own.
    Folder {
        /// Id of the tree with its entries.
        tree: TreeId,
        /// Sums over what is in it.
        totals: Totals,
    },
    /// A symbolic link.
    Symlink {
        /// Its target, byte for byte.
        target: Vec<u8>,
    },
    /// A named pipe.
    Fifo,
    /// A Unix socket; only its name and metadata are kept.
    Socket,
    /// A device that is read as bytes, such as a terminal.
    CharDevice {
        /// Number of the driver: the major part of `st_rdev`.
        major: u32,
        /// Number of the device at its driver: the minor part of `st_rdev`.
        minor: u32,
    },
    /// A device that is read in blocks, such as a disk.
    BlockDevice {
        /// Number of the driver: the major part of `st_rdev`.
        major: u32,
        /// Number of the device at its driver: the minor part of `st_rdev`.
        minor: u32,
    },
}

impl Kind {
    pub(super) fn number(&self) -> u8 {
        match self {
            Kind::File { .. } => 0,
            Kind::Folder { .. } => 1,
            Kind::Symlink { .. } => 2,
            Kind::Fifo => 3,
            Kind::Socket => 4,
            Kind::CharDevice { .. } => 5,
            Kind::BlockDevice { .. } => 6,
        }
    }

    /// The kind's name, as `--json` and messages give it.
    pub fn name(&self) -> &'static str {
        ["file", "folder", "symlink", "fifo", "socket", "char-device", "block-device"][usize::from(self.number())]
    }
}

impl Stat {
    /// The kind of an entry that is neither file, folder nor symlink.
    pub fn special_kind(&self) -> Option<Kind> {
        let (major, minor) = (rustix::fs::major(self.rdev), rustix::fs::minor(self.rdev));
        match self.file_type() {
            FileType::Fifo => Some(Kind::Fifo),
            FileType::Socket => Some(Kind::Socket),
            FileType::CharacterDevice => Some(Kind::CharDevice { major, minor }),
            FileType::BlockDevice => Some(Kind::BlockDevice { major, minor }),
            _ => None,
        }
    }
}
