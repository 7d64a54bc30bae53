use super::*;

#[test]
fn paths_longer_than_the_system_allows() {
    let place = Place::new();
    let mut fd = OwnedFd::from(File::open(place.path("src")).unwrap());
    for i in 0..1500 {
        let name = format!("folder-{i}");
        rustix::fs::mkdirat(&fd, name.as_str(), Mode::RWXU).unwrap();
        fd = sys::open_folder_at(fd.as_fd(), name.as_bytes()).unwrap();
    }
    let file = rustix::fs::openat(&fd, "bottom", OFlags::CREATE | OFlags::WRONLY, Mode::RUSR | Mode::WUSR).unwrap();
    File::from(file).write_all(b"reached").unwrap();
    let checkpoint = place.capture();
    place.restore(&checkpoint, &Options::new(place.path("copy"))).unwrap();
    place.assert_equal("copy", &checkpoint);
    let source = File::open(place.path("src")).unwrap();
    let wide = fs::remove_file(place.src("folder-0/x"));
    assert!(wide.is_err());
    drop(source);
    place.write("other", "x");
    fs::create_dir(place.path("empty")).unwrap();
    let nothing = capture(&place.store, &place.path("empty"), &[]);
    place.restore(&nothing, &place.in_place("copy")).unwrap();
    assert_eq!(fs::read_dir(place.path("copy")).unwrap().count(), 0);
    place.restore(&nothing, &place.in_place("src")).unwrap();
}
