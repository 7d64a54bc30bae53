//! The report of retention.

use std::collections::BTreeMap;

use parhelia_store::{id::Ulid, record::Checkpoint};

use super::{KeepReason, Plan, Policy, RemovalReason};
use parhelia_host::Error;

/// The report of retention.
#[derive(Debug, Default)]
pub struct RetentionReport {
    /// Removed checkpoints, and the reasons.
    pub removed: Vec<(Checkpoint, RemovalReason)>,
    /// Checkpoints among the removed that went because of the store's size and that all other rules would have kept.
    pub overruled: u64,
    /// The number of checkpoints kept: in all sessions if the store was larger than it may be, else in the sessions asked for.
    pub kept: u64,
    /// The number of those that are too young to be thinned.
    pub young: u64,
    /// The number of those that stay whatever the size of the store, by reason.
    pub protected: BTreeMap<&'static str, u64>,
    /// Bytes that were freed at once; `gc` frees the rest.
    pub freed_bytes: u64,
    /// Bytes of the store's packs, where there is a limit.
    pub store_bytes: u64,
    /// The limit; 0 where there is none.
    pub max_store_bytes: u64,
    /// The error that ended it early.
    pub failed: Option<Error>,
}

impl RetentionReport {
    pub(super) fn new(plan: &Plan, policy: &Policy) -> Self {
        RetentionReport {
            kept: plan.keep.len() as u64,
            young: plan.keep.iter().filter(|(_, kept)| *kept == KeepReason::Young).count() as u64,
            protected: plan.protected(),
            max_store_bytes: policy.max_store_bytes,
            ..RetentionReport::default()
        }
    }

    /// The removed checkpoints, each with the reason in words.
    pub fn reasons(&self) -> Vec<(Ulid, &'static str)> {
        self.removed.iter().map(|(checkpoint, why)| (checkpoint.record.id, why.text())).collect()
    }

    /// By how many bytes the store is larger than it may be.
    pub fn excess_bytes(&self) -> u64 {
        if self.max_store_bytes == 0 { 0 } else { self.store_bytes.saturating_sub(self.max_store_bytes) }
    }
}

impl Plan {
    /// The number of checkpoints that stay whatever the size of the store, by reason.
    pub fn protected(&self) -> BTreeMap<&'static str, u64> {
        let mut protected: BTreeMap<&'static str, u64> = BTreeMap::new();
        for (_, kept) in self.keep.iter().filter(|(_, kept): &&(Checkpoint, KeepReason)| kept.is_protected()) {
            *protected.entry(kept.text()).or_default() += 1;
        }
        protected
    }
}
