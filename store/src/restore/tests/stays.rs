//! Entries that a restore leaves alone, and how that is counted and told; its targets; differences that it finds.

mod filesystems;

use std::process::Command;

use super::*;
use crate::testing::Notices;
use crate::tree::Meta;

/// A filesystem in memory that is mounted at a folder, until this goes. These tests need root.
struct Mounted(PathBuf);

impl Mounted {
    fn at(folder: PathBuf) -> Self {
        Self::with("size=8m", folder)
    }

    fn with(options: &str, folder: PathBuf) -> Self {
        Self::of(&["-t", "tmpfs", "-o", options], folder)
    }

    fn of(arguments: &[&str], folder: PathBuf) -> Self {
        let mounted = Command::new("mount").args(arguments).arg("none").arg(&folder).status().unwrap().success();
        assert!(mounted, "this test needs root");
        Mounted(folder)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        _ = Command::new("umount").arg(&self.0).status();
    }
}

pub(super) fn restored(place: &Place, checkpoint: &Checkpoint, options: &Options) -> (RestoreReport, String) {
    let notices = Notices::default();
    let plan = plan(&place.store, checkpoint, options, &notices).unwrap();
    let report = execute(&place.store, checkpoint, plan, &notices).unwrap();
    (report, notices.0.into_inner().unwrap().join("\n"))
}

#[test]
fn deletion_goes_no_further_than_the_patterns() {
    let place = Place::new();
    place.write("in/file", "1");
    place.write("out/file", "2");
    let checkpoint = place.capture();
    for name in ["in/extra", "in/extra.log", "in/folder.log/file", "out/extra", "extra"] {
        place.write(name, "mine");
    }
    let options = Options { include: vec!["/in/".into()], exclude: vec!["*.log".into()], ..place.in_place("src") };
    let report = place.restore(&checkpoint, &options).unwrap();
    assert_eq!(report.counts.deleted, 1);
    let there = ["in/extra", "in/extra.log", "in/folder.log/file", "out/extra", "extra"].map(|name| place.src(name).exists());
    assert_eq!(there, [false, true, true, true, true]);
}

#[test]
fn the_store_in_the_place_of_an_entry_stays_and_is_told() {
    let place = Place::new();
    place.write("store/config.json", "not a store's");
    place.write("file", "1");
    let checkpoint = place.capture();
    let (report, told) = restored(&place, &checkpoint, &Options { delete: false, ..place.in_place("") });
    assert_eq!((report.counts.spared, place.path("file").exists()), (1, true));
    assert!(told.contains("store: the store itself is there; it is left as it is"), "{told}");
    place.store.refresh().unwrap();
    assert!(place.capture().sequence > checkpoint.sequence);
}

#[test]
fn targets_are_folders_that_are_free_or_are_named_as_ones_to_change() {
    let place = Place::new();
    place.write("file", "1");
    let checkpoint = place.capture();
    let find = |path: &Path, entry: Option<&[u8]>, in_place| target::find(&place.store, path, entry, in_place);
    assert!(matches!(find(Path::new("/"), None, true), Ok(target::Target::InPlace(path)) if path == Path::new("/")));
    assert!(matches!(find(Path::new("/"), None, false), Err(Error::TargetNotEmpty { .. })));
    for (path, how) in [("store", "is the store itself"), ("store/packs/x", "lies in the store itself")] {
        let refused = find(&place.path(path), None, true);
        assert!(matches!(&refused, Err(Error::Invalid(text)) if text.contains(how)), "{:?}", refused.err());
    }
    symlink("nowhere", place.path("dangling")).unwrap();
    symlink("loop", place.path("loop")).unwrap();
    for name in ["dangling", "dangling/x", "loop/x", "src/file/x"] {
        let refused = find(&place.path(name), None, false);
        let is_of_target = |e: &Error| e.target_errno().is_some();
        assert!(refused.as_ref().is_err_and(is_of_target), "{name}: {:?}", refused.err());
    }
    assert!(matches!(find(&place.src("file"), None, true), Err(Error::Refused(text)) if text.contains("is no folder")));
    assert!(matches!(find(&place.path("src"), None, false), Err(Error::TargetNotEmpty { .. })));
    // An empty one is filled, whether something is mounted there or not.
    fs::create_dir(place.path("empty")).unwrap();
    assert!(matches!(find(&place.path("empty"), None, false), Ok(target::Target::InPlace(_))));
    let mounted = Mounted::at(place.path("empty"));
    assert!(matches!(find(&place.path("empty"), None, false), Ok(target::Target::InPlace(_))));
    let (report, told) = restored(&place, &checkpoint, &Options::new(place.path("empty")));
    assert_eq!((report.counts.files_created, fs::read(place.path("empty/file")).unwrap()), (1, b"1".to_vec()), "{told}");
    drop(mounted);
    assert!(!place.path("empty/file").exists());
}

