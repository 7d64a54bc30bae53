//! What this store's own machine has recorded, in order.

use std::collections::{BTreeMap, HashSet};

use jiff::Timestamp;

use super::needs::{Needs, PackNeed};
use crate::{
    error::{IoContext as _, Result},
    event::kind,
    id::{PackId, Ulid},
    journal::{Entry, Journal, Position},
    pin::Pin,
    progress::{self, Progress},
    record::{Checkpoint, Unreadable},
    store::Store,
};

/// Records of the journal that are read at a time.
const PAGE_RECORDS: u64 = 256;
/// What a pack of a checkpoint counts for in a batch, in bytes.
const PACK_BYTES: usize = 256;

/// A record for others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutgoingRecord {
    /// A checkpoint.
    Commit {
        /// Its id.
        id: Ulid,
        /// Its sealed record, byte for byte.
        sealed: String,
        /// All packs that it needs, with their lengths in bytes.
        packs: Vec<(PackId, u64)>,
    },
    /// An event: the body of its journal record, byte for byte.
    Event(Vec<u8>),
    /// A checkpoint was deleted, on whatever machine it was made.
    Deletion {
        /// The checkpoint.
        checkpoint: Ulid,
        /// Time of the deletion.
        at: Timestamp,
    },
    /// What follows was recorded by a store that had taken in a remote up to here.
    Fetched(BTreeMap<String, u64>),
}

/// Records that follow each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutgoingBatch {
    /// The records.
    pub records: Vec<OutgoingRecord>,
    /// Sequence of the journal's last record that was looked at.
    pub sequence: u64,
    /// Checkpoints of which parts are in no pack: they are given with what is there.
    pub damaged: Vec<Ulid>,
    /// Checkpoints that were left out, because this release cannot read their records.
    pub unreadable: u64,
}

/// The way out of a store. Until it is dropped, gc removes no packs.
pub struct Outgoing<'a> {
    store: &'a Store,
    /// Id of the remote's store, in hex.
    remote: String,
    needs: Needs<'a>,
    /// Checkpoints that other machines have made, known once one is asked for.
    foreign: Option<HashSet<Ulid>>,
    _pin: Option<Pin>,
}

impl<'a> Outgoing<'a> {
    /// Opens it, for a remote's store.
    pub fn open(store: &'a Store, remote: &str) -> Result<Self> {
        let pin = match Pin::take(&store.layout().pins(), true, "push") {
            // A medium that cannot be written to has no gc either.
            Err(_) if store.is_read_only() => None,
            other => Some(other?),
        };
        store.refresh()?;
        Ok(Outgoing { store, remote: remote.to_owned(), needs: Needs::new(store), foreign: None, _pin: pin })
    }

    /// Records behind a sequence, in order: as many as have `bytes_max` bytes together, where each pack of a checkpoint counts for 256; at least
    /// one, unless there is none. Nothing is given that a power cut could still take back.
    pub fn behind(&mut self, sequence: u64, bytes_max: usize, progress: &dyn Progress) -> Result<OutgoingBatch> {
        let view = self.store.refresh()?;
        if let Some(damage) = view.damage() {
            return Err(damage);
        }
        let (journal, end) = (Journal::of(self.store.layout()), view.end().sequence);
        if !self.store.is_read_only() {
            journal.sync_up_to(end)?;
        }
        let (mut batch, mut bytes) = (OutgoingBatch { sequence, ..OutgoingBatch::default() }, 0);
        let mut at = journal.place_behind(sequence)?;
        while at.sequence < end {
            let mut page = Vec::new();
            let last = end.min(at.sequence + PAGE_RECORDS);
            at = journal
                .look_up_to(&at, last, |raw| {
                    page.push((raw.sequence, raw.body.to_vec(), raw.decode()?.entry));
                    Ok(())
                })?
                .end;
            for (sequence, body, entry) in page {
                progress::check(progress)?;
                let (before, damaged) = (batch.records.len(), batch.damaged.len());
                self.give(sequence, body, entry, &mut batch, progress)?;
                bytes += batch.records[before..].iter().map(OutgoingRecord::counted_bytes).sum::<usize>();
                if bytes > bytes_max && before > 0 {
                    batch.records.truncate(before);
                    batch.damaged.truncate(damaged);
                    return Ok(batch);
                }
                batch.sequence = sequence;
            }
        }
        Ok(batch)
    }

