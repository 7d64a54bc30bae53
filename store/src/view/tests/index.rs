//! Uses of RocksDB, and the cases in which it is not used.

use std::{collections::HashMap, os::unix::fs::MetadataExt};

use super::*;
use crate::gc::GcOptions;

/// Locations of some objects in a view.
fn located(view: &View, keys: &[ObjectKey]) -> Vec<Option<Location>> {
    keys.iter().map(|key| view.locate_key(key).unwrap()).collect()
}

#[test]
fn an_index_of_another_shape_is_not_read_but_made_anew() {
    let test = TestStore::new();
    let a = test.checkpoint(&files(1, 6));
    test.store.absorb().unwrap();
    let mut batch = Batch::default();
    batch.put(Family::Meta, b"version", b"0");
    batch.delete(Family::Checkpoints, 1u64.to_be_bytes());
    let db = Db::open_writer(&test.store.layout().view(), &test.store.layout().keys).unwrap();
    db.write(batch).unwrap();
    db.flush().unwrap();
    drop(db);
    let view = View::open(test.store.layout()).unwrap();
    assert!(view.is_in_place_of_index() && view.refreshed().unwrap().is_in_place_of_index() && view.wants_absorbing());
    assert_eq!(ids(view.checkpoints().unwrap(), |c| c.record.id), [a]);
    test.open().absorb().unwrap();
    let view = View::open(test.store.layout()).unwrap();
    assert_eq!((view.is_in_place_of_index(), view.tail_records()), (false, 0));
    assert_eq!(ids(view.checkpoints().unwrap(), |c| c.record.id), [a]);
}

#[test]
fn a_torn_append_makes_no_view_stale_and_hides_nothing_that_was_taken_back() {
    let test = TestStore::new();
    let a = test.checkpoint(&files(1, 3));
    test.store.absorb().unwrap();
    let tear = |bytes: usize| {
        let (path, mut content) =
            test.journal_files().into_iter().rfind(|(path, _)| path.extension() == Some("log".as_ref())).unwrap();
        content.extend(vec![7; bytes]);
        std::fs::write(path, content).unwrap();
    };
    let before = test.journal_files();
    tear(5);
    // Behind what RocksDB has there is nothing whole, and that is no reason to do without it.
    let view = View::open(test.store.layout()).unwrap();
    assert_eq!((view.torn_bytes, view.is_stale().unwrap(), view.is_in_place_of_index()), (5, false, false));
    test.put_back_journal(&before);
    assert!(view.is_stale().unwrap());
    let b = test.checkpoint(&files(2, 3));
    test.store.absorb().unwrap();
    assert_eq!(test.ids(), [a, b]);
    // The bytes of another append lie where RocksDB was brought up to.
    test.put_back_journal(&before);
    tear(100_000);
    assert!(matches!(View::open(test.store.layout()), Err(Error::Index { reason, .. }) if reason == UNCONFIRMED));
    // RocksDB is a witness of what was committed there: the journal is damaged, and is read around that.
    let around = Store::open(test.store.path(), &OpenOptions::default()).unwrap();
    assert!(around.view().damage().is_some() && around.append_events(&[], &()).is_err());
    assert_eq!(ids(around.view().checkpoints().unwrap(), |c| c.record.id), [a]);
    test.put_back_journal(&before);
    let store = test.open();
    let view = store.view();
    assert_eq!((ids(view.checkpoints().unwrap(), |c| c.record.id), view.lacks_records()), (vec![a], true));
}

