//! Changes after a safety checkpoint was begun are neither replaced nor removed.

use super::{beside::WhenBuilt, *};
use crate::clock;

fn since(place: &Place) -> Options {
    Options { since: Some(clock::next()), ..place.in_place("src") }
}

/// Files of many kinds, and the checkpoint of what they were before.
fn edited(place: &Place) -> Checkpoint {
    for name in ["same", "replaced", "saved", "file-then-folder", "joined/a", "twin/a", "twin/b"] {
        place.write(name, "then");
    }
    fs::hard_link(place.src("joined/a"), place.src("joined/b")).unwrap();
    fs::create_dir(place.src("folder-then-file")).unwrap();
    std::os::unix::fs::symlink("then", place.src("link")).unwrap();
    let then = place.capture();
    for name in ["replaced", "saved", "extra", "gone/kept/deep", "gone/other", "linked/a", "folder-then-file/in it"] {
        place.write(name, "now");
    }
    // Names of one file, all of which go, are replaced or are joined to others.
    fs::hard_link(place.src("linked/a"), place.src("linked/b")).unwrap();
    fs::hard_link(place.src("linked/a"), place.src("linked-elsewhere")).unwrap();
    fs::remove_file(place.src("joined/b")).unwrap();
    fs::hard_link(place.src("same"), place.src("joined/b")).unwrap();
    fs::hard_link(place.src("joined/a"), place.src("joined/c")).unwrap();
    fs::remove_file(place.src("twin/b")).unwrap();
    place.write("twin/a", "now");
    fs::hard_link(place.src("twin/a"), place.src("twin/b")).unwrap();
    fs::remove_file(place.src("file-then-folder")).unwrap();
    place.write("file-then-folder/in it", "now");
    fs::remove_dir_all(place.src("folder-then-file")).unwrap();
    place.write("folder-then-file", "now");
    fs::remove_file(place.src("link")).unwrap();
    std::os::unix::fs::symlink("now", place.src("link")).unwrap();
    then
}

#[test]
fn nothing_is_held_back_where_nobody_changes_anything() {
    let place = Place::new();
    let then = edited(&place);
    let report = place.restore(&then, &since(&place)).unwrap();
    assert_eq!(report.skipped, vec![]);
    place.assert_equal("src", &then);
}

#[test]
fn what_is_written_meanwhile_stays_and_is_named() {
    let place = Place::new();
    let then = edited(&place);
    let options = since(&place);
    let made = plan(&place.store, &then, &options, &()).unwrap();
    let changes = WhenBuilt::new(|| {
        for name in ["saved", "gone/kept/deep", "folder-then-file", "linked/b"] {
            place.write(name, "meanwhile");
        }
        place.write("gone/new", "meanwhile");
        fs::remove_file(place.src("link")).unwrap();
        std::os::unix::fs::symlink("meanwhile", place.src("link")).unwrap();
        // A file of former times that comes to its place only now.
        fs::rename(place.src("linked-elsewhere"), place.src("file-then-folder/moved here")).unwrap();
    });
    let report = execute(&place.store, &then, made, &changes).unwrap();
    assert!(report.skipped.iter().any(|skipped| skipped.why == Why::Changed), "{:?}", report.skipped);
    let read = |name: &str| fs::read_to_string(place.src(name)).unwrap();
    for name in ["saved", "gone/kept/deep", "gone/new", "folder-then-file", "linked/b"] {
        assert_eq!(read(name), "meanwhile", "{name}");
        assert!(report.skipped.iter().any(|skipped| name::display(&skipped.path) == name), "{name}: {:?}", report.skipped);
    }
    assert_eq!(fs::read_link(place.src("link")).unwrap(), Path::new("meanwhile"));
    assert_eq!(read("file-then-folder/moved here"), "meanwhile");
    // The rest is as it was then.
    assert_eq!((read("replaced"), place.src("extra").exists(), place.src("gone/other").exists()), ("then".into(), false, false));
    // Nothing that was built is left behind, and another restore makes everything as it was.
    assert_eq!(place.restore(&then, &since(&place)).unwrap().skipped, vec![]);
    place.assert_equal("src", &then);
}

#[test]
fn what_came_before_the_plan_is_held_back_as_well() {
    let place = Place::new();
    let then = edited(&place);
    let options = since(&place);
    place.write("saved", "meanwhile");
    place.write("new", "meanwhile");
    let report = place.restore(&then, &options).unwrap();
    let named: Vec<String> = report.skipped.iter().map(|skipped| name::display(&skipped.path)).collect();
    assert_eq!(named, ["new", "saved"]);
    assert_eq!(fs::read_to_string(place.src("saved")).unwrap(), "meanwhile");
    assert!(place.src("new").exists() && !place.src("extra").exists());
}
