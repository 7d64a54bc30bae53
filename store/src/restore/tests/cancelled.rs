use super::*;

/// Asks to stop after some questions.
struct Impatient(AtomicU64);

impl Progress for Impatient {
    fn is_cancelled(&self) -> bool {
        self.0.fetch_sub(1, Ordering::Relaxed) == 0 || self.0.load(Ordering::Relaxed) > 1 << 60
    }
}

#[test]
fn a_cancelled_restore_leaves_nothing() {
    let place = Place::new();
    rich(&place);
    let checkpoint = place.capture();
    let live = place.path("live");
    fs::create_dir(&live).unwrap();
    fs::write(live.join("mine"), "mine").unwrap();
    for patience in [0, 3, 100, 500] {
        let fresh = plan(&place.store, &checkpoint, &Options::new(place.path("new")), &()).unwrap();
        let stopped = execute(&place.store, &checkpoint, fresh, &Impatient(patience.into()));
        assert!(matches!(stopped, Err(Error::Cancelled)), "{stopped:?}");
        let in_place = plan(&place.store, &checkpoint, &place.in_place("live"), &()).unwrap();
        let stopped = execute(&place.store, &checkpoint, in_place, &Impatient(patience.into()));
        assert!(matches!(stopped, Err(Error::Cancelled)), "{stopped:?}");
        let names: Vec<_> = fs::read_dir(place.path("")).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(names.len(), 3, "{names:?}");
        assert_eq!(fs::read_dir(&live).unwrap().count(), 1);
    }
}
