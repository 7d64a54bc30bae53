//! Folders that their owner, who is not root, has closed to himself.

use super::*;

/// Works as a user who is not root. Beside the place are entries of somebody else.
fn as_ordinary(test: &str, work: impl FnOnce(&Place)) {
    let prepare = |dir: &Path| {
        fs::write(dir.join("theirs"), "theirs").unwrap();
        symlink("theirs", dir.join("their link")).unwrap();
    };
    testing::as_ordinary(&format!("restore::tests::ordinary::{test}"), prepare, |dir| {
        let place = Place::new();
        for name in ["theirs", "their link"] {
            fs::rename(dir.join(name), place.path(name)).unwrap();
        }
        work(&place);
        // Whoever has made the folder can remove it.
        _ = std::process::Command::new("chmod").args(["-R", "u+rwx"]).arg(dir).status();
    });
}

fn set_mode(place: &Place, name: &str, mode: u32) {
    fs::set_permissions(place.src(name), fs::Permissions::from_mode(mode)).unwrap();
}

fn mode(place: &Place, name: &str) -> u32 {
    fs::metadata(place.src(name)).unwrap().mode() & 0o7777
}

/// Does something when everything is planned and nothing is written yet, and then stops, or goes on.
struct WhenBegun<F: Fn() + Sync> {
    work: F,
    stops: bool,
    has_begun: std::sync::atomic::AtomicBool,
}

impl<F: Fn() + Sync> Progress for WhenBegun<F> {
    fn phase(&self, phase: Phase, _: Option<u64>, _: Option<u64>) {
        if phase == Phase::Restore && !self.has_begun.swap(true, Ordering::Relaxed) {
            (self.work)();
        }
    }

    fn is_cancelled(&self) -> bool {
        self.stops && self.has_begun.load(Ordering::Relaxed)
    }
}

/// Closed folders: one gets a file back, one loses one, one has another mode, one gets a folder back, one a link; in one nothing changes.
const CLOSED: [(&str, u32); 6] =
    [("gets", 0o555), ("loses/inner", 0o500), ("moded", 0o555), ("holds", 0o1555), ("links", 0o511), ("same", 0o555)];

fn changed(place: &Place) -> Checkpoint {
    for name in ["gets/a", "gets/b", "loses/inner/a", "moded/a", "holds/new/deep/a", "links/a", "links/z", "same/a", "open/a"] {
        place.write(name, name);
    }
    fs::hard_link(place.src("open/a"), place.src("links/open")).unwrap();
    // Made anew, it is closed only when it holds everything.
    set_mode(place, "holds/new/deep", 0o555);
    set_mode(place, "holds/new", 0o500);
    let close = || CLOSED.iter().for_each(|(name, mode)| set_mode(place, name, *mode));
    close();
    let checkpoint = place.capture();
    CLOSED.iter().chain(&[("holds/new", 0), ("holds/new/deep", 0)]).for_each(|(name, _)| set_mode(place, name, 0o700));
    fs::write(place.src("gets/a"), "changed").unwrap();
    place.write("loses/inner/more", "x");
    fs::remove_dir_all(place.src("holds/new")).unwrap();
    fs::remove_file(place.src("links/open")).unwrap();
    close();
    set_mode(place, "moded", 0o511);
    checkpoint
}

#[test]
fn closed_folders_are_opened_for_the_time_and_closed_again() {
    as_ordinary("closed_folders_are_opened_for_the_time_and_closed_again", |place| {
        let checkpoint = changed(place);
        let seen = std::sync::Mutex::new(Vec::new());
        let work = || seen.lock().unwrap().extend(CLOSED.map(|(name, _)| mode(place, name)));
        let note = WhenBegun { work, stops: false, has_begun: Default::default() };
        let plan = plan(&place.store, &checkpoint, &place.in_place("src"), &()).unwrap();
        let report = execute(&place.store, &checkpoint, plan, &note).unwrap();
        assert_eq!(report.skipped, []);
        assert_eq!(seen.into_inner().unwrap(), [0o755, 0o700, 0o711, 0o1755, 0o711, 0o555]);
        place.assert_equal("src", &checkpoint);
        CLOSED.iter().for_each(|(name, wanted)| assert_eq!(mode(place, name), *wanted, "{name}"));
        // A new place is no other.
        let report = place.restore(&checkpoint, &Options::new(place.path("new"))).unwrap();
        assert_eq!(report.skipped, []);
        place.assert_equal("new", &checkpoint);
    });
}

#[test]
fn folders_are_closed_again_by_a_restore_that_fails_unless_somebody_has_set_their_mode() {
    as_ordinary("folders_are_closed_again_by_a_restore_that_fails_unless_somebody_has_set_their_mode", |place| {
        let checkpoint = changed(place);
        let stop = WhenBegun { work: || set_mode(place, "loses/inner", 0o750), stops: true, has_begun: Default::default() };
        let plan = plan(&place.store, &checkpoint, &place.in_place("src"), &()).unwrap();
        let stopped = execute(&place.store, &checkpoint, plan, &stop);
        assert!(matches!(stopped, Err(Error::Cancelled)), "{stopped:?}");
        let modes = CLOSED.map(|(name, _)| mode(place, name));
        assert_eq!(modes, [0o555, 0o750, 0o511, 0o1555, 0o511, 0o555]);
        assert_eq!(fs::read_dir(place.store.layout().pins()).unwrap().count(), 0, "nothing is left to do");
        assert_eq!(fs::read(place.src("gets/a")).unwrap(), b"changed");
    });
}

#[test]
fn what_gets_another_owner_is_counted_and_is_the_next_checkpoints_as_it_is() {
    as_ordinary("what_gets_another_owner_is_counted_and_is_the_next_checkpoints_as_it_is", |place| {
        for name in ["theirs", "their link"] {
            fs::rename(place.path(name), place.src(name)).unwrap();
        }
        let checkpoint = place.capture();
        let owner = |name: &str| fs::symlink_metadata(place.path(name)).unwrap().uid();
        let others = [owner("src/theirs"), owner("src/their link")].iter().filter(|other| **other != owner("src")).count();
        let report = place.restore(&checkpoint, &Options::new(place.path("new"))).unwrap();
        assert_eq!((report.foreign_owners, report.skipped), (others as u64, vec![]));
        let next = capture(&place.store, &place.path("new"), &[]);
        place.assert_equal("new", &next);
    });
}
