mod ahead;
mod beside;
mod broken;
mod copies;
mod flattened;
mod leftovers;
mod lost;
mod planned;
mod published;
mod reached;
mod recipes;

use std::collections::{BTreeMap, HashSet};

use proptest::prelude::*;
use rustix::io::Errno;

use super::*;
use crate::{
    clock,
    disk::syncs,
    id::{ObjectKey, Ulid},
    pack::PackFile,
    testing::{Files, TestStore, content, content_of, files},
};

fn pack_files(test: &TestStore) -> usize {
    std::fs::read_dir(test.store.layout().packs()).unwrap().count()
}

/// Every object key in packs that the store still knows, with how often it occurs.
fn stored(test: &TestStore) -> BTreeMap<ObjectKey, u32> {
    let mut found = BTreeMap::new();
    for (id, state) in test.store.refresh().unwrap().packs().unwrap() {
        if state.condemned.is_none() {
            let pack = PackFile::open(test.store.layout(), id).unwrap();
            let scan = pack.scan_blocks(true, |_, directory| {
                directory.entries.iter().for_each(|e| *found.entry(e.id.key()).or_insert(0) += 1);
                Ok(())
            });
            scan.unwrap();
        }
    }
    found
}

fn indexed(store: &Store) -> HashSet<ObjectKey> {
    let mut keys = HashSet::new();
    let view = store.refresh().unwrap();
    view.each_object(|key, location| {
        assert!(view.packs().unwrap()[&location.pack].condemned.is_none());
        assert!(store.block(location).unwrap().objects.iter().any(|(_, id, _)| id.key() == key));
        keys.insert(key);
        Ok(())
    })
    .unwrap();
    keys
}

fn all_read_back(test: &TestStore, expected: &BTreeMap<Ulid, Files>) {
    for store in [&test.store, &test.open()] {
        let found = store.checkpoints().unwrap();
        assert_eq!(found.len(), expected.len());
        for checkpoint in found {
            assert_eq!(&content_of(store, &checkpoint).unwrap(), &expected[&checkpoint.record.id]);
        }
    }
}

#[test]
fn what_was_dead_by_a_deletion_that_was_taken_back_stays() {
    let test = TestStore::new();
    test.builds.set(false);
    let of = |seed| Files::from([(format!("file{seed}"), content(seed, 5))]);
    let (a, b) = (test.checkpoint(&of(1)), test.checkpoint(&of(2)));
    let before = test.journal_files();
    test.delete(a);
    let pin = Pin::take(&test.store.layout().pins(), true, "gc").unwrap();
    let mut survey = Survey::take(&test.store, &()).unwrap();
    let condemned = survey.choose(&GcOptions::no_repack()).delete;
    assert!(!condemned.is_empty());
    // Another deletion stands in its place by now, whose record is as long: how long its time is written depends on the time.
    let length = || test.journal_files().values().map(Vec::len).sum::<usize>();
    let as_long = length();
    loop {
        test.put_back_journal(&before);
        test.another().delete(b);
        if length() == as_long {
            break;
        }
    }
    let (mut numbers, mut room) = (0, Room::new(test.store.layout()));
    let added = NewPacks::new(&test.store, pin.op, &mut numbers);
    let published = publish::publish(&test.store, pin.op, &mut survey, condemned, added, &mut room, &());
    assert!(matches!(published, Err(Error::Overtaken { .. })), "{:?}", published.map(|p| p.condemned));
    drop(pin);
    run(&test.store, &everything(), &()).unwrap();
    assert_eq!(test.another().ids(), [a]);
    all_read_back(&test.another(), &BTreeMap::from([(a, of(1))]));
}

fn everything() -> GcOptions {
    GcOptions { consolidate: true, ..GcOptions::below(100) }
}

