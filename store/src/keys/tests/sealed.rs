use super::*;

#[test]
fn whatever_a_store_holds_goes_through_the_seal() {
    let place = Place::new(1);
    let (store, checkpoints) = story(&place);
    place.assert_clean(&store);
    assert_eq!(store.view().newest_first_of(&mark("session")).unwrap().count(), checkpoints.len());

    // Nothing that was put in is there to be read, and no id is one that others could have.
    let plain = [text(50_000, 7), noise(1 << 20, 9)].map(|content| Ids::default().blob(&content).0);
    let looked: Vec<_> =
        files_below(store.path()).into_iter().filter(|(path, _)| !path.starts_with(store.layout().pins())).collect();
    for folder in [store.layout().packs(), store.layout().journal(), store.layout().cache(), store.layout().view()] {
        assert!(looked.iter().any(|(path, _)| path.starts_with(&folder)), "{}", folder.display());
    }
    let has = |bytes: &[u8], found: &[u8]| bytes.windows(found.len()).any(|window| window == found);
    for (path, bytes) in &looked {
        assert!(!has(bytes, MARK.as_bytes()), "{}", path.display());
        assert!(plain.iter().all(|id| !has(bytes, id)), "{}", path.display());
    }
    // RocksDB compresses its tables: its entries are looked at as it has them.
    let as_stored = Layout { root: store.path().to_owned(), keys: plain_keys(), ..store.layout().clone() };
    let db = Db::open_reader(&as_stored).unwrap().unwrap();
    let mut entries = 0;
    for family in Family::ALL {
        for entry in db.scan(family).unwrap() {
            let (key, value) = entry.unwrap();
            assert!(
                !has(&key, MARK.as_bytes()) && !has(&value, MARK.as_bytes()),
                "{family:?}: {}",
                String::from_utf8_lossy(&key)
            );
            entries += 1;
        }
    }
    assert!(entries > 400, "{entries}");
    // Whoever lacks the keys is told so.
    let without = Store::open(store.path(), &OpenOptions { keys: plain_keys(), ..OpenOptions::default() });
    assert!(without.is_err_and(|e| e.is_damage() || matches!(e, crate::Error::Index { .. })));
}

#[test]
fn a_sealed_store_is_used_as_any_other() {
    let place = Place::new(2);
    let (store, checkpoints) = story(&place);
    // Restored, looked at and compared.
    let last = checkpoints.last().unwrap();
    let plan = restore::plan(&store, last, &restore::Options::new(place.path("restored")), &()).unwrap();
    restore::execute(&store, last, plan, &()).unwrap();
    let (mut expected, restored) = (files_below(&place.path(&mark("workspace"))), files_below(&place.path("restored")));
    expected.retain(|path, _| !path.to_string_lossy().contains(&mark("left-out")));
    assert!(expected.into_values().eq(restored.into_values()));
    let options = create::Options { workspace: place.path("restored"), ..create::Options::default() };
    let (live, looked, _) = create::look(&store, &options, &()).unwrap();
    let kept = store.workspace_node(last).unwrap();
    let sides = [Side::new(&store, &kept), Side::new(&looked, &live)];
    assert_eq!(compare(sides[0], sides[1], DiffOptions::default()).unwrap(), []);
    // Rebuilt from packs and journal alone.
    check::rebuild_index(store.layout(), Duration::from_secs(60), &()).unwrap();
    let store = place.open();
    place.assert_clean(&store);
    // Collected: what is left is copied to new packs.
    delete_checkpoints(&store, &[checkpoints[0].record.id, checkpoints[2].record.id], None, &()).unwrap();
    let collected = gc::run(&store, &gc::GcOptions::default(), &()).unwrap();
    assert!(collected.condemned_packs > 0, "{collected:?}");
    place.assert_clean(&place.open());
    // Exported, and imported into a store with other keys.
    let mut archive = Vec::new();
    archive::export(&store, last, &mut archive, &()).unwrap();
    let other = Place::new(3);
    let imported = other.open();
    let mut reader = archive::import::Reader::new(&archive[..], Path::new("a.tar"), Limits::default()).unwrap();
    create::import(&imported, &mut reader, &create::ImportOptions::default(), &()).unwrap();
    other.assert_clean(&imported);
    assert!(object_ids(&store).is_disjoint(&object_ids(&imported)));
}
