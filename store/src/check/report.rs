//! Findings of a check.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    error::Younger,
    id::{ObjectId, PackId, Ulid},
    name,
    record::Checkpoint,
};

/// Findings beyond this many are only counted.
pub(super) const FINDINGS_MAX: usize = 1000;

/// Kind of a fault, by the part of the store that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingKind {
    /// `store.json`.
    Config,
    /// A segment of the journal, or the chain of its records.
    Journal,
    /// A pack as a whole, or one of its blocks.
    Pack,
    /// A pack that is damaged, and whose parity gives back everything. Nothing is lost; a repair writes it anew.
    Healed,
    /// The index; `--rebuild-index` makes it anew.
    Index,
    /// An object that a checkpoint needs is damaged.
    Damaged,
    /// An object that a checkpoint needs is in no pack.
    Missing,
    /// A record that this release cannot read: a checkpoint's, or an event.
    Record,
    /// A folder's sums are not those of its tree.
    Totals,
}

/// A place that damage touches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct AffectedPath {
    /// ULID of the checkpoint that needs the place.
    #[schemars(with = "String")]
    pub checkpoint: Ulid,
    /// Path in its workspace; empty for the checkpoint as a whole.
    pub path: String,
}

/// A path of a checkpoint of which something is damaged or missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Hurt {
    /// ULID of the checkpoint that has the path.
    #[schemars(with = "String")]
    pub checkpoint: Ulid,
    /// Path in its workspace; empty for the checkpoint as a whole. Of a folder whose tree is lost, everything below it is hurt as well.
    pub path: String,
    /// Damaged or missing objects that it needs.
    pub objects: Vec<ObjectId>,
    /// The damage of the first of them.
    pub error: String,
}

/// Paths that are named for each checkpoint.
const PATHS_NAMED: usize = 5;

/// A checkpoint of which something is damaged or missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HurtCheckpoint {
    /// ULID of the checkpoint.
    #[schemars(with = "String")]
    pub checkpoint: Ulid,
    /// Id of the session that it belongs to.
    pub session: String,
    /// End of its capture.
    pub created_at: Timestamp,
    /// Number of hurt paths.
    pub paths: u64,
    /// The first of them.
    pub first: Vec<String>,
}

impl HurtCheckpoint {
    pub(super) fn new(checkpoint: &Checkpoint) -> Self {
        let record = &checkpoint.record;
        let (session, created_at) = (record.session.clone(), record.created_at);
        HurtCheckpoint { checkpoint: record.id, session, created_at, paths: 0, first: Vec::new() }
    }

    pub(super) fn count(&mut self, path: &str) {
        self.paths += 1;
        if self.first.len() < PATHS_NAMED {
            self.first.push(path.to_owned());
        }
    }
}

/// Of one object, at most this many touched places are named.
const TOUCHED_MAX: usize = 20;

/// Notes a place that something touches, or counts it.
pub(super) fn touch(touches: &mut Vec<AffectedPath>, more: &mut u64, checkpoint: Ulid, path: &[u8]) {
    match touches.len() < TOUCHED_MAX {
        true => touches.push(AffectedPath { checkpoint, path: name::display(path) }),
        false => *more += 1,
    }
}

/// Damage of a store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Finding {
    /// config, journal, pack, healed, index, damaged, missing, record, totals.
    #[schemars(with = "String")]
    pub kind: FindingKind,
    /// The damage, for people.
    pub message: String,
    /// Pack that is concerned.
    pub pack: Option<PackId>,
    /// Object that is concerned.
    pub object: Option<ObjectId>,
    /// Places that it touches: the first of them.
    pub touches: Vec<AffectedPath>,
    /// Number of the others.
    pub touches_more: u64,
}

impl Finding {
    pub(super) fn new(kind: FindingKind, message: String) -> Self {
        Finding { kind, message, pack: None, object: None, touches: Vec::new(), touches_more: 0 }
    }
}

/// Numbers of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CheckReport {
    /// The faults.
    #[serde(skip)]
    pub findings: Vec<Finding>,
    /// Number of further findings.
    #[serde(skip)]
    pub findings_more: u64,
    /// Checkpoints that damage touches, newest first. `hurt` lines name every path.
    pub hurt: Vec<HurtCheckpoint>,
    /// Oddities that are no damage, such as an append that was cut off.
    #[serde(skip)]
    pub notes: Vec<String>,
    /// True if the index has a fault, which `--rebuild-index` makes anew.
    pub rebuild_index: bool,
    /// Events in the journal, whose chain was checked.
    pub events: u64,
    /// Packs that were looked at.
    pub packs: u64,
    /// Number of blocks in the packs that were looked at.
    pub blocks: u64,
    /// Number of objects in the packs that were looked at; those in several packs count each time.
    pub objects: u64,
    /// Blocks whose data were read and hashed.
    pub blocks_read: u64,
    /// Stored bytes of them.
    pub bytes_read: u64,
    /// Checkpoints that were followed.
    pub checkpoints: u64,
    /// Different tree nodes in them.
    pub trees: u64,
}

impl CheckReport {
    /// Number of hurt paths, in all checkpoints together.
    pub fn hurt_paths(&self) -> u64 {
        self.hurt.iter().map(|hurt| hurt.paths).sum()
    }

    /// Number of findings, those that are only counted among them.
    pub fn findings_count(&self) -> u64 {
        self.findings.len() as u64 + self.findings_more
    }

    /// Adds that an older copy of the store is in its place.
    pub fn add_older(&mut self, younger: &Younger) {
        self.add(FindingKind::Journal, younger.to_string());
    }

    /// True if nothing is wrong.
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty()
    }

    pub(super) fn add(&mut self, kind: FindingKind, message: String) {
        self.push(Finding::new(kind, message));
    }

    pub(super) fn push(&mut self, finding: Finding) {
        self.rebuild_index |= finding.kind == FindingKind::Index;
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(finding);
        } else {
            self.findings_more += 1;
        }
    }
}
