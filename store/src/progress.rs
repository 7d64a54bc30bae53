//! Progress: work tells its caller how far it is, and learns that it should stop.

/// Phases of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Walking and reading a workspace.
    Capture,
    /// Syncing and committing.
    Commit,
    /// Comparing a checkpoint with its target.
    Plan,
    /// Writing files.
    Restore,
    /// Re-reading what was written.
    Verify,
    /// Following references.
    Mark,
    /// Rewriting packs.
    Repack,
    /// Reading packs.
    Check,
    /// Reading or writing an archive.
    Archive,
    /// Reading checkpoints to find them by words. Of this phase, checkpoints are counted in place of files.
    Index,
}

/// Receives progress. All methods may be called from several threads at once, and must be quick.
pub trait Progress: Sync {
    /// A phase begins; its totals are given where they are known.
    fn phase(&self, _phase: Phase, _files_total: Option<u64>, _bytes_total: Option<u64>) {}
    /// More was done in this phase.
    fn advance(&self, _files: u64, _bytes: u64) {}
    /// Something that the user should know and that is no failure.
    fn notice(&self, _text: &str) {}
    /// Something that the user should know even where notices are not shown: the store is not what it should be.
    fn warning(&self, text: &str) {
        self.notice(text);
    }
    /// True to stop as soon as it is safe. The work then fails with [`crate::Error::Cancelled`].
    fn is_cancelled(&self) -> bool {
        false
    }
}

impl Progress for () {}

/// Fails with [`crate::Error::Cancelled`] when the caller asked to stop.
pub(crate) fn check(progress: &dyn Progress) -> crate::Result<()> {
    if progress.is_cancelled() { Err(crate::Error::Cancelled) } else { Ok(()) }
}
