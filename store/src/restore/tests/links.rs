//! Hard links: names that are joined otherwise than in the checkpoint, and files that take no further name.

use rustix::fs::IFlags;

use super::{stays::restored, *};

fn inode(path: &Path) -> u64 {
    fs::symlink_metadata(path).unwrap().ino()
}

/// Two files with two names each, equal in content and metadata, beside one with a single name.
fn two_groups(place: &Place, content: &[u8]) -> Checkpoint {
    for name in ["a/1", "a/3", "beside"] {
        place.write(name, content);
    }
    fs::hard_link(place.src("a/1"), place.src("a/2")).unwrap();
    fs::create_dir(place.src("b")).unwrap();
    fs::hard_link(place.src("a/3"), place.src("b/4")).unwrap();
    age(&place.path("src"));
    place.capture()
}

/// Makes names other names of the file `a/1`.
fn rejoin(place: &Place, names: &[&str]) {
    for name in names {
        fs::remove_file(place.src(name)).unwrap();
        fs::hard_link(place.src("a/1"), place.src(name)).unwrap();
    }
}

fn forget_stat_cache(place: &Place) {
    fs::remove_dir_all(place.store.layout().cache()).unwrap();
    fs::create_dir(place.store.layout().cache()).unwrap();
}

#[test]
fn a_live_file_that_two_groups_share_stays_for_one_and_is_written_anew_for_the_other() {
    let large: Vec<u8> = (0..200_000u32).flat_map(u32::to_le_bytes).collect();
    for content in [&b""[..], b"small", &large] {
        for (has_cache, mode) in [(true, None), (false, None), (true, Some(0o600))] {
            let place = Place::new();
            let checkpoint = two_groups(&place, content);
            rejoin(&place, &["a/2", "a/3", "b/4"]);
            age(&place.path("src"));
            if let Some(mode) = mode {
                fs::set_permissions(place.src("a/1"), fs::Permissions::from_mode(mode)).unwrap();
            }
            if !has_cache {
                forget_stat_cache(&place);
            }
            let (first, beside) = (inode(&place.src("a/1")), inode(&place.src("beside")));
            let planned = plan(&place.store, &checkpoint, &place.in_place("src"), &()).unwrap();
            let counts = planned.summary.counts.clone();
            assert_eq!(
                (counts.replaced, counts.files, counts.bytes, counts.linked),
                (1, 1, content.len() as u64, 1),
                "{counts:?}"
            );
            // A name that is only joined to an equal file counts as unchanged, too.
            let expected = if mode.is_some() { (1, 2) } else { (4, 0) };
            assert_eq!((counts.unchanged, counts.metadata_changed), expected, "{counts:?}");
            assert_eq!((planned.items.len() as u64, planned.links.len()), (1 + counts.metadata_changed, 1));
            let report = execute(&place.store, &checkpoint, planned, &()).unwrap();
            assert_eq!(report.skipped, []);
            place.assert_equal("src", &checkpoint);
            assert_eq!((inode(&place.src("a/1")), inode(&place.src("beside"))), (first, beside));
            assert_eq!(inode(&place.src("a/2")), first);
            assert_eq!(inode(&place.src("a/3")), inode(&place.src("b/4")));
            assert_ne!(inode(&place.src("a/3")), first);
        }
    }
}

#[test]
fn names_are_joined_anew_in_folders_that_are_otherwise_as_they_were() {
    let place = Place::new();
    let join = |pairs: [(&str, &str); 2]| {
        for (first, second) in pairs {
            let _ = fs::remove_file(place.src(first));
            place.write(first, "content");
            let _ = fs::remove_file(place.src(second));
            fs::create_dir_all(place.src(second).parent().unwrap()).unwrap();
            fs::hard_link(place.src(first), place.src(second)).unwrap();
        }
        // Not by their names, as otherwise: all four files look alike.
        for path in paths(&place.path("src")).into_iter().chain([place.path("src")]) {
            let times = fs::FileTimes::new().set_modified(std::time::SystemTime::UNIX_EPOCH);
            File::open(path).unwrap().set_times(times).unwrap();
        }
        place.capture()
    };
    let first = join([("1/x", "2/x"), ("3/x", "4/x")]);
    join([("1/x", "3/x"), ("2/x", "4/x")]);
    // Until every stamp is old enough to be believed.
    let is_settled = || {
        let cache = StatCache::open(place.store.layout(), &place.path("src")).unwrap();
        let root = cache.section(cache.trailer.root_section).unwrap();
        root.entries.iter().all(|folder| !folder.racy && cache.section(folder.section).unwrap().entries.iter().all(|e| !e.racy))
    };
    while !is_settled() {
        place.capture();
    }
    let report = place.restore(&first, &place.in_place("src")).unwrap();
    assert_eq!(report.skipped, []);
    assert_eq!(inode(&place.src("1/x")), inode(&place.src("2/x")));
    assert_eq!(inode(&place.src("3/x")), inode(&place.src("4/x")));
    assert_ne!(inode(&place.src("1/x")), inode(&place.src("3/x")));
    place.assert_equal("src", &first);
}

