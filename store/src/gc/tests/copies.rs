use super::*;

#[test]
fn what_was_copied_is_found_where_it_is_now_and_after_absorbing() {
    for absorb_first in [false, true] {
        let test = TestStore::new();
        let (a, b) = (test.checkpoint(&files(1, 9)), test.checkpoint(&files(2, 9)));
        if absorb_first {
            test.store.absorb().unwrap();
        }
        let before = test.content(&test.get(b)).unwrap();
        test.delete(a);
        let report = run(&test.store, &everything(), &()).unwrap();
        assert!(report.added_packs > 0 && report.dropped_packs > 0, "{report:?}");
        let new = test.store.view().packs().unwrap();
        let old_reader = test.open();
        let all_known = |_, location: crate::pack::Location| {
            assert!(new[&location.pack].condemned.is_none());
            Ok(())
        };
        old_reader.view().each_object(all_known).unwrap();
        assert_eq!(content_of(&old_reader, &test.get(b)).unwrap(), before);
        test.store.absorb().unwrap();
        assert_eq!(content_of(&test.open(), &test.get(b)).unwrap(), before);
    }
}

#[test]
fn a_second_copy_that_an_older_view_has_found_stays_in_the_index() {
    for options in [GcOptions::no_repack(), GcOptions::below(1), everything()] {
        let test = TestStore::new();
        // Without recipes, which would keep their chunks anyway.
        test.cut.set(20_000);
        let (mut shared, other) = (files(1, 6), test.another());
        // What is left is not in `kept`.
        shared.retain(|path, _| !path.starts_with("dir0"));
        let mut first = shared.clone();
        first.extend(files(9, 14).into_iter().map(|(path, bytes)| (format!("more/{path}"), bytes)));
        // Two creators write the same at once; the index then finds it in the later one's pack.
        let (a, b) = (test.draft("test", &first), other.draft("test", &shared));
        let a = test.commit(a).unwrap();
        let draft = test.draft("test", &shared);
        let b = other.commit(b).unwrap();
        test.store.refresh().unwrap();
        let kept: Files =
            first.iter().filter(|(path, _)| path.starts_with("more/")).map(|(p, c)| (p.clone(), c.clone())).collect();
        test.checkpoint(&kept);
        other.store.absorb().unwrap();
        [a, b].into_iter().for_each(|id| test.delete(id));
        run(&other.store, &options, &()).unwrap();
        let id = match test.commit(draft) {
            Ok(id) => id,
            Err(Error::Overtaken { .. }) => test.checkpoint(&shared),
            Err(e) => panic!("{e}"),
        };
        assert_eq!(test.content(&test.get(id)).unwrap(), shared);
        assert_eq!(content_of(&test.open(), &test.get(id)).unwrap(), shared);
    }
}

#[test]
fn an_object_in_several_packs_is_found_in_the_same_one_however_the_index_was_made() {
    let test = TestStore::new();
    let all = files(1, 9);
    // The one that begins first commits last; neither knows of the other's objects.
    let others: Vec<TestStore> = (0..3).map(|_| test.another()).collect();
    let drafts: Vec<_> = others.iter().map(|other| other.draft("test", &all)).collect();
    for (other, draft) in others.iter().zip(drafts).rev() {
        other.commit(draft).unwrap();
        // Taken in one by one, as a busy store's index is.
        test.store.absorb().unwrap();
    }
    let homes = |store: &crate::Store| {
        let mut homes = std::collections::BTreeMap::new();
        let mut note = |key, location| {
            homes.insert(key, location);
            Ok(())
        };
        store.view().each_object(&mut note).unwrap();
        homes
    };
    let one_by_one = homes(&test.open());
    assert!(one_by_one.len() > 9);
    let from_journal = crate::Store::open_without_index(test.store.path(), &Default::default()).unwrap();
    assert_eq!(homes(&from_journal), one_by_one);
    crate::check::rebuild_index(test.store.layout(), std::time::Duration::from_secs(60), &()).unwrap();
    assert_eq!(homes(&test.open()), one_by_one);
}

#[test]
fn the_only_whole_copy_of_what_is_damaged_at_home_stays() {
    for options in [GcOptions::below(70), everything(), GcOptions::default()] {
        let test = TestStore::new();
        test.cut.set(20_000);
        let other = test.another();
        let all = files(1, 9);
        // Two creators write the same at once.
        let (a, b) = (test.draft("one", &all), other.draft("two", &all));
        let (a, b) = (test.commit(a).unwrap(), other.commit(b).unwrap());
        other.store.absorb().unwrap();
        let test = test.another();
        let (path, bytes) = all.iter().find(|(_, bytes)| bytes.len() > 50).unwrap();
        let home = test.store.view().locate(crate::testing::blob_id(bytes).object()).unwrap().unwrap();
        let before = pack_files(&test);
        let whole = std::fs::read(test.store.layout().pack(home.pack)).unwrap();
        let mut hurt = whole.clone();
        let end = (home.offset + u64::from(home.block_bytes)) as usize;
        hurt[end - 4..end].iter_mut().for_each(|byte| *byte ^= 0xff);
        std::fs::write(test.store.layout().pack(home.pack), &hurt).unwrap();
        let planned = plan(&test.store, &options, &()).unwrap();
        assert!(planned.delete.is_empty() && planned.repack.is_empty(), "{path}: {planned:?}");
        run(&test.store, &options, &()).unwrap();
        assert_eq!(pack_files(&test), before, "{path}");
        // The next create stores it again where it comes upon it.
        assert!(crate::damaged::DamageSet::read(test.store.layout()).has_block(home));
        // Whole again, the second copy may go.
        std::fs::write(test.store.layout().pack(home.pack), &whole).unwrap();
        let test = test.another();
        let checked = crate::check::CheckOptions { read_data_percent: Some(100) };
        crate::check::run(test.store.layout(), &checked, &()).unwrap();
        assert!(run(&test.store, &options, &()).unwrap().dropped_packs > 0);
        all_read_back(&test, &BTreeMap::from([(a, all.clone()), (b, all)]));
    }
}
