//! A plan in numbers.

use schemars::JsonSchema;
use serde::Serialize;

use super::table::Action;
use crate::tree::{Kind, Node};

/// Numbers of what a restore does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Counts {
    /// Files that are written, whether they are there yet or not.
    pub files: u64,
    /// Of these, files that are not there yet.
    pub files_created: u64,
    /// Folders that are not there yet.
    pub folders_created: u64,
    /// Symlinks, fifos, sockets and devices that are not there yet.
    pub others_created: u64,
    /// Entries with other content, or of another type.
    pub replaced: u64,
    /// Entries of which only the metadata differs.
    pub metadata_changed: u64,
    /// Entries that the checkpoint does not have and that go, with all that is in them.
    pub deleted: u64,
    /// Entries that the checkpoint does not have and that stay.
    pub kept: u64,
    /// Entries that capture left out, and that stay.
    pub spared: u64,
    /// Mounts that the checkpoint does not have, and that stay.
    pub mounted: u64,
    /// Entries, other than folders, that are as they should be.
    pub unchanged: u64,
    /// Names that are only joined to another file.
    pub linked: u64,
    /// Bytes of the files that are written.
    pub bytes: u64,
}

impl Counts {
    /// Counts what is done with one entry.
    pub(super) fn add(&mut self, action: Action, node: &Node) {
        if action == Action::Meta {
            self.metadata_changed += 1;
            return;
        }
        match (action, &node.kind) {
            (Action::Create, Kind::File { .. }) => self.files_created += 1,
            (Action::Create, _) => self.others_created += 1,
            _ => self.replaced += 1,
        }
        if let Kind::File { size, .. } = &node.kind {
            self.files += 1;
            self.bytes = self.bytes.saturating_add(*size);
        }
    }

    /// Takes back what was counted for an entry that is joined to another instead, or not made.
    pub(super) fn take(&mut self, action: Action, node: &Node) {
        match action {
            Action::Meta => self.metadata_changed = self.metadata_changed.saturating_sub(1),
            Action::Create => match &node.kind {
                Kind::File { .. } => self.files_created = self.files_created.saturating_sub(1),
                _ => self.others_created = self.others_created.saturating_sub(1),
            },
            _ => self.replaced = self.replaced.saturating_sub(1),
        }
        if let (true, Kind::File { size, .. }) = (action != Action::Meta, &node.kind) {
            self.files = self.files.saturating_sub(1);
            self.bytes = self.bytes.saturating_sub(*size);
        }
    }

    /// True if nothing is made, changed or removed, and nothing is as it should be.
    pub fn is_nothing(&self) -> bool {
        let made = [self.files, self.folders_created, self.others_created, self.replaced, self.linked];
        let rest = [self.metadata_changed, self.deleted, self.unchanged];
        made.into_iter().chain(rest).all(|count| count == 0)
    }

    pub(super) fn merge(&mut self, other: &Counts) {
        self.files += other.files;
        self.files_created += other.files_created;
        self.folders_created += other.folders_created;
        self.others_created += other.others_created;
        self.replaced += other.replaced;
        self.metadata_changed += other.metadata_changed;
        self.deleted += other.deleted;
        self.kept += other.kept;
        self.spared += other.spared;
        self.mounted += other.mounted;
        self.unchanged += other.unchanged;
        self.linked += other.linked;
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}

/// A plan in short.
#[derive(Clone, Debug)]
pub struct Summary {
    /// Path of the target as text; what is not UTF-8 in it is replaced.
    pub target: String,
    /// Id of the checkpoint, a ULID.
    pub checkpoint: String,
    /// True if an existing folder is changed.
    pub in_place: bool,
    /// Counts of what is done.
    pub counts: Counts,
}

/// Change at one path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RestoreChange {
    /// It is made.
    Create,
    /// It gets other content, or becomes another type.
    Replace,
    /// It gets other metadata.
    Metadata,
    /// It becomes another name of a file.
    Link,
    /// It goes, with all that is in it.
    Delete,
    /// Of what is in it, some goes. It stays for the rest.
    Empty,
    /// It stays, though the checkpoint does not have it.
    Keep,
}
