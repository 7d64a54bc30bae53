//! The commit: packs are synced, then the journal's record is; that is when the checkpoint exists.

use std::{collections::HashMap, path::PathBuf, time::Instant};

use super::{
    fit_in::fit_in,
    orphans::AdoptedContent,
    packs::{PackSink, PendingPack, WrittenPacks},
    sink::{Batch, Sink},
};
use crate::{
    append::Chain,
    damaged, disk,
    error::{Error, IoContext, Result},
    files::{self, How},
    journal::{Entry, Journal, Tail},
    layout::Layout,
    maker::Maker,
    pack::{self, ObjectKind, PackInfo},
    pin::Pin,
    progress::Progress,
    recipe::EncodedObject,
    record::{Checkpoint, Record},
    store::Store,
    view::{self, View},
};

/// Runs with at least this many new objects hand RocksDB a table of them, made before the lock is taken.
const TABLE_OBJECTS: usize = 2000;

/// A checkpoint that was committed.
pub struct CommitReport {
    /// The new checkpoint, with its place in the journal.
    pub checkpoint: Checkpoint,
    /// Raw bytes of new objects.
    pub new_bytes: u64,
    /// Bytes of its packs.
    pub stored_bytes: u64,
    /// Time that the writer lock was held, in milliseconds.
    pub lock_held_ms: u64,
}

/// The table of a run's objects. It is removed at the run's end, committed or not.
struct TableFile(PathBuf);

impl TableFile {
    /// Writes the table; false for a run with few objects, and in a store of another user.
    fn write(&self, store: &Store, written: &WrittenPacks) -> Result<bool> {
        let is_due = written.objects_count() >= TABLE_OBJECTS && files::host(&store.layout().root).is_none();
        if is_due {
            view::write_table(&self.0, written.objects())?;
        }
        Ok(is_due)
    }
}

impl Drop for TableFile {
    fn drop(&mut self) {
        // Gone already where RocksDB took it in, and never there for a small run.
        let _ = files::remove(&self.0);
    }
}

/// Commits a record over what the sink holds. `None` where garbage collection has condemned a pack that the run reuses. Where nothing
/// is committed, the packs that were synced stay for the next try to take up.
pub fn commit(
    store: &Store,
    mut pin: Pin,
    sink: Sink<'_>,
    record: Record,
    maker: &Maker,
    adopted: Vec<PackInfo>,
    progress: &dyn Progress,
) -> Result<Option<CommitReport>> {
    let committed = try_commit(store, &mut pin, sink, record, maker, adopted, progress);
    if !matches!(committed, Ok(Some(_))) {
        pin.leave();
    }
    committed
}

fn try_commit(
    store: &Store,
    pin: &mut Pin,
    sink: Sink<'_>,
    mut record: Record,
    maker: &Maker,
    adopted: Vec<PackInfo>,
    progress: &dyn Progress,
) -> Result<Option<CommitReport>> {
    let layout = store.layout();
    fit_in(&mut record, &store.view())?;
    let mut sealed = seal(&record)?;
    store_record(&sink, &sealed)?;
    let Sink::Store(packs) = sink else { return Err(Error::Invalid("nothing to commit".into())) };
    let mut written = packs.finish()?;
    let table = TableFile(layout.table(pin.op));
    let mut tables = HashMap::new();
    if adopted.is_empty() && table.write(store, &written)? {
        tables.insert(pin.op, table.0.clone());
    }
    let own = sync(store, std::mem::take(&mut written.packs), &adopted)?;
    let mut infos: Vec<PackInfo> = adopted;
    infos.extend(own);

    let lock = store.lock(progress)?;
    let began = Instant::now();
    let (current, tail) = store.latest(&lock)?;
    if !pin.is_held() {
        // Somebody has deleted it. gc did not know of this run meanwhile, and may have taken anything that it wrote or reuses.
        pin.make_again()?;
        return Ok(None);
    }
    if !current.lost(&written.reused)?.is_empty() {
        return Ok(None);
    }
    if fit_in(&mut record, &current)? {
        // Another process committed to this session meanwhile, or took it over: the record is sealed anew, behind what that did.
        sealed = seal(&record)?;
        let next = AdoptedContent { next_pack: written.next_pack, ..AdoptedContent::default() };
        let extra = Sink::Store(Box::new(PackSink::new(store, current.clone(), pin.op, next)));
        store_record(&extra, &sealed)?;
        if let Sink::Store(packs) = extra {
            infos.extend(sync(store, packs.finish()?.packs, &[])?);
            tables.clear();
        }
    }
    if pack::lacks_any(layout, &infos) {
        return Ok(None);
    }
    let stored_bytes = infos.iter().map(|info| info.bytes).sum();
    let mut entries = events(&current, &record, maker, &tail, progress)?;
    entries.push(Entry::Commit { op: pin.op, record: sealed.clone(), packs: infos, machine: None, is_own: false });
    let end = Journal::of(layout).append(&tail, &entries)?;
    store.memory.appended(&end);
    let lock_held_ms = began.elapsed().as_millis() as u64;
    drop(lock);
    damaged::heal(layout, written.keys());
    store.catch_up("the checkpoint is committed", &end, &tables, progress);
    let checkpoint = Checkpoint::decode(end.sequence, sealed, store.ids()).map_err(|e| Error::Invalid(e.to_string()))?;
    Ok(Some(CommitReport { checkpoint, new_bytes: written.new_bytes, stored_bytes, lock_held_ms }))
}

/// The events that are appended before the checkpoint.
fn events(current: &View, record: &Record, maker: &Maker, tail: &Tail, progress: &dyn Progress) -> Result<Vec<Entry>> {
    let mut chain = Chain::new(current)?;
    chain.note_lost(tail, progress)?;
    for event in current.events_of(record, maker)? {
        chain.add(&event)?;
    }
    for mark in &maker.marks {
        chain.add_of_new(mark, record)?;
    }
    Ok(chain.entries)
}

fn seal(record: &Record) -> Result<String> {
    serde_json::to_string(record).map_err(|e| Error::Invalid(format!("cannot encode the record: {e}")))
}

fn store_record(sink: &Sink<'_>, sealed: &str) -> Result<()> {
    let bytes = sealed.as_bytes().to_vec();
    let id = sink.ids().record(&bytes).object();
    let mut batch = Batch::new(sink)?;
    batch.meta(EncodedObject { kind: ObjectKind::Record, id, bytes, tail_bytes: 0 }, None)?;
    batch.finish()
}

/// Waits until packs are synced, and syncs their names. Packs for which that fails are removed.
fn sync(store: &Store, packs: Vec<PendingPack>, adopted: &[PackInfo]) -> Result<Vec<PackInfo>> {
    let layout = store.layout();
    for info in adopted {
        let path = layout.pack(info.id);
        let synced =
            files::open(&path, How::Read).at("open pack", &path).and_then(|file| disk::sync_file(&file, "sync pack", &path));
        synced.inspect_err(|_| remove(layout, [info]))?;
    }
    let synced = packs.into_iter().map(PendingPack::synced).collect::<Result<Vec<_>>>()?;
    disk::sync_folder(&layout.packs()).inspect_err(|_| remove(layout, synced.iter().chain(adopted)))?;
    Ok(synced)
}

fn remove<'a>(layout: &Layout, packs: impl IntoIterator<Item = &'a PackInfo>) {
    for info in packs {
        let _ = files::remove(&layout.pack(info.id));
    }
}
