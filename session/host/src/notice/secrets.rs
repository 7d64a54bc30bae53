//! Notices of scans for secrets.

use parhelia_store::id::Ulid;

use super::words::{count, some_of, was};

/// The outcome of a scan that somebody should know of.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Secrets {
    /// A new checkpoint has texts that look like credentials.
    #[error("checkpoint {checkpoint} has {}: {}; they are in it, and were not removed", count(*found, "possible secret"), some_of(*found, first))]
    Found {
        /// Id of the checkpoint that has them.
        checkpoint: Ulid,
        /// Their number.
        found: u64,
        /// The first of them, each as path, line and rule.
        first: Vec<String>,
    },
    /// Files were left out of a new checkpoint because of possible secrets.
    #[error("checkpoint {checkpoint} leaves out {} with possible secrets: {}", count(*files, "file"), some_of(*files, first))]
    LeftOut {
        /// Id of the checkpoint that lacks the files.
        checkpoint: Ulid,
        /// Their number.
        files: u64,
        /// The first of them, each as path, rule and line.
        first: Vec<String>,
    },
    /// Not all of a new checkpoint could be scanned for secrets.
    #[error("{} of checkpoint {checkpoint} not scanned for secrets, as that took too long or was interrupted", was(*files, "new file"))]
    NotScanned {
        /// Id of the checkpoint that was scanned in part.
        checkpoint: Ulid,
        /// The number of its files that were not.
        files: u64,
    },
}
