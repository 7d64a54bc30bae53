//! Folders that a restore may go to.

use super::*;

#[test]
fn an_empty_folder_is_filled_and_a_full_one_refused() {
    let place = Place::new();
    place.write("file", "x");
    place.write("folder/file", "x");
    let checkpoint = place.capture();
    fs::create_dir(place.path("empty")).unwrap();
    let open = File::open(place.path("empty")).unwrap();
    place.restore(&checkpoint, &Options::new(place.path("empty"))).unwrap();
    place.assert_equal("empty", &checkpoint);
    // It is the folder that a shell stands in, or a container has mounted.
    assert_eq!(sys::names(open.as_fd()).unwrap(), [b"file".to_vec(), b"folder".to_vec()]);
    let again = place.restore(&checkpoint, &Options::new(place.path("empty")));
    assert!(matches!(again, Err(Error::TargetNotEmpty { .. })), "{again:?}");
}

#[test]
fn every_filesystem_that_the_target_spans_is_synced() {
    let place = Place::new();
    for name in ["a/one", "a/inner/two", "b/three"] {
        place.write(name, name);
    }
    let checkpoint = place.capture();
    let inner = place.src("a/inner");
    let mounted =
        |arguments: &[&OsStr]| std::process::Command::new(arguments[0]).args(&arguments[1..]).status().unwrap().success();
    assert!(
        mounted(&["mount".as_ref(), "-t".as_ref(), "tmpfs".as_ref(), "none".as_ref(), inner.as_ref()]),
        "this test needs root"
    );
    let plan = plan(&place.store, &checkpoint, &place.in_place("src"), &()).unwrap();
    let step = |folder: u32| run::step(&plan, true, folder);
    let found = medium::mediums(&plan, &table::Dirs::new(plan.root.clone().unwrap(), &step)).unwrap();
    let report = execute(&place.store, &checkpoint, plan, &());
    let read = fs::read(inner.join("two"));
    assert!(mounted(&["umount".as_ref(), inner.as_ref()]));
    assert_eq!(found.len(), 2, "{found:?}");
    assert_eq!((report.unwrap().skipped, read.unwrap()), (vec![], b"a/inner/two".to_vec()));
}

#[test]
fn the_store_is_no_target() {
    let place = Place::new();
    place.write("file", "x");
    let checkpoint = place.capture();
    for target in ["store", "store/inside", "store/packs", "store/packs/inside"] {
        let refused = place.restore(&checkpoint, &place.in_place(target));
        assert!(matches!(refused, Err(Error::Invalid(_))), "{target}: {refused:?}");
    }
    // A folder that has the store in it becomes what the checkpoint says, but for the store.
    fs::create_dir(place.path("other")).unwrap();
    let report = place.restore(&checkpoint, &place.in_place("")).unwrap();
    assert_eq!((report.counts.deleted, report.counts.spared), (3, 1), "src/file and other");
    assert_eq!(fs::read(place.path("file")).unwrap(), b"x");
    place.restore(&checkpoint, &Options::new(place.path("again"))).unwrap();
}

#[test]
fn symlinks_are_not_followed_out_of_the_target() {
    let place = Place::new();
    place.write("dir/file", "inside");
    place.write("file", "inside");
    let checkpoint = place.capture();
    let outside = place.path("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("file"), "outside").unwrap();
    fs::remove_dir_all(place.src("dir")).unwrap();
    symlink(&outside, place.src("dir")).unwrap();
    fs::remove_file(place.src("file")).unwrap();
    symlink(outside.join("file"), place.src("file")).unwrap();
    symlink(&outside, place.src("extra")).unwrap();
    place.restore(&checkpoint, &place.in_place("src")).unwrap();
    place.assert_equal("src", &checkpoint);
    assert_eq!(fs::read(outside.join("file")).unwrap(), b"outside");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
}
