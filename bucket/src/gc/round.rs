//! A round of gc.

use std::{collections::BTreeSet, ops::Range};

use jiff::{SignedDuration, Timestamp};

use super::{
    ledger::PackStatus,
    record::{GcRecord, Resolution},
};
use crate::{
    bucket::Bucket,
    chain::{Body, STORED_BYTES_MAX, Segment},
    error::{Error, Result},
    layout::{self, MachineId, PackKey},
    view::View,
};

/// Most packs of one condemnation: a record goes in one request.
pub const PACKS_MAX: usize = 20_000;
/// Times that another gc may be first before a round gives up.
const TRIES_MAX: u32 = 5;

/// How patient gc is. None of it is needed for safety: it spares writers and readers that live.
#[derive(Clone, Copy, Debug)]
pub struct GcPolicy {
    /// Age from which a pack that no segment names is condemned. Its writer, if it still lives, uploads it again.
    pub orphan_patience: SignedDuration,
    /// Time for readers of a checkpoint that was deleted.
    pub deletion_grace: SignedDuration,
}

impl Default for GcPolicy {
    fn default() -> Self {
        GcPolicy { orphan_patience: SignedDuration::from_hours(24), deletion_grace: SignedDuration::from_hours(1) }
    }
}

/// Report of a round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GcReport {
    /// Packs that this round condemned.
    pub condemned: u64,
    /// Packs of condemnations that turned out to be needed.
    pub kept: u64,
    /// Objects that were deleted.
    pub deleted: u64,
    /// Their length, in bytes.
    pub deleted_bytes: u64,
}

/// Runs a round: resolves what is condemned, condemns what nobody needs, and deletes what is resolved. Any number of them may run at once, and
/// one may end anywhere: the next one goes on.
pub async fn round(bucket: &Bucket, view: &mut View, policy: &GcPolicy, now: Timestamp) -> Result<GcReport> {
    let mut report = GcReport::default();
    for _ in 0..TRIES_MAX {
        view.refresh(bucket, &mut |_| {}).await?;
        let condemned = match candidates(bucket, view, policy, now).await? {
            packs if packs.is_empty() => true,
            packs => {
                let condemned = packs.len() as u64;
                let is_first = view.ledger.put(bucket, &GcRecord::Condemn { epoch: view.ledger.epoch() + 1, packs }).await?;
                report.condemned += if is_first { condemned } else { 0 };
                is_first
            }
        };
        if condemned && resolve(bucket, view, policy, now, &mut report).await? {
            sweep(bucket, view, &mut report).await?;
            return Ok(report);
        }
    }
    // Other rounds do the same work.
    Ok(report)
}

/// Time before which something happened that is older than a duration, in milliseconds since 1970.
fn before_ms(now: Timestamp, age: SignedDuration) -> u64 {
    let then = now.as_millisecond().saturating_sub(i64::try_from(age.as_millis()).unwrap_or(i64::MAX));
    u64::try_from(then).unwrap_or(0)
}

/// Packs that nobody needs and that are not condemned yet.
async fn candidates(bucket: &Bucket, view: &View, policy: &GcPolicy, now: Timestamp) -> Result<Vec<PackKey>> {
    let needed = view.needed(before_ms(now, policy.deletion_grace));
    let named = view.names();
    let old = before_ms(now, policy.orphan_patience);
    let listed = bucket.client.list(layout::PACKS, None, &bucket.effort).await?;
    let found = listed.iter().filter_map(|listed| {
        let pack = PackKey::parse(&listed.object)?;
        let is_free = !needed.contains(&pack) && view.ledger.pack(&pack) == PackStatus::Usable;
        let is_old = named.contains(&pack) || u64::try_from(listed.modified_at.timestamp_millis()).unwrap_or(0) <= old;
        (is_free && is_old).then_some(pack)
    });
    Ok(found.take(PACKS_MAX).collect())
}

/// Resolves all condemnations that are open: this round's, and those of rounds that ended early. False if another gc was first.
async fn resolve(bucket: &Bucket, view: &mut View, policy: &GcPolicy, now: Timestamp, report: &mut GcReport) -> Result<bool> {
    let open: Vec<(u64, BTreeSet<PackKey>)> = view.ledger.open().map(|(epoch, packs)| (epoch, packs.clone())).collect();
    if open.is_empty() {
        return Ok(true);
    }
    // The chains are read now, after the condemnations are in gc's chain: that order is what makes deletion safe.
    view.read_chains(bucket, &mut |_| {}).await?;
    let needed = view.needed(before_ms(now, policy.deletion_grace));
    for (epoch, packs) in open {
        let (kept, deleted): (Vec<_>, Vec<_>) = packs.into_iter().partition(|pack| needed.contains(pack));
        let kept_packs = kept.len() as u64;
        if !view.ledger.put(bucket, &GcRecord::Resolve(Resolution { epoch, heads: view.heads(), deleted, kept })).await? {
            return Ok(false);
        }
        report.kept += kept_packs;
    }
    Ok(true)
}

/// Deletes what is resolved as deleted and still there: also what landed late.
async fn sweep(bucket: &Bucket, view: &View, report: &mut GcReport) -> Result<()> {
    for listed in bucket.client.list(layout::PACKS, None, &bucket.effort).await? {
        let is_deleted = |pack: PackKey| view.ledger.pack(&pack) == PackStatus::Deleted;
        if PackKey::parse(&listed.object).is_some_and(is_deleted) {
            bucket.client.delete(&listed.object, &bucket.effort).await?;
            report.deleted += 1;
            report.deleted_bytes += listed.bytes;
        }
    }
    Ok(())
}

/// Empties the segments of a chain from one number up to below another, and returns how many. The caller has made sure that nobody needs what they hold.
///
/// They are overwritten, and never deleted: a machine that slept would write a number that is free. Each says which segment it was, so that its writer
/// still learns that it landed, and chains can still be followed.
pub async fn empty(bucket: &Bucket, view: &View, machine: MachineId, numbers: Range<u64>) -> Result<u64> {
    let head = view.heads().into_iter().find(|(id, _)| *id == machine).map_or(0, |(_, head)| head);
    // The last segment stays: its writer goes on from it.
    if numbers.start == 0 || numbers.end > head {
        return Err(Error::Invalid(format!(
            "cannot empty segments {numbers:?} of {machine}: it has 1 to {head}, and the last one stays"
        )));
    }
    let mut emptied = 0;
    for number in numbers {
        let object = layout::segment(machine, number);
        let stored = bucket.client.get(&object, STORED_BYTES_MAX, &bucket.effort).await?;
        let (segment, name, hash) = Segment::open(machine, number, &stored, &bucket.keys)?;
        if matches!(segment.body, Body::Full { .. }) {
            let empty = Segment { machine, number, body: Body::Emptied { name, hash } };
            let sealed = empty.seal(bucket.sealing(), &bucket.keys, &*bucket.random)?;
            bucket.client.put(&object, sealed.bytes, &bucket.effort).await?;
            emptied += 1;
        }
    }
    Ok(emptied)
}
