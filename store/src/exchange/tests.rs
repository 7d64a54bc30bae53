use std::{collections::BTreeMap, fs};

use super::*;
use crate::{
    check::{self, CheckOptions},
    delete::delete_checkpoints,
    gc,
    id::{ObjectId, OpId, PackId, Ulid},
    journal::Journal,
    pack::{BlockBuilder, ObjectKind, PackWriter},
    store::{OpenOptions, Store},
    testing::{TestStore, blob_id, collect, files},
};

/// Carries everything behind a sequence from one store to another, with the packs that are wanted, as machine `m`.
fn carry(from: &Store, to: &Store, behind: u64, heads: u64) -> (TakenIn, u64) {
    let mut outgoing = Outgoing::open(from, "r").unwrap();
    let mut incoming = Incoming::open(to, "r", &()).unwrap();
    let mut sequence = behind;
    loop {
        // So little at a time that each record comes alone.
        let batch = outgoing.behind(sequence, 1, &()).unwrap();
        assert_eq!((batch.damaged.len(), batch.unreadable), (0, 0));
        if batch.sequence == sequence {
            break;
        }
        sequence = batch.sequence;
        for record in batch.records {
            take(from, &mut incoming, record);
        }
    }
    let taken = incoming.finish(&[("m".to_owned(), heads)].into(), &()).unwrap();
    (taken, sequence)
}

fn take(from: &Store, incoming: &mut Incoming<'_>, record: OutgoingRecord) {
    match record {
        OutgoingRecord::Commit { id, sealed, packs } => {
            if !incoming.has_checkpoint(id).unwrap() {
                for (pack, bytes) in packs {
                    let content = fs::read(from.layout().pack(pack)).unwrap();
                    assert_eq!(content.len() as u64, bytes);
                    if !incoming.has_pack(pack, bytes).unwrap() {
                        incoming.take_pack(pack, &content).unwrap();
                    }
                }
            }
            incoming.take_commit("m", id, sealed).unwrap();
        }
        OutgoingRecord::Event(body) => incoming.take_event("m", &body).unwrap(),
        OutgoingRecord::Deletion { .. } | OutgoingRecord::Fetched(_) => {}
    }
}

fn ids(store: &Store) -> Vec<Ulid> {
    store.refresh().unwrap().checkpoints().unwrap().iter().map(|checkpoint| checkpoint.record.id).collect()
}

fn assert_whole(store: &Store) {
    let report = check::run(store.layout(), &CheckOptions { read_data_percent: Some(100) }, &()).unwrap();
    assert!(report.is_clean(), "{:?}", report.findings);
}

#[test]
fn what_one_store_records_another_one_has() {
    let (ours, theirs) = (TestStore::new(), TestStore::new());
    let own = theirs.checkpoint(&files(9, 3));
    let (first, second) = (ours.checkpoint(&files(1, 40)), ours.checkpoint(&files(2, 40)));
    let (taken, sequence) = carry(&ours.store, &theirs.store, 0, 1);
    assert_eq!((taken.checkpoints, taken.packs > 0), (2, true));
    assert_eq!(ids(&theirs.store), [own, first, second]);
    let copied = theirs.store.view().checkpoint(second).unwrap().unwrap();
    assert_eq!(theirs.content(&copied).unwrap(), ours.content(&ours.get(second)).unwrap());
    assert_whole(&theirs.store);
    // Once more brings nothing, and writes nothing.
    let end = theirs.store.view().end().clone();
    assert_eq!(carry(&ours.store, &theirs.store, 0, 1).0, TakenIn::default());
    assert_eq!(*theirs.store.refresh().unwrap().end(), end);
    // What came from others is not given out again.
    let mut outgoing = Outgoing::open(&theirs.store, "r").unwrap();
    let batch = outgoing.behind(0, usize::MAX, &()).unwrap();
    let commits = batch.records.iter().filter(|record| matches!(record, OutgoingRecord::Commit { .. })).count();
    assert_eq!((commits, batch.sequence), (1, end.sequence));
    assert!(batch.records.contains(&OutgoingRecord::Fetched([("m".to_owned(), 1)].into())));
    drop(outgoing);
    let of_another = Outgoing::open(&theirs.store, "other").unwrap().behind(0, usize::MAX, &()).unwrap();
    assert!(!of_another.records.iter().any(|record| matches!(record, OutgoingRecord::Fetched(_))));
    // A deletion there is one here; its packs go with gc, and what else was taken in stays.
    delete_checkpoints(&ours.store, &[first], None, &()).unwrap();
    let (taken, _) = carry(&ours.store, &theirs.store, sequence, 2);
    assert_eq!((taken.checkpoints, taken.events, taken.packs), (0, 1, 0));
    assert_eq!(ids(&theirs.store), [own, second]);
    collect(&theirs);
    assert_whole(&theirs.store);
    assert_eq!(theirs.content(&copied).unwrap(), ours.content(&ours.get(second)).unwrap());
    // A deleted one does not come back.
    assert_eq!(carry(&ours.store, &theirs.store, 0, 3).0.checkpoints, 0);
    assert_eq!(ids(&theirs.store), [own, second]);
}

