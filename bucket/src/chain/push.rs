//! Pushing: a machine's records go into its chain, and are reported when nothing can take them back.

use std::collections::BTreeSet;

use super::{
    memory::{CommitAgain, MachineMemory, MachineState, Pending},
    packs::PackPlan,
    record::{Commit, CommitId, Record},
    segment::{Body, STORED_BYTES_MAX, Segment},
};
use crate::{
    bucket::Bucket,
    codec::{hex, unhex_any},
    error::{Error, Result},
    gc::Ledger,
    layout::{self, MachineId, PackKey},
    pack::{PackRef, PackSource, WantedPack},
    remote::PutOutcome,
    view::View,
};

/// Times that a push may begin again, because gc condemned what it relies on or because its chain was written to by another machine.
const ROUNDS_MAX: u32 = 8;

/// Something to push.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A checkpoint.
    Commit {
        /// Its id.
        id: CommitId,
        /// The local journal's record of it.
        body: Vec<u8>,
        /// All packs that it depends on.
        packs: Vec<WantedPack>,
    },
    /// An event: the local journal's record of it.
    Event(Vec<u8>),
    /// The heads of other chains that this machine had taken in before it recorded what follows.
    Seen(Vec<(MachineId, u64)>),
    /// A checkpoint was deleted.
    Deletion {
        /// The checkpoint.
        commit: CommitId,
        /// Time of the deletion, in milliseconds since 1970.
        at_ms: u64,
    },
}

/// Report of a push: everything up to the cursor is in the bucket for good.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pushed {
    /// Number of the last segment.
    pub number: u64,
    /// Place in the local journal up to which records are in the bucket.
    pub cursor: u64,
    /// Segments that this push wrote.
    pub segments: u64,
    /// Packs that it uploaded.
    pub packs: u64,
    /// Packs that are named in what it wrote, and are in the bucket.
    pub named: Vec<PackRef>,
}

/// A machine with its chain in a bucket. One process at a time has it: the caller holds a lock on its memory.
pub struct Machine<'a> {
    bucket: &'a Bucket,
    memory: &'a dyn MachineMemory,
    state: MachineState,
    ledger: Ledger,
}

impl<'a> Machine<'a> {
    /// Opens the machine's chain, and settles what an earlier process left on its way. A machine that is new to the bucket takes an id.
    pub async fn open(bucket: &'a Bucket, memory: &'a dyn MachineMemory) -> Result<Self> {
        let state = match memory.load()? {
            Some(state) if state.bucket != bucket.settings.id => {
                return Err(Error::Foreign("it is another store than the one that this machine pushed to".into()));
            }
            Some(state) => state,
            None => MachineState::fresh(bucket.settings.id, bucket.fresh_machine()?),
        };
        let mut machine = Machine { bucket, memory, state, ledger: Ledger::default() };
        machine.verify_last().await?;
        machine.ledger.read(bucket).await?;
        Ok(machine)
    }

    /// The machine's state.
    pub fn state(&self) -> &MachineState {
        &self.state
    }

    /// True if all that was ever put is settled and safe.
    pub fn is_settled(&self) -> bool {
        self.state.pending.is_none() && self.state.again.is_empty()
    }

    /// The chain's last segment must still be there: a bucket that was set back to an older copy would get a chain with a hole.
    async fn verify_last(&self) -> Result<()> {
        let (machine, last) = (self.state.machine, self.state.next - 1);
        if last == 0 {
            return Ok(());
        }
        let older = || Error::Foreign(format!("segment {last} of this machine is not in it; it may be an older copy"));
        match self.bucket.client.get(&layout::segment(machine, last), STORED_BYTES_MAX, &self.bucket.effort).await {
            Ok(stored) => match Segment::open(machine, last, &stored, &self.bucket.keys)? {
                (_, _, hash) if hash == self.state.hash => Ok(()),
                _ => Err(older()),
            },
            Err(Error::NotFound { .. }) => Err(older()),
            Err(e) => Err(e),
        }
    }

    /// Pushes entries, in order; `cursor` is the place in the local journal that they reach. Without entries, it finishes what is on its way.
    ///
    /// Fails with [`Error::NotKnown`] where a segment was put and no answer came: it may be in the bucket, and the next push settles it first.
    /// The entries must then be given again, from the cursor of [`Machine::state`] on, after a push without entries.
    pub async fn push(&mut self, entries: &[Entry], cursor: u64, source: &dyn PackSource) -> Result<Pushed> {
        let mut report = Pushed::default();
        let was_pending = self.state.pending.is_some();
        // A lost commit may be among the entries, if those are going to be written.
        self.finish(if was_pending { &[] } else { entries }, source, &mut report).await?;
        // What was on its way had entries of its own. The caller looks at the cursor before it goes on.
        if !was_pending && !entries.is_empty() {
            let records = self.records(entries, source, &mut report).await?;
            self.append(records, cursor, &mut report).await?;
            self.finish(&[], source, &mut report).await?;
        }
        (report.number, report.cursor) = (self.state.next - 1, self.state.cursor);
        Ok(report)
    }

