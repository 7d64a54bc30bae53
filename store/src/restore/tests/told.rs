//! Changes between a plan and its end are not overwritten, not called restored, and not taken by the next checkpoint for what they are not.

use super::*;
use crate::{clock, restore::select::ProtectedEntries};

/// Does something once, when a phase begins.
struct At<'a>(Phase, std::sync::Mutex<Option<Box<dyn FnOnce() + Send + 'a>>>);

impl<'a> At<'a> {
    fn new(phase: Phase, work: impl FnOnce() + Send + 'a) -> Self {
        At(phase, std::sync::Mutex::new(Some(Box::new(work))))
    }
}

impl Progress for At<'_> {
    fn phase(&self, phase: Phase, _: Option<u64>, _: Option<u64>) {
        if phase == self.0
            && let Some(work) = self.1.lock().unwrap().take()
        {
            work();
        }
    }
}

#[test]
fn what_reads_back_otherwise_than_it_was_written_takes_no_place() {
    let place = Place::new();
    place.write("changed", "then");
    place.write("same", "same");
    place.write("mode", "mode");
    let checkpoint = place.capture();
    place.write("changed", "now!");
    fs::set_permissions(place.src("mode"), fs::Permissions::from_mode(0o600)).unwrap();
    let options = Options { verify: true, ..place.in_place("src") };
    let damage = At::new(Phase::Verify, || {
        let built = paths(&place.path("src")).into_iter().filter(|path| path.to_string_lossy().contains(".parhelia-"));
        let built: Vec<_> = built.collect();
        assert_eq!(built.len(), 1);
        fs::write(&built[0], "thon").unwrap();
    });
    let begun = plan(&place.store, &checkpoint, &options, &()).unwrap();
    let error = execute(&place.store, &checkpoint, begun, &damage).unwrap_err();
    assert!(!error.is_damage() && error.to_string().contains("reads back"), "{error}");
    assert_eq!(error.side(), crate::error::Side::Target);
    assert_eq!(fs::read(place.src("changed")).unwrap(), b"now!");
    assert_eq!(fs::read_dir(place.path("src")).unwrap().count(), 3);
    place.restore(&checkpoint, &options).unwrap();
    place.assert_equal("src", &checkpoint);
}

#[test]
fn a_file_that_comes_behind_the_look_at_the_target_is_kept() {
    let place = Place::new();
    place.write("file", "then");
    let checkpoint = place.capture();
    let options = Options { subpath: b"file".to_vec(), ..Options::new(place.path("copy")) };
    let comes = At::new(Phase::Plan, || fs::write(place.path("copy"), "mine").unwrap());
    let begun = plan(&place.store, &checkpoint, &options, &comes).unwrap();
    assert_eq!(begun.base(), place.path(""));
    let report = execute(&place.store, &checkpoint, begun, &()).unwrap();
    assert_eq!(report.skipped.iter().map(|skipped| skipped.why).collect::<Vec<_>>(), [Why::Taken]);
    assert_eq!(fs::read(place.path("copy")).unwrap(), b"mine");
}

