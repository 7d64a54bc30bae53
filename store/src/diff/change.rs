//! Descriptions of one entry that differs, and of all of them together.

use std::mem::discriminant;

use schemars::JsonSchema;
use serde::Serialize;

use crate::tree::{Hole, Kind, Node};

/// Metadata fields of an entry that differ: a small set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fields(u8);

impl Fields {
    /// Permission bits.
    pub const MODE: Fields = Fields(1);
    /// Owner or group.
    pub const OWNER: Fields = Fields(2);
    /// Time of last modification.
    pub const MTIME: Fields = Fields(4);
    /// Extended attributes, ACLs among them.
    pub const XATTRS: Fields = Fields(8);
    /// The number of hard links.
    pub const LINKS: Fields = Fields(16);
    /// The holes of a file.
    pub const HOLES: Fields = Fields(32);

    /// The fields in which two entries differ. Holes belong to files: they count where both are files.
    pub fn between(old: &Node, new: &Node) -> Fields {
        let (a, b) = (&old.meta, &new.meta);
        let holes = matches!((holes(old), holes(new)), (Some(a), Some(b)) if a != b);
        [
            (a.mode != b.mode, Fields::MODE),
            (a.uid != b.uid || a.gid != b.gid, Fields::OWNER),
            (a.mtime != b.mtime, Fields::MTIME),
            (a.xattrs != b.xattrs, Fields::XATTRS),
            (old.links != new.links, Fields::LINKS),
            (holes, Fields::HOLES),
        ]
        .into_iter()
        .filter(|(differs, _)| *differs)
        .fold(Fields::default(), |all, (_, field)| Fields(all.0 | field.0))
    }

    /// True if no field differs.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// True if all of `other` are among these.
    pub fn contains(self, other: Fields) -> bool {
        self.0 & other.0 == other.0
    }

    /// Their names, as `--json` gives them.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        [
            (Fields::MODE, "mode"),
            (Fields::OWNER, "owner"),
            (Fields::MTIME, "mtime"),
            (Fields::XATTRS, "xattrs"),
            (Fields::LINKS, "links"),
            (Fields::HOLES, "holes"),
        ]
        .into_iter()
        .filter(move |(field, _)| self.contains(*field))
        .map(|(_, name)| name)
    }
}

fn holes(node: &Node) -> Option<&[Hole]> {
    match &node.kind {
        Kind::File { holes, .. } => Some(holes),
        _ => None,
    }
}

/// In what way an entry differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// Only the new side has it.
    Added,
    /// Only the old side has it.
    Deleted,
    /// A file's bytes, a symlink's target or a device's number differ; its metadata may, too.
    Modified,
    /// Only these metadata differ.
    Metadata(Fields),
    /// One side has a file where the other has a folder, say.
    TypeChanged,
    /// A file with the same bytes was deleted elsewhere; its metadata may differ.
    Renamed {
        /// Its path on the old side.
        from: Vec<u8>,
    },
}

impl ChangeKind {
    /// The letter by which lists show it, as git has them; `m` for metadata alone.
    pub fn letter(&self) -> char {
        match self {
            ChangeKind::Added => 'A',
            ChangeKind::Deleted => 'D',
            ChangeKind::Modified => 'M',
            ChangeKind::Metadata(_) => 'm',
            ChangeKind::TypeChanged => 'T',
            ChangeKind::Renamed { .. } => 'R',
        }
    }

    /// Difference of an entry that both sides have at one path; `None` where it does not differ, folders' entries aside.
    pub(super) fn between(old: &Node, new: &Node, folder_times: bool) -> Option<ChangeKind> {
        if discriminant(&old.kind) != discriminant(&new.kind) {
            return Some(ChangeKind::TypeChanged);
        }
        let is_folder = old.as_folder().is_some();
        let is_equal = match (&old.kind, &new.kind) {
            (Kind::File { size: a, blob: x, .. }, Kind::File { size: b, blob: y, .. }) => a == b && x == y,
            (a, b) => is_folder || a == b,
        };
        if !is_equal {
            return Some(ChangeKind::Modified);
        }
        let fields = Fields::between(old, new);
        let is_silent = fields.is_empty() || is_folder && fields == Fields::MTIME && !folder_times;
        (!is_silent).then_some(ChangeKind::Metadata(fields))
    }

    /// The kind's name, as `--json` and messages give it.
    pub fn name(&self) -> &'static str {
        match self {
            ChangeKind::Added => "added",
            ChangeKind::Deleted => "deleted",
            ChangeKind::Modified => "modified",
            ChangeKind::Metadata(_) => "metadata",
            ChangeKind::TypeChanged => "type-changed",
            ChangeKind::Renamed { .. } => "renamed",
        }
    }
}

/// One entry that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeChange {
    /// Its path from the compared folders, on the new side unless it was deleted; empty for these folders themselves.
    pub path: Vec<u8>,
    /// In what way it differs.
    pub kind: ChangeKind,
    /// The entry on the old side.
    pub old: Option<Node>,
    /// The entry on the new side.
    pub new: Option<Node>,
}

impl TreeChange {
    /// Its path on the old side: another one only if it was renamed.
    pub fn old_path(&self) -> &[u8] {
        match &self.kind {
            ChangeKind::Renamed { from } => from,
            _ => &self.path,
        }
    }

    /// Metadata fields that differ; none for what only one side has.
    pub fn fields(&self) -> Fields {
        match (&self.old, &self.new) {
            (Some(old), Some(new)) => Fields::between(old, new),
            _ => Fields::default(),
        }
    }
}

/// Numbers of entries that differ between two checkpoints, by kind of change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Changes")]
pub struct Summary {
    /// Entries that only the new side has.
    pub added: u64,
    /// Entries that only the old side has.
    pub deleted: u64,
    /// Entries with other content.
    pub modified: u64,
    /// Files that are elsewhere.
    pub renamed: u64,
    /// Entries of another type.
    pub type_changed: u64,
    /// Entries with other metadata and the same content.
    pub metadata: u64,
    /// Bytes of files that came, and by which files grew.
    pub bytes_added: u64,
    /// Bytes of files that went, and by which files shrank.
    pub bytes_removed: u64,
}

impl Summary {
    /// The summary of these changes.
    pub fn of<'a>(changes: impl IntoIterator<Item = &'a TreeChange>) -> Self {
        let mut summary = Summary::default();
        changes.into_iter().for_each(|change| summary.add(change));
        summary
    }

    /// Counts one change.
    pub fn add(&mut self, change: &TreeChange) {
        *match change.kind {
            ChangeKind::Added => &mut self.added,
            ChangeKind::Deleted => &mut self.deleted,
            ChangeKind::Modified => &mut self.modified,
            ChangeKind::Metadata(_) => &mut self.metadata,
            ChangeKind::TypeChanged => &mut self.type_changed,
            ChangeKind::Renamed { .. } => &mut self.renamed,
        } += 1;
        let (old, new) = (file_bytes(change.old.as_ref()), file_bytes(change.new.as_ref()));
        // A forged tree can name sizes that no sum holds.
        self.bytes_added = self.bytes_added.saturating_add(new.saturating_sub(old));
        self.bytes_removed = self.bytes_removed.saturating_add(old.saturating_sub(new));
    }

    /// The number of changes.
    pub fn changes(&self) -> u64 {
        self.added + self.deleted + self.modified + self.metadata + self.type_changed + self.renamed
    }
}

fn file_bytes(node: Option<&Node>) -> u64 {
    match node.map(|node| &node.kind) {
        Some(Kind::File { size, .. }) => *size,
        _ => 0,
    }
}
