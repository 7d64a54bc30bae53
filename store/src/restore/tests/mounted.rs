//! Restores of folders in which checkpoints are mounted.

use super::{stays::restored, *};
use crate::mounts::tests::BindMount;

#[test]
fn a_mounted_checkpoint_is_left_as_it_is_and_told() {
    let place = Place::new();
    for name in ["mount/inside", "file", "deep/mount/inside"] {
        place.write(name, "then");
    }
    let checkpoint = place.capture();
    let shown = place.path("shown");
    fs::create_dir(&shown).unwrap();
    fs::write(shown.join("inside"), "now").unwrap();
    fs::write(shown.join("extra"), "now").unwrap();
    place.write("file", "now");
    let mounts = ["mount", "deep/mount"].map(|name| BindMount::at(&shown, &place.src(name)));
    let (report, told) = restored(&place, &checkpoint, &place.in_place("src"));
    let lines: Vec<&str> = told.lines().filter(|line| line.contains("mounted checkpoint")).collect();
    let mut expected = ["mount", "deep/mount"].map(|name| format!("{name}: a mounted checkpoint is left as it is"));
    assert_eq!(lines, expected);
    assert_eq!((report.counts.deleted, report.counts.files), (0, 1), "{:?}", report.counts);
    let read = |path: PathBuf| fs::read_to_string(path).unwrap();
    assert_eq!(
        (read(place.src("file")), read(shown.join("inside")), read(shown.join("extra"))),
        ("then".into(), "now".into(), "now".into())
    );
    // To a new place, nothing of that matters.
    let (_, told) = restored(&place, &checkpoint, &Options::new(place.path("new")));
    drop(mounts);
    expected.iter_mut().for_each(|line| assert!(!told.contains(&**line), "{told}"));
    place.assert_equal("new", &checkpoint);
}