#[derive(Clone, Debug)]
enum Step {
    Create(u64, usize, usize),
    Delete(usize),
    Gc(GcOptions),
    Absorb,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0u64..4, 1usize..14, prop_oneof![Just(1000usize), Just(2000), Just(20_000)]).prop_map(|(s, n, c)| Step::Create(s, n, c)),
        3 => (0usize..20).prop_map(Step::Delete),
        2 => (prop_oneof![Just(0u8), Just(70), Just(100)], any::<bool>())
            .prop_map(|(p, c)| Step::Gc(GcOptions { consolidate: c, ..GcOptions::below(p) })),
        1 => Just(Step::Absorb),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn gc_keeps_exactly_what_is_reachable(steps in proptest::collection::vec(step(), 1..24)) {
        let test = TestStore::new();
        let mut expected = BTreeMap::new();
        for step in steps {
            match step {
                Step::Create(seed, count, cut) => {
                    test.cut.set(cut);
                    let files = files(seed, count);
                    expected.insert(test.checkpoint(&files), files);
                }
                Step::Delete(i) if !expected.is_empty() => {
                    let id = *expected.keys().nth(i % expected.len()).unwrap();
                    expected.remove(&id);
                    test.delete(id);
                }
                Step::Delete(_) => {}
                Step::Gc(options) => {
                    let plan = plan(&test.store, &options, &()).unwrap();
                    let report = run(&test.store, &options, &()).unwrap();
                    prop_assert_eq!(&report.plan.delete, &plan.delete);
                    prop_assert_eq!(report.waiting_packs, 0);
                    all_read_back(&test, &expected);
                }
                Step::Absorb => test.store.absorb().unwrap(),
            }
        }
        settle(&test);
        all_read_back(&test, &expected);
        // What lives is stored once and indexed; what is dead stays only where a copy without it is no shorter.
        let mut survey = Survey::take(&test.store, &()).unwrap();
        let live: HashSet<ObjectKey> = survey.marker.live.drain().map(|(key, _)| key).collect();
        let stored = stored(&test);
        let kept: HashSet<ObjectKey> = stored.keys().copied().collect();
        prop_assert!(kept.is_superset(&live));
        prop_assert!(stored.values().all(|count| *count == 1));
        prop_assert_eq!(indexed(&test.store), kept.clone());
        prop_assert_eq!(indexed(&test.open()), kept.clone());
        prop_assert_eq!(pack_files(&test), test.store.view().packs().unwrap().len());
        crate::check::rebuild_index(test.store.layout(), std::time::Duration::from_secs(60), &()).unwrap();
        prop_assert_eq!(indexed(&test.open()), kept);
        let report = crate::check::run(test.store.layout(), &crate::check::CheckOptions { read_data_percent: Some(100) }, &()).unwrap();
        prop_assert!(report.is_clean(), "{:?}", report.findings);
    }
}

/// Collects until nothing more is to be done: what gets another base lets go of the old one, which then goes with the next run. Says how often.
fn settle(test: &TestStore) -> usize {
    let is_done = |report: &GcReport| (report.condemned_packs, report.added_packs, report.dropped_packs) == (0, 0, 0);
    (1..6).find(|_| is_done(&run(&test.store, &everything(), &()).unwrap())).unwrap()
}

#[test]
fn a_few_runs_are_enough_where_versions_let_go_of_their_bases() {
    let test = TestStore::new();
    let mut expected = BTreeMap::new();
    for (seed, count, cut) in [(1, 3, 20_000), (0, 1, 1000), (0, 1, 1000), (0, 13, 2000)] {
        test.cut.set(cut);
        expected.insert(test.checkpoint(&files(seed, count)), files(seed, count));
    }
    let first = *expected.keys().next().unwrap();
    expected.remove(&first);
    test.delete(first);
    let bytes = |test: &TestStore| test.store.refresh().unwrap().packs().unwrap().values().map(|pack| pack.bytes).sum::<u64>();
    let before = bytes(&test);
    assert!(settle(&test) <= 4);
    all_read_back(&test, &expected);
    assert!(bytes(&test) <= before);
}

#[test]
fn a_dead_recipe_never_outlives_its_chunks() {
    let test = TestStore::new();
    let long = content(7, 5);
    let one: Files = [("a".to_owned(), long[..2000].to_vec()), ("b".to_owned(), long[2000..].to_vec())].into();
    test.cut.set(long.len());
    test.checkpoint(&one);
    // Its recipe lies beside much that lives; its chunks lie in the pack of the first checkpoint and in its own.
    let mut two = files(3, 14);
    two.insert("long".into(), long.clone());
    test.cut.set(2000);
    let with_recipe = test.checkpoint(&two);
    two.remove("long");
    test.checkpoint(&two);
    test.delete(with_recipe);
    for options in [GcOptions::no_repack(), GcOptions::below(1)] {
        run(&test.store, &options, &()).unwrap();
        let mut again = two.clone();
        again.insert("long".into(), long.clone());
        let id = test.checkpoint(&again);
        assert_eq!(test.content(&test.get(id)).unwrap(), again);
        test.delete(id);
    }
}