    /// Settles the segment on its way, and writes again whatever relies on packs that gc has condemned, until nothing does. Commits that `given`
    /// has anew, or deletes, need not be written again from the bucket.
    async fn finish(&mut self, given: &[Entry], source: &dyn PackSource, report: &mut Pushed) -> Result<()> {
        for _ in 0..ROUNDS_MAX {
            self.settle(report).await?;
            if self.state.again.is_empty() {
                return Ok(());
            }
            let entries = self.entries_again(source).await?;
            if entries.is_empty() {
                return self.ensure_given(given);
            }
            let cursor = self.state.cursor;
            let records = self.records(&entries, source, report).await?;
            self.append(records, cursor, report).await?;
        }
        Err(Error::NotKnown {
            object: layout::chain(self.state.machine),
            cause: format!("gc condemned packs of its commits {ROUNDS_MAX} times"),
        })
    }

    /// Fails if a commit is lost that the caller does not give anew.
    fn ensure_given(&self, given: &[Entry]) -> Result<()> {
        let is_given = |lost: &CommitId| {
            given.iter().any(|entry| match entry {
                Entry::Commit { id, .. } => id == lost,
                Entry::Deletion { commit, .. } => commit == lost,
                Entry::Event(_) | Entry::Seen(_) => false,
            })
        };
        match self.state.again.iter().find(|again| !is_given(&again.id)) {
            Some(CommitAgain { id, machine, number }) => Err(Error::Invalid(format!(
                "cannot go on with {}: commit {} must be given again, as {} was emptied before its packs were replaced",
                layout::chain(self.state.machine),
                hex(&id.0),
                layout::segment(*machine, *number),
            ))),
            None => Ok(()),
        }
    }

    /// Takes out commits whose segments were emptied, where their fate is known: they are elsewhere in the bucket, or were deleted.
    async fn drop_known(&mut self, emptied: &BTreeSet<CommitId>) -> Result<()> {
        let mut view = View::default();
        view.refresh(self.bucket, &mut |_| {}).await?;
        let there = view.checkpoints();
        let is_known = |id: &CommitId| emptied.contains(id) && (view.is_deleted(id) || there.contains_key(id));
        self.state.again.retain(|again| !is_known(&again.id));
        self.memory.save(&self.state)
    }

    /// The commits that are to be written again, with packs of this machine's own for those that they lost. Without any, `again` is left with commits
    /// that are lost.
    async fn entries_again(&mut self, source: &dyn PackSource) -> Result<Vec<Entry>> {
        let (mut entries, mut emptied) = (Vec::new(), BTreeSet::new());
        for CommitAgain { id, machine, number } in self.state.again.clone() {
            let stored = self.bucket.client.get(&layout::segment(machine, number), STORED_BYTES_MAX, &self.bucket.effort).await?;
            let (segment, _, _) = Segment::open(machine, number, &stored, &self.bucket.keys)?;
            let Body::Full { records, .. } = segment.body else {
                emptied.insert(id);
                continue;
            };
            for record in records {
                let Record::Commit(commit) = record else { continue };
                if commit.id != id {
                    continue;
                }
                let mut packs = Vec::new();
                for pack in commit.packs {
                    if self.ledger.pack(&pack.key) == crate::gc::PackStatus::Usable {
                        let (label, digest, content_bytes) = (pack.label.clone(), pack.digest, pack.content_bytes);
                        packs.push(WantedPack { label, digest, content_bytes, there: Some(pack) });
                    } else {
                        packs.extend(source.replace(&pack)?);
                    }
                }
                entries.push(Entry::Commit { id, body: commit.body, packs });
            }
        }
        if !emptied.is_empty() {
            self.drop_known(&emptied).await?;
        }
        Ok(entries)
    }

    /// The records of entries, their packs uploaded.
    async fn records(&mut self, entries: &[Entry], source: &dyn PackSource, report: &mut Pushed) -> Result<Vec<Record>> {
        let mut plan = PackPlan::default();
        let mut records = Vec::with_capacity(entries.len());
        for entry in entries {
            records.push(match entry {
                Entry::Commit { id, body, packs } => {
                    let packs = plan
                        .provide(self.bucket, &self.ledger, self.memory, &mut self.state, packs, source, &mut report.packs)
                        .await?;
                    Record::Commit(Commit { id: *id, body: body.clone(), packs })
                }
                Entry::Event(body) => Record::Event(body.clone()),
                Entry::Seen(heads) => Record::Seen(heads.clone()),
                Entry::Deletion { commit, at_ms } => Record::Deletion { commit: *commit, at_ms: *at_ms },
            });
        }
        Ok(records)
    }

