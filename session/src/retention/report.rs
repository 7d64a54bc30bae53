//! What retention did.

use std::collections::BTreeMap;

use parhelia_store::record::Checkpoint;

use super::{Kept, Plan, Policy, Removed};
use crate::Error;

/// What retention did.
#[derive(Debug, Default)]
pub struct RetentionReport {
    /// What went, and why.
    pub removed: Vec<(Checkpoint, Removed)>,
    /// How many stay: of all sessions where the store was larger than it may be, else of those that were asked for.
    pub kept: u64,
    /// Of these, how many stay whatever the size of the store, by the reason.
    pub protected: BTreeMap<&'static str, u64>,
    /// Bytes that were freed at once; `gc` frees the rest.
    pub freed_bytes: u64,
    /// Bytes of the store's packs, where there is a limit.
    pub store_bytes: u64,
    /// The limit; 0 where there is none.
    pub max_store_bytes: u64,
    /// Why no more was done.
    pub failed: Option<Error>,
}

impl RetentionReport {
    pub(super) fn new(plan: &Plan, policy: &Policy) -> Self {
        RetentionReport {
            kept: plan.keep.len() as u64,
            protected: plan.protected(),
            max_store_bytes: policy.max_store_bytes,
            ..RetentionReport::default()
        }
    }

    /// By how many bytes the store is larger than it may be.
    pub fn excess_bytes(&self) -> u64 {
        if self.max_store_bytes == 0 { 0 } else { self.store_bytes.saturating_sub(self.max_store_bytes) }
    }
}

impl Plan {
    /// How many stay whatever the size of the store, by the reason.
    pub fn protected(&self) -> BTreeMap<&'static str, u64> {
        let mut protected: BTreeMap<&'static str, u64> = BTreeMap::new();
        for (_, kept) in self.keep.iter().filter(|(_, kept): &&(Checkpoint, Kept)| kept.is_protected()) {
            *protected.entry(kept.text()).or_default() += 1;
        }
        protected
    }
}
