//! A restore in place changes what differs and spares the rest.

use super::*;

#[test]
fn in_place_touches_only_what_differs() {
    let place = Place::new();
    rich(&place);
    let first = place.capture();
    let live = place.path("live");
    place.restore(&first, &Options::new(&live)).unwrap();
    // Every kind of change, in the source.
    place.write("many/7", "changed");
    place.write("many/new", "new");
    fs::remove_file(place.src("many/8")).unwrap();
    fs::set_permissions(place.src("many/9"), fs::Permissions::from_mode(0o711)).unwrap();
    fs::remove_file(place.src("a/link")).unwrap();
    place.write("a/link/now a folder", "yes");
    fs::remove_dir_all(place.src("a/b/c")).unwrap();
    place.write("a/b/c", "now a file");
    fs::remove_file(place.src("z joined")).unwrap();
    place.write("z joined", "small");
    fs::hard_link(place.src("many/10"), place.src("many/10 too")).unwrap();
    xattr(&place.src("many/11"), "user.x", b"y");
    let second = place.capture();
    let inode = |name: &str| fs::symlink_metadata(live.join(name)).map(|m| m.ino()).unwrap_or(0);
    let before: Vec<u64> = (0..600).map(|i| inode(&format!("many/{i}"))).collect();
    let (big, sparse) = (inode("big"), inode("sparse"));
    let to_second = plan(&place.store, &second, &place.in_place("live"), &()).unwrap();
    assert_eq!(to_second.summary.counts.replaced, 3, "{:?}", to_second.summary);
    let report = execute(&place.store, &second, to_second, &()).unwrap();
    assert_eq!(report.skipped, []);
    place.assert_equal("live", &second);
    for (i, ino) in before.iter().enumerate().filter(|(i, _)| ![7, 8].contains(i)) {
        assert_eq!(inode(&format!("many/{i}")), *ino, "many/{i}");
    }
    assert_eq!((inode("big"), inode("sparse")), (big, sparse));
    let report = place.restore(&first, &place.in_place("live")).unwrap();
    assert_eq!(report.skipped, []);
    place.assert_equal("live", &first);
    std::thread::sleep(std::time::Duration::from_millis(30));
    // A third time nothing is left to do, and what was too fresh to be sure of is certain.
    let third = place.restore(&first, &place.in_place("live")).unwrap();
    assert_eq!((third.counts.files, third.counts.deleted, third.counts.metadata_changed), (0, 0, 0));
    place.assert_seeded("live", &first);
}

#[test]
fn in_place_without_a_stat_cache_compares_content() {
    let place = Place::new();
    rich(&place);
    let checkpoint = place.capture();
    let live = place.path("live");
    place.restore(&checkpoint, &Options::new(&live)).unwrap();
    fs::remove_dir_all(place.store.layout().cache()).unwrap();
    fs::create_dir(place.store.layout().cache()).unwrap();
    let old = fs::metadata(live.join("many/20")).unwrap();
    fs::write(live.join("many/20"), "CONTENT 20").unwrap();
    File::options().write(true).open(live.join("many/20")).unwrap().set_modified(old.modified().unwrap()).unwrap();
    let report = place.restore(&checkpoint, &place.in_place("live")).unwrap();
    assert_eq!((report.counts.files, report.counts.unchanged), (1, 613));
    place.assert_equal("live", &checkpoint);
    std::thread::sleep(std::time::Duration::from_millis(30));
    place.restore(&checkpoint, &place.in_place("live")).unwrap();
    place.assert_seeded("live", &checkpoint);
}

