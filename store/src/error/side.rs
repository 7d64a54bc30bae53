//! The side on which an error happened.

use std::{io, path::Path};

use rustix::io::Errno;

use super::{Error, Result};

/// The places that an operation works on. A file that is missing, or a disk that fails, means damage on one of them alone: the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The store: packs, journal, index.
    Store,
    /// The folder that is captured.
    Source,
    /// The folder that is restored to.
    Target,
}

impl Error {
    /// The side that failed: the store, unless the error says otherwise.
    pub fn side(&self) -> Side {
        match self {
            Error::Beside { side, .. } => *side,
            Error::At { source, .. } => source.side(),
            _ => Side::Store,
        }
    }

    /// The same error, of this side.
    pub fn of(self, side: Side) -> Self {
        match self {
            Error::Cancelled => self,
            other => Error::Beside { side, source: Box::new(other) },
        }
    }

    /// The system's answer behind an error of the target; none for any other error.
    pub(crate) fn target_errno(&self) -> Option<Errno> {
        match self {
            Error::At { source, .. } => source.target_errno(),
            Error::Beside { side: Side::Target, source } => match &**source {
                Error::Io { source, .. } => source.raw_os_error().map(Errno::from_raw_os_error),
                _ => None,
            },
            _ => None,
        }
    }
}

/// Adds to a system error of the target what was being done, and to what.
pub(crate) trait TargetContext<T> {
    fn at_target(self, action: &'static str, path: impl AsRef<Path>) -> Result<T>;
}

impl<T, E: Into<io::Error>> TargetContext<T> for std::result::Result<T, E> {
    fn at_target(self, action: &'static str, path: impl AsRef<Path>) -> Result<T> {
        self.map_err(|source| Error::Io { action, path: path.as_ref().to_owned(), source: source.into() }.of(Side::Target))
    }
}
