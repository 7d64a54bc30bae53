//! Moving the journal's tail into RocksDB.

use std::{
    collections::{HashMap, HashSet},
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{
    Batch, Db, Family, View, bases, has_our_shape, position_of, scan_directories,
    stored::{UNREADABLE, checkpoints_key, decode_checkpoint, origin_key, sequence_key, unreadable_key},
    tail::Changes,
    unconfirmed, unless_damaged, version,
};
use crate::{
    error::{Error, IoContext, Result},
    files, fold,
    id::OpId,
    journal::{Journal, Position},
    layout::Layout,
    lock::IndexLock,
    record::{Brief, Unreadable},
};

/// Tables of one family are merged when it has this many small ones.
const SMALL_TABLES: usize = 8;

/// True if RocksDB's words are about the system and not about what it holds, so that nothing would be gained by an empty one.
fn is_passing(reason: &str) -> bool {
    let causes = [
        "No space left",
        "Disk quota",
        "Too many open files",
        "Read-only file system",
        "Cannot allocate",
        "Permission denied",
        // Another process changes it, because somebody has deleted `lock.index`.
        "lock file",
        "lock hold by",
    ];
    causes.iter().any(|cause| reason.contains(cause))
}

/// Opens RocksDB for writing; one that cannot be opened, has another shape, or goes up to what the journal does not have, is replaced by an
/// empty one, to be derived anew.
fn open_or_replace(layout: &Layout) -> Result<Db> {
    let broken = |reason: &str| Err(Error::Index { path: layout.view(), reason: reason.into() });
    let opened = Db::open_writer(&layout.view(), &layout.keys).and_then(|db| {
        if !has_our_shape(layout, &db)? {
            return broken("it has the shape of another release");
        }
        let base = position_of(&db)?;
        if Journal::of(layout).confirms_quickly(&base)? { Ok(db) } else { Err(unconfirmed(layout, &base)) }
    });
    match opened {
        Err(Error::Index { reason, .. }) if !is_passing(&reason) => {
            let aside = layout.cache().join(format!("{}.view.tmp", OpId::generate()));
            match files::rename_below(&layout.root, &layout.view(), &aside) {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(e).at("move aside", layout.view()),
                _ => {}
            }
            files::make_folder(&layout.view()).at("create folder", layout.view())?;
            let _ = files::remove_all(&layout.root, &aside);
            Db::open_writer(&layout.view(), &layout.keys)
        }
        other => other,
    }
}

/// Moves the journal's tail into RocksDB, up to a position that was its end while nobody else held the writer lock: what is behind that may
/// be taken back.
///
/// Does nothing where root is a guest in another user's store: the next commit of the owner does it.
pub(crate) fn absorb(layout: &Layout, tables: &HashMap<OpId, PathBuf>, settled: &Position) -> Result<()> {
    if files::host(&layout.root).is_some() {
        return Ok(());
    }
    let _lock = IndexLock::take(&layout.root)?;
    take_in(layout, open_or_replace(layout)?, tables, settled)
}

/// Derives a RocksDB from the journal up to a settled position, as in [`absorb`], in a folder of its own.
pub(crate) fn derive(layout: &Layout, folder: &Path, settled: &Position) -> Result<()> {
    crate::disk::make_folder(folder)?;
    take_in(layout, Db::open_writer(folder, &layout.keys)?, &HashMap::new(), settled)
}

/// Takes the journal into a database. `tables` are location tables ([`write_table`]) of packs whose directories then need not be
/// read.
fn take_in(layout: &Layout, db: Db, tables: &HashMap<OpId, PathBuf>, settled: &Position) -> Result<()> {
    let db = Arc::new(db);
    let journal = Journal::of(layout);
    let base = position_of(&db)?;
    // Another process may have taken in more by now.
    let settled = if base.sequence > settled.sequence { &base } else { settled };
    let tail = journal.read(&base)?.until(settled);
    // RocksDB must never be ahead of what a power cut leaves of the journal: it would prove that records are lost.
    journal.sync_up_to(tail.end.sequence)?;
    let view = View::with_tail(layout, Some(db.clone()), &tail)?;
    let changes = &view.changes;
    // Locations first: they may be there without what refers to them, never the other way round.
    let mut ingested = HashSet::new();
    // Of a first checkpoint, which has just been made, nothing is lost.
    let is_whole_store = base == Position::start() && tables.is_empty();
    bases::index(&mut bases::DbPlaces { db: &db, view: &view }, is_whole_store, |is_first, visit| {
        let mut are_whole = true;
        for id in &changes.order {
            match tables.get(&id.op()) {
                Some(table) if is_first => {
                    if ingested.insert(id.op()) {
                        db.ingest(table)?;
                    }
                }
                _ if view.is_condemned_in_tail(*id) => {}
                _ => are_whole &= unless_damaged(scan_directories(layout, *id, &mut *visit))?,
            }
        }
        Ok(are_whole)
    })?;
    for (_, table) in tables.iter().filter(|(op, _)| !ingested.contains(*op)) {
        let _ = files::remove(table);
    }
    let mut batch = Batch::default();
    put_packs(&db, changes, &mut batch)?;
    put_checkpoints(layout, &db, changes, &mut batch)?;
    view.events.store(&db, &mut batch);
    view.fold.keep(view.kept(), &mut fold::Keys(&mut batch))?;
    batch.put(Family::Meta, b"version", version(layout));
    batch.put(Family::Meta, b"position", serde_json::to_vec(&tail.end).unwrap_or_default());
    db.write(batch)?;
    db.flush()?;
    for family in Family::ALL {
        if db.small_tables(family)? >= SMALL_TABLES {
            db.compact(family)?;
        }
    }
    Ok(())
}

/// Enters packs that were committed, condemned and dropped.
fn put_packs(db: &Db, changes: &Changes, batch: &mut Batch) -> Result<()> {
    // By now an object that was copied out of a condemned pack is found where it was copied to, and stays. What was dropped had been
    // condemned before.
    if !changes.condemned.is_empty() {
        for entry in db.objects()? {
            let (key, location) = entry?;
            if changes.condemned.contains_key(&location.pack) {
                batch.delete(Family::Objects, key);
            }
        }
    }
    for (id, state) in &changes.packs {
        batch.put(Family::Packs, id.0, serde_json::to_vec(state).unwrap_or_default());
    }
    for (id, waits_for) in &changes.condemned {
        let known = match changes.packs.get(id) {
            Some(state) => Some(state.clone()),
            None => db.get(Family::Packs, &id.0)?.and_then(|bytes| serde_json::from_slice(&bytes).ok()),
        };
        if let Some(mut state) = known {
            state.condemned = Some(waits_for.clone());
            batch.put(Family::Packs, id.0, serde_json::to_vec(&state).unwrap_or_default());
        }
    }
    for id in &changes.dropped {
        batch.delete(Family::Packs, id.0);
    }
    Ok(())
}

/// Enters checkpoints and takes out the deleted ones, those that cannot be read included.
fn put_checkpoints(layout: &Layout, db: &Db, changes: &Changes, batch: &mut Batch) -> Result<()> {
    for (sequence, checkpoint) in changes.checkpoints.iter().filter(|(_, c)| !changes.deleted.contains(&c.record.id)) {
        batch.put(Family::Checkpoints, sequence.to_be_bytes(), checkpoint.stored().as_bytes());
        batch.put(Family::Projections, sequence_key(checkpoint.record.id), sequence.to_be_bytes());
        let brief = Brief::from(checkpoint).encode();
        batch.put(Family::Projections, checkpoint_key(db, &checkpoint.record.session, *sequence), brief);
    }
    for (sequence, record) in &changes.unreadable {
        batch.put(Family::Projections, unreadable_key(*sequence), record.as_bytes());
    }
    if !changes.deleted.is_empty() {
        let is_deleted = |record: &str| Unreadable::told_id(record).is_some_and(|id| changes.deleted.contains(&id));
        let known = db.scan_prefix(Family::Projections, UNREADABLE)?.collect::<Result<Vec<_>>>()?;
        let stored = known.iter().filter(|(_, record)| is_deleted(&String::from_utf8_lossy(record))).map(|(key, _)| key.to_vec());
        let new =
            changes.unreadable.iter().filter(|(_, record)| is_deleted(record)).map(|(sequence, _)| unreadable_key(*sequence));
        stored.chain(new).for_each(|key| batch.delete(Family::Projections, key));
    }
    for (id, origin) in &changes.origins {
        batch.put(Family::Projections, origin_key(*id), origin.to_string());
    }
    for id in &changes.deleted {
        if let Some(sequence) = db.get(Family::Projections, &sequence_key(*id))? {
            if let Some(sealed) = db.get(Family::Checkpoints, &sequence)? {
                let deleted = decode_checkpoint(&layout.keys.ids, &sequence, sealed)?;
                batch.delete(Family::Projections, checkpoint_key(db, &deleted.record.session, deleted.sequence));
            }
            batch.delete(Family::Checkpoints, sequence);
            batch.delete(Family::Projections, sequence_key(*id));
        }
    }
    Ok(())
}

/// The key of a brief of a checkpoint among its session's.
fn checkpoint_key(db: &Db, session: &str, sequence: u64) -> Vec<u8> {
    [&checkpoints_key(db, session)[..], &sequence.to_be_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use crate::{
        OpenOptions, Store,
        check::{self, CheckOptions},
        event::{Actor, NewEvent},
        testing::{TestStore, files},
    };

    #[test]
    fn what_the_journal_does_not_have_any_more_is_gone_although_rocksdb_took_it_in() {
        // Records that somebody appended before anybody could notice: none, few, and more than were taken back.
        for appended in [0, 1, 40] {
            let test = TestStore::new();
            let a = test.checkpoint(&files(1, 3));
            let before = test.journal_files();
            let b = test.checkpoint(&files(2, 3));
            test.store.absorb().unwrap();
            assert_eq!(test.open().checkpoints().unwrap().len(), 2);
            test.put_back_journal(&before);
            let knows_nothing = Store::open_without_index(test.store.path(), &OpenOptions::default()).unwrap();
            for i in 0..appended {
                let note = NewEvent::new("note", i.to_string(), Actor::program("test"));
                knows_nothing.append_events(&[note], &()).unwrap();
            }
            for store in [&test.open(), &test.store] {
                let found = store.refresh().unwrap().checkpoints().unwrap().iter().map(|c| c.record.id).collect::<Vec<_>>();
                assert_eq!(found, [a], "{appended} appended; {b} was taken back");
            }
            let c = test.checkpoint(&files(3, 3));
            test.store.absorb().unwrap();
            let other = TestStore::at(test.store.path().to_owned());
            assert_eq!(other.ids(), [a, c]);
            assert!(Store::open_with_index(test.store.path(), &OpenOptions::default()).is_ok());
            let report = check::run(test.store.layout(), &CheckOptions { read_data_percent: Some(100) }, &()).unwrap();
            assert!(report.is_clean(), "{:?}", report.findings);
        }
    }

    #[test]
    fn what_may_still_be_taken_back_is_not_taken_in() {
        let test = TestStore::new();
        let a = test.checkpoint(&files(1, 3));
        let settled = test.store.refresh().unwrap().end().clone();
        let before = test.journal_files();
        test.checkpoint(&files(2, 3));
        super::absorb(test.store.layout(), &Default::default(), &settled).unwrap();
        test.put_back_journal(&before);
        assert!(Store::open_with_index(test.store.path(), &OpenOptions::default()).is_ok());
        assert_eq!(TestStore::at(test.store.path().to_owned()).ids(), [a]);
        // Going back to less than it has is no reason to take anything in twice.
        test.store.absorb().unwrap();
        super::absorb(test.store.layout(), &Default::default(), &crate::journal::Position::start()).unwrap();
        assert_eq!(TestStore::at(test.store.path().to_owned()).ids(), [a]);
    }
    #[test]
    fn an_index_that_the_system_alone_keeps_from_being_opened_is_not_replaced() {
        for reason in ["IO error: No space left on device: x", "IO error: While lock file: x: Resource temporarily unavailable"] {
            assert!(super::is_passing(reason), "{reason}");
        }
        assert!(!super::is_passing("Corruption: block checksum mismatch"));
    }
}
