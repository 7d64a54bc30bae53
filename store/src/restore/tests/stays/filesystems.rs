use super::*;

#[test]
fn what_is_mounted_over_an_empty_folder_stays() {
    let place = Place::new();
    for name in ["empty", "full", "plain", "bare"] {
        fs::create_dir(place.src(name)).unwrap();
    }
    place.write("full/file", "1");
    let checkpoint = place.capture();
    let mounts = ["empty", "full", "bare"].map(|name| Mounted::at(place.src(name)));
    for name in ["empty/one", "empty/two", "full/extra", "plain/extra"] {
        place.write(name, "mine");
    }
    let (report, told) = restored(&place, &checkpoint, &place.in_place("src"));
    let Counts { spared, mounted, deleted, .. } = report.counts;
    assert_eq!((spared, mounted, deleted), (0, 1, 2), "{told}");
    assert!(told.contains("empty: something is mounted there") && told.matches("is mounted there").count() == 1, "{told}");
    let there = ["empty/one", "empty/two", "full/file", "full/extra", "plain/extra"].map(|name| place.src(name).exists());
    assert_eq!(there, [true, true, true, false, false]);
    // The target itself may be one.
    let nothing = capture(&place.store, &place.src("plain"), &[]);
    let (report, told) = restored(&place, &nothing, &place.in_place("src/empty"));
    assert_eq!((report.counts.spared, report.counts.deleted, place.src("empty/one").exists()), (0, 2, false), "{told}");
    drop(mounts);
}

#[test]
fn only_what_a_filesystem_does_not_take_is_left_out() {
    use rustix::io::Errno;
    let is_refusal = |e: Errno| super::super::super::held::HoldCause::by(e).is_some();
    let of_one = [Errno::PERM, Errno::INVAL, Errno::ILSEQ, Errno::NAMETOOLONG, Errno::OPNOTSUPP, Errno::ACCESS, Errno::BUSY];
    assert!(of_one.into_iter().all(is_refusal));
    let of_all = [Errno::NOSPC, Errno::DQUOT, Errno::IO, Errno::ROFS, Errno::MFILE, Errno::NOTCONN, Errno::STALE, Errno::NOENT];
    assert!(!of_all.into_iter().any(is_refusal));
}

#[test]
fn a_full_disk_is_an_error_and_no_entry_that_is_left_out() {
    let fifo = |path: PathBuf| rustix::fs::mknodat(rustix::fs::CWD, path, FileType::Fifo, Mode::RUSR, 0).unwrap();
    for fifos in [false, true] {
        let many = Place::new();
        for number in 0..20 {
            match fifos {
                true => fifo(many.src(&format!("{number}"))),
                false => many.write(&format!("{number}"), "x"),
            }
        }
        let checkpoint = many.capture();
        fs::create_dir(many.path("full")).unwrap();
        let full = Mounted::with("nr_inodes=12", many.path("full"));
        let failed = many.restore(&checkpoint, &Options::new(many.path("full")));
        assert!(failed.as_ref().is_err_and(Error::is_disk_full), "{failed:?}");
        drop(full);
    }
}

#[test]
fn a_plan_names_the_filesystems_below_in_which_something_is_built() {
    let place = Place::new();
    for name in ["file", "mount/inner/file", "other/file"] {
        place.write(name, "then");
    }
    let checkpoint = place.capture();
    let _mounted = Mounted::at(place.src("mount"));
    place.write("mount/inner/file", "now");
    let plan = plan(&place.store, &checkpoint, &place.in_place("src"), &()).unwrap();
    let of_target = crate::pin::Leaves::new(place.path("src").as_os_str().as_bytes(), true);
    assert_eq!(plan.leaves(), of_target.and_mounts([b"mount".to_vec()].into_iter()));
}

#[test]
fn metadata_that_a_filesystem_does_not_take_is_not_taken_for_restored() {
    let place = Place::new();
    place.write("file", "content");
    place.write("folder/inner", "content");
    rustix::fs::mknodat(rustix::fs::CWD, place.src("fifo"), FileType::Fifo, Mode::RUSR, 0).unwrap();
    let value = |name: &str, key: &str| {
        rustix::fs::lsetxattr(place.src(name), key, b"value", XattrFlags::empty()).unwrap_or_else(|e| panic!("{name}: {e}"));
    };
    value("file", "user.kept");
    value("folder", "user.kept");
    value("fifo", "trusted.kept");
    // A young stamp is certain of nothing anyway.
    age(&place.path("src"));
    let checkpoint = place.capture();
    fs::create_dir(place.path("out")).unwrap();
    let _mounted = Mounted::of(&["-t", "ramfs"], place.path("out"));
    // A folder that is there already is not stamped anew by a renaming.
    fs::create_dir(place.path("out/folder")).unwrap();
    let report = place.restore(&checkpoint, &place.in_place("out")).unwrap();
    let mut paths: Vec<_> = report.skipped.iter().map(|skipped| crate::name::display(&skipped.path)).collect();
    paths.sort();
    assert_eq!(paths, ["fifo", "file", "folder"], "{report:?}");
    let next = capture(&place.store, &place.path("out"), &[]);
    let kept = nodes(&place.store, &next).into_iter().filter(|(_, node)| !node.meta.xattrs.is_empty()).map(|(path, _)| path);
    assert_eq!(kept.collect::<Vec<_>>(), [""; 0]);
}