#[test]
fn an_index_that_is_made_anew_tells_the_same_of_other_machines() {
    let (ours, theirs) = (TestStore::new(), TestStore::new());
    let first = ours.checkpoint(&files(1, 4));
    let (_, sequence) = carry(&ours.store, &theirs.store, 0, 1);
    ours.delete(first);
    let second = ours.checkpoint(&files(2, 4));
    carry(&ours.store, &theirs.store, sequence, 2);
    theirs.store.absorb().unwrap();
    let before = ids(&theirs.store);
    assert_eq!(before, [second]);
    let root = theirs.store.path().to_owned();
    fs::remove_dir_all(root.join("view")).unwrap();
    let again = Store::open(&root, &OpenOptions::default()).unwrap();
    assert_eq!(ids(&again), before);
    assert_whole(&again);
}

#[test]
fn an_interrupted_run_is_gone_on_with() {
    let (ours, theirs) = (TestStore::new(), TestStore::new());
    let id = ours.checkpoint(&files(1, 40));
    let mut outgoing = Outgoing::open(&ours.store, "r").unwrap();
    let records = outgoing.behind(0, usize::MAX, &()).unwrap().records;
    let mut incoming = Incoming::open(&theirs.store, "r", &()).unwrap();
    let pack = records.iter().find_map(|record| match record {
        OutgoingRecord::Commit { packs, .. } => packs.first().copied(),
        _ => None,
    });
    let (pack, bytes) = pack.unwrap();
    incoming.take_pack(pack, &fs::read(ours.store.layout().pack(pack)).unwrap()).unwrap();
    drop(incoming);
    assert!(ids(&theirs.store).is_empty(), "nothing exists before all of it does");
    assert_whole(&theirs.store);
    // A pack that was not written whole is thrown away.
    let torn = theirs.store.layout().cache().join(format!("{}.taken", PackId([7; 16])));
    fs::write(&torn, b"not a pack").unwrap();
    let mut incoming = Incoming::open(&theirs.store, "r", &()).unwrap();
    assert!(incoming.has_pack(pack, bytes).unwrap() && !torn.exists());
    assert!(!incoming.has_pack(pack, bytes + 1).unwrap(), "another pack of this name");
    for record in records {
        take(&ours.store, &mut incoming, record);
    }
    incoming.finish(&BTreeMap::new(), &()).unwrap();
    assert_eq!(ids(&theirs.store), [id]);
    assert_whole(&theirs.store);
}

