use super::*;

#[test]
fn a_damaged_index_is_said_so_and_rebuilt() {
    let test = TestStore::new();
    let id = test.checkpoint(&files(1, 9));
    test.checkpoint(&files(2, 9));
    test.store.absorb().unwrap();
    let view = test.store.layout().view();
    for name in ["CURRENT", "MANIFEST", "sst"] {
        for entry in fs::read_dir(&view).unwrap().flatten() {
            let path = entry.path();
            if path.to_string_lossy().contains(name) {
                let mut bytes = fs::read(&path).unwrap();
                let (third, end) = (bytes.len() / 3, bytes.len());
                bytes[third..end - third].iter_mut().for_each(|byte| *byte ^= 0x55);
                fs::write(&path, bytes).unwrap();
            }
        }
        let report = check(&test, &CheckOptions::default());
        assert!(report.rebuild_index, "{name}: {:?}", report.findings);
        assert_eq!(report.checkpoints, 2);
        rebuild_index(test.store.layout(), PATIENCE, &()).unwrap();
        assert!(check(&test, &ALL).is_clean(), "{name}");
        assert_eq!(crate::testing::content_of(&test.open(), &test.get(id)).unwrap(), files(1, 9));
    }
    fs::remove_dir_all(&view).unwrap();
    assert!(check(&test, &ALL).is_clean());
    rebuild_index(test.store.layout(), PATIENCE, &()).unwrap();
    assert_eq!(test.open().checkpoints().unwrap().len(), 2);
}

#[test]
fn an_index_of_another_release_is_no_damage_and_the_next_commit_replaces_it() {
    let test = TestStore::new();
    let id = test.checkpoint(&files(1, 9));
    test.store.absorb().unwrap();
    let view = test.store.layout().view();
    let db = Db::open_writer(&view, &test.store.layout().keys).unwrap();
    let mut batch = Batch::default();
    batch.put(Family::Meta, b"version", "another");
    db.write(batch).unwrap();
    db.flush().unwrap();
    drop(db);
    assert!(check(&test, &ALL).is_clean());
    assert_eq!(crate::testing::content_of(&test.open(), &test.get(id)).unwrap(), files(1, 9));
    test.another().checkpoint(&files(2, 9));
    let version = Db::open_reader(test.store.layout()).unwrap().unwrap().get(Family::Meta, b"version").unwrap();
    assert_ne!(version.as_deref(), Some(&b"another"[..]));
    assert!(check(&test, &ALL).is_clean());
}

#[test]
fn making_the_index_anew_waits_as_long_as_it_is_told() {
    let test = TestStore::new();
    test.checkpoint(&files(1, 3));
    let lock = test.store.lock(&()).unwrap();
    let began = std::time::Instant::now();
    let refused = rebuild_index(test.store.layout(), Duration::from_millis(20), &());
    assert!(matches!(refused, Err(Error::Locked { .. })), "{refused:?}");
    let plan = plan_repair(test.store.layout(), &[], &()).unwrap();
    let refused = repair(test.store.layout(), &plan, Duration::from_millis(20), &());
    assert!(matches!(refused, Err(Error::Locked { .. })), "{refused:?}");
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    drop(lock);
    rebuild_index(test.store.layout(), PATIENCE, &()).unwrap();
}

#[test]
fn checkpoints_are_made_while_the_index_is_made_anew() {
    let test = TestStore::new();
    let dead = test.checkpoint(&files(1, 9));
    let kept = test.checkpoint(&files(2, 9));
    test.store.absorb().unwrap();
    test.delete(dead);
    let (path, made) = (test.store.path().to_owned(), std::sync::Mutex::new(None));
    let progress = AtBegin::new(|| {
        let other = TestStore::at(path);
        let id = other.checkpoint(&files(3, 9));
        crate::gc::run(&other.store, &crate::gc::GcOptions::no_repack(), &()).unwrap();
        *made.lock().unwrap() = Some(id);
    });
    rebuild_index(test.store.layout(), PATIENCE, &progress).unwrap();
    let made = made.lock().unwrap().unwrap();
    assert_eq!(test.another().ids(), [kept, made]);
    assert_eq!(crate::testing::content_of(&test.open(), &test.get(made)).unwrap(), files(3, 9));
    crate::gc::run(&test.open(), &crate::gc::GcOptions::default(), &()).unwrap();
    assert!(check(&test, &ALL).is_clean());
    let left = fs::read_dir(test.store.layout().cache()).unwrap().flatten().map(|entry| entry.file_name());
    let left = left.filter(|name| name != "checked");
    assert_eq!(left.collect::<Vec<_>>(), Vec::<std::ffi::OsString>::new());
}

#[test]
fn a_damaged_journal_is_no_reason_to_derive_an_index_for_ever() {
    let test = TestStore::new();
    test.checkpoint(&files(1, 9));
    test.checkpoint(&files(2, 9));
    let journal = test.store.layout().journal().join("00000000000000000001.log");
    let mut bytes = fs::read(&journal).unwrap();
    bytes[300] ^= 1;
    fs::write(&journal, bytes).unwrap();
    let refused = rebuild_index(test.store.layout(), PATIENCE, &()).unwrap_err();
    assert!(refused.is_damage() && refused.to_string().contains("flipped bit"), "{refused}");
}
