//! The journal of a new store: what the old one still tells, and a commit for every sealed record.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::found::SealedRecord;
use crate::{
    error::Result,
    event::kind,
    id::{ObjectId, OpId, Ulid},
    journal::{Entry, Gap, Journal, Position, Writer, encode_entry},
    keys::Ids,
    layout::Layout,
    pack::PackInfo,
    record::{Checkpoint, Record},
};

/// What can be read of a journal.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// Records, with their bodies, in order.
    pub(super) records: Vec<(u64, Vec<u8>, Entry)>,
    /// The reason for which it is not whole.
    pub(super) fault: Option<String>,
    /// Records of whose loss it knows.
    missing: u64,
}

/// A record of the new journal.
#[derive(Debug)]
enum Line {
    /// As it stood in the old one.
    AsItIs(Vec<u8>),
    /// A checkpoint, by the id of its record.
    Commit(ObjectId),
}

/// The new journal.
#[derive(Debug, Default)]
pub(super) struct Script {
    lines: Vec<Line>,
    /// Of checkpoints that came from a remote, the machines that made them.
    machines: HashMap<ObjectId, (String, bool)>,
    /// Every checkpoint that is committed.
    pub(super) checkpoints: BTreeMap<ObjectId, Checkpoint>,
    /// Records of which the journal told nothing.
    pub(super) unknown: HashSet<ObjectId>,
    /// Checkpoints that the journal says were deleted.
    pub(super) deleted: u64,
    /// Records that this release cannot read.
    pub(super) unreadable: u64,
}

impl Memory {
    /// Reads what is whole of a journal. One that is gone tells nothing, and is no error.
    pub(super) fn read(layout: &Layout) -> Self {
        let journal = Journal::of(layout);
        let mut records = Vec::new();
        let whole = journal.look_through(&Position::start(), |raw| {
            records.push((raw.sequence, raw.body.to_vec(), raw.decode()?.entry));
            Ok(())
        });
        let (fault, missing) = match whole {
            Ok(tail) if tail.missing > 0 => (Some(format!("its last {} records are missing", tail.missing)), tail.missing),
            Ok(tail) if tail.end.sequence == 0 => (Some("it is empty or gone".into()), 0),
            Ok(_) => (None, 0),
            Err(e) => {
                records.clear();
                let around = journal.look_around(&Position::start(), &mut |raw| {
                    records.push((raw.sequence, raw.body.to_vec(), raw.decode()?.entry));
                    Ok(())
                });
                let said = around.map_or(e.fault(), |found| found.gaps.iter().map(Gap::said).collect::<Vec<_>>().join("; "));
                (Some(said), 1)
            }
        };
        Memory { records, fault, missing }
    }

    /// Packs that are part of the store by what it tells.
    pub(super) fn packs(&self) -> HashMap<crate::id::PackId, PackInfo> {
        let mut packs = HashMap::new();
        for (_, _, entry) in &self.records {
            match entry {
                Entry::Commit { packs: added, .. } => packs.extend(added.iter().map(|pack| (pack.id, pack.clone()))),
                Entry::Condemn { added, condemned, .. } => {
                    packs.extend(added.iter().map(|pack| (pack.id, pack.clone())));
                    condemned.iter().for_each(|id| _ = packs.remove(id));
                }
                Entry::Dropped { packs: dropped } => dropped.iter().for_each(|id| _ = packs.remove(id)),
                Entry::Event(_) | Entry::RemoteEvent { .. } | Entry::Fetched { .. } | Entry::Unknown(_) => {}
            }
        }
        packs
    }

    /// True if it tells of everything that ever was, as far as that can be told.
    pub(super) fn is_whole(&self) -> bool {
        self.fault.is_none() && self.missing == 0
    }
}

