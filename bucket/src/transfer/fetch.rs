//! Taking in what a bucket has: a clone, or what is new since the last time.

use std::collections::{BTreeMap, VecDeque};

use futures_util::{StreamExt, TryStreamExt, stream};

use super::Observer;
use crate::{
    bucket::Bucket,
    chain::{CommitId, Record},
    error::{Error, Result},
    layout::MachineId,
    pack::{PackRef, fetch_whole},
    view::View,
};

/// Packs that are fetched at the same time. Each is held in memory.
const FETCHES: usize = 4;
/// Longest pack that is fetched, in bytes: twice what a local store writes.
const PACK_BYTES_MAX: u64 = 128 << 20;
/// Times that gc may remove a pack in front of a fetch before it gives up.
const TRIES_MAX: u32 = 5;

/// Extent of a fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Records alone: checkpoints are listed, and read from the bucket.
    Records,
    /// Packs as well: the local store is whole.
    Full,
}

/// A local store that takes in what a bucket has.
pub trait Target: Send {
    /// Of each machine, the number of the last segment that was taken in.
    fn heads(&self) -> Result<BTreeMap<MachineId, u64>>;
    /// True if the packs of a checkpoint must be looked for: they need not where the store has had the checkpoint whole, whatever its own gc has moved
    /// since.
    fn needs_packs_of(&self, _commit: &CommitId) -> Result<bool> {
        Ok(true)
    }
    /// True if the store has a pack, whole.
    fn has_pack(&self, pack: &PackRef) -> Result<bool>;
    /// Takes a pack in, durably. Its content is what its writer had, byte for byte.
    fn take_pack(&mut self, pack: &PackRef, content: Vec<u8>) -> Result<()>;
    /// Takes a record in: an event, a deletion, or a commit that counts, whose packs were taken in before where the extent is full. May be called
    /// twice for a record after an interruption, and where the bucket has it twice.
    fn take_record(&mut self, machine: MachineId, record: &Record) -> Result<()>;
    /// Notes up to where records were taken in, durably.
    fn note(&mut self, heads: &[(MachineId, u64)]) -> Result<()>;
}

/// Report of what was taken in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FetchReport {
    /// Checkpoints.
    pub commits: u64,
    /// Events and deletions.
    pub events: u64,
    /// Packs.
    pub packs: u64,
    /// Their length, in bytes.
    pub pack_bytes: u64,
}

/// A record with its place.
struct Met {
    machine: MachineId,
    number: u64,
    index: usize,
    record: Record,
}

/// Takes in what a bucket has and the target has not.
///
/// A commit whose author has not reported it yet may still turn out void; its packs are in the target then, and its author writes it again under the same id.
pub async fn fetch(bucket: &Bucket, target: &mut dyn Target, extent: Extent, observer: &dyn Observer) -> Result<FetchReport> {
    let mut report = FetchReport::default();
    let heads = target.heads()?;
    let (mut view, mut met) = (View::default(), Vec::new());
    for _ in 0..TRIES_MAX {
        let mut see = |seen: crate::view::Seen| {
            met.push(Met { machine: seen.machine, number: seen.number, index: seen.index, record: seen.record.clone() });
        };
        view.refresh(bucket, &mut see).await?;
        refuse_older(&heads, &view.heads())?;
        if extent == Extent::Records || take_packs(bucket, &view, target, &mut report, observer).await? {
            Order::of(&view, &heads, &met).take(target, &mut report)?;
            target.note(&view.heads())?;
            return Ok(report);
        }
    }
    Err(Error::Foreign(format!("gc removed packs in front of this fetch {TRIES_MAX} times")))
}

/// A chain that is shorter than it was: the bucket was set back, or its owner shows an older state.
fn refuse_older(known: &BTreeMap<MachineId, u64>, found: &[(MachineId, u64)]) -> Result<()> {
    let found: BTreeMap<MachineId, u64> = found.iter().copied().collect();
    for (machine, head) in known {
        let there = found.get(machine).copied().unwrap_or(0);
        if there < *head {
            let cause = format!("the chain of {machine} ends at {there}, and {head} was read before; it may be an older copy");
            return Err(Error::Foreign(cause));
        }
    }
    Ok(())
}

