//! The limit on the store's size. It is about the whole store: whichever session fills it, the oldest go first.

use std::collections::{HashMap, HashSet};

use jiff::Timestamp;
use parhelia_store::{
    Store,
    event::Actor,
    gc::{self, GcOptions},
    id::Ulid,
    journal::{Entry, Journal, Position},
    progress::Progress,
    record::Checkpoint,
};

use super::{Plan, Policy, Removed, RetentionReport, plan, remove};
use crate::Result;

/// The forecast of a pruning.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Forecast {
    /// The fate of each checkpoint; of all sessions if the store would be larger than it may be.
    pub plan: Plan,
    /// Bytes of the store's packs, where there is a limit.
    pub store_bytes: u64,
    /// An estimate of what would be freed: what nothing needs by now, and what the checkpoints that go had added when they were made. Others
    /// may share that by now, so that less is freed, and more has to go.
    pub estimated_freed_bytes: u64,
    /// By how many bytes the store would still be larger than it may be, by that estimate.
    pub excess_bytes: u64,
}

/// Says what [`super::prune`] would do, and changes nothing.
pub fn forecast(
    store: &Store,
    policy: &Policy,
    session: Option<&str>,
    now: Timestamp,
    progress: &dyn Progress,
) -> Result<Forecast> {
    let mut forecast = Forecast { plan: plan(store, policy, session, now)?, ..Forecast::default() };
    let limit = policy.max_store_bytes;
    if limit == 0 {
        return Ok(forecast);
    }
    forecast.store_bytes = store_bytes(store)?;
    if forecast.store_bytes <= limit {
        return Ok(forecast);
    }
    let unused = gc::plan(store, &GcOptions::default(), progress)?;
    let added = added(store)?;
    let gone: HashSet<Ulid> = forecast.plan.remove.iter().map(|(checkpoint, _)| checkpoint.record.id).collect();
    let mut freed = (unused.delete_bytes + unused.repack_bytes).saturating_sub(unused.copy_bytes);
    freed += sum(&added, &forecast.plan.remove);
    if let Some(excess) = over(forecast.store_bytes.saturating_sub(freed), limit) {
        let mut all = plan(store, policy, None, now)?;
        all.remove.retain(|(checkpoint, _)| !gone.contains(&checkpoint.record.id));
        let chosen = oldest(&all, &added, excess);
        freed += sum(&added, &chosen);
        let goes: HashSet<Ulid> = chosen.iter().map(|(checkpoint, _)| checkpoint.record.id).collect();
        forecast.plan.remove.extend(chosen);
        forecast.plan.keep = all.keep.into_iter().filter(|(checkpoint, _)| !goes.contains(&checkpoint.record.id)).collect();
    }
    forecast.estimated_freed_bytes = freed.min(forecast.store_bytes);
    forecast.excess_bytes = over(forecast.store_bytes - forecast.estimated_freed_bytes, limit).unwrap_or(0);
    Ok(forecast)
}

/// Makes the store as small as it has to be, or as small as it can be.
pub(super) fn keep_to(
    store: &Store,
    policy: &Policy,
    actor: &Actor,
    now: Timestamp,
    progress: &dyn Progress,
    report: &mut RetentionReport,
) -> Result<()> {
    report.store_bytes = store_bytes(store)?;
    if report.excess_bytes() == 0 {
        return Ok(());
    }
    let added = added(store)?;
    // The loop ends: every round but the last removes a checkpoint, here or in another process.
    loop {
        report.freed_bytes += gc::run(store, &GcOptions::default(), progress)?.freed_bytes;
        report.store_bytes = store_bytes(store)?;
        let all = plan(store, policy, None, now)?;
        report.kept = (all.keep.len() + all.remove.len()) as u64;
        report.protected = all.protected();
        let chosen = over(report.store_bytes, policy.max_store_bytes).map(|excess| oldest(&all, &added, excess));
        let Some(chosen) = chosen.filter(|chosen| !chosen.is_empty()) else { return Ok(()) };
        remove(store, None, &chosen, actor, progress, report)?;
    }
}

/// By how many bytes a store is larger than it may be.
pub(super) fn over(bytes: u64, limit: u64) -> Option<u64> {
    bytes.checked_sub(limit).filter(|excess| *excess > 0)
}

/// Bytes of the packs in use.
fn store_bytes(store: &Store) -> Result<u64> {
    let packs = store.refresh()?.packs()?;
    Ok(packs.values().filter(|pack| pack.condemned.is_none()).map(|pack| pack.bytes).sum())
}

/// The bytes that each commit added, by its sequence.
fn added(store: &Store) -> Result<HashMap<u64, u64>> {
    let mut added = HashMap::new();
    for logged in Journal::of(store.layout()).read(&Position::start())?.records {
        if let Entry::Commit { packs, .. } = logged.entry {
            added.insert(logged.sequence, packs.iter().map(|pack| pack.bytes).sum());
        }
    }
    Ok(added)
}

fn sum(added: &HashMap<u64, u64>, checkpoints: &[(Checkpoint, Removed)]) -> u64 {
    checkpoints.iter().filter_map(|(checkpoint, _)| added.get(&checkpoint.sequence)).sum()
}

/// The oldest checkpoints that nobody needs, until what their commits added makes up `excess` bytes; those that are not kept anyway among
/// them.
fn oldest(all: &Plan, added: &HashMap<u64, u64>, excess: u64) -> Vec<(Checkpoint, Removed)> {
    let unprotected = all.keep.iter().filter(|(_, kept)| !kept.is_protected()).map(|(checkpoint, _)| checkpoint);
    let mut free: Vec<&Checkpoint> = all.remove.iter().map(|(checkpoint, _)| checkpoint).chain(unprotected).collect();
    free.sort_by_key(|checkpoint| checkpoint.sequence);
    let mut chosen = Vec::new();
    let mut bytes = 0;
    for checkpoint in free {
        if bytes >= excess {
            break;
        }
        bytes += added.get(&checkpoint.sequence).copied().unwrap_or(0);
        chosen.push((checkpoint.clone(), Removed::StoreTooLarge));
    }
    chosen
}
