//! Summaries of verbs about a whole store, and about archives.

use parhelia_store::{
    archive::ExportReport,
    check::{CheckReport, SalvageReport},
    copy::CopyReport,
    gc::{GcPlan, GcReport},
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::repository::Repair;

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
    pub salvage: Option<SalvageReport>,
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
    pub plan: GcPlan,
    /// Numbers of what was done; not there of a dry run.
    #[serde(flatten)]
    pub done: Option<GcReport>,
}

/// The outcome of `export`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ExportOutcome {
    /// The checkpoint.
    pub id: String,
    /// File that was written.
    pub output: String,
    /// Numbers of the archive.
    #[serde(flatten)]
    pub report: ExportReport,
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
    /// Numbers of the copy.
    #[serde(flatten)]
    pub report: CopyReport,
}
