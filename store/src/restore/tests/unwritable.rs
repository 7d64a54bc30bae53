//! Entries that cannot be changed because of mounts, permissions or the system: they are foreseen, stay, are named, and keep nothing else from
//! being restored. The tests with mounts need root.

use std::process::Command;

use super::{
    held::{named, restored},
    *,
};
use crate::error::Side;

/// A mount, until this goes.
struct Mounted(PathBuf);

fn run(program: &str, arguments: &[&str], at: &Path) {
    assert!(Command::new(program).args(arguments).arg(at).status().unwrap().success(), "this test needs root");
}

impl Mounted {
    fn new(arguments: &[&str], at: PathBuf) -> Self {
        run("mount", arguments, &at);
        Mounted(at)
    }

    fn bind(what: &Path, at: PathBuf) -> Self {
        Self::new(&["--bind", what.to_str().unwrap()], at)
    }

    fn set_read_only(&self, is_read_only: bool) {
        run("mount", &["-o", if is_read_only { "remount,bind,ro" } else { "remount,bind,rw" }], &self.0);
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg(&self.0).status().unwrap().success();
        assert!(unmounted || std::thread::panicking());
    }
}

fn content(place: &Place, name: &str) -> String {
    fs::read_to_string(place.src(name)).unwrap_or_default()
}

#[test]
fn a_file_that_is_a_mount_stays_and_all_else_is_restored() {
    let place = Place::new();
    for name in ["a", "config", "same", "z/b"] {
        place.write(name, "then");
    }
    let checkpoint = place.capture();
    for name in ["a", "config", "z/b", "extra/x", "extra/mounted", "mounted"] {
        place.write(name, "now");
    }
    let outside = ["config", "same", "mounted", "extra"].map(|name| place.path(&format!("outside {name}")));
    outside.iter().for_each(|path| fs::write(path, "outside").unwrap());
    fs::write(&outside[1], "then").unwrap();
    fs::File::open(&outside[1]).unwrap().set_modified(fs::metadata(place.src("same")).unwrap().modified().unwrap()).unwrap();
    let at = ["config", "same", "mounted", "extra/mounted"];
    let mounts: Vec<_> = outside.iter().zip(at).map(|(outside, at)| Mounted::bind(outside, place.src(at))).collect();
    let (skipped, counts) = restored(&place, &checkpoint, &place.in_place("src"));
    assert_eq!(named(&skipped, "it is a mount of its own"), ["config"], "{skipped:?}");
    // What is mounted where the checkpoint has nothing stays as mounted folders do.
    assert_eq!((skipped.len(), counts.deleted, counts.files), (1, 1, 2), "{counts:?}");
    assert_eq!(["a", "z/b"].map(|name| content(&place, name)), ["then", "then"]);
    assert_eq!(["config", "mounted", "extra/mounted"].map(|name| content(&place, name)), ["outside"; 3]);
    assert!(!place.src("extra/x").exists());
    drop(mounts);
    let (skipped, _) = restored(&place, &checkpoint, &place.in_place("src"));
    assert_eq!(skipped, []);
    place.assert_equal("src", &checkpoint);
}

