//! A plan of a run, which changes nothing.

use std::collections::HashSet;

use schemars::JsonSchema;
use serde::Serialize;

use super::{Choice, GcOptions, retried, running_writers, survey::Survey, survey_and_choose, sweep};
use crate::{
    error::Result,
    id::{OpId, PackId, Ulid},
    pin::Pin,
    progress::Progress,
    store::Store,
};

/// A plan of a garbage collection. Shares of packs are estimates.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "CollectionPlan")]
pub struct GcPlan {
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
    pub delete: Vec<PackId>,
    /// Length of the packs in `delete`, in bytes.
    pub delete_bytes: u64,
    /// Packs that go after what is in use in them was copied.
    pub repack: Vec<PackId>,
    /// Length of the packs in `repack` before they are copied, in bytes.
    pub repack_bytes: u64,
    /// Bytes that are copied.
    pub copy_bytes: u64,
    /// Packs that were condemned earlier and are still there.
    pub condemned: Vec<PackId>,
    /// Length of the packs in `condemned`, in bytes.
    pub condemned_bytes: u64,
    /// Packs of runs that ended without a commit.
    pub orphans: u64,
    /// Length of the packs that `orphans` counts, in bytes.
    pub orphan_bytes: u64,
    /// Bytes that are free afterwards, at once or when `waits_for` are over.
    pub freed_bytes: u64,
    /// Running writers, for whose end the bytes of condemned packs wait.
    pub waits_for: Vec<OpId>,
}

impl GcPlan {
    /// Bytes of the packs that are in use afterwards.
    pub fn kept_bytes(&self) -> u64 {
        let goes = self.delete_bytes + self.repack_bytes + self.condemned_bytes + self.orphan_bytes;
        self.total_bytes.saturating_sub(goes) + self.copy_bytes
    }
}

/// Finds out what [`super::run`] would do, and changes nothing.
pub fn plan(store: &Store, options: &GcOptions, progress: &dyn Progress) -> Result<GcPlan> {
    plan_without(store, options, &HashSet::new(), progress)
}

/// Finds out what [`super::run`] would do if these checkpoints were deleted, and changes nothing.
pub fn plan_without(store: &Store, options: &GcOptions, without: &HashSet<Ulid>, progress: &dyn Progress) -> Result<GcPlan> {
    // It only spares this run a second look if another gc comes between; a full disk has no room for it.
    let pin = Pin::take(&store.layout().pins(), true, "gc plan").ok();
    let own = pin.as_ref().map(|pin| pin.op);
    retried(store, || {
        let (survey, choice) = survey_and_choose(store, without, options.repacks(), options, progress)?;
        make_plan(store, &survey, &choice, own)
    })
}

pub(super) fn make_plan(store: &Store, survey: &Survey, choice: &Choice, own: Option<OpId>) -> Result<GcPlan> {
    let orphans = sweep::orphans(store, own)?;
    let mut plan = GcPlan {
        checkpoints: survey.checkpoints,
        packs: survey.packs.len() as u64,
        delete: choice.delete.iter().copied().collect(),
        repack: choice.repack.iter().copied().collect(),
        orphans: orphans.len() as u64,
        orphan_bytes: orphans.iter().map(|orphan| orphan.bytes).sum(),
        waits_for: running_writers(store, own)?,
        ..GcPlan::default()
    };
    for pack in &survey.packs {
        plan.total_bytes += pack.bytes;
        plan.live_bytes += pack.live_bytes;
        if choice.delete.contains(&pack.id) {
            plan.delete_bytes += pack.bytes;
        } else if choice.repack.contains(&pack.id) {
            plan.repack_bytes += pack.bytes;
            plan.copy_bytes += pack.live_bytes;
        }
    }
    for (id, state) in survey.view.packs()?.into_iter().filter(|(_, state)| state.condemned.is_some()) {
        plan.condemned.push(id);
        plan.condemned_bytes += state.bytes;
    }
    plan.total_bytes += plan.condemned_bytes + plan.orphan_bytes;
    // What a forged directory says of its block's length may be more than its pack has.
    plan.dead_bytes = plan.total_bytes.saturating_sub(plan.live_bytes);
    let goes = plan.delete_bytes + plan.repack_bytes + plan.condemned_bytes + plan.orphan_bytes;
    plan.freed_bytes = goes.saturating_sub(plan.copy_bytes);
    Ok(plan)
}
