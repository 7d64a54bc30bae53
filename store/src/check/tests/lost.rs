use super::*;

#[test]
fn a_lost_pack_does_not_hide_the_others() {
    let test = TestStore::new();
    test.builds.set(false);
    test.checkpoint(&files(1, 9));
    let lost = only_pack(&test);
    let b = test.checkpoint(&[("other".to_owned(), b"something else".to_vec())].into());
    for _ in 0..2 {
        let moved = lost.with_extension("away");
        fs::rename(&lost, &moved).unwrap();
        let store = test.open();
        let checkpoint = store.checkpoints().unwrap().into_iter().find(|c| c.record.id == b).unwrap();
        assert!(crate::testing::content_of(&store, &checkpoint).is_ok());
        assert!(!check(&test, &ALL).is_clean());
        rebuild_index(test.store.layout(), PATIENCE, &()).unwrap();
        assert!(crate::testing::content_of(&test.open(), &checkpoint).is_ok());
        fs::rename(&moved, &lost).unwrap();
        rebuild_index(test.store.layout(), PATIENCE, &()).unwrap();
        assert!(check(&test, &ALL).is_clean());
    }
}

/// Damages the stored bytes of a file's first chunk.
fn damage_first_chunk(test: &TestStore, checkpoint: crate::id::Ulid, path: &[u8]) {
    let Kind::File { blob, size, .. } = test.store.node_at(&test.get(checkpoint), path).unwrap().kind else { panic!("no file") };
    let chunk = test.store.recipe(blob, size).unwrap()[0].id.object();
    let home = test.store.refresh().unwrap().locate(chunk).unwrap().unwrap();
    let path = test.store.layout().pack(home.pack);
    let mut bytes = fs::read(&path).unwrap();
    bytes[(home.offset + u64::from(home.block_bytes)) as usize - 5] ^= 4;
    fs::write(&path, &bytes).unwrap();
}

#[test]
fn everything_that_a_lost_object_touches_is_named() {
    let test = TestStore::new();
    let mut ids = Vec::new();
    for i in 0..25u64 {
        // The file stays where it is, in a folder that stays as it is or changes.
        let mut all = files(1, 9);
        all.insert(if i % 2 == 0 { "dir1/new".into() } else { "new".into() }, i.to_le_bytes().to_vec());
        ids.push(test.checkpoint(&all));
    }
    damage_first_chunk(&test, ids[0], b"dir1/file4");
    let plan = plan_repair(test.store.layout(), &[], &()).unwrap();
    let lost: Vec<&LostObject> = plan.lost.iter().filter(|lost| lost.touches[0].path == "dir1/file4").collect();
    assert!(!lost.is_empty(), "{plan:?}");
    for lost in lost {
        let touched: Vec<_> = lost.touches.iter().map(|touched| touched.checkpoint).collect();
        assert!(touched == ids[..20] && lost.touches_more == 5, "{lost:?}");
    }
}

#[test]
fn a_recipe_with_lost_chunks_goes_where_its_file_is_there_in_one_chunk() {
    let test = TestStore::new();
    let one: Files = [("a".to_owned(), crate::testing::content(7, 5))].into();
    test.cut.set(20_000);
    test.checkpoint(&one);
    let whole = test.checkpoint(&[("a".to_owned(), one["a"].clone()), ("b".to_owned(), b"other".to_vec())].into());
    test.cut.set(2000);
    let cut = test.checkpoint(&one);
    damage_first_chunk(&test, cut, b"a");
    let plan = plan_repair(test.store.layout(), &[], &()).unwrap();
    assert!(plan.lost.is_empty() && plan.damaged_packs.len() == 1, "{plan:?}");
    repair(test.store.layout(), &plan, PATIENCE, &()).unwrap();
    assert!(check(&test, &ALL).is_clean());
    let store = test.open();
    crate::gc::run(&store, &crate::gc::GcOptions::default(), &()).unwrap();
    for id in [whole, cut] {
        assert_eq!(crate::testing::content_of(&store, &test.get(id)).unwrap()["a"], one["a"]);
    }
}
