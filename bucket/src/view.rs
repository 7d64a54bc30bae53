//! The bucket as its chains tell it: which checkpoints exist, what they need, and which packs nobody needs.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};

use crate::{
    bucket::Bucket,
    chain::{Body, ChainState, Commit, CommitId, Link, Record, STORED_BYTES_MAX, Segment},
    error::{Error, Result},
    gc::{CommitStatus, Ledger},
    layout::{self, MachineId, PackKey},
};

/// Times that the chains are read because gc's chain has changed meanwhile.
const REFRESHES_MAX: u32 = 16;
/// Segments that are fetched at the same time.
const FETCHES: usize = 16;

/// A commit with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedCommit {
    /// The machine whose chain it is in.
    pub machine: MachineId,
    /// Number of its segment.
    pub number: u64,
    /// Its place in the segment, from 0.
    pub index: usize,
    /// Epoch of its segment.
    pub epoch: u64,
    /// The commit.
    pub commit: Commit,
}

/// A record as it is met in a chain, for who takes records in.
#[derive(Debug)]
pub struct Seen<'a> {
    /// The machine whose chain it is in.
    pub machine: MachineId,
    /// Number of its segment.
    pub number: u64,
    /// Place of the record in its segment, from 0.
    pub index: usize,
    /// The record.
    pub record: &'a Record,
}

/// Everything that was read of a bucket's chains. Reading on costs a request for each machine, and one for each new segment.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// gc's chain.
    pub ledger: Ledger,
    chains: BTreeMap<MachineId, ChainState>,
    commits: Vec<PlacedCommit>,
    deletions: BTreeMap<CommitId, u64>,
    /// Of each machine, the place in its local journal up to which it has pushed.
    cursors: BTreeMap<MachineId, u64>,
}

impl View {
    /// Reads gc's chain, all machines' chains, and gc's chain again, until that has not changed meanwhile.
    ///
    /// It is read last, because what the chains name is judged by what gc has done since; and it must not have changed, because what gc did may rest
    /// on deletions that were written behind what was read.
    pub async fn refresh(&mut self, bucket: &Bucket, see: &mut (dyn FnMut(Seen) + Send)) -> Result<()> {
        self.ledger.read(bucket).await?;
        for _ in 0..REFRESHES_MAX {
            let before = self.ledger.records();
            self.read_chains(bucket, see).await?;
            self.ledger.read(bucket).await?;
            if self.ledger.records() == before {
                return Ok(());
            }
        }
        let cause = "gc wrote to its chain all the time".into();
        Err(Error::Request { action: "read", object: layout::GC.into(), cause, is_transient: true })
    }

    /// Reads what is new in the machines' chains. Fails if one is shorter than gc has seen it.
    pub async fn read_chains(&mut self, bucket: &Bucket, see: &mut (dyn FnMut(Seen) + Send)) -> Result<()> {
        for name in bucket.client.folders(layout::JOURNAL, &bucket.effort).await? {
            // Other names are no chains, and nobody's business.
            let Some(machine) = MachineId::parse(&name) else { continue };
            self.read_chain(bucket, machine, see).await?;
        }
        self.ensure_whole()
    }

    /// Fails if a chain is shorter than gc has seen it: somebody has cut the bucket. Packs that only the lost segments name look like garbage then.
    fn ensure_whole(&self) -> Result<()> {
        for (machine, head) in self.ledger.heads() {
            let there = self.chains.get(&machine).map_or(0, |state| state.next - 1);
            if there < head {
                let cause = format!("it ends at {there}, and gc has seen segment {head}");
                return Err(Error::damaged(layout::chain(machine), cause));
            }
        }
        Ok(())
    }

    async fn read_chain(&mut self, bucket: &Bucket, machine: MachineId, see: &mut (dyn FnMut(Seen) + Send)) -> Result<()> {
        let mut state = self.chains.get(&machine).copied().unwrap_or_else(ChainState::start);
        let after = layout::segment(machine, state.next - 1);
        let listed = bucket.client.list(&layout::chain(machine), Some(&after), &bucket.effort).await?;
        let numbers: Vec<u64> = listed.iter().filter_map(|listed| layout::number_of(&listed.object)).collect();
        let links = stream::iter(numbers).map(|number| fetch(bucket, machine, number)).buffered(FETCHES);
        let mut links = std::pin::pin!(links);
        while let Some(link) = links.try_next().await? {
            state.follow(&link)?;
            self.take(&link.segment, see);
            // Each segment counts as soon as it is taken in: an error later on does not take it in twice.
            self.chains.insert(machine, state);
        }
        Ok(())
    }

