use super::*;

#[test]
fn patterns_choose_and_bad_ones_are_refused() {
    let place = Place::new();
    for name in ["src/a.rs", "src/b.txt", "doc/x.txt", "target/big.rs", "deep/er/y.rs"] {
        place.write(name, name);
    }
    let checkpoint = place.capture();
    let list = |options: Options| {
        let target = options.target.clone();
        place.restore(&checkpoint, &options).unwrap();
        let strip = |path: &PathBuf| path.strip_prefix(&target).unwrap().to_str().unwrap().to_owned();
        paths(&target).iter().map(strip).collect::<Vec<_>>()
    };
    let include = Options { include: vec!["*.rs".into()], exclude: vec!["/target".into()], ..Options::new(place.path("one")) };
    assert_eq!(list(include), ["deep", "deep/er", "deep/er/y.rs", "src", "src/a.rs"]);
    let folder = Options { include: vec!["doc/".into()], ..Options::new(place.path("two")) };
    assert_eq!(list(folder), ["doc", "doc/x.txt"]);
    let bad = Options { exclude: vec!["[z-a]".into()], ..Options::new(place.path("three")) };
    assert!(matches!(place.restore(&checkpoint, &bad), Err(Error::Invalid(_))));
    assert!(StatCache::open(place.store.layout(), &place.path("one")).is_none());
}

#[test]
fn sub_paths_are_restored_alone() {
    let place = Place::new();
    rich(&place);
    let checkpoint = place.capture();
    let folder = Options { subpath: b"a/b".to_vec(), ..Options::new(place.path("part")) };
    let report = place.restore(&checkpoint, &folder).unwrap();
    assert_eq!(fs::read(place.path("part/c/deep")).unwrap(), b"deep");
    assert_eq!(fs::read(place.path("part/joined")).unwrap(), b"small");
    let outside = vec!["a/small".to_owned(), "z joined".to_owned()];
    assert_eq!(report.links_outside, outside);
    assert_eq!(report.parted, [SplitHardLink { names: vec!["a/b/joined".to_owned()], outside }]);
    let file = Options { subpath: b"a/small".to_vec(), ..Options::new(place.path("one")) };
    place.restore(&checkpoint, &file).unwrap();
    assert_eq!(fs::read(place.path("one")).unwrap(), b"small");
    assert_eq!(fs::metadata(place.path("one")).unwrap().mtime(), fs::metadata(place.src("a/small")).unwrap().mtime());
    assert!(matches!(place.restore(&checkpoint, &file), Err(Error::TargetNotEmpty { .. })));
    fs::write(place.path("one"), "other").unwrap();
    place.restore(&checkpoint, &Options { in_place: true, ..file }).unwrap();
    assert_eq!(fs::read(place.path("one")).unwrap(), b"small");
    let missing = Options { subpath: b"a/none".to_vec(), ..Options::new(place.path("none")) };
    assert!(matches!(place.restore(&checkpoint, &missing), Err(Error::NoSuchPath { .. })));
}
