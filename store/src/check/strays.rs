//! Packs that belong to the store and that its journal does not name, because it has lost records or is older than they are.

use std::collections::{BTreeMap, HashSet, VecDeque};

use jiff::Timestamp;

use super::{refill::place_before, salvage};
use crate::{
    append::Chain,
    error::Result,
    files,
    id::{OpId, PackId, Ulid},
    journal::{Entry, Journal, Position, Tail, Writer, encode_entry},
    layout::Layout,
    pack::PackInfo,
    pin,
    progress::Progress,
    record::Checkpoint,
    view::View,
};

/// What a journal has lost and packs still hold.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Strays {
    /// Whole packs that it does not name.
    pub packs: Vec<PackInfo>,
    /// Checkpoints of which it does not know. Some may have been deleted.
    pub checkpoints: Vec<Ulid>,
    /// The same, with their records, oldest first.
    records: Vec<Checkpoint>,
}

/// Finds them. A journal that is whole and up to date knows every pack that was committed. Where nothing else shows that records are lost, a
/// sealed checkpoint does of which it does not know, and then the packs of that operation alone are taken in.
pub(super) fn find(layout: &Layout, progress: &dyn Progress) -> Result<Strays> {
    // What is seen first was committed before the journal is read, or its writer still has a pin.
    let on_disk: Vec<PackId> =
        files::list(&layout.packs()).unwrap_or_default().iter().filter_map(|path| Layout::pack_of(path)).collect();
    let pins = pin::list(&layout.pins()).unwrap_or_default();
    let tail = Journal::of(layout).read(&Position::start())?;
    let view = View::of_journal(layout, &tail)?;
    let known = view.packs()?;
    let there: HashSet<PackId> = on_disk.iter().copied().collect();
    let lacks_a_pack = known.iter().any(|(id, state)| state.condemned.is_none() && !there.contains(id));
    let mut found = Strays::default();
    let shows_loss = tail.was_cut || tail.missing > 0 || !tail.lost.is_empty() || lacks_a_pack;
    let committed: HashSet<_> = commits(&tail).map(|record| layout.keys.ids.record(record.as_bytes()).object()).collect();
    let told: HashSet<Ulid> = view.checkpoints()?.iter().map(|c| c.record.id).chain(view.deleted().iter().copied()).collect();
    let (mut records, mut ops) = (BTreeMap::new(), HashSet::new());
    // A pin that is left proves that its operation ended without a commit.
    for id in on_disk.into_iter().filter(|id| !known.contains_key(id) && pins.iter().all(|pin| pin.op != id.op())) {
        if let Some((info, sealed)) = salvage::whole_pack(layout, id, progress)? {
            found.packs.push(info);
            let new: Vec<_> = sealed.into_iter().filter(|(id, _)| !committed.contains(id)).collect();
            ops.extend((!new.is_empty()).then_some(id.op()));
            records.extend(new);
        }
    }
    found.packs.retain(|pack| shows_loss || ops.contains(&pack.id.op()));
    for checkpoint in salvage::in_order(records, &layout.keys.ids) {
        if !told.contains(&checkpoint.record.id) {
            found.checkpoints.push(checkpoint.record.id);
            found.records.push(checkpoint);
        }
    }
    Ok(found)
}

fn commits(tail: &Tail) -> impl Iterator<Item = &String> {
    tail.records.iter().filter_map(|logged| match &logged.entry {
        Entry::Commit { record, .. } => Some(record),
        _ => None,
    })
}

impl Strays {
    /// True if there is nothing.
    pub fn is_nothing(&self) -> bool {
        self.packs.is_empty() && self.checkpoints.is_empty()
    }

    /// Has the journal name them. A checkpoint stands where records are lost for good, if it is older than what follows there; others are the last
    /// ones. The caller holds the writer lock since before they were found.
    pub(super) fn adopt(&self, layout: &Layout, progress: &dyn Progress) -> Result<()> {
        if self.is_nothing() {
            return Ok(());
        }
        let journal = Journal::of(layout);
        let tail = journal.read(&Position::start())?;
        let op = OpId::generate();
        let mut left: VecDeque<&Checkpoint> = self.records.iter().collect();
        for (first, last) in &tail.lost {
            let room = usize::try_from(last - first + 1).unwrap_or(usize::MAX);
            let follows = next_commit(layout, &tail, *last);
            let older = left.iter().take_while(|c| follows.is_some_and(|at| c.record.created_at <= at)).count().min(room);
            let place = place_before(&journal, *first)?;
            // A gap in which something stands has a segment of its own already.
            if older == 0 || journal.segments()?.contains(first) {
                continue;
            }
            let mut writer = Writer::in_gap(&journal, &place);
            for checkpoint in left.drain(..older) {
                writer.add(encode_entry(&commit(op, checkpoint), 0)?)?;
            }
            writer.finish_in_gap()?;
        }
        let tail = journal.read(&Position::start())?;
        let view = View::of_journal(layout, &tail)?;
        let mut chain = Chain::new(&view)?;
        chain.note_lost(&tail, progress)?;
        let mut entries = std::mem::take(&mut chain.entries);
        entries.push(Entry::Condemn { op, added: self.packs.clone(), condemned: Vec::new(), waits_for: Vec::new() });
        entries.extend(left.into_iter().map(|checkpoint| commit(op, checkpoint)));
        journal.append(&Tail { records: Vec::new(), ..tail }, &entries).map(drop)
    }
}

fn commit(op: OpId, checkpoint: &Checkpoint) -> Entry {
    Entry::Commit { op, record: checkpoint.sealed.clone(), packs: Vec::new() }
}

/// The time of the first checkpoint that was committed behind a record.
fn next_commit(layout: &Layout, tail: &Tail, behind: u64) -> Option<Timestamp> {
    let later = tail.records.iter().filter(|logged| logged.sequence > behind);
    later
        .into_iter()
        .find_map(|logged| match &logged.entry {
            Entry::Commit { record, .. } => Checkpoint::decode(logged.sequence, record.clone(), &layout.keys.ids).ok(),
            _ => None,
        })
        .map(|checkpoint| checkpoint.record.created_at)
}
