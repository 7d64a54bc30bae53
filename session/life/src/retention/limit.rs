//! The limit on the store's size. It is about the whole store: whichever session fills it, the oldest go first.
//!
//! A deletion frees only bytes that nothing else needs: most of a checkpoint is shared with its neighbours, and what later versions build on stays
//! with them. So gc is asked what would be left without the oldest ones, and only as many of these go as it takes. Where what may go would
//! free next to nothing, nothing goes.

use std::collections::HashSet;

use jiff::Timestamp;
use parhelia_store::{
    Store,
    event::Actor,
    gc::{self, GcOptions},
    id::Ulid,
    progress::Progress,
    record::Checkpoint,
};

use super::{Plan, Policy, RemovalReason, RetentionReport, plan, remove};
use parhelia_host::Result;

/// The least part of the excess bytes that a deletion must free: for less, no history is removed.
const NOTHING_PART: u64 = 20;

/// The forecast of a pruning.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Forecast {
    /// The fate of each checkpoint; of all sessions if the store would be larger than it may be.
    pub plan: Plan,
    /// Checkpoints among those that go because of the store's size and that all other rules would keep.
    pub overruled: u64,
    /// Bytes of the store's packs, where there is a limit.
    pub store_bytes: u64,
    /// Bytes that would be freed, by gc's estimate.
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
    if over(forecast.store_bytes, limit).is_none() {
        return Ok(forecast);
    }
    let gone: HashSet<Ulid> = forecast.plan.remove.iter().map(|(checkpoint, _)| checkpoint.record.id).collect();
    let all = plan(store, policy, None, now)?;
    let chosen = choose(store, &all, &gone, limit, progress)?;
    if !chosen.is_enough_without {
        let goes: HashSet<Ulid> = chosen.remove.iter().map(|(checkpoint, _)| checkpoint.record.id).collect();
        forecast.plan.remove.extend(chosen.remove);
        forecast.plan.keep = all.keep.into_iter().filter(|(checkpoint, _)| !goes.contains(&checkpoint.record.id)).collect();
    }
    forecast.overruled = chosen.overruled;
    forecast.estimated_freed_bytes = forecast.store_bytes.saturating_sub(chosen.left_bytes);
    forecast.excess_bytes = over(chosen.left_bytes.min(forecast.store_bytes), limit).unwrap_or(0);
    Ok(forecast)
}

/// Makes the store as small as it has to be, or as small as it can be: removes what [`forecast`] names, and no more.
pub(super) fn keep_to(
    store: &Store,
    policy: &Policy,
    actor: &Actor,
    now: Timestamp,
    progress: &dyn Progress,
    report: &mut RetentionReport,
) -> Result<()> {
    report.store_bytes = store_bytes(store)?;
    let Some(excess) = over(report.store_bytes, policy.max_store_bytes) else { return Ok(()) };
    let all = plan(store, policy, None, now)?;
    let chosen = choose(store, &all, &HashSet::new(), policy.max_store_bytes, progress)?;
    if !chosen.remove.is_empty() {
        progress.notice(&said_first(&chosen, report.store_bytes, excess));
        let before = report.removed.len();
        remove(store, None, &chosen.remove, actor, progress, report)?;
        report.overruled = chosen.overruled.min((report.removed.len() - before) as u64);
    }
    if !chosen.remove.is_empty() || chosen.is_enough_without {
        report.freed_bytes += gc::run(store, &GcOptions::default(), progress)?.freed_bytes;
    }
    report.store_bytes = store_bytes(store)?;
    let all = plan(store, policy, None, now)?;
    report.kept = (all.keep.len() + all.remove.len()) as u64;
    report.protected = all.protected();
    Ok(())
}

/// The sentence that comes before anything goes because of the store's size.
fn said_first(chosen: &Eviction, store_bytes: u64, excess: u64) -> String {
    let mebibytes = |bytes: u64| format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20));
    let freed = mebibytes(store_bytes.saturating_sub(chosen.left_bytes));
    let overruled = match chosen.overruled {
        0 => String::new(),
        number => format!(", {number} of which all other rules keep"),
    };
    format!(
        "the store is {} larger than it may be (retention.max_store_bytes): the {} oldest checkpoints that nothing protects \
         are removed{overruled}, which frees about {freed}",
        mebibytes(excess),
        chosen.remove.len(),
    )
}