/// Takes in the packs of all checkpoints. False if gc has removed one meanwhile: then the view is old.
async fn take_packs(
    bucket: &Bucket,
    view: &View,
    target: &mut dyn Target,
    report: &mut FetchReport,
    observer: &dyn Observer,
) -> Result<bool> {
    let mut wanted: BTreeMap<_, PackRef> = BTreeMap::new();
    for (id, placed) in view.checkpoints() {
        if !target.needs_packs_of(&id)? {
            continue;
        }
        for pack in &placed.commit.packs {
            if pack.content_bytes > PACK_BYTES_MAX {
                let cause = format!("it has {} bytes, and at most {PACK_BYTES_MAX} are fetched", pack.content_bytes);
                return Err(Error::damaged(pack.key.object(), cause));
            }
            if !wanted.contains_key(&pack.key) && !target.has_pack(pack)? {
                wanted.insert(pack.key, pack.clone());
            }
        }
    }
    let fetches = stream::iter(wanted.into_values()).map(|pack| async move {
        let content = fetch_whole(&bucket.client, &bucket.keys, &pack, &bucket.effort).await;
        content.map(|content| (pack, content))
    });
    let mut fetches = std::pin::pin!(fetches.buffered(FETCHES));
    loop {
        match fetches.try_next().await {
            Ok(None) => return Ok(true),
            Ok(Some((pack, content))) => {
                target.take_pack(&pack, content)?;
                report.packs += 1;
                report.pack_bytes += pack.content_bytes;
                observer.fetched(&pack);
            }
            Err(Error::NotFound { .. }) => return Ok(false),
            Err(e) => return Err(e),
        }
    }
}

/// The order in which new records are taken in: each chain in its order, and what a machine had taken in before what it recorded then.
struct Order<'a> {
    chains: BTreeMap<MachineId, VecDeque<&'a Met>>,
    /// Places of the commits that count.
    counted: BTreeMap<CommitId, (MachineId, u64, usize)>,
}

impl<'a> Order<'a> {
    fn of(view: &View, heads: &BTreeMap<MachineId, u64>, met: &'a [Met]) -> Self {
        let mut chains: BTreeMap<MachineId, VecDeque<&Met>> = BTreeMap::new();
        for met in met.iter().filter(|met| met.number > heads.get(&met.machine).copied().unwrap_or(0)) {
            chains.entry(met.machine).or_default().push_back(met);
        }
        let counted = view.checkpoints();
        let counted = counted.into_iter().map(|(id, placed)| (id, (placed.machine, placed.number, placed.index))).collect();
        Order { chains, counted }
    }

    fn take(mut self, target: &mut dyn Target, report: &mut FetchReport) -> Result<()> {
        let machines: Vec<MachineId> = self.chains.keys().copied().collect();
        machines.into_iter().try_for_each(|machine| self.take_up_to(machine, u64::MAX, target, report))
    }

    /// Takes in a chain up to a segment. Each record is taken off its chain first, so that this ends whatever chains say of each other.
    fn take_up_to(&mut self, machine: MachineId, number: u64, target: &mut dyn Target, report: &mut FetchReport) -> Result<()> {
        let mut waiting = vec![(machine, number)];
        while let Some((machine, number)) = waiting.last().copied() {
            let next = self.chains.get_mut(&machine).and_then(|chain| chain.pop_front_if(|met| met.number <= number));
            let Some(Met { number, index, record, .. }) = next else {
                waiting.pop();
                continue;
            };
            match record {
                Record::Seen(heads) => waiting.extend(heads.iter().filter(|(other, _)| *other != machine)),
                Record::Commit(commit) if self.counted.get(&commit.id) != Some(&(machine, *number, *index)) => {}
                Record::Commit(_) => {
                    target.take_record(machine, record)?;
                    report.commits += 1;
                }
                _ => {
                    target.take_record(machine, record)?;
                    report.events += 1;
                }
            }
        }
        Ok(())
    }
}
