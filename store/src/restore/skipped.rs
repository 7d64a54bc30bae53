//! Entries that a restore did not make as they were, each with the reason.

/// Something that could not be made as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkippedEntry {
    /// Its path from the target.
    pub path: Vec<u8>,
    /// The cause.
    pub error: String,
    /// The kind of reason.
    pub why: Why,
}

/// A kind of reason for which something is not made as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// A system call or a read from the store failed.
    Failed,
    /// It would give privileges.
    Withheld,
    /// Its name was free by the plan, and somebody else has taken it since.
    Taken,
    /// It was changed since [`Options::since`](super::Options::since).
    Changed,
    /// It cannot be changed, made or removed here, and is not what the checkpoint has.
    Held,
    /// It stays on purpose, by itself or for what is in it: a mount, or what capture left out.
    Kept,
    /// It has the checkpoint's content, and its mode, owner, time or attributes cannot be set.
    HeldAlike,
}
