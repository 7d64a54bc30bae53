//! A restore in place finds every difference, by the stat cache and without it.

use super::*;

/// Name of a change, and the change.
type Edit = (&'static str, fn(&Path));

/// Gives a path the time that it had.
fn keeping_time(path: &Path, change: impl FnOnce(&Path)) {
    let before = fs::symlink_metadata(path).unwrap();
    change(path);
    let time = |secs, nanos| rustix::fs::Timespec { tv_sec: secs, tv_nsec: nanos as _ };
    let times = rustix::fs::Timestamps {
        last_access: time(before.atime(), before.atime_nsec()),
        last_modification: time(before.mtime(), before.mtime_nsec()),
    };
    rustix::fs::utimensat(rustix::fs::CWD, path, &times, rustix::fs::AtFlags::SYMLINK_NOFOLLOW).unwrap();
}

fn overwrite(path: &Path, offset: u64, bytes: &[u8]) {
    let file = File::options().write(true).open(path).unwrap();
    file.write_all_at(bytes, offset).unwrap();
}

const EDITS: &[Edit] = &[
    ("mode", |src| fs::set_permissions(src.join("file"), PermissionsExt::from_mode(0o600)).unwrap()),
    ("owner", |src| std::os::unix::fs::lchown(src.join("file"), Some(1234), None).unwrap()),
    ("group", |src| std::os::unix::fs::lchown(src.join("file"), None, Some(1234)).unwrap()),
    ("time", |src| File::open(src.join("file")).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap()),
    ("attribute", |src| xattr(&src.join("file"), "user.other", b"x")),
    ("content as long", |src| keeping_time(&src.join("file"), |path| overwrite(path, 3, b"?"))),
    ("content as long in the middle", |src| keeping_time(&src.join("big"), |path| overwrite(path, 50_000, b"?"))),
    ("longer content", |src| keeping_time(&src.join("file"), |path| overwrite(path, 20, b"more"))),
    ("shorter content", |src| keeping_time(&src.join("file"), |path| fs::write(path, "s").unwrap())),
    ("zeros for a hole", |src| keeping_time(&src.join("sparse"), |path| overwrite(path, 0, &[0; 70_000]))),
    ("a hole for zeros", |src| {
        keeping_time(&src.join("zeros"), |path| {
            fs::write(path, "").unwrap();
            File::options().write(true).open(path).unwrap().set_len(200_000).unwrap();
        });
    }),
    ("another target", |src| {
        fs::remove_file(src.join("link")).unwrap();
        symlink("other", src.join("link")).unwrap();
    }),
    ("a file for a link", |src| {
        fs::remove_file(src.join("link")).unwrap();
        fs::write(src.join("link"), "file").unwrap();
    }),
    ("a link for a file", |src| {
        fs::remove_file(src.join("file")).unwrap();
        symlink("big", src.join("file")).unwrap();
    }),
    ("a folder for a file", |src| {
        fs::remove_file(src.join("file")).unwrap();
        fs::create_dir(src.join("file")).unwrap();
    }),
    ("a file for a folder", |src| {
        fs::remove_dir_all(src.join("folder")).unwrap();
        fs::write(src.join("folder"), "file").unwrap();
    }),
    ("a pipe for a file", |src| {
        fs::remove_file(src.join("file")).unwrap();
        let folder = File::open(src).unwrap();
        rustix::fs::mknodat(&folder, "file", FileType::Fifo, Mode::RWXU, 0).unwrap();
    }),
    ("mode of the top", |src| fs::set_permissions(src, PermissionsExt::from_mode(0o711)).unwrap()),
    ("attribute of the top", |src| xattr(src, "user.top", b"x")),
    ("nothing", |_| {}),
];

#[test]
fn every_difference_is_found_and_put_right() {
    for has_cache in [true, false] {
        for (what, edit) in EDITS {
            let place = Place::new();
            place.write("file", "twenty bytes of text");
            place.write("folder/inside", "x");
            place.write("big", vec![b'b'; 100_000]);
            place.write("zeros", vec![0; 200_000]);
            symlink("file", place.src("link")).unwrap();
            let sparse = File::create(place.src("sparse")).unwrap();
            sparse.set_len(1 << 20).unwrap();
            sparse.write_all_at(b"data", 900_000).unwrap();
            drop(sparse);
            age(&place.path("src"));
            // The second one finds nothing changed a moment ago.
            place.capture();
            std::thread::sleep(std::time::Duration::from_millis(20));
            let checkpoint = place.capture();
            edit(&place.path("src"));
            if !has_cache {
                fs::remove_dir_all(place.store.layout().cache()).unwrap();
                fs::create_dir(place.store.layout().cache()).unwrap();
            }
            let report = place.restore(&checkpoint, &place.in_place("src")).unwrap();
            place.assert_equal("src", &checkpoint);
            assert!(report.skipped.is_empty(), "{what}: {:?}", report.skipped);
            assert!(*what != "nothing" || report.counts.files == 0, "{:?}", report.counts);
        }
    }
}
