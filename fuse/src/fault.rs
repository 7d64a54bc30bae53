//! Failures of one request, and the one table from them to errno.

use fuser::Errno;
use parhelia_store::Error;

/// A reason why a request fails.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// There is no entry of this name.
    #[error("no such entry")]
    NoEntry,
    /// The entry that the kernel still knows by this inode is gone.
    #[error("the checkpoint is gone")]
    Stale,
    /// Only a folder can be asked this.
    #[error("not a folder")]
    NotAFolder,
    /// Only a file can be asked this.
    #[error("a folder")]
    IsAFolder,
    /// The request makes no sense for this kind of entry.
    #[error("invalid")]
    Invalid,
    /// There is no such extended attribute.
    #[error("no such attribute")]
    NoAttribute,
    /// The caller's buffer is too small.
    #[error("buffer too small")]
    TooSmall,
    /// There is nothing from this offset on.
    #[error("past the end")]
    PastEnd,
    /// The store could not be read, or has damage.
    #[error(transparent)]
    Store(#[from] Error),
}

impl Fault {
    /// The errno of the fault.
    pub fn errno(&self) -> Errno {
        match self {
            Fault::NoEntry => Errno::ENOENT,
            Fault::Stale => Errno::ESTALE,
            Fault::NotAFolder => Errno::ENOTDIR,
            Fault::IsAFolder => Errno::EISDIR,
            Fault::Invalid => Errno::EINVAL,
            Fault::NoAttribute => Errno::NO_XATTR,
            Fault::TooSmall => Errno::ERANGE,
            Fault::PastEnd => Errno::ENXIO,
            Fault::Store(e) => of_store(e),
        }
    }
}

/// Every failure of the store is an I/O error to a reader, but for those that trying again can cure.
fn of_store(error: &Error) -> Errno {
    match error {
        Error::At { source, .. } => of_store(source),
        Error::NoSuchPath { .. } => Errno::ENOENT,
        Error::NoCheckpoint { .. } => Errno::ESTALE,
        Error::Io { source, .. } => match source.raw_os_error().map(Errno::from_i32) {
            Some(e) if [Errno::ENOMEM, Errno::EMFILE, Errno::ENFILE, Errno::EINTR].contains(&e) => e,
            _ => Errno::EIO,
        },
        _ => Errno::EIO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_is_an_io_error_and_never_an_absence() {
        let missing_pack =
            Error::Io { action: "open pack", path: "p".into(), source: std::io::Error::from_raw_os_error(Errno::ENOENT.code()) };
        assert_eq!(Fault::from(missing_pack).errno(), Errno::EIO);
        let corrupt = Error::Corrupt { what: "block".into(), place: "p".into(), reason: "crc".into() };
        assert_eq!(Fault::from(corrupt.at(b"a/b")).errno(), Errno::EIO);
        let busy =
            Error::Io { action: "open pack", path: "p".into(), source: std::io::Error::from_raw_os_error(Errno::EMFILE.code()) };
        assert_eq!(Fault::from(busy).errno(), Errno::EMFILE);
    }
}