#[test]
fn objects_are_found_in_no_pack_that_is_condemned_or_lost() {
    for is_absorbed in [false, true] {
        let test = TestStore::new();
        let (a, _) = (test.checkpoint(&files(1, 6)), test.checkpoint(&files(2, 6)));
        let first = test.store.refresh().unwrap();
        if is_absorbed {
            test.store.absorb().unwrap();
        }
        let keys = first.object_keys().unwrap();
        // Nothing of the journal's tail is looked for yet.
        let unread = View::from_journal(test.store.layout()).unwrap();
        let writer = test.another();
        let draft = writer.draft("test", &files(3, 6));
        test.delete(a);
        let options = GcOptions::below(70);
        gc::run(&test.store, &options, &()).unwrap();
        let view = test.store.refresh().unwrap();
        let packs = view.packs().unwrap();
        let is_usable = |at: &Location| packs[&at.pack].condemned.is_none();
        let found = located(&view, &keys);
        assert!(found.iter().flatten().all(is_usable), "{found:?}");
        assert!(found.contains(&None) && found.iter().any(Option::is_some));
        view.each_object(|key, at| {
            assert!(is_usable(&at) && keys.contains(&key));
            Ok(())
        })
        .unwrap();
        test.store.absorb().unwrap();
        assert!(located(&test.store.view(), &keys) == found, "RocksDB tells the same as the journal's tail");
        drop((draft, writer));
        gc::run(&test.store, &options, &()).unwrap();
        // Whoever has an old view has to look again, and is not told that there is nothing.
        assert!(unread.is_stale().unwrap());
        assert!(unread.locate_key(&keys[0]).is_err_and(|e| e.is_not_found()));
        // A pack that is lost, without anybody having removed it, costs what was in it alone.
        let left = test.store.refresh().unwrap();
        let other = test.checkpoint(&files(4, 6));
        let new = test
            .store
            .refresh()
            .unwrap()
            .packs()
            .unwrap()
            .into_keys()
            .find(|id| !left.packs().unwrap().contains_key(id))
            .unwrap();
        std::fs::remove_file(test.store.layout().pack(new)).unwrap();
        let view = View::from_journal(test.store.layout()).unwrap();
        assert_eq!(located(&view, &keys), located(&left, &keys));
        assert!(view.checkpoint(other).unwrap().is_some());
    }
}

#[test]
fn only_damaged_and_lost_packs_are_passed_over() {
    let failed = |kind: std::io::ErrorKind| Err(Error::Io { action: "open", path: PathBuf::from("x.pack"), source: kind.into() });
    assert!(unless_damaged(Ok(())).unwrap());
    assert!(!unless_damaged(failed(std::io::ErrorKind::NotFound)).unwrap());
    assert!(
        !unless_damaged(Err(Error::Corrupt { what: "pack".into(), place: PathBuf::from("x.pack"), reason: "x".into() })).unwrap()
    );
    // What cannot be read now may be there all the same.
    unless_damaged(failed(std::io::ErrorKind::PermissionDenied)).unwrap_err();
}

#[test]
fn rocksdb_is_kept_where_it_is_of_use_or_somebody_else_has_it() {
    let test = TestStore::new();
    let (layout, _) = (test.store.layout(), test.checkpoint(&files(1, 3)));
    test.store.absorb().unwrap();
    let folder = || std::fs::metadata(layout.view()).unwrap().ino();
    let before = folder();
    test.checkpoint(&files(2, 3));
    let taken = Db::open_writer(&layout.view(), &layout.keys).unwrap();
    assert!(matches!(test.store.absorb(), Err(Error::Index { .. })));
    assert_eq!(folder(), before);
    drop(taken);
    for seed in 3..7 {
        test.store.absorb().unwrap();
        test.checkpoint(&files(seed, 3));
    }
    test.store.absorb().unwrap();
    assert_eq!(folder(), before);
}