    fn take(&mut self, segment: &Segment, see: &mut (dyn FnMut(Seen) + Send)) {
        let Segment { machine, number, body: Body::Full { epoch, cursor, records, .. } } = segment else { return };
        self.cursors.insert(*machine, *cursor);
        for (index, record) in records.iter().enumerate() {
            match record {
                Record::Commit(commit) => {
                    let (machine, number, epoch) = (*machine, *number, *epoch);
                    self.commits.push(PlacedCommit { machine, number, index, epoch, commit: commit.clone() });
                }
                Record::Deletion { commit, at_ms } => drop(self.deletions.entry(*commit).or_insert(*at_ms)),
                Record::Event(_) | Record::Seen(_) | Record::Other { .. } => {}
            }
            see(Seen { machine: *machine, number: *number, index, record });
        }
    }

    /// The state of a commit, by gc's chain.
    pub fn status(&self, placed: &PlacedCommit) -> CommitStatus {
        self.ledger.commit(placed.machine, placed.number, placed.epoch, &placed.commit)
    }

    /// True if a checkpoint was deleted.
    pub fn is_deleted(&self, id: &CommitId) -> bool {
        self.deletions.contains_key(id)
    }

    /// Checkpoints that exist: each id once, where it is valid. Where a machine wrote a commit again, the last one counts.
    pub fn checkpoints(&self) -> BTreeMap<CommitId, &PlacedCommit> {
        let is_there = |placed: &&PlacedCommit| {
            !self.deletions.contains_key(&placed.commit.id) && self.status(placed) == CommitStatus::Valid
        };
        self.commits.iter().filter(is_there).map(|placed| (placed.commit.id, placed)).collect()
    }

    /// Commits that rely on packs which gc had no right to delete: damage of the bucket.
    pub fn broken(&self) -> Vec<&PlacedCommit> {
        let is_broken = |placed: &&PlacedCommit| {
            !self.deletions.contains_key(&placed.commit.id) && self.status(placed) == CommitStatus::Broken
        };
        self.commits.iter().filter(is_broken).collect()
    }

    /// Packs that valid commits need. `grace_since_ms` keeps those of checkpoints that were deleted since that time, for their readers.
    pub fn needed(&self, grace_since_ms: u64) -> BTreeSet<PackKey> {
        let is_kept = |placed: &&PlacedCommit| {
            let deleted_at = self.deletions.get(&placed.commit.id);
            deleted_at.is_none_or(|at| *at >= grace_since_ms) && self.status(placed) == CommitStatus::Valid
        };
        self.commits.iter().filter(is_kept).flat_map(|placed| &placed.commit.packs).map(|pack| pack.key).collect()
    }

    /// True if some commit names the pack, whatever became of the commit.
    pub fn names(&self) -> BTreeSet<PackKey> {
        self.commits.iter().flat_map(|placed| &placed.commit.packs).map(|pack| pack.key).collect()
    }

    /// Heads of all chains: the number of the last segment that was read.
    pub fn heads(&self) -> Vec<(MachineId, u64)> {
        self.chains.iter().map(|(machine, state)| (*machine, state.next - 1)).collect()
    }

    /// The place in its local journal up to which a machine has pushed; absent if it has no chain.
    pub fn cursor(&self, machine: MachineId) -> Option<u64> {
        self.cursors.get(&machine).copied()
    }
}

/// A segment of a chain.
async fn fetch(bucket: &Bucket, machine: MachineId, number: u64) -> Result<Link> {
    let object = layout::segment(machine, number);
    let stored: Bytes = match bucket.client.get(&object, STORED_BYTES_MAX, &bucket.effort).await {
        Err(Error::NotFound { object }) => return Err(Error::damaged(object, "it was listed, and is not there")),
        answer => answer?,
    };
    let (segment, _, hash) = Segment::open(machine, number, &stored, &bucket.keys)?;
    Ok(Link { segment, hash })
}
