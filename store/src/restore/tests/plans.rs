//! Plans tell of every change, and nothing else happens.

use super::*;

/// Changes of a plan, ordered by path.
fn changes(plan: &Plan) -> Vec<(String, RestoreChange)> {
    let mut found = Vec::new();
    plan.each_change(&mut |change, path| found.push((String::from_utf8(path.to_vec()).unwrap(), change))).unwrap();
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found
}

fn inode(path: PathBuf) -> u64 {
    fs::metadata(path).unwrap().ino()
}

#[test]
fn names_of_one_file_are_joined_in_a_part_of_a_checkpoint_too() {
    let place = Place::new();
    for name in ["a/1", "a/2", "a/sub/3", "a/sub/deeper/4", "b/before", "c/5"] {
        place.write(name, name);
    }
    place.write("b/one", "one");
    place.write("b/three", "three");
    for (from, to) in [("b/one", "b/two"), ("b/three", "b/four"), ("b/one", "c/out")] {
        fs::hard_link(place.src(from), place.src(to)).unwrap();
    }
    let checkpoint = place.capture();
    let part = Options { subpath: b"b".to_vec(), ..Options::new(place.path("part")) };
    let report = place.restore(&checkpoint, &part).unwrap();
    assert_eq!(report.links_outside, ["c/out"]);
    assert_eq!(report.parted, [SplitHardLink { names: vec!["b/one".into(), "b/two".into()], outside: vec!["c/out".into()] }]);
    let part = |name: &str| place.path("part").join(name);
    for (name, content) in [("before", "b/before"), ("one", "one"), ("two", "one"), ("three", "three"), ("four", "three")] {
        assert_eq!(fs::read_to_string(part(name)).unwrap(), content, "{name}");
    }
    assert!(inode(part("one")) == inode(part("two")) && inode(part("three")) == inode(part("four")));
    assert!(inode(part("one")) != inode(part("three")));
    // One name alone, and a file that has only one.
    let alone = |path: &str, to: &str| {
        let options = Options { subpath: path.into(), ..Options::new(place.path(to)) };
        place.restore(&checkpoint, &options).unwrap().parted
    };
    let outside = vec!["b/one".into(), "c/out".into()];
    assert_eq!(alone("b/two", "two"), [SplitHardLink { names: vec!["b/two".into()], outside }]);
    assert_eq!(alone("b/before", "before"), []);
}

#[test]
fn a_plan_names_links_and_folders_and_what_goes_for_a_file() {
    let place = Place::new();
    place.write("x", "joined");
    fs::hard_link(place.src("x"), place.src("y")).unwrap();
    place.write("fresh/new", "new");
    place.write("swap", "a file");
    place.write("folder/file", "x");
    let checkpoint = place.capture();
    let fresh = plan(&place.store, &checkpoint, &Options::new(place.path("out")), &()).unwrap();
    let all = ["folder", "folder/file", "fresh", "fresh/new", "swap", "x"].map(|path| (path.to_owned(), RestoreChange::Create));
    assert_eq!(changes(&fresh), [&all[..], &[("y".to_owned(), RestoreChange::Link)]].concat());
    drop(fresh);

    fs::remove_file(place.src("y")).unwrap();
    place.write("y", "apart");
    fs::remove_dir_all(place.src("fresh")).unwrap();
    fs::remove_file(place.src("swap")).unwrap();
    place.write("swap/one", "mine");
    place.write("swap/two", "mine");
    fs::set_permissions(place.src("folder"), PermissionsExt::from_mode(0o700)).unwrap();
    fs::set_permissions(place.path("src"), PermissionsExt::from_mode(0o711)).unwrap();
    let planned = plan(&place.store, &checkpoint, &place.in_place("src"), &()).unwrap();
    let said = changes(&planned);
    for (path, change) in [
        ("", RestoreChange::Metadata),
        ("folder", RestoreChange::Metadata),
        ("fresh", RestoreChange::Create),
        ("fresh/new", RestoreChange::Create),
        ("swap", RestoreChange::Delete),
        ("y", RestoreChange::Link),
    ] {
        assert!(said.contains(&(path.to_owned(), change)), "{path} {change:?}: {said:?}");
    }
    assert!(!said.contains(&("folder/file".to_owned(), RestoreChange::Replace)), "{said:?}");
    let counts = planned.summary.counts.clone();
    assert_eq!((counts.linked, counts.folders_created, counts.deleted), (1, 1, 3), "{counts:?}");
    assert!(counts.metadata_changed >= 2, "{counts:?}");
    execute(&place.store, &checkpoint, planned, &()).unwrap();
    place.assert_equal("src", &checkpoint);
    assert_eq!(inode(place.src("x")), inode(place.src("y")));
}

