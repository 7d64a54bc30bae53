//! Restores beside other restores, and what dead ones leave.

mod dead;

use super::*;
use crate::{
    gc,
    id::OpId,
    pin::{self, Leaves, Pin},
};

/// Does something once, when everything is built and nothing has its name yet.
pub(super) struct WhenBuilt<'a>(std::sync::Mutex<Option<Box<dyn FnOnce() + Send + 'a>>>);

impl<'a> WhenBuilt<'a> {
    pub(super) fn new(work: impl FnOnce() + Send + 'a) -> Self {
        WhenBuilt(std::sync::Mutex::new(Some(Box::new(work))))
    }
}

impl Progress for WhenBuilt<'_> {
    fn phase(&self, phase: Phase, _: Option<u64>, _: Option<u64>) {
        if phase == Phase::Commit
            && let Some(work) = self.0.lock().unwrap().take()
        {
            work();
        }
    }
}

/// A checkpoint of some files, and another one of a folder with something else in it.
fn two(place: &Place) -> (Checkpoint, Checkpoint) {
    for i in 0..40 {
        place.write(&format!("d{}/f{i}", i % 5), format!("{i}"));
    }
    let many = place.capture();
    let other = place.path("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("file"), "x").unwrap();
    (many, capture(&place.store, &other, &[]))
}

#[test]
fn a_new_folder_is_whole_though_the_one_above_is_restored_meanwhile() {
    let place = Place::new();
    let (many, other) = two(&place);
    for (name, below) in [("one", "sub"), ("two", "new/folder/sub")] {
        place.restore(&other, &Options::new(place.path(name))).unwrap();
        let target = place.path(name).join(below);
        let fresh = plan(&place.store, &many, &Options::new(&target), &()).unwrap();
        let beside = WhenBuilt::new(|| {
            let report = place.restore(&other, &place.in_place(name)).unwrap();
            assert_eq!((report.counts.deleted, report.skipped), (0, vec![]), "{name}");
            gc::run(&place.store, &gc::GcOptions::default(), &()).unwrap();
            capture(&place.store, &place.path(name), &[]);
        });
        execute(&place.store, &many, fresh, &beside).unwrap();
        assert!(beside.0.lock().unwrap().is_none());
        place.assert_equal(&format!("{name}/{below}"), &many);
    }
}

#[test]
fn a_new_folder_from_another_store_is_whole_too() {
    let place = Place::new();
    let (many, other) = two(&place);
    place.restore(&other, &Options::new(place.path("one"))).unwrap();
    let another = store(&place.path("another store"));
    let elsewhere = capture(&another, &place.path("other"), &[]);
    let fresh = plan(&place.store, &many, &Options::new(place.path("one/sub")), &()).unwrap();
    let beside = WhenBuilt::new(|| {
        let plan = plan(&another, &elsewhere, &place.in_place("one"), &()).unwrap();
        execute(&another, &elsewhere, plan, &()).unwrap();
    });
    execute(&place.store, &many, fresh, &beside).unwrap();
    place.assert_equal("one/sub", &many);
}

#[test]
fn of_two_restores_to_one_new_folder_one_has_it() {
    let place = Place::new();
    let (many, other) = two(&place);
    let fresh = plan(&place.store, &many, &Options::new(place.path("out")), &()).unwrap();
    let beside = WhenBuilt::new(|| _ = place.restore(&other, &Options::new(place.path("out"))).unwrap());
    let second = execute(&place.store, &many, fresh, &beside);
    assert!(matches!(second, Err(Error::TargetNotEmpty { .. })), "{second:?}");
    place.assert_equal("out", &other);
    assert!(paths(&place.path("")).iter().all(|path| !path.to_string_lossy().contains(".parhelia-")));
}

#[test]
fn restores_in_place_above_and_below_each_other_wait_for_their_turn() {
    let place = Place::new();
    let (many, other) = two(&place);
    place.restore(&other, &Options::new(place.path("out"))).unwrap();
    place.restore(&many, &Options::new(place.path("out/sub"))).unwrap();
    for (first, second) in [("out", "out/sub"), ("out/sub", "out")] {
        fs::write(place.path("out/file"), "changed").unwrap();
        fs::write(place.path("out/sub/d1/f1"), "changed").unwrap();
        let kept = |name| Options { delete: false, ..place.in_place(name) };
        let of = |name: &str| if name == "out" { &other } else { &many };
        let begun = plan(&place.store, of(first), &kept(first), &()).unwrap();
        let beside = WhenBuilt::new(|| {
            let refused = place.restore(of(second), &kept(second));
            assert!(matches!(refused, Err(Error::TargetBusy { .. })), "{refused:?}");
        });
        execute(&place.store, of(first), begun, &beside).unwrap();
        assert!(beside.0.lock().unwrap().is_none());
        place.restore(of(second), &kept(second)).unwrap();
        place.assert_equal("out/sub", &many);
    }
}

/// A checkpoint in which one file has a name in each of the folders `a`, `m` and `z`.
fn joined(place: &Place) -> Checkpoint {
    for name in ["a/x", "a/deep/y", "m/y", "z/y"] {
        place.write(name, name);
    }
    for name in ["m/x", "z/x"] {
        fs::hard_link(place.src("a/x"), place.src(name)).unwrap();
    }
    place.capture()
}

#[test]
fn a_folder_that_is_restored_inside_meanwhile_costs_no_hard_link() {
    let place = Place::new();
    let checkpoint = joined(&place);
    for part in ["a", "z"] {
        let out = format!("out-{part}");
        fs::create_dir(place.path(&out)).unwrap();
        let whole = plan(&place.store, &checkpoint, &place.in_place(&out), &()).unwrap();
        let beside = WhenBuilt::new(|| {
            let inside = Options { subpath: part.into(), ..Options::new(place.path(&out).join(part)) };
            place.restore(&checkpoint, &inside).unwrap();
        });
        let report = execute(&place.store, &checkpoint, whole, &beside).unwrap();
        assert!(beside.0.lock().unwrap().is_none());
        assert_eq!((report.skipped, report.counts.files_created + report.counts.linked > 0), (vec![], true));
        place.assert_equal(&out, &checkpoint);
        let inode = |name: &str| fs::metadata(place.path(&out).join(name)).unwrap().ino();
        assert!(inode("a/x") == inode("m/x") && inode("m/x") == inode("z/x"), "{part}");
    }
}

#[test]
fn what_somebody_makes_meanwhile_is_kept_and_the_lost_hard_link_is_named() {
    let place = Place::new();
    let checkpoint = joined(&place);
    fs::create_dir(place.path("out")).unwrap();
    let whole = plan(&place.store, &checkpoint, &place.in_place("out"), &()).unwrap();
    let beside = WhenBuilt::new(|| {
        fs::create_dir(place.path("out/a")).unwrap();
        fs::write(place.path("out/a/x"), "mine").unwrap();
    });
    let report = execute(&place.store, &checkpoint, whole, &beside).unwrap();
    assert_eq!(fs::read(place.path("out/a/x")).unwrap(), b"mine");
    let said: Vec<(&[u8], &str)> = report.skipped.iter().map(|skipped| (&*skipped.path, &*skipped.error)).collect();
    let error = "something else has taken its name meanwhile; m/x is not joined to a/x; z/x is not joined to a/x";
    assert_eq!(said, [(&b"a"[..], error)]);
}

#[test]
fn one_file_in_place_and_a_folder_above_it_wait_for_their_turn() {
    let place = Place::new();
    let checkpoint = joined(&place);
    place.restore(&checkpoint, &Options::new(place.path("out"))).unwrap();
    let whole = Options { delete: false, ..place.in_place("out") };
    let one = Options { subpath: b"a/x".to_vec(), in_place: true, ..Options::new(place.path("out/a")) };
    for (first, second) in [(&whole, &one), (&one, &whole)] {
        fs::write(place.path("out/a/x"), "changed").unwrap();
        let begun = plan(&place.store, &checkpoint, first, &()).unwrap();
        let beside = WhenBuilt::new(|| {
            let refused = place.restore(&checkpoint, second);
            assert!(matches!(refused, Err(Error::TargetBusy { .. })), "{refused:?}");
        });
        execute(&place.store, &checkpoint, begun, &beside).unwrap();
        assert!(beside.0.lock().unwrap().is_none());
    }
    // Beside it, there is room for more.
    let begun = plan(&place.store, &checkpoint, &one, &()).unwrap();
    fs::write(place.path("out/a/x"), "changed").unwrap();
    let beside = WhenBuilt::new(|| _ = place.restore(&checkpoint, &place.in_place("out/m")).unwrap());
    execute(&place.store, &checkpoint, begun, &beside).unwrap();
}

#[test]
fn a_target_that_is_moved_away_meanwhile_is_no_success() {
    let place = Place::new();
    let (many, _) = two(&place);
    fs::create_dir(place.path("above")).unwrap();
    let fresh = plan(&place.store, &many, &Options::new(place.path("above/out")), &()).unwrap();
    let beside = WhenBuilt::new(|| {
        fs::rename(place.path("above"), place.path("moved")).unwrap();
        fs::create_dir(place.path("above")).unwrap();
    });
    assert!(execute(&place.store, &many, fresh, &beside).is_err());
}

#[test]
fn a_file_that_somebody_makes_meanwhile_in_the_place_of_one_is_kept() {
    let place = Place::new();
    let checkpoint = joined(&place);
    place.restore(&checkpoint, &Options::new(place.path("out"))).unwrap();
    fs::remove_file(place.path("out/m/y")).unwrap();
    let one = Options { subpath: b"m/y".to_vec(), in_place: true, ..Options::new(place.path("out/m")) };
    let begun = plan(&place.store, &checkpoint, &one, &()).unwrap();
    let beside = WhenBuilt::new(|| fs::write(place.path("out/m/y"), "mine").unwrap());
    let report = execute(&place.store, &checkpoint, begun, &beside).unwrap();
    assert_eq!(report.skipped.iter().map(|skipped| skipped.why).collect::<Vec<_>>(), [Why::Taken]);
    assert_eq!(fs::read(place.path("out/m/y")).unwrap(), b"mine");
}

#[test]
fn an_empty_folder_makes_room_unless_something_comes_into_it_meanwhile() {
    for is_filled in [false, true] {
        let place = Place::new();
        place.write("thing", "a file");
        let checkpoint = place.capture();
        fs::remove_file(place.src("thing")).unwrap();
        fs::create_dir(place.src("thing")).unwrap();
        let begun = plan(&place.store, &checkpoint, &Options { delete: false, ..place.in_place("src") }, &()).unwrap();
        let beside = WhenBuilt::new(|| {
            if is_filled {
                place.write("thing/inside", "mine");
            }
        });
        let report = execute(&place.store, &checkpoint, begun, &beside).unwrap();
        assert!(beside.0.lock().unwrap().is_none());
        match is_filled {
            true => {
                assert_eq!((report.counts.deleted, report.skipped.len()), (0, 1));
                assert_eq!(fs::read(place.src("thing/inside")).unwrap(), b"mine");
            }
            false => {
                assert_eq!((report.counts.deleted, report.skipped.len()), (1, 0));
                place.assert_equal("src", &checkpoint);
            }
        }
        assert_eq!(fs::read_dir(place.path("src")).unwrap().count(), 1);
    }
}

#[test]
fn folders_whose_metadata_is_put_right_are_counted() {
    let place = Place::new();
    place.write("a/file", "x");
    place.write("b/file", "x");
    let checkpoint = place.capture();
    fs::set_permissions(place.src("a"), fs::Permissions::from_mode(0o711)).unwrap();
    fs::remove_dir_all(place.src("b")).unwrap();
    let report = place.restore(&checkpoint, &place.in_place("src")).unwrap();
    // The one that is made anew is not among them; the top's time has changed with it.
    assert_eq!(report.counts.metadata_changed, 2, "{:?}", report.counts);
    place.assert_equal("src", &checkpoint);
}
