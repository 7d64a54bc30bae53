//! A commit beside another one of its session, and one whose packs somebody has removed.

use super::{
    reuse::{BeforeCommit, assert_sound},
    *,
};
use crate::testing::content_of;

/// More files than a run may have new objects without a table of them.
const MANY: usize = 2100;

#[test]
fn a_record_that_is_sealed_anew_is_stored_as_it_is_committed() {
    // A run with a table of its objects, and one without.
    for count in [1, MANY] {
        let f = fixture();
        (0..count).for_each(|i| f.write(&format!("d{}/f{i}", i % 7), format!("content {i}").as_bytes()));
        let (store, options) = (f.store.path().to_owned(), f.options());
        let other = || {
            let other = Store::open(&store, &OpenOptions::default()).unwrap();
            run(&other, &options, &()).unwrap().checkpoint
        };
        let first = Mutex::new(None);
        let progress = BeforeCommit(Mutex::new(Some(|| *first.lock().unwrap() = Some(other()))));
        let second = run(&f.store, &f.options(), &progress).unwrap().checkpoint;
        let first = first.lock().unwrap().take().unwrap();
        assert_eq!((second.record.parent, second.record.depth), (Some(first.record.id), 2));
        f.assert_exact(&second);
        // The index and the packs have the record as the journal has it.
        f.store.absorb().unwrap();
        let opened = assert_sound(f.store.path());
        assert_eq!(opened.checkpoints().unwrap(), [first, second.clone()]);
        assert!(opened.view().locate(second.digest.object()).unwrap().is_some());
        assert_eq!(content_of(&opened, &second).unwrap().len(), count);
    }
}

#[test]
fn a_run_whose_packs_were_removed_writes_them_again() {
    let f = fixture();
    f.write("f", &noise(50_000, 1));
    let packs = f.store.layout().packs();
    let remove = || {
        let found: Vec<_> = fs::read_dir(&packs).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(!found.is_empty());
        found.iter().for_each(|pack| fs::remove_file(pack).unwrap());
    };
    let progress = BeforeCommit(Mutex::new(Some(remove)));
    let made = run(&f.store, &f.options(), &progress).unwrap().checkpoint;
    f.assert_exact(&made);
    assert_sound(f.store.path());
}
