use super::*;

#[test]
fn leftovers_of_crashed_runs_go_and_those_of_live_ones_stay() {
    let test = TestStore::new();
    let kept = test.checkpoint(&files(1, 9));
    let (dead, alive) = (test.draft("test", &files(2, 9)), test.draft("test", &files(3, 9)));
    let layout = test.store.layout();
    // A crash leaves the pin's file behind, unlocked.
    let name = layout.pins().join(format!("{}.pin", dead.pin.op));
    let text = std::fs::read(&name).unwrap();
    let op = dead.pin.op;
    drop(dead);
    std::fs::write(&name, text).unwrap();
    std::fs::write(layout.table(op), "x").unwrap();
    std::fs::write(layout.table(alive.pin.op), "x").unwrap();
    // An index that was being made, or moved aside; a folder for temporary files.
    let cache = |name: String| layout.cache().join(name);
    let indexes = [op, alive.pin.op].map(|op| cache(format!("{op}{}", crate::layout::NEW_INDEX)));
    let gone = [cache(format!("{op}.view.tmp")), cache("view.1.old".into()), cache(format!("{op}.sst"))];
    let stays = [cache("view.1.other".into()), cache("some.old".into())];
    let _ = std::fs::remove_file(layout.table(op));
    indexes.iter().chain(&gone).chain(&stays).for_each(|folder| std::fs::create_dir(folder).unwrap());
    let temporary = [layout.journal().join("1.tmp"), layout.root.join("store.json.tmp"), cache("x.tmp".into())];
    temporary.iter().for_each(|file| std::fs::write(file, "x").unwrap());
    let packs = pack_files(&test);
    let report = run(&test.store, &GcOptions::default(), &()).unwrap();
    assert_eq!((report.orphans, report.dropped_packs), (1, 0));
    assert!(report.orphan_bytes > 0 && pack_files(&test) == packs - 1);
    assert!(!name.exists() && !layout.table(op).exists() && layout.table(alive.pin.op).exists());
    assert!(!indexes[0].exists() && indexes[1].exists());
    assert_eq!(gone.iter().chain(&stays).map(|folder| folder.exists()).collect::<Vec<_>>(), [false, false, false, true, true]);
    // Somebody who lives may be writing the last one.
    assert_eq!(temporary.iter().map(|file| file.exists()).collect::<Vec<_>>(), [false, false, true]);
    let committed = test.commit(alive).unwrap();
    assert_eq!(test.content(&test.get(committed)).unwrap(), files(3, 9));
    assert_eq!(test.content(&test.get(kept)).unwrap(), files(1, 9));
}

#[test]
fn the_pin_of_a_dead_run_stays_until_its_packs_are_gone_for_good() {
    let test = TestStore::new();
    let orphan = test.draft("test", &files(1, 9));
    let op = orphan.pin.op;
    orphan.pin.leave();
    let (failed, _) = syncs::failing(0, Errno::IO, || run(&test.store, &GcOptions::default(), &()));
    assert!(failed.is_err_and(|e| e.to_string().contains("sync folder")) && pin::exists(&test.store.layout().pins(), op));
    // One whose packs did not come back keeps nothing.
    let (report, synced) = syncs::of(|| run(&test.store, &GcOptions::default(), &()).unwrap());
    assert_eq!((report.orphans, synced.len(), pin::exists(&test.store.layout().pins(), op)), (0, 0, false));
}

#[test]
fn a_cancelled_run_leaves_nothing_behind() {
    struct Stop;
    impl Progress for Stop {
        fn is_cancelled(&self) -> bool {
            true
        }
    }
    let test = TestStore::new();
    test.checkpoint(&files(1, 9));
    assert!(matches!(run(&test.store, &everything(), &Stop), Err(Error::Cancelled)));
    assert_eq!(pack_files(&test), 1);
    assert!(pin::list(&test.store.layout().pins()).unwrap().is_empty());
}

#[test]
fn caches_that_nobody_has_used_for_long_go() {
    let test = TestStore::new();
    let cache = test.store.layout().cache();
    let at = |name: &str, days: u64| {
        let file = std::fs::File::create(cache.join(name)).unwrap();
        let then = std::time::SystemTime::from(clock::timestamp()) - std::time::Duration::from_secs(days * 24 * 3600);
        file.set_times(std::fs::FileTimes::new().set_accessed(then).set_modified(then)).unwrap();
    };
    for (name, days) in [("old.stat", 61), ("old.conversation", 61), ("recent.stat", 59), ("unknown", 1000)] {
        at(name, days);
    }
    run(&test.store, &GcOptions::default(), &()).unwrap();
    let left: Vec<bool> =
        ["old.stat", "old.conversation", "recent.stat", "unknown"].iter().map(|name| cache.join(name).exists()).collect();
    assert_eq!(left, [false, false, true, true]);
}

#[test]
fn a_pack_that_cannot_be_removed_is_named_and_keeps_no_other() {
    let test = TestStore::new();
    let gone: Vec<Ulid> = (1..4).map(|seed| test.checkpoint(&files(seed, 9))).collect();
    let writer = Pin::take(&test.store.layout().pins(), true, "test").unwrap();
    gone.iter().for_each(|id| test.delete(*id));
    let waiting = run(&test.store, &GcOptions::no_repack(), &()).unwrap().waiting_packs;
    assert!(waiting > 1, "{waiting}");
    drop(writer);
    let condemned = |state: &crate::view::PackState| state.condemned.is_some();
    let packs = test.store.refresh().unwrap().packs().unwrap();
    let stuck = *packs.iter().find(|(_, state)| condemned(state)).unwrap().0;
    let path = test.store.layout().pack(stuck);
    std::fs::remove_file(&path).unwrap();
    // What no unlink removes.
    std::fs::create_dir(&path).unwrap();
    let failed = run(&test.store, &GcOptions::no_repack(), &()).unwrap_err().to_string();
    assert!(failed.contains(&stuck.to_string()), "{failed}");
    let left = test.store.refresh().unwrap().packs().unwrap();
    assert_eq!(left.iter().filter(|(_, state)| condemned(state)).map(|(id, _)| *id).collect::<Vec<_>>(), [stuck]);
    std::fs::remove_dir(&path).unwrap();
    assert_eq!(run(&test.store, &GcOptions::no_repack(), &()).unwrap().dropped_packs, 1);
}
