use super::*;

#[test]
fn a_pack_of_any_length_is_repaired() {
    let test = TestStore::new();
    let id = test.checkpoint(&files(1, 9));
    let path = only_pack(&test);
    fs::File::options().write(true).open(&path).unwrap().set_len(1 << 40).unwrap();
    assert!(!check(&test, &CheckOptions::default()).is_clean());
    let plan = plan_repair(test.store.layout(), &[], &()).unwrap();
    assert!(plan.lost.is_empty() && plan.damaged_packs.len() == 1, "{plan:?}");
    repair(test.store.layout(), &plan, PATIENCE, &()).unwrap();
    let store = test.open();
    assert_eq!(crate::testing::content_of(&store, &test.get(id)).unwrap(), files(1, 9));
}

#[test]
fn a_repair_beside_gc_is_refused_where_a_good_copy_went_and_the_next_takes_it_from_there() {
    let test = TestStore::new();
    let all = files(1, 9);
    let other = test.another();
    // Two write the same at once; the index finds it in the later one's pack, and that is damaged.
    let (a, b) = (test.draft("test", &all), other.draft("test", &all));
    let a = test.commit(a).unwrap();
    let b = other.commit(b).unwrap();
    test.delete(a);
    let Kind::File { blob, .. } = test.store.node_at(&test.get(b), b"dir1/file1").unwrap().kind else { panic!("no file") };
    let home = test.store.refresh().unwrap().locate(blob.object()).unwrap().unwrap();
    let path = test.store.layout().pack(home.pack);
    let whole = fs::read(&path).unwrap();
    let mut bytes = whole.clone();
    bytes[(home.offset + u64::from(home.block_bytes)) as usize - 5] ^= 4;
    fs::write(&path, &bytes).unwrap();

    let plan = plan_repair(test.store.layout(), &[], &()).unwrap();
    assert!(plan.lost.is_empty() && plan.damaged_packs == [home.pack], "{plan:?}");
    // gc lets the other copy go only while this one reads as whole. For whoever writes meanwhile, the bytes stay where they are.
    fs::write(&path, &whole).unwrap();
    let writer = Pin::take(&test.store.layout().pins(), true, "test").unwrap();
    let report = crate::gc::run(&test.store, &crate::gc::GcOptions::no_repack(), &()).unwrap();
    assert_eq!(report.condemned_packs, 1, "{report:?}");
    fs::write(&path, &bytes).unwrap();
    let refused = repair(test.store.layout(), &plan, PATIENCE, &()).unwrap_err();
    assert!(refused.to_string().contains("run the repair again"), "{refused}");
    let packs = test.store.refresh().unwrap().packs().unwrap();
    assert!(packs[&home.pack].condemned.is_none(), "the damaged pack went all the same");

    let plan = plan_repair(test.store.layout(), &[], &()).unwrap();
    assert!(plan.lost.is_empty() && plan.recovered_objects > 0, "{plan:?}");
    repair(test.store.layout(), &plan, PATIENCE, &()).unwrap();
    drop(writer);
    crate::gc::run(&test.open(), &crate::gc::GcOptions::default(), &()).unwrap();
    assert!(check(&test, &ALL).is_clean());
    assert_eq!(crate::testing::content_of(&test.open(), &test.get(b)).unwrap(), all);
}

#[test]
fn a_second_copy_gives_back_files_of_every_length() {
    let test = TestStore::new();
    let id = test.checkpoint(&files(1, 9));
    let folder = tempfile::tempdir().unwrap();
    let second = folder.path().join("second");
    let options = crate::copy::CopyOptions { make: true, ..Default::default() };
    crate::copy::run(&test.store, &second, &options, &()).unwrap();
    fs::remove_file(only_pack(&test)).unwrap();
    let plan = plan_repair(test.store.layout(), &[second], &()).unwrap();
    assert!(plan.lost.is_empty(), "{:?}", plan.lost);
    repair(test.store.layout(), &plan, PATIENCE, &()).unwrap();
    assert!(check(&test, &ALL).is_clean());
    assert_eq!(crate::testing::content_of(&test.open(), &test.get(id)).unwrap(), files(1, 9));
}