/// By how many bytes a store is larger than it may be, where there is a limit.
pub(super) fn excess(store: &Store, limit: u64) -> Result<Option<u64>> {
    if limit == 0 { Ok(None) } else { Ok(over(store_bytes(store)?, limit)) }
}

/// By how many bytes something is larger than it may be.
pub(super) fn over(bytes: u64, limit: u64) -> Option<u64> {
    bytes.checked_sub(limit).filter(|excess| *excess > 0)
}

/// Bytes of the packs in use.
fn store_bytes(store: &Store) -> Result<u64> {
    let packs = store.refresh()?.packs()?;
    Ok(packs.values().filter(|pack| pack.condemned.is_none()).map(|pack| pack.bytes).sum())
}

/// Checkpoints that go because of the store's size.
struct Eviction {
    remove: Vec<(Checkpoint, RemovalReason)>,
    /// Those of them that all other rules keep.
    overruled: u64,
    /// Bytes of the store that are left.
    left_bytes: u64,
    /// True if gc alone makes the store as small as it has to be.
    is_enough_without: bool,
}

/// Chooses the fewest checkpoints without which the store is as small as it may be, or nearly as small as it can be; `gone` are gone anyway.
/// First go those that no rule keeps, then the oldest of those that nothing protects.
fn choose(store: &Store, all: &Plan, gone: &HashSet<Ulid>, limit: u64, progress: &dyn Progress) -> Result<Eviction> {
    let mut unkept: Vec<&Checkpoint> = all.remove.iter().map(|(checkpoint, _)| checkpoint).collect();
    unkept.retain(|checkpoint| !gone.contains(&checkpoint.record.id));
    let mut kept: Vec<&Checkpoint> =
        all.keep.iter().filter(|(_, why)| !why.is_protected()).map(|(checkpoint, _)| checkpoint).collect();
    kept.retain(|checkpoint| !gone.contains(&checkpoint.record.id));
    [&mut unkept, &mut kept].into_iter().for_each(|list| list.sort_by_key(|checkpoint| checkpoint.sequence));
    let free: Vec<&Checkpoint> = unkept.iter().chain(&kept).copied().collect();
    let left_without = |number: usize| -> Result<u64> {
        let without: HashSet<Ulid> = gone.iter().copied().chain(free[..number].iter().map(|c| c.record.id)).collect();
        Ok(gc::plan_without(store, &GcOptions::default(), &without, progress)?.kept_bytes())
    };
    let (number, left_bytes, is_enough_without) = fewest(free.len(), limit, left_without)?;
    let remove = free[..number].iter().map(|checkpoint| ((*checkpoint).clone(), RemovalReason::StoreTooLarge)).collect();
    Ok(Eviction { remove, overruled: number.saturating_sub(unkept.len()) as u64, left_bytes, is_enough_without })
}

/// The least number of removals, of at most `most`, after which no more than `limit` bytes are left, or next to nothing more can be freed; what is left
/// then; and whether nothing has to be removed.
pub(super) fn fewest(most: usize, limit: u64, left_without: impl Fn(usize) -> Result<u64>) -> Result<(usize, u64, bool)> {
    let left = left_without(0)?;
    let Some(excess) = over(left, limit) else { return Ok((0, left, true)) };
    let nothing = excess / NOTHING_PART;
    let least = if most == 0 { left } else { left_without(most)? };
    if left <= least.saturating_add(nothing) {
        return Ok((0, left, false));
    }
    let goal = if least <= limit { limit } else { least.saturating_add(nothing) };
    // `few` are not enough, `many` are.
    let (mut few, mut many, mut left) = (0, most, least);
    while many - few > 1 {
        let middle = few + (many - few) / 2;
        let bytes = left_without(middle)?;
        match bytes <= goal {
            true => (many, left) = (middle, bytes),
            false => few = middle,
        }
    }
    Ok((many, left, false))
}