#[test]
fn what_the_patterns_do_not_want_keeps_what_stands_in_its_place() {
    let place = Place::new();
    place.write("a/file", "x");
    place.write("b/file", "x");
    place.write("swap", "a file");
    let checkpoint = place.capture();
    fs::remove_dir_all(place.src("a")).unwrap();
    place.write("a", "mine");
    fs::remove_file(place.src("swap")).unwrap();
    place.write("swap/inside", "mine");
    place.write("b/file", "changed");
    let options = Options { include: vec!["b".into()], ..place.in_place("src") };
    let planned = plan(&place.store, &checkpoint, &options, &()).unwrap();
    assert!(changes(&planned).iter().all(|(path, _)| path.is_empty() || path.starts_with('b')), "{:?}", changes(&planned));
    let counts = planned.summary.counts.clone();
    assert_eq!((counts.deleted, counts.folders_created), (0, 0), "{counts:?}");
    execute(&place.store, &checkpoint, planned, &()).unwrap();
    assert_eq!(fs::read(place.src("a")).unwrap(), b"mine");
    assert_eq!(fs::read(place.src("swap/inside")).unwrap(), b"mine");
    assert_eq!(fs::read(place.src("b/file")).unwrap(), b"x");

    let none = Options { include: vec!["nothing".into()], ..place.in_place("src") };
    assert!(matches!(plan(&place.store, &checkpoint, &none, &()), Err(Error::NoMatch { .. })));
}

#[test]
fn patterns_hold_for_a_single_file_too() {
    let place = Place::new();
    place.write("a/g", "then");
    let checkpoint = place.capture();
    place.write("a/g", "mine");
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let restore = |to: &str, include: &[&str], exclude: &[&str]| {
        let options = Options {
            subpath: b"a/g".to_vec(),
            in_place: to == "src/a",
            include: names(include),
            exclude: names(exclude),
            ..Options::new(place.path(to))
        };
        place.restore(&checkpoint, &options)
    };
    for to in ["src/a", "new"] {
        for (include, exclude) in
            [(&["nope"][..], &[][..]), (&[], &["g"]), (&["g"], &["/g"]), (&["g", "!g"], &[]), (&["h/g"], &[])]
        {
            let refused = restore(to, include, exclude);
            assert!(matches!(refused, Err(Error::NoMatch { .. })), "{to} {include:?} {exclude:?}");
        }
    }
    assert_eq!((fs::read(place.src("a/g")).unwrap(), place.path("new").exists()), (b"mine".to_vec(), false));
    // The name is that in the checkpoint, whatever the file is called then.
    for (to, include, exclude) in [("src/a", &["g"][..], &[][..]), ("new", &["/g"], &["new", "a/"])] {
        assert_eq!(restore(to, include, exclude).unwrap().counts.files, 1);
    }
    assert_eq!((fs::read(place.src("a/g")).unwrap(), fs::read(place.path("new")).unwrap()), (b"then".to_vec(), b"then".to_vec()));
    let message = restore("src/a", &["x"], &["y", "z"]).unwrap_err().to_string();
    assert!(message.contains("matches x and is left by an exclusion y and z;"), "{message}");
}
