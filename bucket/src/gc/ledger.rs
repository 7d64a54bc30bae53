//! What gc's chain adds up to.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use super::record::{GcRecord, Resolution};
use crate::{
    bucket::Bucket,
    chain::{Commit, STORED_BYTES_MAX},
    error::{Error, Result},
    layout::{self, MachineId, PackKey},
    remote::PutOutcome,
};

/// The state of a pack, by gc's chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PackStatus {
    /// Commits may rely on it.
    Usable,
    /// It is condemned, with this epoch, and that is not resolved.
    Condemned(u64),
    /// It is gone for good.
    Deleted,
}

/// The state of a commit, by gc's chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitStatus {
    /// All its packs are there.
    Valid,
    /// It relies on a deleted pack, and was written behind gc's back, as its epoch shows: it never counted.
    Void,
    /// It relies on a deleted pack that gc had no right to delete, unless the commit is a deleted one.
    Broken,
}

/// gc's chain, read up to a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ledger {
    /// Number of the next record.
    next: u64,
    /// Number of condemnations.
    epoch: u64,
    open: BTreeMap<u64, BTreeSet<PackKey>>,
    condemned: BTreeMap<PackKey, u64>,
    /// Of each deleted pack, the number of its resolution.
    deleted: BTreeMap<PackKey, usize>,
    resolutions: Vec<(u64, BTreeMap<MachineId, u64>)>,
}

impl Default for Ledger {
    fn default() -> Self {
        let (epoch, open, condemned, deleted, resolutions) = Default::default();
        Ledger { next: 1, epoch, open, condemned, deleted, resolutions }
    }
}

impl Ledger {
    /// The epoch: the number of condemnations so far.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Number of records that were read.
    pub fn records(&self) -> u64 {
        self.next - 1
    }

    /// Epochs of condemnations that are not resolved.
    pub fn open(&self) -> impl Iterator<Item = (u64, &BTreeSet<PackKey>)> {
        self.open.iter().map(|(epoch, packs)| (*epoch, packs))
    }

    /// Heads of the chains as gc has seen them: no chain is ever shorter.
    pub fn heads(&self) -> BTreeMap<MachineId, u64> {
        let mut seen = BTreeMap::new();
        for (machine, head) in self.resolutions.iter().flat_map(|(_, heads)| heads) {
            let most = seen.entry(*machine).or_insert(0);
            *most = (*head).max(*most);
        }
        seen
    }

    /// What is known of a pack.
    pub fn pack(&self, pack: &PackKey) -> PackStatus {
        match (self.deleted.get(pack), self.condemned.get(pack)) {
            (Some(_), _) => PackStatus::Deleted,
            (_, Some(epoch)) => PackStatus::Condemned(*epoch),
            _ => PackStatus::Usable,
        }
    }

    /// What is known of a commit in the segment of a number and an epoch.
    pub fn commit(&self, machine: MachineId, number: u64, epoch: u64, commit: &Commit) -> CommitStatus {
        let resolutions = commit.packs.iter().filter_map(|pack| self.resolutions.get(*self.deleted.get(&pack.key)?));
        let mut status = CommitStatus::Valid;
        for (resolved, heads) in resolutions {
            if number > heads.get(&machine).copied().unwrap_or(0) && epoch < *resolved {
                return CommitStatus::Void;
            }
            status = CommitStatus::Broken;
        }
        status
    }

    /// True if the author of a commit may report it, after a read of this chain that followed its put: none of its packs is condemned or
    /// deleted. Whatever is condemned later is condemned by a gc that then sees the commit.
    pub fn is_safe(&self, commit: &Commit) -> bool {
        commit.packs.iter().all(|pack| self.pack(&pack.key) == PackStatus::Usable)
    }

    fn apply(&mut self, record: &GcRecord) -> Result<()> {
        let damaged = |cause: String| Error::damaged(layout::gc_record(self.next), cause);
        match record {
            GcRecord::Condemn { epoch, packs } => {
                if *epoch != self.epoch + 1 || packs.iter().any(|pack| self.pack(pack) != PackStatus::Usable) {
                    return Err(damaged("it condemns what is condemned already".into()));
                }
                self.condemned.extend(packs.iter().map(|pack| (*pack, *epoch)));
                self.open.insert(*epoch, packs.iter().copied().collect());
                self.epoch = *epoch;
            }
            GcRecord::Resolve(Resolution { epoch, heads, deleted, kept }) => {
                let named: BTreeSet<PackKey> = deleted.iter().chain(kept).copied().collect();
                if self.open.get(epoch) != Some(&named) || named.len() != deleted.len() + kept.len() {
                    return Err(damaged(format!("it resolves other packs than epoch {epoch} has condemned")));
                }
                self.open.remove(epoch);
                self.condemned.retain(|pack, _| !named.contains(pack));
                self.deleted.extend(deleted.iter().map(|pack| (*pack, self.resolutions.len())));
                self.resolutions.push((*epoch, heads.iter().copied().collect()));
            }
        }
        self.next += 1;
        Ok(())
    }

    /// Reads what is new in gc's chain: one request if nothing is.
    pub async fn read(&mut self, bucket: &Bucket) -> Result<()> {
        loop {
            match bucket.client.get(&layout::gc_record(self.next), STORED_BYTES_MAX, &bucket.effort).await {
                Ok(stored) => self.take(bucket, &stored)?,
                Err(Error::NotFound { .. }) => return Ok(()),
                Err(e) => return Err(e),
            }
        }
    }

    fn take(&mut self, bucket: &Bucket, stored: &[u8]) -> Result<()> {
        let record = GcRecord::open(self.next, stored, &bucket.keys)?;
        self.apply(&record)
    }

    /// Puts a record at the chain's end. False if another gc was there first: then its record is taken in, and this one may not hold any more.
    pub(super) async fn put(&mut self, bucket: &Bucket, record: &GcRecord) -> Result<bool> {
        let stored = Bytes::from(record.seal(self.next, bucket.sealing(), &bucket.keys, &*bucket.random)?);
        let object = layout::gc_record(self.next);
        match bucket.client.put_absent(&object, &stored, STORED_BYTES_MAX, &|_| false, &bucket.effort).await? {
            PutOutcome::Ours => self.apply(record).map(|()| true),
            PutOutcome::Theirs(stored) => self.take(bucket, &stored).map(|()| false),
        }
    }
}