#[test]
fn what_was_not_restored_is_in_the_next_checkpoint_as_it_is_and_not_in_the_report() {
    let place = Place::new();
    for name in ["x", "y", "folder/inside", "stays"] {
        place.write(name, "then");
    }
    fs::hard_link(place.src("y"), place.src("y too")).unwrap();
    age(&place.path("src"));
    let checkpoint = place.capture();
    let old = fs::metadata(place.src("x")).unwrap().modified().unwrap();
    for name in ["x", "y", "y too"] {
        fs::remove_file(place.src(name)).unwrap();
    }
    fs::remove_dir_all(place.src("folder")).unwrap();
    fs::set_permissions(place.src("stays"), fs::Permissions::from_mode(0o600)).unwrap();
    let comes = At::new(Phase::Commit, || {
        fs::create_dir(place.src("folder")).unwrap();
        // Of the same length and time, and not as young as the restore.
        fs::write(place.src("x"), "mine").unwrap();
        File::options().write(true).open(place.src("x")).unwrap().set_modified(old).unwrap();
        let ctime = sys::stat_at(File::open(place.path("src")).unwrap().as_fd(), b"x").unwrap().ctime;
        while clock::is_racy(ctime, clock::now()) {
            std::thread::yield_now();
        }
    });
    let begun = plan(&place.store, &checkpoint, &place.in_place("src"), &()).unwrap();
    let report = execute(&place.store, &checkpoint, begun, &comes).unwrap();
    let mut said: Vec<String> = report.skipped.iter().map(|skipped| name::display(&skipped.path)).collect();
    said.sort();
    assert_eq!(said, ["folder", "x"]);
    let counts = &report.counts;
    // The mode of one file, and the time of the top.
    assert_eq!((counts.files, counts.files_created, counts.folders_created), (1, 1, 0), "{counts:?}");
    assert_eq!((counts.linked, counts.metadata_changed), (1, 2), "{counts:?}");
    let next = place.capture();
    assert_eq!(fs::read(place.src("x")).unwrap(), b"mine");
    place.assert_equal("src", &next);
}

#[test]
fn changes_since_a_time_that_is_said_behind_the_plan_stay() {
    let place = Place::new();
    place.write("saved", "then");
    let then = place.capture();
    place.write("extra", "now");
    let mut begun = plan(&place.store, &then, &place.in_place("src"), &()).unwrap();
    begun.guard(clock::next());
    let ctime = || sys::stat_at(File::open(place.path("src")).unwrap().as_fd(), b"extra").unwrap().ctime;
    let before = ctime();
    while ctime() <= before {
        place.write("extra", "meanwhile");
    }
    let report = execute(&place.store, &then, begun, &()).unwrap();
    assert_eq!(report.skipped.iter().map(|skipped| skipped.why).collect::<Vec<_>>(), [Why::Changed]);
    assert_eq!(fs::read(place.src("extra")).unwrap(), b"meanwhile");
}

#[test]
fn what_is_in_the_place_of_a_new_folder_is_refused_by_the_plan() {
    let place = Place::new();
    place.write("file", "x");
    let checkpoint = place.capture();
    fs::create_dir(place.path("full")).unwrap();
    fs::write(place.path("full/mine"), "x").unwrap();
    let planned = |options: &Options| plan(&place.store, &checkpoint, options, &()).map(drop);
    let full = planned(&Options::new(place.path("full")));
    assert!(matches!(full, Err(Error::TargetNotEmpty { .. })), "{full:?}");
    for options in [Options::new(place.path("full/mine")), place.in_place("full/mine")] {
        let file = planned(&options);
        assert!(matches!(file, Err(Error::Refused(_))), "{file:?}");
    }
}

#[test]
fn what_is_withheld_was_never_counted() {
    let made = |has_device: bool| {
        let place = Place::new();
        place.write("file", "x");
        rustix::fs::mknodat(rustix::fs::CWD, place.src("fifo"), FileType::Fifo, Mode::RUSR, 0).unwrap();
        if has_device {
            let null = rustix::fs::makedev(1, 3);
            rustix::fs::mknodat(rustix::fs::CWD, place.src("null"), FileType::CharacterDevice, Mode::RUSR, null).unwrap();
        }
        let checkpoint = place.capture();
        // Another user's store makes no device.
        std::os::unix::fs::chown(place.store.layout().config(), Some(1234), None).unwrap();
        let report = place.restore(&checkpoint, &Options::new(place.path("out"))).unwrap();
        assert_eq!(report.skipped.len(), usize::from(has_device), "{report:?}");
        report.counts
    };
    assert_eq!(made(true), made(false));
}

