//! Stores: what is in them, and whether it is whole.

use parhelia_store::{
    check,
    gc::{GcPlan, GcReport},
    stats,
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::show::mirror;

mirror! {
    /// Damage of a checkpoint.
    pub struct Problem of check::Problem {
        /// Path in the workspace; empty for the checkpoint as a whole.
        pub path: String,
        /// The damage.
        pub error: String,
    }

    /// A part that a checkpoint lacks.
    pub struct Lack of check::Lack {
        /// Name of the part, such as `conversation`.
        pub part: String,
        /// Reason.
        pub error: String,
    }

    /// A place that damage touches.
    pub struct AffectedPath of check::AffectedPath {
        /// ULID of the checkpoint that needs the place.
        pub checkpoint: String,
        /// Path in its workspace; empty for the checkpoint as a whole.
        pub path: String,
    }

    /// Damage of a store.
    pub struct Finding of check::Finding {
        /// config, journal, pack, healed, index, damaged, missing, record, totals.
        pub kind: String,
        /// The damage, for people.
        pub message: String,
        /// Pack that is concerned.
        pub pack: Option<String>,
        /// Object that is concerned.
        pub object: Option<String>,
        /// Places that it touches: the first of them.
        pub touches: Vec<AffectedPath>,
        /// Number of the others.
        pub touches_more: u64,
    }

    /// A path of a checkpoint of which something is damaged or missing.
    pub struct Hurt of check::Hurt {
        /// ULID of the checkpoint that has the path.
        pub checkpoint: String,
        /// Path in its workspace; empty for the checkpoint as a whole. Of a folder whose tree is lost, everything below it is hurt as well.
        pub path: String,
        /// Damaged or missing objects that it needs.
        pub objects: Vec<String>,
        /// The damage of the first of them.
        pub error: String,
    }

    /// A checkpoint of which something is damaged or missing.
    pub struct HurtCheckpoint of check::HurtCheckpoint {
        /// ULID of the checkpoint.
        pub checkpoint: String,
        /// Id of the session that it belongs to.
        pub session: String,
        /// End of its capture.
        #[schemars(extend("format" = "date-time"))]
        pub created_at: String,
        /// Number of hurt paths.
        pub paths: u64,
        /// The first of them.
        pub first: Vec<String>,
    }

    /// A pack that could not be taken over as it is.
    pub struct DamagedPack of check::DamagedPack {
        /// Id of the pack: 32 hex digits, which name its file.
        pub pack: String,
        /// The damage. What is whole in it was taken over.
        pub reason: String,
    }

    /// A checkpoint that a salvage has found.
    pub struct SalvagedCheckpoint of check::SalvagedCheckpoint {
        /// The checkpoint.
        pub id: String,
        /// Its session's id.
        pub session: String,
        /// End of its capture.
        #[schemars(extend("format" = "date-time"))]
        pub created_at: String,
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
    pub struct Salvage of check::SalvageReport {
        /// Folder of the new store.
        pub to: String,
        /// Packs that were read.
        pub packs: u64,
        /// Length of the packs that were read, in bytes.
        pub bytes: u64,
        /// Packs that are damaged, and those that the journal names and that are gone.
        pub damaged_packs: Vec<DamagedPack>,
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

    /// A damaged place of the journal.
    pub struct MendedRecords of check::MendedRecords {
        /// Sequence of its first record.
        pub first: u64,
        /// Number of records that are lost there; null if the journal ends with them, so that nobody knows.
        pub lost: Option<u64>,
        /// The damage, for people.
        pub damage: String,
    }

    /// An object that checkpoints need and that is nowhere.
    pub struct LostObject of check::LostObject {
        /// Id of the object: 64 hex digits.
        pub object: String,
        /// chunk, recipe, tree, table, record.
        pub kind: String,
        /// Places that need it: the first of them.
        pub touches: Vec<AffectedPath>,
        /// Number of the others.
        pub touches_more: u64,
    }

    /// Numbers of a check.
    pub struct CheckReport of check::CheckReport {
        /// Checkpoints that damage touches, newest first. `hurt` lines name every path.
        pub hurt: Vec<HurtCheckpoint>,
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

    /// A plan of a repair.
    pub struct Repair of check::RepairPlan {
        /// Packs with damage, or gone.
        pub damaged_packs: Vec<String>,
        /// Those of them that the disk could read only in part. Their files are kept, with `.unreadable` behind their names.
        pub unread_packs: Vec<String>,
        /// Packs with damage of which their parity gives back everything. They are written anew, as they were.
        pub healed_packs: Vec<String>,
        /// Whole packs with recipes that lack chunks.
        pub packs_with_broken_recipes: Vec<String>,
        /// Objects in all of these that are whole, and are copied.
        pub kept_objects: u64,
        /// Objects that are taken from elsewhere.
        pub recovered_objects: u64,
    }

    /// A plan of a garbage collection. Shares of packs are estimates.
    pub struct CollectionPlan of GcPlan {
        /// Checkpoints that are kept: those that exist, and deleted ones that something reads.
        pub checkpoints: u64,
        /// Number of packs that are not condemned.
        pub packs: u64,
        /// Bytes of all packs.
        pub total_bytes: u64,
        /// Bytes of them that are in use.
        pub live_bytes: u64,
        /// Bytes of them that are not.
        pub dead_bytes: u64,
        /// Packs that go as they are.
        pub delete: Vec<String>,
        /// Length of the packs in `delete`, in bytes.
        pub delete_bytes: u64,
        /// Packs that go after what is in use in them was copied.
        pub repack: Vec<String>,
        /// Length of the packs in `repack` before they are copied, in bytes.
        pub repack_bytes: u64,
        /// Bytes that are copied.
        pub copy_bytes: u64,
        /// Packs that were condemned earlier and are still there.
        pub condemned: Vec<String>,
        /// Length of the packs in `condemned`, in bytes.
        pub condemned_bytes: u64,
        /// Packs of runs that ended without a commit.
        pub orphans: u64,
        /// Length of the packs that `orphans` counts, in bytes.
        pub orphan_bytes: u64,
        /// Bytes that are free afterwards, at once or when `waits_for` are over.
        pub freed_bytes: u64,
        /// Running writers, for whose end the bytes of condemned packs wait.
        pub waits_for: Vec<String>,
    }

    /// A garbage collection that was done.
    pub struct CollectionReport of GcReport {
        /// Packs that it condemned.
        pub condemned_packs: u64,
        /// Packs that it wrote.
        pub added_packs: u64,
        /// Length of the packs that were written, in bytes.
        pub added_bytes: u64,
        /// Condemned packs, from now or earlier, whose bytes went.
        pub dropped_packs: u64,
        /// Length of the dropped packs, in bytes.
        pub dropped_bytes: u64,
        /// Forgotten packs that were removed.
        pub orphans: u64,
        /// Length of the forgotten packs, in bytes.
        pub orphan_bytes: u64,
        /// Condemned packs that wait for running writers.
        pub waiting_packs: u64,
        /// Length of the packs that wait, in bytes.
        pub waiting_bytes: u64,
        /// The writers that they wait for.
        pub waits_for: Vec<String>,
        /// Bytes freed, less what was written.
        pub freed_bytes: u64,
        /// True if the disk was too full for everything that was to be copied, so that the ballast was released.
        pub disk_was_full: bool,
        /// Packs that would have been copied if there had been room.
        pub left_packs: u64,
    }

    /// A session's share of a store.
    pub struct Usage of stats::SessionStats {
        /// Id of the session; numbers are of its checkpoints.
        pub session: String,
        /// Number of its checkpoints that exist.
        pub checkpoints: u64,
        /// Files in the newest of them.
        pub files: u64,
        /// Bytes of these files.
        pub logical_bytes: u64,
        /// ULID of the newest, in order of commits; null where all were deleted.
        pub newest: Option<String>,
        /// Bytes of the packs that its commits added, deleted ones included: its growth of the store.
        pub added_bytes: u64,
        /// The same for its newest commit alone.
        pub added_bytes_newest: u64,
    }

    /// Numbers of a store.
    pub struct Stats of stats::Stats {
        /// Number of checkpoints that exist, without deleted ones.
        pub checkpoints: u64,
        /// Files in all of them together.
        pub files: u64,
        /// Bytes of these files.
        pub logical_bytes: u64,
        /// Number of different objects in packs that are not condemned.
        pub objects: u64,
        /// Raw bytes of the different pieces of content.
        pub unique_bytes: u64,
        /// Raw bytes of trees, recipes, tables and records.
        pub meta_bytes: u64,
        /// Number of packs that are not condemned.
        pub packs: u64,
        /// Bytes of them on disk.
        pub pack_bytes: u64,
        /// Bytes in them of the blocks that hold content.
        pub data_block_bytes: u64,
        /// Bytes of packs that were condemned and still wait.
        pub condemned_bytes: u64,
        /// Bytes of the journal.
        pub journal_bytes: u64,
        /// Bytes of the index.
        pub index_bytes: u64,
        /// Bytes of stat caches and files under way.
        pub cache_bytes: u64,
        /// Bytes of the ballast: room for a deletion on a full disk.
        pub reserve_bytes: u64,
        /// Bytes of the whole folder, without the ballast.
        pub stored_bytes: u64,
        /// `logical_bytes` by `unique_bytes`.
        pub dedup_ratio: f64,
        /// `unique_bytes` and `meta_bytes` by `pack_bytes`.
        pub compression_ratio: f64,
    }
}

/// A remark about a store that is no damage, such as an append that was cut off.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Note {
    /// The remark, for people.
    pub text: String,
}