#[test]
fn the_bits_that_a_change_of_owner_clears_come_back() {
    let place = Place::new();
    for (name, mode) in [("user", 0o4755), ("group", 0o2711), ("plain", 0o644)] {
        place.write(name, name);
        std::os::unix::fs::chown(place.src(name), Some(1234), Some(1234)).unwrap();
        fs::set_permissions(place.src(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    let checkpoint = place.capture();
    for (name, mode) in [("user", 0o4755), ("group", 0o2711)] {
        std::os::unix::fs::chown(place.src(name), Some(0), Some(0)).unwrap();
        fs::set_permissions(place.src(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    assert_eq!(place.restore(&checkpoint, &place.in_place("src")).unwrap().skipped, []);
    place.assert_equal("src", &checkpoint);
}

#[test]
fn privileges_of_a_store_of_somebody_else_are_restored_only_where_that_is_said() {
    let place = Place::new();
    place.write("program", "x");
    fs::set_permissions(place.src("program"), fs::Permissions::from_mode(0o4755)).unwrap();
    for (name, kind, major, minor) in [("disk", FileType::BlockDevice, 7, 1), ("null", FileType::CharacterDevice, 1, 3)] {
        rustix::fs::mknodat(rustix::fs::CWD, place.src(name), kind, Mode::RUSR, rustix::fs::makedev(major, minor)).unwrap();
    }
    let checkpoint = place.capture();
    std::os::unix::fs::chown(place.store.layout().config(), Some(1234), None).unwrap();
    let mode = |name: &str| fs::symlink_metadata(place.path(name)).map(|found| found.mode() & 0o7777).ok();
    let (report, told) = restored(&place, &checkpoint, &Options::new(place.path("without")));
    assert!(told.contains("setuid"), "{told}");
    assert_eq!((mode("without/program"), mode("without/null")), (Some(0o755), None));
    let left: Vec<_> = report.skipped.iter().map(|skipped| (skipped.path.as_slice(), skipped.why)).collect();
    assert_eq!(left, [(&b"disk"[..], Why::Withheld), (&b"null"[..], Why::Withheld)]);
    let (report, told) = restored(&place, &checkpoint, &Options { preserve_special: true, ..Options::new(place.path("with")) });
    assert_eq!((mode("with/program"), mode("with/null").is_some(), report.skipped.len()), (Some(0o4755), true, 0), "{told}");
    place.assert_equal("with", &checkpoint);
}

#[test]
fn holes_are_made_and_filled_where_the_content_alone_is_the_same() {
    let place = Place::new();
    let sparse = |path: &Path| {
        let file = File::create(path).unwrap();
        file.write_all_at(b"begins", 0).unwrap();
        file.set_len(1 << 20).unwrap();
    };
    place.write("file", "");
    sparse(&place.src("file"));
    let holes = place.capture();
    let mut content = b"begins".to_vec();
    content.resize(1 << 20, 0);
    place.write("file", content);
    let dense = place.capture();
    let blocks = || fs::metadata(place.src("file")).unwrap().blocks() * 512;
    // With what the stat cache knows, and with what is read.
    for forgets in [false, true] {
        for (checkpoint, is_dense) in [(&holes, false), (&dense, true), (&dense, true)] {
            if forgets {
                fs::remove_dir_all(place.store.layout().cache()).unwrap();
                fs::create_dir(place.store.layout().cache()).unwrap();
            }
            place.restore(checkpoint, &place.in_place("src")).unwrap();
            assert_eq!(blocks() >= 1 << 20, is_dense, "{forgets}");
        }
    }
}

#[test]
fn what_cannot_be_given_is_not_nothing_and_takes_privileges_with_it() {
    use meta::{Current, Handle, MetaFailure, apply};
    assert!(MetaFailure::default().is_nothing());
    assert!(!MetaFailure { owner: true, ..MetaFailure::default() }.is_nothing());
    assert!(
        !MetaFailure { xattrs: vec![(b"user.x".to_vec(), rustix::io::Errno::NOTSUP)], ..MetaFailure::default() }.is_nothing()
    );
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    let work = || {
        let file = File::create(&path).unwrap();
        if rustix::process::geteuid().is_root() {
            let nobody = rustix::process::Uid::from_raw(65534);
            rustix::fs::fchown(&file, Some(nobody), None).unwrap();
            rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
        }
        let own = file.metadata().unwrap();
        let current = Current { mode: 0o600, uid: own.uid(), gid: own.gid(), xattrs: Vec::new() };
        let meta = Meta { mode: 0o6711, uid: own.uid() + 1, gid: own.gid(), ..testing::meta() };
        let refused = apply(&Handle::Open(file.as_fd()), &meta, &current).unwrap();
        assert!(refused.owner && refused.xattrs.is_empty());
        assert_eq!(file.metadata().unwrap().mode() & 0o7777, 0o711);
    };
    std::thread::scope(|scope| scope.spawn(work).join().unwrap());
}

#[test]
fn counts_add_up() {
    let of = |all: [u64; 13]| {
        let [
            files,
            files_created,
            folders_created,
            others_created,
            replaced,
            metadata_changed,
            deleted,
            kept,
            spared,
            mounted,
            unchanged,
            linked,
            bytes,
        ] = all;
        Counts {
            files,
            files_created,
            folders_created,
            others_created,
            replaced,
            metadata_changed,
            deleted,
            kept,
            spared,
            mounted,
            unchanged,
            linked,
            bytes,
        }
    };
    let mut sum = of([2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41]);
    sum.merge(&of([3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43]));
    assert_eq!(sum, of([5, 8, 12, 18, 24, 30, 36, 42, 52, 60, 68, 78, 84]));
    let node = |kind| Node { name: b"n".to_vec(), meta: testing::meta(), links: 1, kind };
    let file = node(Kind::File { size: 5, blob: crate::testing::blob_id(b"12345"), holes: Vec::new() });
    for (action, node, expected) in [
        (table::Action::Create, &file, Counts { files: 1, files_created: 1, bytes: 5, ..Counts::default() }),
        (table::Action::Replace, &file, Counts { files: 1, replaced: 1, bytes: 5, ..Counts::default() }),
        (table::Action::Meta, &file, Counts { metadata_changed: 1, ..Counts::default() }),
        (table::Action::Create, &node(Kind::Fifo), Counts { others_created: 1, ..Counts::default() }),
        (table::Action::Replace, &node(Kind::Fifo), Counts { replaced: 1, ..Counts::default() }),
    ] {
        let mut counts = Counts::default();
        counts.add(action, node);
        assert_eq!(counts, expected);
        counts.add(action, node);
        counts.take(action, node);
        assert_eq!(counts, expected);
    }
    let parted = |name: &str| SplitHardLink { names: vec![name.into()], outside: vec![format!("out/{name}")] };
    let report =
        |names: &[&str]| RestoreReport { parted: names.iter().map(|name| parted(name)).collect(), ..RestoreReport::default() };
    let both = again::both(report(&["a", "b"]), report(&["b", "c"]));
    assert_eq!(both.parted, ["a", "b", "c"].map(parted));
    assert_eq!(both.links_outside, ["out/a", "out/b", "out/c"]);
}

#[test]
fn a_file_that_is_there_is_refused_before_anything_is_written() {
    let place = Place::new();
    place.write("file", "then");
    let checkpoint = place.capture();
    let one = |in_place: bool| {
        let options = Options { subpath: b"file".to_vec(), in_place, ..Options::new(place.path("copy")) };
        plan(&place.store, &checkpoint, &options, &())
    };
    one(false).unwrap();
    fs::write(place.path("copy"), "mine").unwrap();
    assert!(matches!(one(false), Err(Error::TargetNotEmpty { .. })));
    one(true).unwrap();
}
