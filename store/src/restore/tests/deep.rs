//! Live trees that are deeper than a stack, and than there are file descriptors.

use super::*;

/// Makes folders in each other, and a file in the last.
fn dig(folder: &Path, depth: usize) {
    let mut fd = OwnedFd::from(File::open(folder).unwrap());
    for _ in 0..depth {
        rustix::fs::mkdirat(&fd, "d", Mode::RWXU).unwrap();
        fd = sys::open_folder_at(fd.as_fd(), b"d").unwrap();
    }
    rustix::fs::openat(&fd, "bottom", OFlags::CREATE | OFlags::WRONLY, Mode::RUSR).unwrap();
}

/// On a stack as small as any thread's.
fn on_a_small_stack(work: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        std::thread::Builder::new().stack_size(256 << 10).spawn_scoped(scope, work).unwrap().join().unwrap();
    });
}

#[test]
fn extras_of_any_depth_are_counted_and_removed() {
    let place = Place::in_memory();
    place.write("file", "x");
    let checkpoint = place.capture();
    for depth in [10_000, 100_000] {
        on_a_small_stack(|| {
            dig(&place.path("src"), depth);
            let options = Options { threads: 1, ..place.in_place("src") };
            let dry = plan(&place.store, &checkpoint, &options, &()).unwrap();
            assert_eq!(dry.summary.counts.deleted, depth as u64 + 1);
            let report = execute(&place.store, &checkpoint, dry, &()).unwrap();
            assert_eq!((report.counts.deleted, report.skipped), (depth as u64 + 1, vec![]));
        });
        place.assert_equal("src", &checkpoint);
    }
}

#[test]
fn what_is_spared_at_any_depth_keeps_all_above_it_and_a_folder_of_any_depth_makes_room() {
    let place = Place::in_memory();
    place.write("d", "a file");
    let checkpoint = place.capture();
    fs::remove_file(place.src("d")).unwrap();
    on_a_small_stack(|| {
        dig(&place.path("src"), 10_000);
        let spared = ["d"; 9_000].join("/").into_bytes();
        let options = Options { threads: 1, spare: vec![spared], ..place.in_place("src") };
        let report = place.restore(&checkpoint, &options).unwrap();
        assert_eq!((report.counts.deleted, report.skipped.len()), (0, 1));
        let report = place.restore(&checkpoint, &Options { threads: 1, ..place.in_place("src") }).unwrap();
        assert_eq!((report.counts.deleted, report.skipped), (10_001, vec![]));
    });
    place.assert_equal("src", &checkpoint);
}

#[test]
fn what_a_dead_restore_has_left_is_found_at_any_depth() {
    let place = Place::in_memory();
    on_a_small_stack(|| dig(&place.path("src"), 10_000));
    let mut pin = crate::pin::Pin::take(&place.store.layout().pins(), false, "restore").unwrap();
    pin.leaves(crate::pin::Leaves::new(place.path("src").as_os_str().as_bytes(), true)).unwrap();
    let mut fd = OwnedFd::from(File::open(place.path("src")).unwrap());
    for _ in 0..10_000 {
        fd = sys::open_folder_at(fd.as_fd(), b"d").unwrap();
    }
    let staged = format!(".parhelia-{}-0-0", pin.op);
    rustix::fs::mkdirat(&fd, staged.as_str(), Mode::RWXU).unwrap();
    pin.leave();
    on_a_small_stack(|| clear_dead(place.store.layout()).unwrap());
    assert_eq!(sys::names(fd.as_fd()).unwrap(), [b"bottom"]);
    fs::create_dir(place.path("empty")).unwrap();
    let nothing = capture(&place.store, &place.path("empty"), &[]);
    place.restore(&nothing, &place.in_place("src")).unwrap();
}
