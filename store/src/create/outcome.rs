//! The result of a capture.

use super::{commit::CommitReport, walk::WalkOutcome};
use crate::{omitted::Omission, record::Checkpoint};

/// Result of a capture.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The new checkpoint; with `skip_if_unchanged`, the session's head where nothing had changed.
    pub checkpoint: Checkpoint,
    /// Nothing had changed, and nothing was committed.
    pub skipped: bool,
    /// Entries that were left out.
    pub omissions: Vec<Omission>,
    /// Files whose content was read.
    pub files_read: u64,
    /// Number of bytes that were read of these files.
    pub bytes_read: u64,
    /// Raw bytes of objects that the store did not have.
    pub new_bytes: u64,
    /// Bytes that its packs take.
    pub stored_bytes: u64,
    /// Time that the writer lock was held, in milliseconds.
    pub lock_held_ms: u64,
    /// Notices for the caller.
    pub notices: Vec<String>,
}

impl Outcome {
    pub(super) fn committed(committed: CommitReport, omissions: Vec<Omission>, read: (u64, u64), notices: Vec<String>) -> Self {
        Outcome {
            checkpoint: committed.checkpoint,
            skipped: false,
            omissions,
            files_read: read.0,
            bytes_read: read.1,
            new_bytes: committed.new_bytes,
            stored_bytes: committed.stored_bytes,
            lock_held_ms: committed.lock_held_ms,
            notices,
        }
    }

    /// The outcome of a run that found the session's head as it is.
    pub(super) fn unchanged(head: Checkpoint, walked: WalkOutcome) -> Self {
        Outcome {
            checkpoint: head,
            skipped: true,
            omissions: walked.omissions,
            files_read: walked.read.0,
            bytes_read: walked.read.1,
            new_bytes: 0,
            stored_bytes: 0,
            lock_held_ms: 0,
            notices: Vec::new(),
        }
    }
}
