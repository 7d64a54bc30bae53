//! Entries that nobody may change, by their inode's flags: they stay, are named, and keep nothing else from being restored. Needs root, and a
//! filesystem with such flags.

use std::sync::atomic::AtomicBool;

use rustix::fs::{IFlags, ioctl_getflags, ioctl_setflags};

use super::*;
use crate::pin;

/// An entry with a flag, until this goes.
struct Flagged(PathBuf, IFlags);

impl Flagged {
    fn new(path: PathBuf, flag: IFlags) -> Self {
        set(&path, flag, true);
        Flagged(path, flag)
    }
}

impl Drop for Flagged {
    fn drop(&mut self) {
        set(&self.0, self.1, false);
    }
}

fn set(path: &Path, flag: IFlags, is_set: bool) {
    let file = File::open(path).unwrap();
    let mut flags = ioctl_getflags(&file).unwrap();
    flags.set(flag, is_set);
    ioctl_setflags(&file, flags).unwrap_or_else(|e| panic!("this test needs root and a filesystem with inode flags: {e}"));
}

/// The paths and reasons of what is skipped, in order.
pub(super) fn told(skipped: impl IntoIterator<Item = SkippedEntry>) -> Vec<(String, String)> {
    let mut told: Vec<(String, String)> =
        skipped.into_iter().map(|skipped| (crate::name::display(&skipped.path), skipped.error)).collect();
    told.sort();
    told
}

/// True if something under a temporary name is in a folder, as far as that may be looked into.
fn has_temporary(folder: &Path) -> bool {
    let Ok(entries) = fs::read_dir(folder) else { return false };
    entries.flatten().any(|entry| {
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        entry.file_name().as_bytes().starts_with(b".parhelia") || is_folder && has_temporary(&entry.path())
    })
}

/// Restores in place; what is skipped is so by the plan already, which counts what is done.
pub(super) fn restored(place: &Place, checkpoint: &Checkpoint, options: &Options) -> (Vec<(String, String)>, Counts) {
    let plan = plan(&place.store, checkpoint, options, &()).unwrap();
    let planned = (told(plan.blocked()), plan.summary.counts.clone());
    let report = execute(&place.store, checkpoint, plan, &()).unwrap();
    let done = (told(report.skipped), report.counts);
    assert_eq!(planned, done);
    assert!(!has_temporary(&options.target), "temporary files are left");
    done
}

pub(super) fn named<'a>(told: &'a [(String, String)], word: &str) -> Vec<&'a str> {
    told.iter().filter(|(_, why)| why.starts_with(word)).map(|(path, _)| path.as_str()).collect()
}

#[test]
fn what_nobody_may_change_stays_and_all_else_is_restored() {
    for (flag, word) in [(IFlags::IMMUTABLE, "immutable"), (IFlags::APPEND, "append-only")] {
        let place = Place::new();
        for name in ["file", "mode", "same", "gone", "folder/file", "folder/sub/file", "folder/gone", "last"] {
            place.write(name, "before");
        }
        fs::hard_link(place.src("same"), place.src("same too")).unwrap();
        let checkpoint = place.capture();
        for name in ["file", "folder/file", "folder/sub/file", "last"] {
            place.write(name, "after it");
        }
        fs::set_permissions(place.src("mode"), fs::Permissions::from_mode(0o600)).unwrap();
        fs::set_permissions(place.src("folder"), fs::Permissions::from_mode(0o700)).unwrap();
        for name in ["gone", "folder/gone", "same too"] {
            fs::remove_file(place.src(name)).unwrap();
        }
        for name in ["folder/extra", "more/deep/extra", "more/deep/other", "extra"] {
            place.write(name, "extra");
        }
        let flagged =
            ["file", "mode", "same", "folder", "more/deep/extra", "extra"].map(|name| Flagged::new(place.src(name), flag));
        let (skipped, counts) = restored(&place, &checkpoint, &place.in_place("src"));
        let own = ["extra", "file", "folder", "mode"];
        assert_eq!(named(&skipped, &format!("it is {word} (")), own, "{skipped:?}");
        assert_eq!(named(&skipped, "its folder is "), ["folder/extra", "folder/file", "folder/gone"], "{skipped:?}");
        assert_eq!(named(&skipped, "it, or something in it, is "), ["more"], "{skipped:?}");
        assert_eq!((skipped.len(), counts.deleted), (8, 1), "{counts:?}");
        let content = |name: &str| fs::read_to_string(place.src(name)).unwrap_or_default();
        assert_eq!(["last", "gone", "folder/sub/file", "same too"].map(content), ["before"; 4]);
        assert_eq!(["file", "folder/file"].map(content), ["after it"; 2]);
        assert_eq!(
            (content("folder/gone"), content("extra"), content("more/deep/extra")),
            ("".into(), "extra".into(), "extra".into())
        );
        assert!(!place.src("more/deep/other").exists());
        drop(flagged);
        // Nothing of it counts as restored.
        let (skipped, counts) = restored(&place, &checkpoint, &place.in_place("src"));
        assert_eq!((skipped.len(), counts.deleted), (0, 5), "{counts:?}");
        assert_eq!(["file", "folder/file", "folder/gone"].map(content), ["before"; 3]);
        assert_eq!(fs::metadata(place.src("folder")).unwrap().mode() & 0o777, 0o755);
    }
}

