//! Chains: each machine's own, without contention, of segments that are put where none is.
//!
//! A segment bears the epoch of gc that its machine had read, a hash of the one before it, and a nonce: the random name of its sealing. A number
//! is used once. What is not needed any more is emptied, and never deleted, because a machine that slept would write a deleted number again.

mod memory;
mod packs;
mod push;
mod record;
mod segment;
mod state;

pub use self::{
    memory::{CommitAgain, Cursor, MachineMemory, MachineState, PackUpload, Pending},
    push::{Entry, Machine, Pushed},
    record::{Commit, CommitId, Record},
    segment::{Body, SEGMENT_BYTES_MAX, STORED_BYTES_MAX, Sealed, Segment},
    state::{ChainState, Link},
};