#[test]
fn a_chunk_that_also_has_a_recipe_stays_for_those_who_have_found_it() {
    for options in [GcOptions::no_repack(), everything()] {
        let test = TestStore::new();
        let one: Files = [("a".to_owned(), content(7, 5))].into();
        test.cut.set(20_000);
        let whole = test.checkpoint(&one);
        // The same bytes, in pieces this time, as a file that has grown is cut.
        test.cut.set(2000);
        let id = test.checkpoint(&one);
        test.delete(whole);
        let reader = test.open();
        let node = reader.node_at(&test.get(id), b"a").unwrap();
        let crate::tree::Kind::File { blob, size, .. } = node.kind else { panic!("no file") };
        let found = reader.blob(blob, size).unwrap();
        run(&test.store, &options, &()).unwrap();
        reader.close_removed_packs();
        assert_eq!(found.read_all().unwrap(), one["a"]);
        assert_eq!(test.content(&test.get(id)).unwrap(), one);
    }
}

#[test]
fn many_small_packs_become_one() {
    let test = TestStore::new();
    let mut expected = BTreeMap::new();
    for i in 0..20 {
        let files = files(i, 4);
        expected.insert(test.checkpoint(&files), files);
    }
    let report = run(&test.store, &GcOptions::default(), &()).unwrap();
    assert_eq!((report.condemned_packs, report.added_packs, report.dropped_packs), (20, 1, 20));
    assert_eq!(pack_files(&test), 1);
    all_read_back(&test, &expected);
}

/// Needs to mount: `cargo test -- --ignored full_disk`, as root.
#[test]
#[ignore = "mounts a small tmpfs"]
fn a_full_disk_is_emptied() {
    let dir = tempfile::tempdir().unwrap();
    let mount = |arguments: &[&str]| std::process::Command::new("mount").args(arguments).arg(dir.path()).status().unwrap();
    assert!(mount(&["-t", "tmpfs", "-o", "size=72m", "tmpfs"]).success());
    let test = TestStore::at(dir.path().join("store"));
    // The packs go by themselves.
    test.builds.set(false);
    let kept = test.checkpoint(&files(1, 40));
    let many = |from: usize, to: usize| -> Files { (from..to).map(|i| (format!("f{i}"), content(i as u64, 5))).collect() };
    let (dead, mixed) = (test.checkpoint(&many(0, 200)), test.checkpoint(&many(200, 5000)));
    let part = test.checkpoint(&many(2700, 5000));
    [dead, mixed].into_iter().for_each(|id| test.delete(id));
    let filler = dir.path().join("filler");
    let mut bytes = 72 << 20;
    let mut fill = std::fs::File::create(&filler).unwrap();
    while bytes > 0 {
        match std::io::Write::write(&mut fill, &vec![1; bytes]) {
            Ok(n) if n > 0 => {}
            _ => bytes /= 2,
        }
    }
    let planned = plan(&test.store, &everything(), &()).unwrap();
    assert_eq!((planned.delete.len(), planned.repack.len()), (1, 1));
    // What is dead altogether makes room for a copy of the rest.
    let report = run(&test.store, &everything(), &()).unwrap();
    assert!(report.disk_was_full && report.dropped_packs > 0, "{report:?}");
    for (id, files) in [(kept, files(1, 40)), (part, many(2700, 5000))] {
        assert_eq!(test.content(&test.get(id)).unwrap(), files);
    }
    drop(fill);
    std::fs::remove_file(&filler).unwrap();
    let report = run(&test.store, &everything(), &()).unwrap();
    assert!(report.left_packs == 0 && test.store.layout().ballast().exists(), "{report:?}");
    assert_eq!(plan(&test.store, &everything(), &()).unwrap().repack.len(), 0);
    assert_eq!(test.content(&test.get(part)).unwrap(), many(2700, 5000));
    drop(test);
    assert!(std::process::Command::new("umount").arg(dir.path()).status().unwrap().success());
}
