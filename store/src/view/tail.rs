//! The journal's tail: what has been committed since RocksDB was brought up to date.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::PackState;
use crate::{
    event::{Event, kind},
    id::{OpId, PackId, Ulid},
    journal::{Entry, JournalRecord},
    keys::Ids,
    pack::PackInfo,
    record::Checkpoint,
};

/// Changes in the journal's tail.
#[derive(Debug, Default)]
pub(super) struct Changes {
    pub(super) packs: BTreeMap<PackId, PackState>,
    /// The packs in the order in which they were committed. Of an object that lies in several, the last one is where it is found,
    /// however much of the journal is read at a time: gc relies on all processes finding it in the same one.
    pub(super) order: Vec<PackId>,
    pub(super) dropped: HashSet<PackId>,
    pub(super) condemned: HashMap<PackId, Vec<OpId>>,
    pub(super) checkpoints: BTreeMap<u64, Checkpoint>,
    /// Sealed records that this release cannot read.
    pub(super) unreadable: BTreeMap<u64, String>,
    pub(super) deleted: HashSet<Ulid>,
    /// The checkpoints that deleted ones came from, as far as their deletions tell.
    pub(super) origins: HashMap<Ulid, Ulid>,
}

impl Changes {
    pub(super) fn apply(&mut self, logged: &JournalRecord, ids: &Ids) {
        match &logged.entry {
            Entry::Commit { record, packs, .. } => {
                self.add_packs(packs);
                // One checkpoint that cannot be read hides no other one.
                match Checkpoint::decode(logged.sequence, record.clone(), ids) {
                    Ok(checkpoint) => _ = self.checkpoints.insert(logged.sequence, checkpoint),
                    Err(_) => _ = self.unreadable.insert(logged.sequence, record.clone()),
                }
            }
            Entry::Event(event) => self.note(event),
            Entry::RemoteEvent { .. } => {
                if let Some((event, _)) = logged.entry.told_event() {
                    self.note(&event);
                }
            }
            Entry::Condemn { added, condemned, waits_for, .. } => {
                self.add_packs(added);
                self.condemned.extend(condemned.iter().map(|id| (*id, waits_for.clone())));
            }
            Entry::Dropped { packs } => self.dropped.extend(packs),
            Entry::Fetched { .. } | Entry::Unknown(_) => {}
        }
    }

    fn note(&mut self, event: &Event) {
        if event.kind == kind::CHECKPOINT_DELETED
            && let Ok(id) = event.subject.parse()
        {
            self.deleted.insert(id);
            let origin = event.data.get("parent").and_then(|parent| parent.as_str()?.parse().ok());
            self.origins.extend(origin.map(|origin| (id, origin)));
        }
    }

    fn add_packs(&mut self, packs: &[PackInfo]) {
        for pack in packs {
            let state = PackState { bytes: pack.bytes, digest: pack.digest.clone(), condemned: None };
            self.packs.insert(pack.id, state);
            self.order.push(pack.id);
        }
    }
}
