//! Summaries of verbs about a whole store, and about archives.

use schemars::JsonSchema;
use serde::Serialize;

use crate::repository::{CheckReport, CollectionPlan, CollectionReport, Repair, Salvage};

/// The outcome of `check`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Check {
    /// True if a repair was only planned.
    pub dry_run: bool,
    /// True if nothing is damaged; of a planned repair, if nothing would be lost.
    pub ok: bool,
    /// Number of findings, those that were only counted included; null of a planned repair and of a salvage, which count what they look for themselves.
    pub findings: Option<u64>,
    /// Repair that was planned.
    pub repair: Option<Repair>,
    /// Salvage that was done.
    pub salvage: Option<Salvage>,
    /// Numbers of the check; not there if a repair was only planned.
    #[serde(flatten)]
    pub checked: Option<CheckReport>,
}

/// The outcome of `gc`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Collection {
    /// True if nothing was done.
    pub dry_run: bool,
    /// Plan of the collection, by which it is done.
    pub plan: CollectionPlan,
    /// Numbers of what was done; not there of a dry run.
    #[serde(flatten)]
    pub done: Option<CollectionReport>,
}

/// The outcome of `export`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ExportOutcome {
    /// The checkpoint.
    pub id: String,
    /// File that was written.
    pub output: String,
    /// Members of the archive.
    pub members: u64,
    /// Regular files among them, without hard links to one already written.
    pub files: u64,
    /// Length of these files in bytes, holes included.
    pub bytes: u64,
    /// Bytes of the archive before it was compressed.
    pub tar_bytes: u64,
    /// Bytes of the archive.
    pub archive_bytes: u64,
    /// Sockets, for which it has no place.
    pub sockets: u64,
}

/// The outcome of `import`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ImportOutcome {
    /// The checkpoint.
    pub id: String,
    /// Id of the session that it belongs to.
    pub session: String,
    /// Id of the tree that holds everything.
    pub root: String,
    /// Regular files in the checkpoint.
    pub files: u64,
    /// Length of these files in bytes, holes included.
    pub bytes: u64,
    /// Bytes of content that the store did not have.
    pub new_bytes: u64,
    /// Bytes by which the packs grew.
    pub stored_bytes: u64,
}

/// A store that was copied.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct CopiedStore {
    /// Folder of the copy.
    pub destination: String,
    /// True if there was no copy before.
    pub made: bool,
    /// Sequence of the journal's last entry that the copy has.
    pub sequence: u64,
    /// Checkpoints in the copy.
    pub checkpoints: u64,
    /// Packs in the copy.
    pub packs: u64,
    /// Packs that were copied.
    pub copied_packs: u64,
    /// Bytes of packs and journal that were copied.
    pub copied_bytes: u64,
    /// Packs that were removed from the copy: gc had removed them from the store.
    pub removed_packs: u64,
    /// Length of the packs that were removed, in bytes.
    pub removed_bytes: u64,
    /// Packs that are missing from the store or damaged in it, and not whole in the copy.
    pub damaged_packs: u64,
    /// Files beside packs and journal that the disk cannot read, and that the copy has as they were, or not at all.
    pub left_out_files: u64,
}
