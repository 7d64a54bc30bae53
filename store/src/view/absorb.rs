//! Moving the journal's tail into RocksDB.

use std::{
    collections::{HashMap, HashSet},
    fs,
    path::PathBuf,
    sync::Arc,
};

use super::{Batch, Db, Family, VERSION, View, has_our_shape, position_of, scan_directories, sequence_key, skip_damaged};
use crate::{
    error::{Error, IoContext, Result},
    id::OpId,
    journal::Journal,
    layout::Layout,
    lock::IndexLock,
};

/// Tables of one family are merged when it has this many small ones.
const SMALL_TABLES: usize = 8;

/// Whether RocksDB's words are about the system and not about what it holds, so that nothing would be gained by an empty one.
fn is_passing(reason: &str) -> bool {
    let causes =
        ["No space left", "Disk quota", "Too many open files", "Read-only file system", "Cannot allocate", "Permission denied"];
    causes.iter().any(|cause| reason.contains(cause))
}

/// Opens RocksDB for writing; one that cannot be opened, or has another shape, is replaced by an empty one, to be derived anew.
fn open_or_replace(layout: &Layout) -> Result<Db> {
    let opened = Db::open_writer(&layout.view()).and_then(|db| match has_our_shape(&db)? {
        true => Ok(db),
        false => Err(Error::Index { path: layout.view(), reason: "it has the shape of another release".into() }),
    });
    match opened {
        Err(Error::Index { reason, .. }) if !is_passing(&reason) => {
            let aside = layout.cache().join(format!("{}.view.tmp", OpId::generate()));
            fs::rename(layout.view(), &aside).at("move aside", layout.view())?;
            crate::disk::make_folder(&layout.view())?;
            let _ = fs::remove_dir_all(&aside);
            Db::open_writer(&layout.view())
        }
        other => other,
    }
}

/// Moves the journal's tail into RocksDB.
pub fn absorb(layout: &Layout, tables: &HashMap<OpId, PathBuf>) -> Result<()> {
    absorb_locked(layout, tables, &IndexLock::take(&layout.root)?)
}

/// Moves the journal's tail into RocksDB, whose lock the caller holds. `tables` are location tables ([`write_table`]) of packs
/// whose directories then need not be read.
pub(crate) fn absorb_locked(layout: &Layout, tables: &HashMap<OpId, PathBuf>, _lock: &IndexLock) -> Result<()> {
    let db = Arc::new(open_or_replace(layout)?);
    let base = position_of(&db)?;
    let tail = Journal::new(layout.journal()).read(&base)?;
    let view = View::with_tail(layout, Some(db.clone()), &tail)?;
    let changes = &view.changes;
    // Locations first: they may be there without what refers to them, never the other way round.
    let mut ingested = HashSet::new();
    for id in changes.order.iter().filter(|id| !view.is_condemned_in_tail(**id) || tables.contains_key(&id.op())) {
        match tables.get(&id.op()) {
            Some(table) if ingested.insert(id.op()) => db.ingest(table)?,
            Some(_) => {}
            None => skip_damaged(scan_directories(layout, *id, |location, directory| {
                db.put_locations(directory.entries.iter().map(|e| (e.id.key(), location)))
            }))?,
        }
    }
    for (_, table) in tables.iter().filter(|(op, _)| !ingested.contains(*op)) {
        let _ = fs::remove_file(table);
    }
    let mut batch = Batch::default();
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
    for (sequence, checkpoint) in changes.checkpoints.iter().filter(|(_, c)| !changes.deleted.contains(&c.record.id)) {
        batch.put(Family::Checkpoints, sequence.to_be_bytes(), checkpoint.sealed.as_bytes());
        batch.put(Family::Folds, sequence_key(checkpoint.record.id), sequence.to_be_bytes());
    }
    for id in &changes.deleted {
        if let Some(sequence) = db.get(Family::Folds, &sequence_key(*id))? {
            batch.delete(Family::Checkpoints, sequence);
            batch.delete(Family::Folds, sequence_key(*id));
        }
    }
    view.folds.store(&mut batch);
    batch.put(Family::Meta, b"version", VERSION);
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
