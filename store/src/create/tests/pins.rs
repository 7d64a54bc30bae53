//! A create whose pin somebody deletes.

use std::sync::atomic::AtomicBool;

use super::*;
use crate::{
    check::{self, CheckOptions},
    delete::delete_checkpoints,
    gc,
    progress::Phase,
};

/// Does something once, right before the first commit.
struct AtCommit<F>(F, AtomicBool);

impl<F: Fn() + Sync> Progress for AtCommit<F> {
    fn phase(&self, phase: Phase, _: Option<u64>, _: Option<u64>) {
        if phase == Phase::Commit && !self.1.swap(true, Ordering::Relaxed) {
            self.0();
        }
    }
}

#[test]
fn a_commit_without_its_pin_takes_nothing_for_granted() {
    let f = fixture();
    for i in 0..30u8 {
        f.write(&format!("d{}/f{i}", i % 3), &[i; 9000]);
    }
    let first = f.create().checkpoint.record.id;
    f.write("d0/new", b"new");
    let path = f.store.path().to_owned();
    // Without the pin, gc takes what this run reuses of the checkpoint before it, and what it has written.
    let progress = AtCommit(
        || {
            let pins = path.join("pins");
            fs::remove_dir_all(&pins).unwrap();
            let other = Store::open(&path, &OpenOptions::default()).unwrap();
            delete_checkpoints(&other, &[first], None, &()).unwrap();
            let report = gc::run(&other, &gc::GcOptions::default(), &()).unwrap();
            assert!(report.dropped_packs > 0, "{report:?}");
        },
        AtomicBool::new(false),
    );
    let made = run(&f.store, &f.options(), &progress).unwrap().checkpoint;
    assert!(progress.1.into_inner());
    f.assert_exact(&made);
    gc::run(&f.store, &gc::GcOptions::default(), &()).unwrap();
    let report = check::run(f.store.layout(), &CheckOptions { read_data_percent: Some(100) }, &()).unwrap();
    assert!(report.is_clean() && report.notes.is_empty(), "{report:?}");
    assert_eq!(fs::read_dir(f.store.layout().pins()).unwrap().count(), 0);
}
