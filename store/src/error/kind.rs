//! Kinds of errors, by which a caller decides.

use std::io;

use super::{Error, Side};
use crate::errno;

/// Kinds of [`Error`], by what a caller should do about them; the command line's exit codes follow them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// Failed; look at the message.
    Failed,
    /// The request was wrong.
    Usage,
    /// The request makes sense, and a state is against it.
    Refused,
    /// No such store, checkpoint or path.
    NotFound,
    /// Locked by another process; try again.
    Locked,
    /// Stored bytes are damaged.
    Corrupt,
    /// Stopped on request.
    Cancelled,
}

impl Error {
    /// The class of this error.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::NoStore { .. }
            | Error::StoreMissing(_)
            | Error::NotAStore { .. }
            | Error::NoCheckpoint { .. }
            | Error::Ambiguous { .. }
            | Error::NoTag { .. }
            | Error::NoSuchPath { .. }
            | Error::NoSession { .. }
            | Error::AmbiguousSession { .. }
            | Error::NoRun { .. } => ErrorKind::NotFound,
            Error::Locked { .. } | Error::Raced { .. } | Error::TargetBusy { .. } => ErrorKind::Locked,
            Error::Corrupt { .. } | Error::Missing { .. } | Error::Index { .. } | Error::Archive { .. } | Error::Damage(_) => {
                ErrorKind::Corrupt
            }
            Error::At { source, .. } | Error::Beside { source, .. } => source.kind(),
            Error::Invalid(_) => ErrorKind::Usage,
            Error::Refused(_) | Error::Younger(_) | Error::TargetNotEmpty { .. } | Error::Fenced { .. } => ErrorKind::Refused,
            Error::Cancelled => ErrorKind::Cancelled,
            Error::Io { .. }
            | Error::NoMatch { .. }
            | Error::NoRoom { .. }
            | Error::NothingCaptured { .. }
            | Error::NotAnArchive { .. }
            | Error::FormatNewer { .. }
            | Error::NotOwner { .. }
            | Error::Overtaken { .. }
            | Error::Outdated(_)
            | Error::TooLong { .. }
            | Error::TooDeep { .. } => ErrorKind::Failed,
        }
    }

    /// True if the system said that the disk, or the user's share of it, is full.
    pub fn is_disk_full(&self) -> bool {
        use io::ErrorKind::{QuotaExceeded, StorageFull};
        match self {
            Error::At { source, .. } | Error::Beside { source, .. } => source.is_disk_full(),
            Error::Io { source, .. } => matches!(source.kind(), StorageFull | QuotaExceeded),
            Error::NoRoom { .. } => true,
            _ => false,
        }
    }

    /// True if bytes are gone or not what was written: another try would find the same. What cannot be read for another reason, such as
    /// want of permission, of memory or of file descriptors, may be whole. What fails on another side is no damage of the store's.
    pub fn is_damage(&self) -> bool {
        match self {
            Error::Beside { side, source } => *side == Side::Store && source.is_damage(),
            Error::Corrupt { .. } | Error::Missing { .. } => true,
            Error::At { source, .. } => source.is_damage(),
            Error::Io { source, .. } => source.kind() == io::ErrorKind::NotFound || errno::is_damage(Side::Store, source),
            _ => false,
        }
    }

    /// True if the system said that there is no such file.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Error::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}
