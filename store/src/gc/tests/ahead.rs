//! An index that goes up to records that the journal has lost proves that they were committed.

use std::{collections::BTreeSet, path::PathBuf};

use super::*;
use crate::{
    Store,
    check::{self, CheckOptions, FindingKind},
    delete::delete_checkpoints,
    testing::Notices,
    view::{Db, Family},
};

const PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);

/// Paths and bytes of segments.
type Logs = BTreeMap<PathBuf, Vec<u8>>;

/// A store with an index up to the last of three checkpoints, and its journal after the first one and after the last.
fn indexed() -> (TestStore, Vec<Ulid>, [Logs; 2]) {
    let test = TestStore::new();
    let mut ids = vec![test.checkpoint(&files(1, 3))];
    let first = logs(&test);
    ids.extend((2..4).map(|seed| test.checkpoint(&files(seed, 3))));
    test.store.absorb().unwrap();
    let whole = logs(&test);
    (test, ids, [first, whole])
}

/// The journal's segments; without `synced`.
fn logs(test: &TestStore) -> Logs {
    let mut logs = test.journal_files();
    logs.retain(|path, _| path.extension().is_some_and(|end| end == "log"));
    logs
}

fn packs(store: &Store) -> BTreeSet<PathBuf> {
    std::fs::read_dir(store.layout().packs()).unwrap().map(|file| file.unwrap().path()).collect()
}

fn is_readable(store: &Store, id: Ulid) -> bool {
    store.checkpoints().unwrap().iter().any(|c| c.record.id == id && content_of(store, c).is_ok())
}

#[test]
fn nothing_goes_while_the_index_is_ahead_of_the_journal() {
    // How the index may be lost between the journal's loss and gc.
    let rebuild = |test: &TestStore| check::rebuild_index(test.store.layout(), PATIENCE, &()).unwrap();
    let absorb = |test: &TestStore| test.open().absorb().unwrap();
    let repair = |test: &TestStore| {
        let plan = check::plan_repair(test.store.layout(), &[], &()).unwrap();
        check::repair(test.store.layout(), &plan, PATIENCE, &()).unwrap();
    };
    let nothing = |_: &TestStore| {};
    for before in [&nothing as &dyn Fn(&TestStore), &rebuild, &absorb, &repair] {
        let (test, ids, [first, whole]) = indexed();
        let all = packs(&test.store);
        test.put_back_journal(&first);
        before(&test);
        let other = test.another();
        let report = check::run(test.store.layout(), &CheckOptions::default(), &()).unwrap();
        assert!(report.findings.iter().any(|f| f.kind == FindingKind::Journal && f.message.contains("are missing")));
        let said = Notices::default();
        run(&other.store, &GcOptions::default(), &said).unwrap();
        assert!(said.0.lock().unwrap().iter().any(|text| text.contains("gc removes nothing")));
        assert_eq!((packs(&test.store), other.ids()), (all, ids[..1].to_vec()));
        // What was lost is there again with the journal.
        test.put_back_journal(&whole);
        let store = test.open();
        assert!(ids.iter().all(|id| is_readable(&store, *id)));
        check::rebuild_index(test.store.layout(), PATIENCE, &()).unwrap();
        assert!(check::run(test.store.layout(), &CheckOptions::default(), &()).unwrap().is_clean());
    }
}

#[test]
fn what_the_index_alone_told_of_stays_when_the_store_is_gone_on_with() {
    let (test, ids, [first, whole]) = indexed();
    let all = packs(&test.store);
    test.put_back_journal(&first);
    let other = test.another();
    let next = other.checkpoint(&files(9, 3));
    other.store.absorb().unwrap();
    let report = check::run(test.store.layout(), &CheckOptions::default(), &()).unwrap();
    assert!(report.is_clean() && report.notes.iter().any(|note| note.contains("gc keeps them")), "{report:?}");
    other.delete(next);
    run(&other.store, &GcOptions::default(), &()).unwrap();
    assert!(packs(&test.store).is_superset(&all));
    test.put_back_journal(&whole);
    let store = test.open();
    assert!(ids.iter().all(|id| is_readable(&store, *id)));
}

#[test]
fn a_journal_without_segments_is_damaged_where_the_index_tells_of_records() {
    let (test, ids, [_, whole]) = indexed();
    let all = packs(&test.store);
    let writer = test.another();
    test.put_back_journal(&BTreeMap::new());
    for _ in 0..2 {
        let refused = Store::open(test.store.path(), &Default::default());
        assert!(
            matches!(refused, Err(Error::Corrupt { ref reason, .. }) if reason.contains("segments are missing")),
            "{refused:?}"
        );
        // A process that has the store open notices it as well.
        assert!(run(&writer.store, &GcOptions::default(), &()).is_err());
        assert!(delete_checkpoints(&writer.store, &ids[..1], None, &()).is_err());
        assert!(check::rebuild_index(test.store.layout(), PATIENCE, &()).is_err());
        assert_eq!((packs(&test.store), logs(&test).len()), (all.clone(), 0));
        let report = check::run(test.store.layout(), &CheckOptions::default(), &()).unwrap();
        assert!(report.findings.iter().any(|finding| finding.kind == FindingKind::Journal));
    }
    test.put_back_journal(&whole);
    let store = test.open();
    assert!(ids.iter().all(|id| is_readable(&store, *id)));
}

#[test]
fn the_index_goes_up_to_nothing_whose_name_a_power_cut_may_take() {
    let test = TestStore::new();
    test.checkpoint(&files(1, 3));
    // Whoever made the segment died before its name was on the medium.
    std::fs::remove_file(test.store.layout().journal().join("synced")).unwrap();
    let (_, synced) = crate::disk::syncs::of(|| test.store.absorb().unwrap());
    assert!(synced.iter().any(|name| name == "journal"), "{synced:?}");
    let db = Db::open_reader(test.store.layout()).unwrap().unwrap();
    assert!(db.get(Family::Meta, b"position").unwrap().is_some());
}