#[test]
fn the_table_of_a_run_is_taken_in_once_and_one_that_nobody_needs_goes() {
    let test = TestStore::new();
    let (op, other) = (OpId::generate(), OpId::generate());
    let object = |byte: u8, number: u32| ([byte; 20], Location { pack: PackId::new(op, number), offset: 64, block_bytes: 9 });
    let objects = [object(1, 0), object(2, 1)];
    let added = (0..2).map(|number| PackInfo { id: PackId::new(op, number), bytes: 9, digest: String::new() }).collect();
    let lock = test.store.lock(&()).unwrap();
    let settled =
        test.store.append(&lock, &[Entry::Condemn { op, added, condemned: Vec::new(), waits_for: Vec::new() }]).unwrap();
    drop(lock);
    let tables: HashMap<OpId, PathBuf> =
        [op, other].into_iter().map(|op| (op, test.store.layout().cache().join(format!("{op}.table")))).collect();
    tables.values().for_each(|path| write_table(path, objects.iter().copied()).unwrap());
    absorb(test.store.layout(), &tables, &settled).unwrap();
    assert!(tables.values().all(|path| !path.exists()));
    let store = test.open();
    let view = store.view();
    for (key, location) in objects {
        assert_eq!(view.locate_key(&key).unwrap(), Some(location));
    }
}

#[test]
fn a_link_or_a_fifo_in_the_folder_of_rocksdb_is_not_opened() {
    let test = TestStore::new();
    test.checkpoint(&files(1, 3));
    test.store.absorb().unwrap();
    let folder = test.store.layout().view();
    let (current, aside) = (folder.join("CURRENT"), test.store.path().join("CURRENT"));
    std::fs::rename(&current, &aside).unwrap();
    std::os::unix::fs::symlink(&aside, &current).unwrap();
    let is_refused = || {
        let layout = test.store.layout();
        let opened = [Db::open_reader(layout).map(drop), Db::open_writer(&folder, &layout.keys).map(drop)];
        assert!(opened.iter().all(|opened| matches!(opened, Err(Error::Index { .. }))), "{opened:?}");
    };
    is_refused();
    std::fs::remove_file(&current).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, &current, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0).unwrap();
    is_refused();
}

#[test]
fn the_number_of_objects_is_estimated_from_what_is_stored() {
    let test = TestStore::new();
    test.store.absorb().unwrap();
    let pack = |number: u64| PackId::new(OpId([(number / 2000) as u8; 12]), 1);
    let objects = (0..20_000u64).map(|number| {
        let key: ObjectKey = *blake3::hash(&number.to_le_bytes()).as_bytes().first_chunk().unwrap();
        (key, Location { pack: pack(number), offset: number / 20 * 100_000, block_bytes: 100_000 })
    });
    let db = Db::open_writer(&test.store.layout().view(), &test.store.layout().keys).unwrap();
    db.put_locations(objects).unwrap();
    db.flush().unwrap();
    drop(db);
    let estimate = test.open().view().objects_estimate().unwrap();
    assert!((10_000..40_000).contains(&estimate), "{estimate}");
}

#[test]
fn what_is_condemned_in_the_tail_is_not_found_though_it_is_there_still() {
    for is_absorbed in [false, true] {
        let test = TestStore::new();
        // What builds on a condemned pack, which gc does not leave, is found by no index of a whole store.
        test.builds.set(false);
        test.checkpoint(&files(1, 6));
        let pack = *test.store.refresh().unwrap().packs().unwrap().keys().next().unwrap();
        test.checkpoint(&files(2, 6));
        if is_absorbed {
            test.store.absorb().unwrap();
        }
        let keys = test.store.refresh().unwrap().object_keys().unwrap();
        let append = |entry: Entry| {
            let lock = test.store.lock(&()).unwrap();
            test.store.append(&lock, &[entry]).unwrap();
        };
        append(Entry::Condemn { op: OpId::generate(), added: Vec::new(), condemned: vec![pack], waits_for: Vec::new() });
        let look = || {
            let view = test.store.refresh().unwrap();
            let found = located(&view, &keys);
            assert!(found.contains(&None) && found.iter().flatten().all(|at| at.pack != pack), "{is_absorbed}");
            view.each_object(|_, at| {
                assert!(at.pack != pack, "{is_absorbed}");
                Ok(())
            })
            .unwrap();
            found
        };
        let found = look();
        append(Entry::Dropped { packs: vec![pack] });
        assert_eq!(look(), found);
        test.store.absorb().unwrap();
        assert_eq!(look(), found);
    }
}