#[test]
fn content_is_verified_whatever_the_stat_cache_vouches_for() {
    let place = Place::new();
    place.write("file", "then");
    age(&place.path("src"));
    let checkpoint = place.capture();
    // The same time and length, and a cache that says that it is the same file.
    place.write("file", "now!");
    age(&place.path("src"));
    let src = place.path("src");
    let cache = StatCache::open(place.store.layout(), &src).unwrap();
    let mut section = cache.section(cache.trailer.root_section).unwrap();
    let stat = sys::stat_at(File::open(&src).unwrap().as_fd(), b"file").unwrap();
    for entry in &mut section.entries {
        (entry.ino, entry.ctime, entry.racy) = (stat.ino, stat.ctime, false);
    }
    let mut writer = crate::statcache::Writer::create(place.store.layout(), &src, None).unwrap();
    let root = writer.append(&section).unwrap();
    let (base, top) = (cache.trailer.base, cache.trailer.root);
    writer.finish(root, base, top, &clock::Clock::now(), cache.trailer.read_all_at_secs).unwrap();
    let replaced = |verify| {
        let options = Options { verify, ..place.in_place("src") };
        plan(&place.store, &checkpoint, &options, &()).unwrap().summary.counts.replaced
    };
    assert_eq!((replaced(false), replaced(true)), (0, 1));
}

#[test]
fn what_is_spared_covers_what_is_in_it_and_nothing_beside_it() {
    let spared = ProtectedEntries::default().and(&[b"a/bc".to_vec(), b"d".to_vec()]);
    for (path, is_covered) in [
        ("a/bc", true),
        ("a/bc/d", true),
        ("a/bc/d/e", true),
        ("d", true),
        ("d/e", true),
        ("a", false),
        ("a/b", false),
        ("a/bcd", false),
        ("a/bcd/e", false),
        ("de", false),
        ("b/d", false),
    ] {
        assert_eq!(spared.covers(path.as_bytes()), is_covered, "{path}");
    }
}

#[test]
fn privileges_are_left_out_where_they_are_not_this_users_to_give() {
    use crate::tree::Meta;
    let place = Place::new();
    place.write("file", "x");
    let checkpoint = place.capture();
    assert_eq!(place.store.distrusts(&checkpoint), None);
    std::os::unix::fs::chown(place.store.layout().config(), Some(1234), None).unwrap();
    assert!(place.store.distrusts(&checkpoint).is_some());
    let xattr = |name: &str| (name.as_bytes().to_vec(), b"x".to_vec());
    let all = ["security.capability", "security.selinux", "trusted.x", "user.x"].map(xattr).to_vec();
    let meta = |mode, xattrs: &[(Vec<u8>, Vec<u8>)]| Meta { mode, xattrs: xattrs.to_vec(), ..testing::meta() };
    let keeps = Options { preserve_special: true, ..Options::new("/x") };
    let leaves = Options { preserve_special: false, ..Options::new("/x") };
    for (mode, left) in [(0o4755, 0o755), (0o2755, 0o755), (0o6711, 0o711), (0o1777, 0o1777)] {
        assert_eq!(leaves.meta_of(&meta(mode, &[])).mode, left);
        assert_eq!(*keeps.meta_of(&meta(mode, &all)), meta(mode, &all));
    }
    assert_eq!(leaves.meta_of(&meta(0o755, &all)).xattrs, [xattr("user.x")]);
    // What the system has put on a file is not taken away, but for what makes a program powerful.
    assert_eq!(leaves.decided(all.clone()), [xattr("security.capability"), xattr("user.x")]);
    assert_eq!(keeps.decided(all.clone()), all);
    let told = |options: &Options| options.withheld(&meta(0o755, &all)).map(<[u8]>::to_vec).collect::<Vec<_>>();
    assert_eq!((told(&keeps).len(), told(&leaves).len()), (0, 3));
    let node = |kind| Node { name: b"n".to_vec(), meta: testing::meta(), links: 1, kind };
    let device = node(Kind::CharDevice { major: 1, minor: 3 });
    assert!(leaves.withholds(&device) && !keeps.withholds(&device) && !leaves.withholds(&node(Kind::Fifo)));
}
