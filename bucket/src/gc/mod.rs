//! Garbage collection beside writers on any number of machines, without a clock that anything depends on.
//!
//! gc has a chain of its own. It *condemns* packs in it, with an epoch, **then** reads all machines' chains: what a commit there refers to is
//! kept. It *resolves* the condemnation with a record that says which packs are deleted, and the heads of the chains that it saw; only then
//! are bytes deleted. A machine puts its segment, which bears the epoch that it had read, **then** reads gc's chain. Of two sides that each write
//! and then read, one sees the other. A commit behind those heads, with an older epoch and a deleted pack, is void by rule; its author finds that out by
//! its own read, before it reports anything, and commits again with copies of its own.
//!
//! Packs of writers that died are no other case: to condemn such a pack is to withdraw its writer's claim on it, and a writer that lives finds
//! that out in the same way.

mod ledger;
mod record;
mod round;

pub use self::{
    ledger::{CommitStatus, Ledger, PackStatus},
    record::{GcRecord, Resolution},
    round::{GcPolicy, GcReport, PACKS_MAX, empty, round},
};