#[test]
fn what_is_on_a_read_only_mount_stays_also_where_only_its_mode_differs() {
    let place = Place::new();
    for name in ["file", "volume/content", "volume/gone", "volume/same", "volume/mode", "volume/sub/deep"] {
        place.write(name, "then");
    }
    let checkpoint = place.capture();
    place.write("file", "now");
    place.write("volume/content", "now");
    place.write("volume/extra", "now");
    fs::remove_file(place.src("volume/gone")).unwrap();
    fs::set_permissions(place.src("volume/mode"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::set_permissions(place.src("volume/sub"), fs::Permissions::from_mode(0o700)).unwrap();
    fs::set_permissions(place.src("volume"), fs::Permissions::from_mode(0o700)).unwrap();
    let mounted = Mounted::bind(&place.src("volume"), place.src("volume"));
    mounted.set_read_only(true);
    let (skipped, counts) = restored(&place, &checkpoint, &place.in_place("src"));
    let read_only: Vec<&str> = skipped.iter().filter(|(_, why)| why.contains("read-only")).map(|(path, _)| &**path).collect();
    let all = ["volume", "volume/content", "volume/extra", "volume/gone", "volume/mode", "volume/sub"];
    assert_eq!((read_only, skipped.len(), counts.deleted), (all.to_vec(), all.len(), 0), "{skipped:?}");
    assert_eq!(content(&place, "file"), "then");
    let kinds = |planned: &Plan, why: Why| planned.blocked().filter(|blocked| blocked.why == why).count();
    let planned = plan(&place.store, &checkpoint, &place.in_place("src"), &()).unwrap();
    assert_eq!((kinds(&planned, Why::Held), kinds(&planned, Why::HeldAlike)), (3, 3));
    drop(planned);
    mounted.set_read_only(false);
    drop(mounted);
    restored(&place, &checkpoint, &place.in_place("src"));
    place.assert_equal("src", &checkpoint);
}

#[test]
fn hard_links_across_mounts_become_files_of_their_own_and_stay_so() {
    let place = Place::new();
    place.write("a/x", "linked");
    for name in ["a/y", "b/x", "b/y", "b/z"] {
        fs::create_dir_all(place.src("b")).unwrap();
        fs::hard_link(place.src("a/x"), place.src(name)).unwrap();
    }
    let checkpoint = place.capture();
    let data = place.path("data");
    fs::create_dir(&data).unwrap();
    for mount in [&["--bind", data.to_str().unwrap()][..], &["-t", "tmpfs", "none"]] {
        let _mounted = Mounted::new(mount, place.src("b"));
        let told = restored(&place, &checkpoint, &place.in_place("src")).0;
        assert_eq!(told, []);
        let file = |name: &str| {
            let found = fs::metadata(place.src(name)).unwrap();
            (found.ino(), found.nlink())
        };
        assert_eq!(file("a/x"), file("a/y"));
        // Where it was, the file keeps the names that the mount hides.
        assert_eq!([file("b/x"), file("b/y")], [file("b/z"); 2]);
        assert_eq!((file("b/x").1, content(&place, "b/z")), (3, "linked".into()));
        let again = plan(&place.store, &checkpoint, &place.in_place("src"), &()).unwrap();
        assert_eq!((again.links.len(), again.items.len()), (0, 0));
    }
}

#[test]
fn an_empty_folder_that_is_mounted_elsewhere_is_filled_where_it_is() {
    let place = Place::new();
    place.write("file", "x");
    place.write("folder/file", "x");
    let checkpoint = place.capture();
    for name in ["host", "container"] {
        fs::create_dir(place.path(name)).unwrap();
    }
    let _mounted = Mounted::bind(&place.path("host"), place.path("container"));
    let fill = |name: &str| {
        let (skipped, _) = restored(&place, &checkpoint, &Options::new(place.path(name)));
        assert_eq!(skipped, []);
        ["host", "container"].iter().for_each(|name| place.assert_equal(name, &checkpoint));
    };
    fill("host");
    fs::remove_file(place.path("host/file")).unwrap();
    fs::remove_dir_all(place.path("host/folder")).unwrap();
    fill("container");
}

#[test]
fn a_file_takes_the_place_of_a_folder_of_an_overlays_lower_layer() {
    let place = Place::new();
    place.write("config", "a file");
    symlink("elsewhere", place.src("modules")).unwrap();
    place.write("keep", "keep");
    let checkpoint = place.capture();
    let base = place.path("base");
    fs::create_dir(&base).unwrap();
    fs::create_dir(place.path("live")).unwrap();
    let _base = Mounted::new(&["-t", "tmpfs", "none"], base.clone());
    for name in ["lower/config/inner", "lower/modules/a", "upper", "work"] {
        fs::create_dir_all(base.join(name)).unwrap();
    }
    for name in ["lower/config/inner/x", "lower/modules/a/i", "lower/keep"] {
        fs::write(base.join(name), "keep").unwrap();
    }
    let options = ["lowerdir", "upperdir", "workdir"].iter().zip(["lower", "upper", "work"]);
    let options: Vec<String> = options.map(|(option, name)| format!("{option}={}", base.join(name).display())).collect();
    let _live = Mounted::new(&["-t", "overlay", "overlay", "-o", &options.join(",")], place.path("live"));
    let (skipped, counts) = restored(&place, &checkpoint, &place.in_place("live"));
    assert_eq!((skipped, counts.deleted), (vec![], 6));
    place.assert_equal("live", &checkpoint);
    assert!(base.join("lower/config/inner/x").exists());
}

#[test]
fn what_another_user_owns_is_foreseen_and_what_goes_is_counted() {
    const TEST: &str = "restore::tests::unwritable::what_another_user_owns_is_foreseen_and_what_goes_is_counted";
    let prepare = |dir: &Path| {
        for name in ["live/dist/js", "live/part/zz", "live/closed", "live/hollow", "live/theirs", "live/entered"] {
            fs::create_dir_all(dir.join(name)).unwrap();
        }
        for name in ["live/dist/js/app.js", "live/part/zz/x", "live/closed/x", "live/theirs/file", "live/entered/x"] {
            fs::write(dir.join(name), "built").unwrap();
        }
        let mode = |name: &str, mode| fs::set_permissions(dir.join(name), fs::Permissions::from_mode(mode)).unwrap();
        mode("live/closed", 0o700);
        mode("live/entered", 0o700);
        if rustix::process::geteuid().is_root() {
            for name in ["live", "live/part"] {
                std::os::unix::fs::chown(dir.join(name), Some(65534), Some(65534)).unwrap();
            }
        }
    };
    testing::as_ordinary(TEST, prepare, |dir| {
        let place = Place::new();
        for name in ["file", "theirs/file", "theirs/missing", "entered/x"] {
            place.write(name, "then");
        }
        let checkpoint = place.capture();
        let live = dir.join("live");
        if fs::metadata(live.join("dist")).unwrap().uid() == fs::metadata(&live).unwrap().uid() {
            // Whoever runs the tests is no root: everything is theirs.
            return;
        }
        for name in ["a1", "a2", "a3"] {
            fs::write(live.join("part").join(name), "mine").unwrap();
        }
        let options = Options { in_place: true, delete: true, ..Options::new(&live) };
        let (skipped, counts) = restored(&place, &checkpoint, &options);
        let of = |path: &str| skipped.iter().find(|(found, _)| found == path).map(|(_, why)| why.as_str());
        assert!(of("closed").unwrap().contains("may not look into it"), "{skipped:?}");
        assert!(of("dist").unwrap().starts_with("dist/js in it cannot be removed: this user may not change its folder"));
        assert!(of("part").unwrap().starts_with("part/zz/x in it cannot be removed: this user may not change its folder"));
        assert!(of("entered").unwrap().contains("may not look into it"));
        assert_eq!(of("theirs/file"), Some("this user may not change its folder"));
        assert_eq!(of("theirs/missing"), Some("this user may not change its folder"));
        // Of the folder theirs, the time.
        assert_eq!(of("theirs"), Some("this user may not change it"));
        assert_eq!(skipped.len(), 7, "{skipped:?}");
        // An empty folder of somebody else goes, as its name is in a folder of this user's.
        assert_eq!((counts.deleted, counts.files), (4, 1), "{counts:?}");
        assert!(!live.join("hollow").exists() && !live.join("part/a1").exists() && live.join("part/zz/x").exists());
        assert_eq!(fs::read(live.join("file")).unwrap(), b"then");
    });
}

#[test]
fn a_target_that_goes_while_it_is_made_says_nothing_of_the_checkpoint() {
    let place = Place::new();
    for i in 0..300 {
        place.write(&format!("d{}/{i}", i % 20), i.to_string());
    }
    let checkpoint = place.capture();
    let gone = testing::AtBegin::new(|| {
        for entry in fs::read_dir(place.path("")).unwrap().flatten() {
            if entry.file_name().as_bytes().starts_with(b".out.parhelia-") {
                fs::remove_dir_all(entry.path()).unwrap();
            }
        }
    });
    let begun = plan(&place.store, &checkpoint, &Options::new(place.path("out")), &()).unwrap();
    let error = execute(&place.store, &checkpoint, begun, &gone).unwrap_err();
    assert_eq!((error.side(), error.is_damage(), error.kind()), (Side::Target, false, crate::ErrorKind::Failed), "{error}");
    let nowhere = place.restore(&checkpoint, &Options::new("/proc/x")).unwrap_err();
    assert_eq!((nowhere.side(), nowhere.is_damage()), (Side::Target, false), "{nowhere}");
    place.restore(&checkpoint, &Options::new(place.path("out"))).unwrap();
    place.assert_equal("out", &checkpoint);
}