/// A file that may only be appended to, until this goes: it gets no name, and loses none. Whoever is root can say so.
struct AppendOnly(File, IFlags);

impl AppendOnly {
    fn make(path: &Path) -> Self {
        let file = File::open(path).unwrap();
        let flags = rustix::fs::ioctl_getflags(&file).unwrap();
        rustix::fs::ioctl_setflags(&file, flags | IFlags::APPEND).unwrap();
        AppendOnly(file, flags)
    }
}

impl Drop for AppendOnly {
    fn drop(&mut self) {
        rustix::fs::ioctl_setflags(&self.0, self.1).unwrap();
    }
}

#[test]
fn a_file_that_takes_no_further_name_becomes_two() {
    let large: Vec<u8> = (0..200_000u32).flat_map(u32::to_le_bytes).collect();
    for content in [&b""[..], b"small", &large] {
        let place = Place::new();
        let checkpoint = two_groups(&place, content);
        fs::remove_file(place.src("a/2")).unwrap();
        fs::remove_dir_all(place.src("b")).unwrap();
        let closed = ["a/1", "a/3"].map(|name| AppendOnly::make(&place.src(name)));
        let (report, told) = restored(&place, &checkpoint, &place.in_place("src"));
        drop(closed);
        assert_eq!(report.skipped, [], "{told}");
        for name in ["a/2", "b/4"] {
            let line = format!("{name}: the filesystem did not take a hard link; it is a file of its own");
            assert!(told.lines().any(|told| told == line), "{told}");
            let found = fs::metadata(place.src(name)).unwrap();
            let wanted = fs::metadata(place.src("beside")).unwrap();
            assert_eq!((fs::read(place.src(name)).unwrap(), found.nlink()), (content.to_vec(), 1), "{name}");
            assert_eq!((found.mode(), found.uid()), (wanted.mode(), wanted.uid()), "{name}");
        }
        assert_eq!(fs::metadata(place.src("a/2")).unwrap().mtime(), fs::metadata(place.src("a/1")).unwrap().mtime());
        // What it is now, the next checkpoint finds.
        let next = place.capture();
        assert_eq!(next.record.links, None);
        place.assert_equal("src", &next);
        // And what it was, the next restore.
        assert_eq!(place.restore(&checkpoint, &place.in_place("src")).unwrap().skipped, []);
        place.assert_equal("src", &checkpoint);
    }
}

#[test]
fn a_new_folder_is_built_beside_its_place_under_a_name_that_tells_it() {
    let place = Place::new();
    place.write("file", "x");
    let checkpoint = place.capture();
    let fresh = plan(&place.store, &checkpoint, &Options::new(place.path("out")), &()).unwrap();
    let staged = format!(".out.parhelia-{}", fresh.op);
    let beside = super::beside::WhenBuilt::new(|| assert!(place.path(&staged).join("file").exists()));
    execute(&place.store, &checkpoint, fresh, &beside).unwrap();
    assert!(place.path("out/file").exists() && !place.path(&staged).exists());
}

#[test]
fn names_of_a_file_that_was_edited_in_place_are_one_file_again() {
    for (is_cached, mode) in [(true, None), (false, None), (true, Some(0o600))] {
        let place = Place::new();
        let checkpoint = two_groups(&place, b"before");
        if !is_cached {
            forget_stat_cache(&place);
        }
        // Both names have the other content, in the one file that they are.
        fs::write(place.src("a/1"), "edited").unwrap();
        if let Some(mode) = mode {
            fs::set_permissions(place.src("a/3"), fs::Permissions::from_mode(mode)).unwrap();
        }
        let report = place.restore(&checkpoint, &place.in_place("src")).unwrap();
        place.assert_equal("src", &checkpoint);
        let inode = |name: &str| fs::metadata(place.src(name)).unwrap().ino();
        assert!(inode("a/1") == inode("a/2") && inode("a/3") == inode("b/4"));
        assert_eq!((report.counts.files, report.counts.linked), (1, 1), "{:?}", report.counts);
    }
}

#[test]
fn a_name_that_is_gone_is_joined_to_the_file_that_stays() {
    for (is_cached, mode) in [(true, None), (true, Some(0o600)), (false, Some(0o600))] {
        let place = Place::new();
        let checkpoint = two_groups(&place, b"content");
        let stays = inode(&place.src("a/3"));
        fs::remove_file(place.src("b/4")).unwrap();
        if let Some(mode) = mode {
            fs::set_permissions(place.src("a/3"), fs::Permissions::from_mode(mode)).unwrap();
        }
        if !is_cached {
            forget_stat_cache(&place);
        }
        let planned = plan(&place.store, &checkpoint, &place.in_place("src"), &()).unwrap();
        let mut overwritten = Vec::new();
        planned.each_overwritten(&mut |path| overwritten.push(path.to_vec())).unwrap();
        assert!(!overwritten.contains(&b"b/4".to_vec()), "nothing is there");
        let report = execute(&place.store, &checkpoint, planned, &()).unwrap();
        assert_eq!((report.counts.linked, inode(&place.src("b/4"))), (1, stays));
        place.assert_equal("src", &checkpoint);
    }
}