    /// Adds what an entry of the journal is for others: nothing, where it came from them or is upkeep.
    fn give(
        &mut self,
        sequence: u64,
        body: Vec<u8>,
        entry: Entry,
        batch: &mut OutgoingBatch,
        progress: &dyn Progress,
    ) -> Result<()> {
        match entry {
            Entry::Commit { record, machine: None, .. } => match Checkpoint::decode(sequence, record, self.store.ids()) {
                Ok(checkpoint) => self.give_checkpoint(checkpoint, batch, progress)?,
                Err(_) => batch.unreadable += 1,
            },
            Entry::Event(event) => {
                batch.records.push(OutgoingRecord::Event(body));
                if event.kind == kind::CHECKPOINT_DELETED
                    && let Ok(checkpoint) = event.subject.parse()
                    && !self.is_foreign(checkpoint)?
                {
                    batch.records.push(OutgoingRecord::Deletion { checkpoint, at: event.at });
                }
            }
            // An event of a later release.
            Entry::Unknown(value) if value.get("type").is_some_and(|kind| kind == "event") => {
                batch.records.push(OutgoingRecord::Event(body));
            }
            Entry::Fetched { remote, heads, .. } if remote == self.remote => batch.records.push(OutgoingRecord::Fetched(heads)),
            _ => {}
        }
        Ok(())
    }

    /// True if another machine has made a checkpoint: it alone deletes it for all.
    fn is_foreign(&mut self, checkpoint: Ulid) -> Result<bool> {
        let foreign = match self.foreign.take() {
            Some(foreign) => foreign,
            None => {
                let mut found = HashSet::new();
                Journal::of(self.store.layout()).look_after(0, |raw| {
                    if raw.event().is_none()
                        && let Entry::Commit { record, machine: Some(_), is_own: false, .. } = raw.decode()?.entry
                    {
                        found.extend(Unreadable::told_id(&record));
                    }
                    Ok(())
                })?;
                found
            }
        };
        let is_foreign = foreign.contains(&checkpoint);
        self.foreign = Some(foreign);
        Ok(is_foreign)
    }

    fn give_checkpoint(&mut self, checkpoint: Checkpoint, batch: &mut OutgoingBatch, progress: &dyn Progress) -> Result<()> {
        let id = checkpoint.record.id;
        let PackNeed { packs, is_damaged } = self.needs.of(&checkpoint, progress)?;
        // Its deletion comes later in the journal, and parts of it may be gone already.
        if self.store.view().checkpoint(id)?.is_none() {
            return Ok(());
        }
        let (mut lengths, mut lacks) = (Vec::new(), is_damaged);
        for pack in packs {
            let path = self.store.layout().pack(pack);
            match std::fs::symlink_metadata(&path) {
                Ok(found) => lengths.push((pack, found.len())),
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => lacks = true,
                Err(e) => return Err(e).at("read pack", &path),
            }
        }
        batch.damaged.extend(lacks.then_some(id));
        let packs = lengths;
        batch.records.push(OutgoingRecord::Commit { id, sealed: checkpoint.sealed, packs });
        Ok(())
    }

    /// All packs of the store that are not condemned, with their lengths: for whoever has lost track of what lies where.
    pub fn all_packs(&self) -> Result<Vec<(PackId, u64)>> {
        let view = self.store.refresh()?;
        let usable = view.packs()?.into_iter().filter(|(_, state)| state.condemned.is_none());
        Ok(usable.map(|(id, state)| (id, state.bytes)).collect())
    }

    /// The place in the journal behind a record, by which it is known later whether the journal still goes on from there.
    pub fn place(&self, sequence: u64) -> Result<Position> {
        Journal::of(self.store.layout()).place_behind(sequence)
    }

    /// True if the journal goes on from a place: it is the same one, and no older copy of it.
    pub fn goes_on_from(&self, place: &Position) -> Result<bool> {
        let journal = Journal::of(self.store.layout());
        Ok(place.sequence <= self.store.refresh()?.end().sequence && journal.place_behind(place.sequence)?.hash == place.hash)
    }

    /// True if the store has a pack, and gc has not condemned it.
    pub fn has_pack(&self, pack: PackId) -> Result<bool> {
        Ok(self.store.refresh()?.lost(&[pack].into())?.is_empty())
    }
}

impl OutgoingRecord {
    fn counted_bytes(&self) -> usize {
        match self {
            OutgoingRecord::Commit { sealed, packs, .. } => sealed.len() + PACK_BYTES * packs.len(),
            OutgoingRecord::Event(body) => body.len(),
            OutgoingRecord::Deletion { .. } => 32,
            OutgoingRecord::Fetched(heads) => 32 * heads.len(),
        }
    }
}
