use super::*;

/// A pin whose holder has died.
fn dead_pin(place: &Place, folder: &Path, below: bool) -> OpId {
    let mut pin = Pin::take(&place.store.layout().pins(), false, "restore").unwrap();
    pin.leaves(Leaves::new(folder.as_os_str().as_bytes(), below)).unwrap();
    let op = pin.op;
    pin.leave();
    op
}

#[test]
fn what_is_named_as_a_restore_names_it_goes_only_with_a_dead_pin() {
    let place = Place::new();
    let (_, other) = two(&place);
    place.restore(&other, &Options::new(place.path("out"))).unwrap();
    let names = |op: OpId| {
        [format!(".out.parhelia-{op}/inner"), format!("out/.parhelia-{op}-0-0"), format!("out/deep/.parhelia-{op}-1-2")]
    };
    let make = |op: OpId| {
        for name in names(op) {
            fs::create_dir_all(place.path(&name).parent().unwrap()).unwrap();
            fs::write(place.path(&name), "x").unwrap();
        }
    };
    let users = OpId::generate();
    make(users);
    let (beside, inside) = (dead_pin(&place, &place.path(""), false), dead_pin(&place, &place.path("out"), true));
    make(beside);
    make(inside);
    let kept = |op: OpId| names(op).iter().map(|name| place.path(name).exists()).collect::<Vec<_>>();
    // A copy of the store finds the pins of restores that are alive in the original: whoever builds holds a lock.
    let locks: Vec<File> =
        [format!(".out.parhelia-{beside}"), "out".into()].map(|name| File::open(place.path(&name)).unwrap()).into();
    locks.iter().for_each(|file| rustix::fs::flock(file, rustix::fs::FlockOperation::LockExclusive).unwrap());
    clear_dead(place.store.layout()).unwrap();
    assert_eq!((kept(beside)[0], kept(inside)[1], kept(inside)[2]), (true, true, true));
    assert_eq!(pin::list(&place.store.layout().pins()).unwrap().len(), 2);
    drop(locks);
    let report = place.restore(&other, &Options { delete: false, ..place.in_place("out") }).unwrap();
    assert_eq!((kept(beside), kept(inside)), (vec![false, true, true], vec![true, false, false]));
    assert_eq!(report.counts.kept, 2, "what a user has named so is like any other");
    assert_eq!(kept(users), [true; 3]);
    assert_eq!(fs::read_dir(place.store.layout().pins()).unwrap().count(), 0);
    place.restore(&other, &place.in_place("out")).unwrap();
    assert_eq!(kept(users), [true, false, false]);
}

#[test]
fn what_cannot_be_cleared_now_is_cleared_later() {
    let place = Place::new();
    let op = dead_pin(&place, &place.path("out"), true);
    fs::create_dir(place.path("out")).unwrap();
    let (staged, mounted) = (place.path("out").join(format!(".parhelia-{op}-0-0")), place.path("mounted"));
    fs::create_dir(&mounted).unwrap();
    fs::create_dir_all(staged.join("inner")).unwrap();
    rustix::fs::chown(&staged, None, None).unwrap();
    // A lock stands for whatever stands in the way.
    let held = File::open(place.path("out")).unwrap();
    rustix::fs::flock(&held, rustix::fs::FlockOperation::LockExclusive).unwrap();
    gc::run(&place.store, &gc::GcOptions::default(), &()).unwrap();
    assert!(staged.exists());
    drop(held);
    gc::run(&place.store, &gc::GcOptions::default(), &()).unwrap();
    assert!(!staged.exists());
    // What is gone for good keeps no pin.
    fs::write(place.path("a file"), "x").unwrap();
    dead_pin(&place, &place.path("never there"), true);
    dead_pin(&place, &place.path("a file"), true);
    gc::run(&place.store, &gc::GcOptions::default(), &()).unwrap();
    assert_eq!(fs::read_dir(place.store.layout().pins()).unwrap().count(), 0);
}

#[test]
fn what_is_in_use_on_another_filesystem_keeps_the_pin() {
    let place = Place::new();
    let mut pin = Pin::take(&place.store.layout().pins(), false, "restore").unwrap();
    let staged = |below: &str| place.path("out").join(format!("{below}/.x.parhelia-{}", pin.op));
    let (used, free) = (staged("one"), staged("two"));
    [&used, &free].into_iter().for_each(|folder| fs::create_dir_all(folder).unwrap());
    let mounts = ["one", "two", "gone"].map(|path| path.as_bytes().to_vec());
    let leaves = Leaves::new(place.path("out").as_os_str().as_bytes(), false).and_mounts(mounts.into_iter());
    pin.leaves(leaves).unwrap();
    let op = pin.op;
    pin.leave();
    let held = File::open(&used).unwrap();
    rustix::fs::flock(&held, rustix::fs::FlockOperation::LockExclusive).unwrap();
    clear_dead(place.store.layout()).unwrap();
    assert_eq!((used.exists(), free.exists(), pin::exists(&place.store.layout().pins(), op)), (true, false, true));
    drop(held);
    clear_dead(place.store.layout()).unwrap();
    assert_eq!((used.exists(), pin::exists(&place.store.layout().pins(), op)), (false, false));
}

#[test]
fn modes_come_back_with_a_dead_pin_unless_somebody_has_set_another() {
    let place = Place::new();
    for name in ["out/a", "out/b/c"] {
        fs::create_dir_all(place.path(name)).unwrap();
    }
    let mode = |name: &str| fs::metadata(place.path(name)).unwrap().mode() & 0o7777;
    let set = |name: &str, mode| fs::set_permissions(place.path(name), fs::Permissions::from_mode(mode)).unwrap();
    set("out/a", 0o755);
    set("out/b/c", 0o700);
    set("out", 0o750);
    let mut pin = Pin::take(&place.store.layout().pins(), false, "restore").unwrap();
    let opened = [("a", 0o555), ("b/c", 0o500), ("", 0o511), ("gone", 0o500)].map(|(path, mode)| (path.into(), mode));
    pin.leaves(Leaves::new(place.path("out").as_os_str().as_bytes(), true).and_opened(opened.into_iter())).unwrap();
    pin.leave();
    clear_dead(place.store.layout()).unwrap();
    assert_eq!((mode("out/a"), mode("out/b/c"), mode("out")), (0o555, 0o500, 0o750));
    assert_eq!(fs::read_dir(place.store.layout().pins()).unwrap().count(), 0);
}
