//! Read-only filesystems: the kernel's questions in this crate's terms, which [`crate::kernel::requests`] translates, and the two
//! filesystems that answer them: one checkpoint, and the whole store.

pub mod checkpoint;
mod entry;
pub mod store;

use std::time::Duration;

use fuser::FileAttr;

use crate::{fault::Fault, readahead::Source};

/// A time as good as for ever: what a checkpoint holds never changes.
pub const FOREVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// The part of the kernel's repertoire that a filesystem needs. What it does not need is declined once, and then costs nothing.
#[derive(Clone, Copy, Debug)]
pub struct Needs {
    /// Something may have extended attributes.
    pub xattrs: bool,
    /// Some file may have holes.
    pub holes: bool,
    /// Some folder's list may change.
    pub fresh_folders: bool,
    /// ACLs decide who may read.
    pub acls: bool,
}

/// An entry as the kernel is told of it.
#[derive(Clone, Copy, Debug)]
pub struct EntryReply {
    /// The answer of `stat`.
    pub attr: FileAttr,
    /// For how long the kernel need not ask again, neither for this nor for the name.
    pub ttl: Duration,
    /// Tells what has the inode number from what had it in another mount of the same store. The kernel keeps 32 bits.
    pub generation: u32,
}

/// Something that the kernel was told, and that is not so any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Invalidation {
    /// The answer of `stat`, and the list, of an inode.
    Inode(u64),
    /// The entry behind a name in a folder, which is given by inode number.
    Name(u64, Vec<u8>),
}

/// One line of a folder's list.
#[derive(Clone, Copy, Debug)]
pub struct Line<'a> {
    /// Name of the entry in the folder, byte for byte.
    pub name: &'a [u8],
    /// The entry.
    pub shown: EntryReply,
    /// From where the list goes on behind this line.
    pub next: u64,
}

/// Sums for `statfs`.
#[derive(Clone, Copy, Debug)]
pub struct Space {
    /// Bytes that are shown.
    pub bytes: u64,
    /// Entries that are shown.
    pub entries: u64,
}

/// A read-only filesystem.
pub trait ReadOnlyFilesystem: Source {
    /// The part of the kernel's repertoire that it needs.
    fn needs(&self) -> Needs;
    /// The entry of a folder with this name, or for how long it may be taken for absent.
    fn lookup(&self, folder: u64, name: &[u8]) -> Result<Result<EntryReply, Duration>, Fault>;
    /// An entry by its inode number.
    fn attr(&self, ino: u64) -> Result<EntryReply, Fault>;
    /// Calls `visit` with the lines of a folder from a place on (0: the first), until it answers false.
    fn list(&self, ino: u64, from: u64, visit: &mut dyn FnMut(Line<'_>) -> bool) -> Result<(), Fault>;
    /// A symlink's target.
    fn readlink(&self, ino: u64) -> Result<Vec<u8>, Fault>;
    /// The next place that is data, or that is a hole.
    fn seek(&self, ino: u64, offset: u64, wants_data: bool) -> Result<u64, Fault>;
    /// The value of an extended attribute.
    fn xattr(&self, ino: u64, name: &[u8]) -> Result<Vec<u8>, Fault>;
    /// The names of all extended attributes, each with a zero byte behind it.
    fn xattr_names(&self, ino: u64) -> Result<Vec<u8>, Fault>;
    /// Sums over all that is shown.
    fn space(&self) -> Result<Space, Fault>;
    /// An entry's path, for messages.
    fn path(&self, ino: u64) -> String;
    /// Keeps its caches within one of so many equal shares.
    fn share(&self, _shares: u64) {}
    /// Takes in what is new, and returns what the kernel was told and is not so any more.
    fn outdated(&self) -> Result<Vec<Invalidation>, Fault> {
        Ok(Vec::new())
    }
}