impl Script {
    /// Puts together what a journal tells and what packs hold. Records of which the journal tells nothing stand where it has a gap, or at its
    /// end, in the order in which they were made, parents first.
    pub(super) fn new(memory: &Memory, sealed: Vec<SealedRecord>, ids: &Ids) -> Self {
        let mut script = Script::default();
        let mut found: BTreeMap<ObjectId, Checkpoint> = BTreeMap::new();
        for SealedRecord { id, text } in sealed {
            match Checkpoint::decode(0, text, ids) {
                Ok(checkpoint) => _ = found.insert(id, checkpoint),
                Err(_) => script.unreadable += 1,
            }
        }
        let mut deleted: HashSet<Ulid> = HashSet::new();
        let mut told: HashSet<Ulid> = HashSet::new();
        for (_, _, entry) in &memory.records {
            match entry {
                Entry::Event(_) | Entry::RemoteEvent { .. } => {
                    let deletion = entry.told_event().filter(|(event, _)| event.kind == kind::CHECKPOINT_DELETED);
                    deleted.extend(deletion.and_then(|(event, _)| event.subject.parse::<Ulid>().ok()));
                }
                Entry::Commit { record, machine, is_own, .. } => {
                    // What packs have lost of it is found out later.
                    if let Ok(checkpoint) = Checkpoint::decode(0, record.clone(), ids) {
                        told.insert(checkpoint.record.id);
                        let machine = machine.clone().map(|machine| (machine, *is_own));
                        script.machines.extend(machine.map(|machine| (checkpoint.digest.object(), machine)));
                        found.insert(checkpoint.digest.object(), checkpoint);
                    }
                }
                _ => {}
            }
        }
        let all = found.len();
        found.retain(|_, checkpoint| !deleted.contains(&checkpoint.record.id));
        script.deleted = (all - found.len()) as u64;
        let mut unknown = in_order(found.iter().filter(|(_, checkpoint)| !told.contains(&checkpoint.record.id)));
        script.unknown = unknown.iter().copied().collect();
        unknown.reverse();
        let (mut expected, mut is_behind_gap) = (1, false);
        for (sequence, body, entry) in &memory.records {
            // Until the next commit: an event may follow the gap first.
            is_behind_gap |= *sequence != expected;
            expected = sequence + 1;
            let Entry::Commit { record, .. } = entry else {
                if !matches!(entry, Entry::Condemn { .. } | Entry::Dropped { .. }) {
                    script.lines.push(Line::AsItIs(body.clone()));
                }
                continue;
            };
            let id = ids.record(crate::record::origin(record).1.as_bytes()).object();
            let Some(checkpoint) = found.get(&id) else { continue };
            while let Some(older) =
                unknown.pop_if(|id| is_behind_gap && found[&*id].record.created_at <= checkpoint.record.created_at)
            {
                script.lines.push(Line::Commit(older));
            }
            script.lines.push(Line::Commit(id));
            is_behind_gap = false;
        }
        script.lines.extend(unknown.into_iter().rev().map(Line::Commit));
        script.checkpoints = found;
        script
    }

    /// Leaves checkpoints out.
    pub(super) fn without(&mut self, ids: &HashSet<ObjectId>) {
        self.lines.retain(|line| !matches!(line, Line::Commit(id) if ids.contains(id)));
        self.checkpoints.retain(|id, _| !ids.contains(id));
    }

    /// Writes the journal into a store that has none. Its packs are named before its checkpoints.
    pub(super) fn write(&self, layout: &Layout, op: OpId, packs: Vec<PackInfo>) -> Result<Position> {
        let journal = Journal::of(layout);
        let mut writer = Writer::new(&journal);
        let named = Entry::Condemn { op, added: packs, condemned: Vec::new(), waits_for: Vec::new() };
        writer.add(encode_entry(&named, 0)?)?;
        for line in &self.lines {
            match line {
                Line::AsItIs(body) => writer.add(body.clone())?,
                Line::Commit(id) => {
                    let Some(checkpoint) = self.checkpoints.get(id) else { continue };
                    let (machine, is_own) = self.machines.get(id).cloned().unzip();
                    let (record, packs, is_own) = (checkpoint.stored().into_owned(), Vec::new(), is_own.unwrap_or(false));
                    let commit = Entry::Commit { op, record, packs, machine, is_own };
                    writer.add(encode_entry(&commit, 0)?)?;
                }
            }
        }
        writer.finish()
    }
}

/// Records in the order in which they were made, and each behind its parent. Of two with one checkpoint's id, the later one: a commit that was tried
/// again.
pub(super) fn in_order<'a>(records: impl Iterator<Item = (&'a ObjectId, &'a Checkpoint)>) -> Vec<ObjectId> {
    let mut by_id: BTreeMap<Ulid, (&ObjectId, &Checkpoint)> = BTreeMap::new();
    for (id, checkpoint) in records {
        let place = by_id.entry(checkpoint.record.id).or_insert((id, checkpoint));
        let age = |record: &Record| (record.created_at, record.epoch, record.depth);
        if age(&checkpoint.record) > age(&place.1.record) {
            *place = (id, checkpoint);
        }
    }
    let mut pending: Vec<(&ObjectId, &Checkpoint)> = by_id.values().copied().collect();
    pending.sort_by_key(|(_, checkpoint)| (checkpoint.record.created_at, checkpoint.record.id));
    let (mut ordered, mut done) = (Vec::new(), HashSet::new());
    for (_, checkpoint) in pending {
        let mut line = Vec::new();
        let mut next = Some(checkpoint.record.id);
        while let Some((id, checkpoint)) = next.filter(|id| !done.contains(id)).and_then(|id| by_id.get(&id)) {
            done.insert(checkpoint.record.id);
            line.push(**id);
            next = checkpoint.record.parent;
        }
        ordered.extend(line.into_iter().rev());
    }
    ordered
}
