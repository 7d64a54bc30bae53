//! The report of a salvage.

use std::path::PathBuf;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    id::{PackId, Ulid},
    name::shown,
};

/// A pack that could not be taken over as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DamagedPack {
    /// Id of the pack: 32 hex digits, which name its file.
    pub pack: PackId,
    /// The damage. What is whole in it was taken over.
    pub reason: String,
}

/// A checkpoint that a salvage has found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SalvagedCheckpoint {
    /// The checkpoint.
    #[schemars(with = "String")]
    pub id: Ulid,
    /// Its session's id.
    pub session: String,
    /// End of its capture.
    pub created_at: Timestamp,
    /// True if it is in the new store: something of it can be read.
    pub kept: bool,
    /// True if the journal told of it. Others may have been deleted.
    pub in_journal: bool,
    /// Number of paths of which something is lost; of one that was not kept, of all its entries.
    pub hurt_paths: u64,
    /// The first of them.
    pub first_hurt: Vec<String>,
}

/// The outcome of a salvage: a new store of what is whole in a damaged one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Salvage")]
pub struct SalvageReport {
    /// Folder of the new store.
    #[serde(serialize_with = "shown::serialize")]
    #[schemars(with = "String")]
    pub to: PathBuf,
    /// Packs that were read.
    pub packs: u64,
    /// Length of the packs that were read, in bytes.
    pub bytes: u64,
    /// Packs that are damaged, and those that the journal names and that are gone.
    pub damaged_packs: Vec<DamagedPack>,
    /// Checkpoints whose records were found, newest first.
    #[serde(skip)]
    pub checkpoints: Vec<SalvagedCheckpoint>,
    /// Checkpoints that the journal says were deleted, left out though a pack still has their record.
    pub deleted: u64,
    /// Records that this release cannot read, left out.
    pub unreadable_records: u64,
    /// Records of the journal that were taken over.
    pub journal_records: u64,
    /// Reason for which the journal does not tell everything; null if it does, as far as can be told.
    pub journal_fault: Option<String>,
    /// Reason for which the settings were made up from the packs; null if a copy of them was whole.
    pub settings_fault: Option<String>,
}

impl SalvageReport {
    /// Checkpoints in the new store.
    pub fn kept(&self) -> u64 {
        self.checkpoints.iter().filter(|checkpoint| checkpoint.kept).count() as u64
    }

    /// Checkpoints of which nothing is lost.
    pub fn whole(&self) -> u64 {
        self.checkpoints.iter().filter(|checkpoint| checkpoint.kept && checkpoint.hurt_paths == 0).count() as u64
    }

    /// True if nothing was found damaged, and nothing is unknown.
    pub fn is_complete(&self) -> bool {
        let is_whole = self.whole() == self.checkpoints.len() as u64 && self.damaged_packs.is_empty();
        is_whole && self.unreadable_records == 0 && self.journal_fault.is_none()
    }
}
