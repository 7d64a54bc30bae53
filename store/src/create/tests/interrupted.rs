//! Runs that are cut short, and runs beside each other.

use super::*;

#[test]
fn an_interrupted_run_is_taken_up() {
    struct StopAfter(AtomicU64);
    impl Progress for StopAfter {
        fn advance(&self, _: u64, bytes: u64) {
            self.0.fetch_add(bytes, Ordering::Relaxed);
        }
        fn is_cancelled(&self) -> bool {
            self.0.load(Ordering::Relaxed) > 150 << 20
        }
    }
    let f = fixture();
    for i in 0..60 {
        f.write(&format!("d{i}/big"), &noise(4 << 20, 100 + i));
    }
    let stopped = run(&f.store, &f.options(), &StopAfter(AtomicU64::new(0)));
    assert!(matches!(stopped, Err(Error::Cancelled)));
    assert!(f.store.refresh().unwrap().checkpoints().unwrap().is_empty());
    let outcome = f.create();
    assert!(outcome.new_bytes < 180 << 20, "{}", outcome.new_bytes);
    assert!(outcome.notices[0].contains("interrupted"));
    f.assert_exact(&outcome.checkpoint);
    assert_eq!(fs::read_dir(f.store.layout().pins()).unwrap().count(), 0);
}

#[test]
fn checkpoints_of_one_session_at_once_form_one_chain() {
    let f = fixture();
    f.write("f", b"x");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let store = Store::open(f.store.path(), &OpenOptions::default()).unwrap();
                for _ in 0..5 {
                    run(&store, &f.options(), &()).unwrap();
                }
            });
        }
    });
    let checkpoints = {
        f.store.refresh().unwrap();
        f.store.checkpoints().unwrap()
    };
    assert_eq!(checkpoints.len(), 20);
    for (i, pair) in checkpoints.windows(2).enumerate() {
        assert_eq!(pair[1].record.parent, Some(pair[0].record.id));
        assert_eq!(pair[1].record.depth, i as u64 + 2);
    }
}

#[test]
fn what_a_dead_run_has_committed_is_not_taken_up_by_one_that_began_before() {
    let f = fixture();
    f.write("f", &noise(5000, 1));
    let earlier = Store::open(f.store.path(), &OpenOptions::default()).unwrap();
    let outcome = f.create();
    let pack = *f.store.refresh().unwrap().packs().unwrap().keys().next().unwrap();
    // It died between its commit and the removal of its pin.
    fs::write(f.store.layout().pins().join(format!("{}.pin", pack.op())), "").unwrap();
    let pin = Pin::take(&earlier.layout().pins(), true, "test").unwrap();
    let adopted = orphans::adopt(&earlier, pin.op, &()).unwrap();
    assert!(adopted.packs.is_empty(), "{:?}", adopted.packs);
    f.assert_exact(&outcome.checkpoint);
    assert_eq!(crate::pin::list(&f.store.layout().pins()).unwrap().len(), 1, "the dead pin stays");
}

#[test]
fn a_panic_in_a_worker_ends_the_run() {
    struct Panics(std::sync::atomic::AtomicBool);
    impl Progress for Panics {
        fn phase(&self, phase: Phase, _: Option<u64>, _: Option<u64>) {
            self.0.fetch_or(phase == Phase::Capture, Ordering::Relaxed);
        }
        fn is_cancelled(&self) -> bool {
            assert!(!self.0.load(Ordering::Relaxed), "on purpose");
            false
        }
    }
    let f = fixture();
    f.write("d/f", b"x");
    let here = Panics(false.into());
    let options = Options { threads: 4, ..f.options() };
    let made = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(&f.store, &options, &here)));
    assert!(made.is_err());
    f.assert_exact(&f.create().checkpoint);
}

#[test]
fn a_long_hole_can_be_interrupted() {
    struct Soon(std::time::Instant);
    impl Progress for Soon {
        fn is_cancelled(&self) -> bool {
            self.0.elapsed() > std::time::Duration::from_millis(300)
        }
    }
    let f = fixture();
    f.write("sparse", b"x");
    File::options().write(true).open(f.workspace.join("sparse")).unwrap().set_len(256 << 30).unwrap();
    let begun = Soon(std::time::Instant::now());
    assert!(matches!(run(&f.store, &f.options(), &begun), Err(Error::Cancelled)));
    assert!(begun.0.elapsed().as_secs() < 20, "{:?}", begun.0.elapsed());
}