#[test]
fn deletion_spares_what_capture_left_out() {
    let place = Place::new();
    place.write("keep/me", "1");
    place.write("target/out", "2");
    place.write("dir/skipped", "3");
    let checkpoint = capture(&place.store, &place.path("src"), &["/target", "/dir/skipped"]);
    place.write("extra/one", "4");
    place.write("keep/two", "5");
    let kept = place.restore(&checkpoint, &Options { delete: false, ..place.in_place("src") }).unwrap();
    assert_eq!((kept.counts.kept, kept.counts.deleted), (3, 0));
    let report = place.restore(&checkpoint, &place.in_place("src")).unwrap();
    assert_eq!((report.counts.kept, report.counts.deleted), (0, 3));
    assert!(place.src("target/out").exists() && place.src("dir/skipped").exists() && place.src("keep/me").exists());
    assert!(!place.src("extra").exists() && !place.src("keep/two").exists());
}

#[test]
fn names_that_are_left_alone_stay_with_their_folder_and_come_back_where_they_are_gone() {
    let place = Place::new();
    for name in ["top", "gone/.git/config", "gone/code", "was/code", ".git/HEAD"] {
        place.write(name, "then");
    }
    let checkpoint = place.capture();
    fs::remove_dir_all(place.src("gone")).unwrap();
    for name in
        [".git/HEAD", "was/.git/config", "was/code", "new/.git/config", "new/code", "deep/a/b/.git", "deep/a/b/c/d", "deep/e"]
    {
        place.write(name, "now");
    }
    let options = Options { untouched: vec![b".git".to_vec()], ..place.in_place("src") };
    let dry = plan(&place.store, &checkpoint, &options, &()).unwrap();
    let mut deleted = Vec::new();
    let mut note = |change, path: &[u8]| {
        if matches!(change, RestoreChange::Delete | RestoreChange::Empty) {
            deleted.push((crate::name::display(path), change));
        }
    };
    dry.each_change(&mut note).unwrap();
    assert_eq!(deleted, [("deep".to_owned(), RestoreChange::Empty)], "what stays whole is no change");
    drop(dry);
    place.restore(&checkpoint, &options).unwrap();
    let read = |name: &str| fs::read_to_string(place.src(name)).unwrap_or_default();
    for name in [".git/HEAD", "was/.git/config", "new/.git/config", "new/code", "deep/a/b/.git", "deep/a/b/c/d"] {
        assert_eq!(read(name), "now", "{name}");
    }
    for name in ["top", "gone/.git/config", "gone/code", "was/code"] {
        assert_eq!(read(name), "then", "{name}");
    }
    assert!(!place.src("deep/e").exists());
}

#[test]
fn a_folder_in_the_way_goes_only_with_delete() {
    let place = Place::new();
    place.write("thing", "a file");
    let checkpoint = place.capture();
    fs::remove_file(place.src("thing")).unwrap();
    place.write("thing/inside", "mine");
    let report = place.restore(&checkpoint, &Options { delete: false, ..place.in_place("src") }).unwrap();
    assert_eq!(report.skipped.len(), 1);
    assert!(place.src("thing/inside").exists());
    place.restore(&checkpoint, &place.in_place("src")).unwrap();
    place.assert_equal("src", &checkpoint);
}

#[test]
fn what_is_spared_keeps_its_folder_whole_where_a_file_would_take_its_place() {
    let place = Place::new();
    place.write("thing", "a file");
    place.write("other/inside", "a folder");
    let checkpoint = place.capture();
    fs::remove_file(place.src("thing")).unwrap();
    fs::remove_dir_all(place.src("other")).unwrap();
    place.write("thing/spared/inner", "mine");
    place.write("thing/beside", "mine, too");
    place.write("other", "a file");
    let options = Options { spare: vec![b"thing/spared".to_vec()], ..place.in_place("src") };
    let report = place.restore(&checkpoint, &options).unwrap();
    assert!(report.skipped.len() == 1 && report.skipped[0].error.contains("left out"), "{:?}", report.skipped);
    assert!(place.src("thing/spared/inner").exists() && place.src("thing/beside").exists());
    assert!(place.src("other/inside").exists());
    assert!(paths(&place.path("src")).iter().all(|path| !path.to_string_lossy().contains(".parhelia-")));
    place.restore(&checkpoint, &place.in_place("src")).unwrap();
    place.assert_equal("src", &checkpoint);
}
