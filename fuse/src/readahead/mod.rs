//! Readahead: programs that go through a tree find what comes next decoded, or in the kernel's page cache.

pub mod access_hints;
pub mod blocks;
pub mod decode;
pub mod page_cache;

use crate::fault::Fault;

/// An entry of a tree, as readahead sees it.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Its place in the order of lists: its inode number, if it is no hard link.
    pub at: u64,
    /// Its inode number.
    pub ino: u64,
    /// Its length; 0 for anything but a file.
    pub bytes: u64,
}

/// A set of entries, as seen from an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Those directly in this folder.
    Inside,
    /// Those behind this file, directly in the same folder.
    Beside,
    /// All those behind this entry, in whatever folder; of a folder, those inside come first.
    Behind,
}

/// The way on after an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// With the next one.
    On,
    /// Behind the folder that it is in.
    SkipFolder,
    /// Not at all.
    Stop,
}

/// The files that readahead is for.
pub trait Source: Send + Sync + 'static {
    /// Calls `visit` with each entry of a scope, in order.
    fn entries(&self, ino: u64, scope: Scope, visit: &mut dyn FnMut(Entry) -> Next) -> Result<(), Fault>;
    /// Decodes the block that holds a small file.
    fn prefetch(&self, ino: u64) -> Result<(), Fault>;
    /// Calls `take` at most once, with the content of a file at `offset`, at most `bytes` long.
    fn read(&self, ino: u64, offset: u64, bytes: u64, take: &mut dyn FnMut(&[u8])) -> Result<(), Fault>;
    /// Bytes of decoded blocks that the cache keeps at present.
    fn cache_bytes(&self) -> u64 {
        u64::MAX
    }
}
