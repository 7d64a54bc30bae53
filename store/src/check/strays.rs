//! Packs that belong to the store and that its journal does not name, because it has lost records or is older than they are.

use std::collections::{BTreeMap, HashSet, VecDeque};

use jiff::Timestamp;

use super::{refill::place_before, salvage};
use crate::{
    append::Chain,
    disk,
    error::{IoContext, Result},
    files,
    id::{ObjectId, OpId, PackId, Ulid},
    journal::{Entry, Journal, Position, Tail, Writer, encode_entry},
    layout::Layout,
    pack::{PackFile, PackInfo},
    pin,
    progress::Progress,
    record::Checkpoint,
    store::{OpenOptions, Store},
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
/// sealed checkpoint does of which it does not know, and then the packs of that operation alone are taken in; and so are packs with what
/// checkpoints lack, which a repair may have given up while they were out of reach.
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
    if !shows_loss {
        let lacking = lacking(layout, &found.packs, progress)?;
        found.packs.retain(|pack| ops.contains(&pack.id.op()) || lacking.contains(&pack.id));
    }
    for checkpoint in salvage::in_order(records, &layout.keys.ids) {
        if !told.contains(&checkpoint.record.id) {
            found.checkpoints.push(checkpoint.record.id);
            found.records.push(checkpoint);
        }
    }
    Ok(found)
}

/// Those of these packs that hold what checkpoints need and no pack of the journal's has.
fn lacking(layout: &Layout, packs: &[PackInfo], progress: &dyn Progress) -> Result<HashSet<PackId>> {
    if packs.is_empty() {
        return Ok(HashSet::new());
    }
    let store = Store::open_without_index(&layout.root, &OpenOptions::with(layout))?;
    let lost: HashSet<ObjectId> = super::unreadable(&store, progress)?.into_iter().collect();
    let mut lacking = HashSet::new();
    for pack in packs {
        let scanned = PackFile::open(layout, pack.id).and_then(|file| {
            file.scan(|_, directory| {
                if directory.entries.iter().any(|entry| lost.contains(&entry.id)) {
                    lacking.insert(pack.id);
                }
                Ok(())
            })
        });
        match scanned {
            // gc may have removed it since.
            Err(e) if !e.is_not_found() => return Err(e),
            _ => {}
        }
    }
    Ok(lacking)
}

fn commits(tail: &Tail) -> impl Iterator<Item = &str> {
    tail.records.iter().filter_map(|logged| match &logged.entry {
        Entry::Commit { record, .. } => Some(crate::record::origin(record).1),
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
        let added = self.named_anew(layout, &tail, op)?;
        entries.push(Entry::Condemn { op, added, condemned: Vec::new(), waits_for: Vec::new() });
        entries.extend(left.into_iter().map(|checkpoint| commit(op, checkpoint)));
        journal.append(&Tail { records: Vec::new(), ..tail }, &entries).map(drop)
    }
}

impl Strays {
    /// The packs. Those that the journal has dropped get other names: dropped names do not come back.
    fn named_anew(&self, layout: &Layout, tail: &Tail, op: OpId) -> Result<Vec<PackInfo>> {
        let dropped: HashSet<PackId> = tail.records.iter().flat_map(|logged| dropped(&logged.entry)).copied().collect();
        let mut packs = self.packs.clone();
        for (number, pack) in (0..).zip(&mut packs).filter(|(_, pack)| dropped.contains(&pack.id)) {
            let new = PackId::new(op, number);
            let path = layout.pack(pack.id);
            files::rename(&path, &layout.pack(new)).at("rename", &path)?;
            pack.id = new;
        }
        disk::sync_folder(&layout.packs())?;
        Ok(packs)
    }
}

fn dropped(entry: &Entry) -> &[PackId] {
    match entry {
        Entry::Dropped { packs } => packs,
        _ => &[],
    }
}

fn commit(op: OpId, checkpoint: &Checkpoint) -> Entry {
    Entry::Commit { op, record: checkpoint.sealed.clone(), packs: Vec::new(), machine: None, is_own: false }
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
