//! Records of the journal are lost. What they may have been about stays.

use super::*;
use crate::OpenOptions;

/// A store with something dead, a checkpoint that stays, and one of which the record is lost.
fn with_lost_record(cut: impl FnOnce(&TestStore, &BTreeMap<std::path::PathBuf, Vec<u8>>)) -> (TestStore, Ulid, Ulid) {
    let test = TestStore::new();
    let (kept, dead) = (test.checkpoint(&files(1, 9)), test.checkpoint(&files(2, 9)));
    test.delete(dead);
    let before = test.journal_files();
    let lost = test.checkpoint(&files(3, 9));
    cut(&test, &before);
    (test.another(), kept, lost)
}

/// Panics unless the pack of the lost checkpoint is there, and gc tells of it.
fn assert_kept(test: &TestStore, lost: Ulid) {
    let known = test.store.refresh().unwrap().packs().unwrap();
    let unexplained = unexplained(&test.store).unwrap();
    assert_eq!(unexplained.checkpoints.iter().map(|checkpoint| checkpoint.record.id).collect::<Vec<_>>(), [lost]);
    assert_eq!(unexplained.packs.len(), 1);
    for pack in &unexplained.packs {
        assert!(!known.contains_key(pack) && test.store.layout().pack(*pack).exists());
    }
}

#[test]
fn while_records_are_missing_nothing_goes_and_their_packs_stay_for_good() {
    nothing_goes(|test, before| {
        let hint = test.store.layout().journal().join("synced");
        let newest = std::fs::read(&hint).unwrap();
        test.put_back_journal(before);
        std::fs::write(hint, newest).unwrap();
    });
}

#[test]
fn the_index_is_a_witness_of_records_that_are_missing() {
    for is_hint_old in [true, false] {
        nothing_goes(|test, before| {
            test.store.absorb().unwrap();
            test.put_back_journal(before);
            if !is_hint_old {
                std::fs::remove_file(test.store.layout().journal().join("synced")).unwrap();
            }
        });
    }
}

#[test]
fn a_journal_that_is_gone_is_no_empty_store() {
    let (test, ..) = with_lost_record(|test, _| {
        test.store.absorb().unwrap();
    });
    let path = test.store.path().to_owned();
    test.journal_files().into_keys().for_each(|path| std::fs::remove_file(path).unwrap());
    for _ in 0..2 {
        let refused = Store::open(&path, &OpenOptions::default());
        assert!(matches!(refused, Err(Error::Corrupt { .. })), "{refused:?}");
    }
}

fn nothing_goes(cut: impl FnOnce(&TestStore, &BTreeMap<std::path::PathBuf, Vec<u8>>)) {
    let (test, kept, lost) = with_lost_record(cut);
    // A dead run's pack, which is told by its pin.
    let orphan = test.draft("test", &files(4, 9));
    let op = orphan.pin.op;
    orphan.pin.leave();
    let packs = pack_files(&test);
    let report = run(&test.store, &everything(), &()).unwrap();
    assert_eq!((report.condemned_packs, report.dropped_packs, report.orphans), (0, 0, 0));
    assert!(pack_files(&test) == packs && pin::exists(&test.store.layout().pins(), op));
    assert_kept(&test, lost);
    // The next commit notes where records were missing. Then what is dead goes, and what nothing explains stays.
    let next = test.checkpoint(&files(5, 9));
    let report = run(&test.open(), &everything(), &()).unwrap();
    assert!(report.dropped_packs > 0 && report.orphans == 1, "{report:?}");
    assert!(!pin::exists(&test.store.layout().pins(), op));
    assert_kept(&test.another(), lost);
    all_read_back(&test.another(), &BTreeMap::from([(kept, files(1, 9)), (next, files(5, 9))]));
}

#[test]
fn the_packs_of_a_record_that_was_cut_off_stay() {
    let (test, kept, lost) = with_lost_record(|test, before| {
        let after = test.journal_files();
        let hint = test.store.layout().journal().join("synced");
        test.put_back_journal(before);
        std::fs::remove_file(hint).unwrap();
        let (path, bytes) = before.iter().find(|(path, _)| path.extension().is_some_and(|end| end == "log")).unwrap();
        std::fs::write(path, &after[path][..bytes.len() + 30]).unwrap();
    });
    assert_kept(&test, lost);
    let report = run(&test.store, &everything(), &()).unwrap();
    assert!(report.dropped_packs > 0, "{report:?}");
    assert_kept(&test.another(), lost);
    all_read_back(&test.another(), &BTreeMap::from([(kept, files(1, 9))]));
}

#[test]
fn an_older_journal_is_told_by_the_packs_and_nothing_goes_until_they_are_taken_in() {
    let (test, kept, lost) = with_lost_record(|test, before| {
        test.put_back_journal(before);
        let layout = test.store.layout();
        std::fs::remove_file(layout.journal().join("synced")).unwrap();
        std::fs::remove_dir_all(layout.view()).unwrap();
    });
    // What a run left that ended without a commit is told by its pin, and goes.
    test.draft("test", &files(4, 9)).pin.leave();
    let packs = pack_files(&test);
    let report = run(&test.store, &everything(), &()).unwrap();
    assert_eq!((report.condemned_packs, report.dropped_packs, report.orphans), (0, 0, 1), "{report:?}");
    assert_eq!(pack_files(&test), packs - 1);
    assert_kept(&test, lost);
    let checked = crate::check::run(test.store.layout(), &Default::default(), &()).unwrap();
    // A single one may be what was left by a run, so that it is no fault by itself.
    assert!(checked.is_clean() && checked.notes.iter().any(|note| note.contains(&lost.to_string())), "{:?}", checked.notes);
    let patience = std::time::Duration::from_secs(60);
    let mended = crate::check::mend(test.store.layout(), &[], patience, &()).unwrap();
    assert_eq!(mended.strays.checkpoints, [lost]);
    let test = test.another();
    assert!(run(&test.store, &everything(), &()).unwrap().dropped_packs > 0);
    all_read_back(&test.another(), &BTreeMap::from([(kept, files(1, 9)), (lost, files(3, 9))]));
    assert!(crate::check::run(test.store.layout(), &Default::default(), &()).unwrap().is_clean());
}
