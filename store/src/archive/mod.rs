//! Archives: a checkpoint as a `.tar.zst` that GNU tar reads, and back.
//!
//! Everything that tar has no place for (the sealed record, sockets, omissions, link counts) stands in `comment` records of PAX
//! headers, which every reader passes over in silence. `docs/cli.md` lists them.

mod acl;
mod export;
pub mod import;
mod member;
mod pax;
mod reader;
mod source;
#[cfg(test)]
mod tests;

pub use export::{ExportReport, export};

/// First bytes of every `comment` record that is ours.
pub(crate) const COMMENT_PREFIX: &str = "parhelia:";

/// Keys of our `comment` records, behind [`COMMENT_PREFIX`] and before `=`.
pub(crate) mod key {
    /// Global: version of what stands in these records.
    pub(crate) const VERSION: &str = "version";
    /// Global: the sealed record, byte for byte.
    pub(crate) const RECORD: &str = "record";
    /// Global: the list of omissions, in hex; in several parts where it is long.
    pub(crate) const OMITTED: &str = "omitted";
    /// Global: the list of entries without some of their attributes, in the same form.
    pub(crate) const ATTRIBUTES: &str = "attributes";
    /// Global: a socket: path, path of its group's first member or nothing, node; in hex.
    pub(crate) const SOCKET: &str = "socket";
    /// Of a member: its link count.
    pub(crate) const LINKS: &str = "links";
}

/// Version of the `comment` records that this release writes.
pub(crate) const ARCHIVE_VERSION: &str = "1";
