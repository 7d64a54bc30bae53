//! A store that is not as its user has seen it: it goes less far, or is not there.

use std::{fmt, os::unix::ffi::OsStrExt, path::PathBuf};

use parhelia_name::{self as name, step::Step};

/// A store that does not go as far as it did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Younger {
    /// The store.
    pub path: PathBuf,
    /// The journal's last entry.
    pub sequence: u64,
    /// The last entry that was seen.
    pub seen_sequence: u64,
    /// The time at which that was seen.
    pub seen_at: String,
    /// The fate of the filesystem that it was on then, where that is told.
    pub lost: Option<String>,
}

impl fmt::Display for Younger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Younger { path, sequence, seen_sequence, seen_at, lost } = self;
        let path = name::display(path.as_os_str().as_bytes());
        match sequence < seen_sequence {
            true => {
                write!(f, "the store at {path} goes up to journal entry {sequence}, and went up to {seen_sequence} on {seen_at}")?
            }
            false => {
                write!(f, "the store at {path} has another journal than on {seen_at}, when it went up to entry {seen_sequence}")?
            }
        }
        if let Some(lost) = lost {
            write!(f, "; {lost}")?;
        }
        write!(
            f,
            ": an older copy seems to be in its place\nIf its disk is not mounted, mount it. If this copy is to be the store from now on: {}",
            Step::AcceptOlder
        )
    }
}

/// A store that this user had at a place where there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingStore {
    /// The place.
    pub path: PathBuf,
    /// The last entry of its journal that was seen.
    pub seen_sequence: u64,
    /// The time at which that was seen.
    pub seen_at: String,
    /// The fate of the filesystem that it was on then, where that is told.
    pub lost: Option<String>,
}

impl fmt::Display for MissingStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let MissingStore { path, seen_sequence, seen_at, lost } = self;
        let path = name::display(path.as_os_str().as_bytes());
        write!(f, "no store at {path}, where one went up to journal entry {seen_sequence} on {seen_at}")?;
        if let Some(lost) = lost {
            write!(f, "; {lost}")?;
        }
        write!(
            f,
            "\nIf its disk is not mounted, mount it; {} names another place. If that store is gone for good, {} makes a new, empty one there",
            Step::StoreOption,
            Step::InitAnew
        )
    }
}