#[test]
fn damage_on_the_way_in_changes_nothing() {
    let (ours, theirs) = (TestStore::new(), TestStore::new());
    let id = ours.checkpoint(&files(1, 40));
    let mut outgoing = Outgoing::open(&ours.store, "r").unwrap();
    let records = outgoing.behind(0, usize::MAX, &()).unwrap().records;
    let mut incoming = Incoming::open(&theirs.store, "r", &()).unwrap();
    for record in &records {
        let OutgoingRecord::Commit { packs, sealed, .. } = record else { continue };
        for (pack, bytes) in packs {
            let mut content = fs::read(ours.store.layout().pack(*pack)).unwrap();
            let middle = content.len() / 2;
            content[middle] ^= 1;
            assert!(incoming.take_pack(*pack, &content).unwrap_err().is_damage());
            assert!(!incoming.has_pack(*pack, *bytes).unwrap());
        }
        let other = incoming.take_commit("m", Ulid::from_bytes([3; 16]), sealed.clone());
        assert!(other.unwrap_err().is_damage(), "the record is that of {id}");
    }
    assert!(incoming.take_event("m", &[0xff]).unwrap_err().is_damage());
    incoming.finish(&BTreeMap::new(), &()).unwrap();
    assert!(ids(&theirs.store).is_empty());
    assert!(Journal::of(theirs.store.layout()).read_after(0).unwrap().is_empty());
    assert_whole(&theirs.store);
}

#[test]
fn a_pack_whose_name_gc_has_used_up_comes_back_under_another() {
    let (ours, theirs) = (TestStore::new(), TestStore::new());
    let first = ours.checkpoint(&files(1, 40));
    let (_, sequence) = carry(&ours.store, &theirs.store, 0, 1);
    ours.delete(first);
    let (_, sequence) = carry(&ours.store, &theirs.store, sequence, 2);
    gc::run(&theirs.store, &gc::GcOptions::default(), &()).unwrap();
    // The same content again: ours finds it in the pack that theirs has dropped.
    let second = ours.checkpoint(&files(1, 40));
    carry(&ours.store, &theirs.store, sequence, 3);
    assert_eq!(ids(&theirs.store), [second]);
    assert_whole(&theirs.store);
    // It is known under its new name.
    let third = ours.checkpoint(&files(1, 39));
    let taken = carry(&ours.store, &theirs.store, 0, 4).0;
    assert_eq!((taken.checkpoints, ids(&theirs.store)), (1, vec![second, third]));
}

/// A pack in which an object's id is that of other bytes.
fn forged_pack(store: &Store, object: ObjectId, bytes: &[u8]) -> (PackId, Vec<u8>) {
    let (layout, id) = (store.layout(), PackId::new(OpId::generate(), 0));
    let mut pack = PackWriter::create(layout, id).unwrap();
    let mut block = BlockBuilder::default();
    block.push(ObjectKind::Chunk, object, bytes, 0);
    let mut compressor = zstd::bulk::Compressor::new(3).unwrap();
    let (entries, coded) = block.encode(&mut compressor, &layout.keys.seal).unwrap();
    pack.append(&coded, &entries).unwrap();
    pack.finish().unwrap();
    let content = fs::read(layout.pack(id)).unwrap();
    fs::remove_file(layout.pack(id)).unwrap();
    (id, content)
}

#[test]
fn a_pack_that_names_bytes_by_an_id_that_is_not_theirs_never_becomes_the_store_s() {
    let (ours, theirs) = (TestStore::new(), TestStore::new());
    let own = theirs.checkpoint(&[("precious".to_owned(), b"kept".to_vec())].into());
    let (forged, content) = forged_pack(&ours.store, blob_id(b"kept").object(), b"evil");
    let mut incoming = Incoming::open(&theirs.store, "r", &()).unwrap();
    incoming.take_pack(forged, &content).unwrap();
    assert!(incoming.finish(&BTreeMap::new(), &()).unwrap_err().is_damage());
    drop(incoming);
    assert_eq!(ids(&theirs.store), [own]);
    assert_whole(&theirs.store);
    assert_eq!(theirs.content(&theirs.get(own)).unwrap()["precious"], b"kept");
    // A whole one of the same object is welcome.
    let (whole, content) = forged_pack(&ours.store, blob_id(b"new").object(), b"new");
    let mut incoming = Incoming::open(&theirs.store, "r", &()).unwrap();
    incoming.take_pack(whole, &content).unwrap();
    incoming.finish(&BTreeMap::new(), &()).unwrap();
    assert_whole(&theirs.store);
}