#[test]
fn a_file_that_nobody_may_change_is_joined_to_no_other() {
    let place = Place::new();
    place.write("one", "linked");
    fs::hard_link(place.src("one"), place.src("two")).unwrap();
    let checkpoint = place.capture();
    let modified = fs::metadata(place.src("two")).unwrap().modified().unwrap();
    fs::remove_file(place.src("two")).unwrap();
    place.write("two", "linked");
    File::open(place.src("two")).unwrap().set_modified(modified).unwrap();
    let _flagged = Flagged::new(place.src("two"), IFlags::IMMUTABLE);
    let (skipped, _) = restored(&place, &checkpoint, &place.in_place("src"));
    assert_eq!(named(&skipped, "it is immutable"), ["two"], "{skipped:?}");
    assert_eq!(fs::metadata(place.src("one")).unwrap().nlink(), 1);
}

#[test]
fn a_folder_in_the_place_of_a_file_stays_with_what_nobody_may_remove() {
    let place = Place::new();
    place.write("a", "before");
    place.write("b", "before");
    let checkpoint = place.capture();
    for name in ["a", "b"] {
        fs::remove_file(place.src(name)).unwrap();
        place.write(&format!("{name}/inner"), "kept");
    }
    fs::create_dir(place.src("b/empty")).unwrap();
    let _flagged = [Flagged::new(place.src("a"), IFlags::IMMUTABLE), Flagged::new(place.src("b/empty"), IFlags::IMMUTABLE)];
    let (skipped, _) = restored(&place, &checkpoint, &place.in_place("src"));
    assert_eq!(
        (named(&skipped, "it is immutable ("), named(&skipped, "a folder is in its place in which")),
        (vec!["a"], vec!["b"])
    );
    assert_eq!(fs::read(place.src("a/inner")).unwrap(), b"kept");
    assert_eq!(fs::read(place.src("b/inner")).unwrap(), b"kept");
}

#[test]
fn a_target_that_nobody_may_change_keeps_its_metadata_and_its_entries() {
    let place = Place::new();
    place.write("file", "before");
    place.write("sub/file", "before");
    let checkpoint = place.capture();
    place.write("file", "after it");
    place.write("sub/file", "after it");
    fs::set_permissions(place.path("src"), fs::Permissions::from_mode(0o700)).unwrap();
    let _flagged = Flagged::new(place.path("src"), IFlags::IMMUTABLE);
    let (skipped, _) = restored(&place, &checkpoint, &place.in_place("src"));
    assert_eq!((named(&skipped, "it is immutable"), named(&skipped, "its folder")), (vec![""], vec!["file"]), "{skipped:?}");
    assert_eq!(fs::read(place.src("sub/file")).unwrap(), b"before");
}

#[test]
fn what_became_immutable_after_the_plan_is_skipped_then() {
    let place = Place::new();
    place.write("file", "before");
    place.write("last", "before");
    let checkpoint = place.capture();
    place.write("file", "after it");
    place.write("last", "after it");
    let plan = plan(&place.store, &checkpoint, &place.in_place("src"), &()).unwrap();
    let _flagged = Flagged::new(place.src("file"), IFlags::IMMUTABLE);
    let report = execute(&place.store, &checkpoint, plan, &()).unwrap();
    assert_eq!(told(report.skipped), [("file".to_owned(), "it is immutable (`chattr -i` lets it be changed)".to_owned())]);
    assert_eq!(fs::read(place.src("last")).unwrap(), b"before");
}