    /// Puts records in the next segment, with the epoch that was read last. Where another machine has this chain, goes on in a new one.
    async fn append(&mut self, records: Vec<Record>, cursor: u64, report: &mut Pushed) -> Result<()> {
        for _ in 0..ROUNDS_MAX {
            let MachineState { machine, next: number, hash: previous, continues, .. } = self.state;
            let body = Body::Full { epoch: self.ledger.epoch(), previous, continues, cursor, records: records.clone() };
            let sealed =
                Segment { machine, number, body }.seal(self.bucket.sealing(), &self.bucket.keys, &*self.bucket.random)?;
            // From here on, nothing else is put at this number, by this process or a later one.
            self.state.pending = Some(Pending { stored: hex(&sealed.bytes), cursor });
            self.memory.save(&self.state)?;
            if self.settle(report).await? {
                return Ok(());
            }
        }
        Err(Error::Invalid(format!("cannot write to the chain of {}: other machines write to it", self.state.machine)))
    }

    /// Settles the segment on its way: the same bytes at the same number until they are there or something else is. False if another machine has
    /// this chain: then this one takes a new id.
    async fn settle(&mut self, report: &mut Pushed) -> Result<bool> {
        let Some(Pending { stored, cursor }) = self.state.pending.clone() else { return Ok(true) };
        let (machine, number) = (self.state.machine, self.state.next);
        let object = layout::segment(machine, number);
        let bytes = unhex_any(&stored).ok_or_else(|| Error::State("the segment on its way is not hex".into()))?;
        let (segment, name, hash) = Segment::open(machine, number, &bytes, &self.bucket.keys)?;
        let keys = &self.bucket.keys;
        let is_ours =
            |found: &[u8]| Segment::open(machine, number, found, keys).is_ok_and(|(_, found_name, _)| found_name == name);
        match self.bucket.client.put_absent(&object, &bytes.into(), STORED_BYTES_MAX, &is_ours, &self.bucket.effort).await? {
            PutOutcome::Ours => {
                report.segments += 1;
                // The read behind the write: what it does not show is condemned by a gc that will see the segment.
                self.ledger.read(self.bucket).await.map_err(|e| not_known(&object, &e))?;
                let unsafe_commits = unsafe_commits(&segment, &self.ledger);
                let written: Vec<CommitId> = commits(&segment).map(|commit| commit.id).collect();
                self.state.again.retain(|again| !written.contains(&again.id));
                self.state.again.extend(unsafe_commits.into_iter().map(|id| CommitAgain { id, machine, number }));
                // The segment names its packs now: their uploads are over.
                let named: BTreeSet<PackKey> = commits(&segment).flat_map(|commit| &commit.packs).map(|pack| pack.key).collect();
                self.state.uploads.retain(|_, upload| !named.contains(&upload.pack.key));
                report.named.extend(commits(&segment).flat_map(|commit| commit.packs.iter().cloned()));
                (self.state.next, self.state.hash) = (number + 1, hash);
                (self.state.pending, self.state.continues) = (None, None);
                self.state.cursor = self.state.cursor.max(cursor);
                self.memory.save(&self.state)?;
                Ok(true)
            }
            PutOutcome::Theirs(_) => {
                // A copy of this machine, or this machine set back to an older state: numbers of this chain are another's now.
                let continues = (number > 1).then_some((machine, number - 1)).or(self.state.continues);
                let new = MachineState::fresh(self.bucket.settings.id, self.bucket.fresh_machine()?);
                self.state = MachineState {
                    machine: new.machine,
                    next: 1,
                    hash: new.hash,
                    continues,
                    pending: None,
                    ..self.state.clone()
                };
                self.memory.save(&self.state)?;
                Ok(false)
            }
        }
    }
}

/// The error of a read behind a put: the segment is there, and whether it counts is open.
fn not_known(object: &str, cause: &Error) -> Error {
    Error::NotKnown { object: object.into(), cause: cause.to_string() }
}

fn commits(segment: &Segment) -> impl Iterator<Item = &Commit> {
    let records = match &segment.body {
        Body::Full { records, .. } => &records[..],
        Body::Emptied { .. } => &[],
    };
    records.iter().filter_map(|record| if let Record::Commit(commit) = record { Some(commit) } else { None })
}

/// Commits of a segment that rely on packs which are condemned or deleted.
fn unsafe_commits(segment: &Segment, ledger: &Ledger) -> Vec<CommitId> {
    commits(segment).filter(|commit| !ledger.is_safe(commit)).map(|commit| commit.id).collect()
}
