use super::*;

#[test]
fn many_small_checkpoints_stay_quick_to_open() {
    let f = fixture();
    let [beside, asleep] = [(); 2].map(|()| Store::open(f.store.path(), &OpenOptions::default()).unwrap());
    for i in 0..192 {
        f.write("f", format!("{i}").as_bytes());
        f.create();
        if i % 10 == 0 {
            assert_eq!(beside.refresh().unwrap().checkpoints().unwrap().len(), i + 1);
            assert!(beside.view().tail_records() < 130, "{}", beside.view().tail_records());
        }
    }
    // Whoever has been there from the beginning, or has slept since, reads no more than who comes now.
    for store in [&beside, &asleep] {
        let view = store.refresh().unwrap();
        assert_eq!(view.checkpoints().unwrap().len(), 192);
        assert!(view.tail_records() < 130, "{}", view.tail_records());
    }
    let store = Store::open(f.store.path(), &OpenOptions::default()).unwrap();
    assert_eq!(store.checkpoints().unwrap().len(), 192);
    assert!(store.view().tail_records() < 70, "{}", store.view().tail_records());
    let last = store.checkpoints().unwrap().pop().unwrap();
    assert_eq!(f.tree(&last)[&b"f"[..]].1, b"191");
    let stored: u64 = fs::read_dir(store.layout().packs()).unwrap().map(|e| e.unwrap().metadata().unwrap().len()).sum();
    assert!(stored / 192 < 2500, "{}", stored / 192);
}

#[test]
fn a_lost_index_loses_nothing() {
    let f = fixture();
    for i in 0..3000 {
        f.write(&format!("d{}/f{i}", i % 10), format!("content {i}").as_bytes());
    }
    let outcome = f.create();
    f.store.absorb().unwrap();
    fs::remove_dir_all(f.store.layout().view()).unwrap();
    fs::create_dir(f.store.layout().view()).unwrap();
    let store = Store::open(f.store.path(), &OpenOptions::default()).unwrap();
    assert_eq!(store.checkpoints().unwrap(), [outcome.checkpoint]);
    store.absorb().unwrap();
    let g = Fixture { store, ..f };
    g.assert_exact(&g.store.checkpoints().unwrap()[0]);
}
