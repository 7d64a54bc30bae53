use super::*;

#[test]
fn what_gc_condemns_before_the_commit_is_not_built_upon() {
    let f = fixture();
    let source = text(300, 4);
    f.write("f.rs", &source);
    let first = f.create().checkpoint.record.id;
    // Its cache names a checkpoint that is pinned; without it, nothing keeps the base.
    let mut edited = source;
    edit(&mut edited, 1);
    f.write("f.rs", &edited);
    let store = f.store.path().to_owned();
    let progress = BeforeCommit(Mutex::new(Some(|| {
        // Whoever deletes the pins takes away what kept the base.
        for pin in fs::read_dir(store.join("pins")).unwrap() {
            let _ = fs::remove_file(pin.unwrap().path());
        }
        delete_and_collect(&store, first);
    })));
    let made = run(&f.store, &f.options(), &progress).unwrap().checkpoint;
    assert!(progress.0.lock().unwrap().is_none());
    assert!(content_of(&assert_sound(f.store.path()), &made).unwrap()["f.rs"] == edited);
}

/// The packs, oldest first.
fn packs(store: &Store) -> Vec<PathBuf> {
    let mut found: Vec<_> = fs::read_dir(store.layout().packs()).unwrap().map(|pack| pack.unwrap().path()).collect();
    found.sort();
    found
}

/// Flips a bit in a pack's trailer, and returns the bytes that were there.
fn damage_trailer(pack: &Path) -> Vec<u8> {
    let whole = fs::read(pack).unwrap();
    let mut bytes = whole.clone();
    let at = bytes.len() - 20;
    bytes[at] ^= 1;
    fs::write(pack, bytes).unwrap();
    whole
}

#[test]
fn a_repair_decodes_with_what_lies_in_damaged_packs_whatever_the_index_says() {
    for is_index_lost in [false, true] {
        let f = fixture();
        let versions = eight_versions(&f);
        let (last, content) = &versions[7];
        let gone: Vec<_> = versions[..7].iter().map(|(checkpoint, _)| checkpoint.record.id).collect();
        delete_checkpoints(&f.store, &gone, None, &()).unwrap();
        gc::run(&f.store, &GcOptions::no_repack(), &()).unwrap();
        damage_trailer(&packs(&f.store)[0]);
        if is_index_lost {
            fs::remove_dir_all(f.store.path().join("view")).unwrap();
        }
        let plan = check::plan_repair(f.store.layout(), &[], &()).unwrap();
        assert!(plan.lost.is_empty(), "{:?}", plan.lost);
        assert_eq!(plan.damaged_packs.len(), 1);
        check::repair(f.store.layout(), &plan, std::time::Duration::from_secs(60), &()).unwrap();
        assert!(content_of(&assert_sound(f.store.path()), last).unwrap()["f.rs"] == *content);
    }
}

#[test]
fn gc_keeps_what_blocks_build_on_that_lie_in_a_damaged_pack() {
    let f = fixture();
    let versions = eight_versions(&f);
    crate::check::rebuild_index(f.store.layout(), std::time::Duration::from_secs(60), &()).unwrap();
    let (last, content) = &versions[7];
    let pack = content_place(&f, "f.rs", last).0;
    let whole = damage_trailer(&pack);
    let gone: Vec<_> = versions[..7].iter().map(|(checkpoint, _)| checkpoint.record.id).collect();
    delete_checkpoints(&f.store, &gone, None, &()).unwrap();
    let store = Store::open(f.store.path(), &OpenOptions::default()).unwrap();
    let _ = gc::run(&store, &GcOptions::default(), &());
    let read = content_of(&Store::open(f.store.path(), &OpenOptions::default()).unwrap(), last).unwrap();
    assert!(read["f.rs"] == *content);
    fs::write(&pack, whole).unwrap();
    assert!(content_of(&assert_sound(f.store.path()), last).unwrap()["f.rs"] == *content);
}
