//! What a machine keeps of its chain, on its own disk.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::record::CommitId;
use crate::{
    codec::as_hex,
    error::Result,
    layout::MachineId,
    pack::{PackRef, Upload},
};

/// A place in the local journal up to which records are pushed; its meaning is the local store's.
pub type Cursor = u64;

/// The state of a machine's chain. It is small, and replaced as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineState {
    /// Id of the bucket.
    #[serde(with = "as_hex")]
    pub bucket: [u8; 16],
    /// The machine's id in it.
    pub machine: MachineId,
    /// Number of the next segment.
    pub next: u64,
    /// Chain hash of the last segment.
    #[serde(with = "as_hex")]
    pub hash: [u8; 32],
    /// The chain that this one goes on from, until the first segment says so.
    pub continues: Option<(MachineId, u64)>,
    /// Place up to which records are in the chain.
    pub cursor: Cursor,
    /// A segment whose put was begun. Nothing else is ever put at its number.
    pub pending: Option<Pending>,
    /// Commits in the chain that rely on packs which gc has condemned: they are written again before anything else.
    pub again: Vec<CommitAgain>,
    /// Packs that were uploaded and are in no segment yet, and uploads that have begun, by their labels in hex.
    pub uploads: BTreeMap<String, PackUpload>,
}

impl MachineState {
    /// The state of a machine that has written nothing yet.
    pub(super) fn fresh(bucket: [u8; 16], machine: MachineId) -> Self {
        let (cursor, continues, pending, again, uploads) = Default::default();
        MachineState { bucket, machine, next: 1, hash: [0; 32], continues, cursor, pending, again, uploads }
    }
}

/// A segment on its way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pending {
    /// Its stored form, in hex: the same bytes are put until they are settled.
    pub stored: String,
    /// Place in the local journal that it reaches.
    pub cursor: Cursor,
}

/// A commit that is to be written again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommitAgain {
    /// Its id.
    pub id: CommitId,
    /// Number of the segment that holds it, in this machine's chain.
    pub machine: MachineId,
    /// Number of the segment.
    pub number: u64,
}

/// The upload of a pack that no segment names yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PackUpload {
    /// The pack.
    pub pack: PackRef,
    /// The parts so far; absent of an upload in one request.
    pub upload: Option<Upload>,
    /// True if all of it is there.
    pub is_whole: bool,
}

/// Where a machine keeps its state. Both functions block for as long as a disk takes.
pub trait MachineMemory: Send + Sync {
    /// The state; absent on a machine that is new to the bucket.
    fn load(&self) -> Result<Option<MachineState>>;

    /// Keeps a state: durably, before this returns. A state that is lost costs the machine its id, and nothing else.
    fn save(&self, state: &MachineState) -> Result<()>;
}