#[test]
fn what_could_not_be_made_is_counted_as_if_it_had_been_known_before() {
    let outcome = |freezes_before: bool| {
        let place = Place::new();
        for name in ["one", "folder/kept", "folder/old", "folder/new", "folder/mode", "free/new"] {
            place.write(name, format!("before {name}"));
        }
        fs::hard_link(place.src("one"), place.src("folder/link")).unwrap();
        fs::hard_link(place.src("one"), place.src("free/link")).unwrap();
        std::os::unix::fs::symlink("one", place.src("folder/symlink")).unwrap();
        let checkpoint = place.capture();
        for name in ["folder/new", "folder/link", "folder/symlink", "free/new", "free/link"] {
            fs::remove_file(place.src(name)).unwrap();
        }
        place.write("folder/old", "after it");
        place.write("folder/extra", "made since");
        place.write("extra", "made since");
        fs::set_permissions(place.src("folder/mode"), fs::Permissions::from_mode(0o600)).unwrap();
        let plan = || plan(&place.store, &checkpoint, &place.in_place("src"), &()).unwrap();
        let planned = plan();
        let _flagged = Flagged::new(place.src("folder"), IFlags::IMMUTABLE);
        let planned = if freezes_before { plan() } else { planned };
        let report = execute(&place.store, &checkpoint, planned, &()).unwrap();
        let paths: Vec<String> = told(report.skipped).into_iter().map(|(path, _)| path).collect();
        let content = fs::read_to_string(place.src("free/new")).unwrap();
        assert_eq!((content.as_str(), fs::metadata(place.src("one")).unwrap().nlink()), ("before free/new", 2));
        (paths, report.counts)
    };
    let (known, told) = (outcome(true), outcome(false));
    assert_eq!(known, told);
    assert_eq!(known.0, ["folder", "folder/extra", "folder/link", "folder/new", "folder/old", "folder/symlink"]);
    assert_eq!((known.1.files, known.1.linked, known.1.deleted), (1, 1, 1), "{:?}", known.1);
}

/// Does something at the first file that is written, and stops then.
struct AtFirst<F: Fn() + Sync>(F, AtomicBool);

impl<F: Fn() + Sync> Progress for AtFirst<F> {
    fn advance(&self, files: u64, _: u64) {
        if files > 0 && !self.1.swap(true, Ordering::Relaxed) {
            (self.0)();
        }
    }

    fn is_cancelled(&self) -> bool {
        self.1.load(Ordering::Relaxed)
    }
}

/// Restores with one thread, and is stopped at the first file, when `work` is done. The pins that are left.
fn stopped(place: &Place, checkpoint: &Checkpoint, options: &Options, work: impl Fn() + Sync) -> usize {
    let plan = plan(&place.store, checkpoint, options, &()).unwrap();
    let error = execute(&place.store, checkpoint, plan, &AtFirst(work, AtomicBool::new(false))).unwrap_err();
    assert!(matches!(error, Error::Cancelled), "{error}");
    pin::list(&place.store.layout().pins()).unwrap().len()
}

#[test]
fn what_a_stopped_restore_cannot_remove_is_removed_by_the_next() {
    let place = Place::new();
    for name in ["a/first", "z/last"] {
        place.write(name, "before");
    }
    let checkpoint = place.capture();
    for name in ["a/first", "z/last"] {
        place.write(name, "after it");
    }
    let temporary = || paths(&place.path("src")).into_iter().filter(|path| path.to_string_lossy().contains(".parhelia-")).count();
    let options = place.in_place("src");
    assert_eq!((stopped(&place, &checkpoint, &options, || ()), temporary()), (0, 0));
    let left = stopped(&place, &checkpoint, &options, || {
        for name in ["a", "z"] {
            set(&place.src(name), IFlags::IMMUTABLE, true);
        }
    });
    for name in ["a", "z"] {
        set(&place.src(name), IFlags::IMMUTABLE, false);
    }
    assert_eq!((left, temporary()), (1, 1));
    // Where the folder itself is gone, nothing is left in it.
    assert_eq!(stopped(&place, &checkpoint, &options, || fs::remove_dir_all(place.src("z")).unwrap()), 0);
    assert_eq!(temporary(), 0);
    // Nor beside a new folder.
    assert_eq!(stopped(&place, &checkpoint, &Options::new(place.path("new")), || ()), 0);
    let beside = fs::read_dir(place.path("")).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(beside.filter(|name| name.contains("new")).count(), 0);
}
