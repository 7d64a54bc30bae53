//! Sources of changes. The full walk is the source that needs nothing; others, such as an overlay's upper folder or a change feed,
//! make a checkpoint cost what changed.

/// Entries to look at in one folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Every entry.
    Everything,
    /// These entries, and what is below them as far as the source says so; all others are as the stat cache has them.
    Names(Vec<Vec<u8>>),
    /// Nothing: the folder and all below it are as the stat cache has them.
    Nothing,
}

impl Scope {
    /// True if the entry of this name has to be looked at.
    pub fn has(&self, entry_name: &[u8]) -> bool {
        match self {
            Scope::Everything => true,
            Scope::Names(changed) => changed.iter().any(|name| name == entry_name),
            Scope::Nothing => false,
        }
    }
}

/// Says what may have changed since the stat cache was written. It must not say less than what did; where the cache does not know a
/// folder, everything in it is looked at, whatever the source says.
///
/// Rules may go by git's index. One that lies outside the workspace folder, as that of a linked work tree does, is not in the source's
/// view: where it may have changed, the source says [`Scope::Everything`] of each folder.
pub trait Source: Sync {
    /// Entries to look at in the folder at this path (from the workspace folder; empty for that itself).
    fn scope(&self, folder: &[u8]) -> Scope;
}

/// The source that knows nothing: everything may have changed.
#[derive(Clone, Copy, Debug, Default)]
pub struct FullWalk;

impl Source for FullWalk {
    fn scope(&self, _folder: &[u8]) -> Scope {
        Scope::Everything
    }
}
