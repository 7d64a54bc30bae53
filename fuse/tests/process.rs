//! Processes: signals, death, who holds a mount.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod common;

use std::{
    fs::{self, File},
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Stdio},
};

use common::*;
use parhelia_fuse::{Error, clear_stale, list};
use parhelia_store::{pin, record::Checkpoint, restore};
use rustix::{
    fs::{FlockOperation, flock},
    process::{Pid, Signal, kill_process},
};

/// The example, serving a mount; killed and unmounted at the end.
struct Served {
    child: Child,
    mountpoint: std::path::PathBuf,
}

impl Served {
    fn start(f: &Fixture, checkpoint: &Checkpoint) -> Self {
        Self::start_with(f, checkpoint, false)
    }

    fn start_with(f: &Fixture, checkpoint: &Checkpoint, allow_other: bool) -> Self {
        let mut command = example();
        command.env_remove("ALLOW_OTHER").envs(allow_other.then_some(("ALLOW_OTHER", "1")));
        command.arg(&f.store_path).arg(checkpoint.id()).arg(&f.mountpoint).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("mounted on"), "{line}");
        Served { child, mountpoint: f.mountpoint.clone() }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    fn children(&self) -> Vec<i32> {
        let id = self.child.id();
        let text = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap();
        text.split_whitespace().map(|id| id.parse().unwrap()).collect()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = parhelia_fuse::detach(&self.mountpoint);
    }
}

fn is_mounted(path: &Path) -> bool {
    let path = fs::canonicalize(path.parent().unwrap()).unwrap().join(path.file_name().unwrap());
    fs::read_to_string("/proc/self/mountinfo").unwrap().contains(&format!(" {} ", path.display()))
}

fn fixture() -> (Fixture, Checkpoint) {
    let f = Fixture::new();
    f.write("file", b"content");
    let checkpoint = f.create("s");
    (f, checkpoint)
}

#[test]
fn signals_unmount_cleanly() {
    let (f, checkpoint) = fixture();
    for signal in [Signal::TERM, Signal::INT] {
        let mut served = Served::start(&f, &checkpoint);
        assert_eq!(cat(&f.mountpoint.join("file")), b"content");
        let found = list(&f.store()).unwrap();
        assert_eq!((found.len(), found[0].alive, found[0].text.process), (1, true, served.child.id()));
        assert_eq!((found[0].text.path(), &found[0].text.what), (f.mountpoint.clone(), &checkpoint.id()));
        served.signal(signal);
        assert!(served.child.wait().unwrap().success());
        assert!(!is_mounted(&f.mountpoint));
        assert!(list(&f.store()).unwrap().is_empty());
        assert!(pin::list(&f.store().layout().pins()).unwrap().is_empty());
    }
}

#[test]
fn a_signal_ends_a_mount_that_is_in_use() {
    let (f, checkpoint) = fixture();
    let mut served = Served::start(&f, &checkpoint);
    let _file = File::open(f.mountpoint.join("file")).unwrap();
    served.signal(Signal::TERM);
    assert!(served.child.wait().unwrap().success());
    assert!(!is_mounted(&f.mountpoint));
}

#[test]
fn a_killed_mount_is_detached_by_its_guard() {
    let (f, checkpoint) = fixture();
    for allow_other in [false, true] {
        let mut served = Served::start_with(&f, &checkpoint, allow_other);
        assert_eq!(fs::read_dir(&f.mountpoint).unwrap().count(), 1);
        assert_eq!(cat(&f.mountpoint.join("file")), b"content");
        served.signal(Signal::KILL);
        served.child.wait().unwrap();
        eventually("the guard detaches", || !is_mounted(&f.mountpoint));
        assert_eq!(fs::read_dir(&f.mountpoint).unwrap().count(), 0);
        let store = f.store();
        assert!(pin::list(&store.layout().pins()).unwrap().iter().all(|pin| !pin.alive));
        assert!(list(&store).unwrap().iter().all(|mount| !mount.alive));
        assert_eq!(clear_stale(&store).unwrap().len(), 1);
        assert!(list(&store).unwrap().is_empty());
    }
}

#[test]
fn a_guard_detaches_its_own_mount_alone() {
    let (f, checkpoint) = fixture();
    let guard = |identity: &str| {
        // Its input is at its end at once, as when the mount's process has died.
        let output = example().arg("mount-guard").arg(&f.mountpoint).arg(identity).stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    let identity_of = |served: &Served| {
        let words = || fs::read_to_string(format!("/proc/{}/cmdline", served.children()[0])).unwrap();
        // Until it runs its program, its words are those of the process that starts it.
        eventually("the guard runs", || words().contains("\0mount-guard\0"));
        words().trim_end_matches('\0').rsplit('\0').next().unwrap().to_owned()
    };
    let kill = |served: &mut Served| {
        // The guard first, so that it does nothing.
        kill_process(Pid::from_raw(served.children()[0]).unwrap(), Signal::KILL).unwrap();
        served.signal(Signal::KILL);
        served.child.wait().unwrap();
    };
    let mut first = Served::start(&f, &checkpoint);
    let identity = identity_of(&first);
    guard(&identity);
    assert!(is_mounted(&f.mountpoint), "one that answers stays");
    kill(&mut first);
    parhelia_fuse::detach(&f.mountpoint).unwrap();

    let mut second = Served::start(&f, &checkpoint);
    guard(&identity);
    assert_eq!(cat(&f.mountpoint.join("file")), b"content");
    let identity_of_second = identity_of(&second);
    kill(&mut second);
    guard(&identity);
    assert!(is_mounted(&f.mountpoint), "another one stays, dead or alive");
    guard(&identity_of_second);
    assert!(!is_mounted(&f.mountpoint));
    guard(&identity_of_second);
}

#[test]
fn a_mount_that_follows_a_killed_one_stays() {
    let (f, checkpoint) = fixture();
    let mut killed = Served::start(&f, &checkpoint);
    for round in 0..25 {
        assert_eq!(cat(&f.mountpoint.join("file")), b"content");
        let guard = killed.children()[0];
        killed.signal(Signal::KILL);
        killed.child.wait().unwrap();
        // While the guard of the first looks after it.
        let next = Served::start(&f, &checkpoint);
        eventually("the guard of the first ends", || !Path::new(&format!("/proc/{guard}/exe")).exists());
        assert!(is_mounted(&f.mountpoint), "round {round}");
        // The one before must not unmount by path when it goes.
        std::mem::forget(std::mem::replace(&mut killed, next));
    }
}

#[test]
fn many_who_clear_the_same_dead_mount_do_not_fail() {
    let (f, checkpoint) = fixture();
    for _ in 0..8 {
        let mut served = Served::start(&f, &checkpoint);
        kill_process(Pid::from_raw(served.children()[0]).unwrap(), Signal::KILL).unwrap();
        served.signal(Signal::KILL);
        served.child.wait().unwrap();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| clear_stale(&f.store()).unwrap());
            }
        });
        assert!(!is_mounted(&f.mountpoint));
    }
}

#[test]
fn logs_and_drafts_of_mounts_that_are_over_are_cleared() {
    let (f, checkpoint) = fixture();
    let store = f.store();
    let _mounted = f.mount_tree(&checkpoint);
    let at = |name: &str| store.path().join("mounts").join(name);
    for i in 0..12 {
        fs::write(at(&format!("{i:02}.log")), "over").unwrap();
    }
    let held: Vec<File> = ["00.log", "03.log", "held.new"].map(|name| File::create(at(name)).unwrap()).into();
    held.iter().for_each(|file| flock(file, FlockOperation::LockExclusive).unwrap());
    fs::write(at("dead.new"), "").unwrap();
    assert!(clear_stale(&store).unwrap().is_empty());
    let mut left: Vec<String> = fs::read_dir(at(""))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| !name.ends_with(".json"))
        .collect();
    left.sort();
    assert_eq!(left, ["00.log", "03.log", "07.log", "08.log", "09.log", "10.log", "11.log", "held.new"]);
    assert_eq!(list(&store).unwrap().len(), 1);
}

#[test]
fn what_mount_and_guard_leave_when_both_die_is_cleared() {
    let (f, checkpoint) = fixture();
    for round in 0..2 {
        let mut served = Served::start(&f, &checkpoint);
        // What was looked at the kernel goes on answering.
        assert_eq!(fs::read_dir(&f.mountpoint).unwrap().count(), 1);
        fs::metadata(&f.mountpoint).unwrap();
        let guards = served.children();
        assert_eq!(guards.len(), 1);
        kill_process(Pid::from_raw(guards[0]).unwrap(), Signal::KILL).unwrap();
        served.signal(Signal::KILL);
        served.child.wait().unwrap();
        eventually("the mount is stale", || {
            fs::metadata(f.mountpoint.join("unknown"))
                .is_err_and(|e| e.raw_os_error() == Some(rustix::io::Errno::NOTCONN.raw_os_error()))
        });
        if round == 0 {
            assert_eq!(clear_stale(&f.store()).unwrap().len(), 1);
            assert!(!is_mounted(&f.mountpoint));
        } else {
            // The next mount clears it as well.
            let mounted = f.mount_tree(&checkpoint);
            assert_eq!(cat(&f.mountpoint.join("file")), b"content");
            drop(mounted);
            assert!(!is_mounted(&f.mountpoint));
        }
    }
}

#[test]
fn a_mount_in_use_says_who_uses_it() {
    let (f, _) = fixture();
    f.write("folder/inside", b"");
    let checkpoint = f.create("s");
    let mut mounted = f.mount_tree(&checkpoint);
    let file = File::open(f.mountpoint.join("file")).unwrap();
    let error = mounted.unmount().unwrap_err();
    let Error::Busy { holders, .. } = &error else { panic!("{error}") };
    assert_eq!((holders[0].process, &holders[0].path), (std::process::id(), &f.mountpoint.join("file")));
    assert!(error.to_string().contains("try again"), "{error}");
    drop(file);
    let inside = f.mountpoint.join("folder");
    run(&inside, "mount -t tmpfs none .");
    let error = mounted.unmount().unwrap_err().to_string();
    run(&f.workspace, &format!("umount '{}'", inside.display()));
    assert!(error.contains(&inside.display().to_string()) && error.contains("unmount those first"), "{error}");
    mounted.unmount().unwrap();
    assert!(!is_mounted(&f.mountpoint));
}

#[test]
fn somebody_else_unmounting_ends_the_wait() {
    let (f, checkpoint) = fixture();
    let mut served = Served::start(&f, &checkpoint);
    parhelia_fuse::unmount(&f.mountpoint).unwrap();
    assert!(served.child.wait().unwrap().success());
    let error = parhelia_fuse::unmount(&f.mountpoint).unwrap_err();
    assert!(matches!(error, Error::NotMounted { .. }), "{error}");
}

#[test]
fn a_mount_that_ends_late_leaves_what_was_mounted_there_since() {
    let (f, checkpoint) = fixture();
    f.write("file", b"of another one");
    let other = f.create("s");
    let first = f.mount_tree(&checkpoint);
    let file = File::open(f.mountpoint.join("file")).unwrap();
    parhelia_fuse::detach(&f.mountpoint).unwrap();
    assert!(!is_mounted(&f.mountpoint));
    let _second = f.mount_tree(&other);
    drop(file);
    first.wait().unwrap();
    assert!(is_mounted(&f.mountpoint));
    assert_eq!(cat(&f.mountpoint.join("file")), b"of another one");
}

#[test]
fn other_users_look_only_where_they_are_allowed() {
    let (f, _) = fixture();
    f.write("private", b"secret");
    run(&f.workspace, "chmod 600 private && chmod 644 file");
    let checkpoint = f.create("s");
    // The way there must be open to everybody.
    run(&f.mountpoint, "chmod 755 ../.");
    let as_nobody = |command: &str| {
        std::process::Command::new("setpriv")
            .args(["--reuid=65534", "--regid=65534", "--clear-groups", "sh", "-c", command])
            .current_dir("/")
            .output()
            .unwrap()
            .status
            .success()
    };
    let at = f.mountpoint.display();
    {
        let _mounted = f.mount_tree(&checkpoint);
        assert!(!as_nobody(&format!("cat '{at}/file'")));
    }
    let options = parhelia_fuse::Options { allow_other: true, ..f.options() };
    let mounted = parhelia_fuse::mount(f.store(), tree(&checkpoint, ""), &f.mountpoint, &options).unwrap();
    assert!(as_nobody(&format!("cat '{at}/file'")));
    assert!(!as_nobody(&format!("cat '{at}/private'")));
    assert_eq!(cat(&f.mountpoint.join("private")), b"secret");
    drop(mounted);
    let _mounted = parhelia_fuse::mount(f.store(), parhelia_fuse::What::Store, &f.mountpoint, &options).unwrap();
    assert!(as_nobody(&format!("cat '{at}/sessions/s/latest/workspace/file'")));
    assert!(!as_nobody(&format!("cat '{at}/sessions/s/latest/manifest.json'")));
    assert!(fs::read(f.mountpoint.join("sessions/s/latest/manifest.json")).is_ok());
}

#[test]
fn a_mount_inside_a_workspace_is_left_out_and_named() {
    let (f, checkpoint) = fixture();
    let inside = f.workspace.join("look here");
    fs::create_dir(&inside).unwrap();
    let mut mounted = parhelia_fuse::mount(f.store(), tree(&checkpoint, ""), &inside, &f.options()).unwrap();
    let options = parhelia_store::create::Options { workspace: f.workspace.clone(), session: "s".into(), ..Default::default() };
    let outcome = parhelia_store::create::run(&f.store(), &options, &()).unwrap();
    assert_eq!(outcome.omissions.len(), 1);
    assert_eq!(outcome.omissions[0].path, b"look here");
    assert!(format!("{:?}", outcome.omissions[0].reason).contains("a mounted checkpoint"));
    assert_eq!(outcome.checkpoint.record.workspace.entries, 1);
    mounted.unmount().unwrap();
}

#[test]
fn a_mount_hides_nothing_and_is_not_taken_for_the_work() {
    let (f, checkpoint) = fixture();
    let mount = || parhelia_fuse::mount(f.store(), tree(&checkpoint, ""), &f.workspace, &f.options());
    let error = mount().unwrap_err().to_string();
    assert!(error.contains("not empty") && error.contains("choose an empty folder"), "{error}");
    fs::remove_file(f.workspace.join("file")).unwrap();
    let _mounted = mount().unwrap();
    let create = |session: &str| {
        let workspace = f.workspace.clone();
        let options = parhelia_store::create::Options { workspace, session: session.into(), ..Default::default() };
        parhelia_store::create::run(&f.store(), &options, &())
    };
    let error = create("s").unwrap_err().to_string();
    assert!(error.contains("mounted checkpoint") && error.contains("unmount"), "{error}");
    assert_eq!(f.store().checkpoints().unwrap().len(), 1);
    assert_eq!(create("copy").unwrap().checkpoint.record.workspace.entries, 1);
}

#[test]
fn a_restore_leaves_mounts_inside_its_target_alone() {
    let (f, first) = fixture();
    for folder in ["shown", "extra/shown", "extra/other"] {
        fs::create_dir_all(f.workspace.join(folder)).unwrap();
    }
    run(&f.workspace, "rmdir extra/other extra/shown extra && echo in the folder > shown/file");
    let second = f.create("s");
    run(&f.workspace, "rm shown/file && mkdir -p extra/shown extra/other && echo goes > extra/file");
    let mount =
        |folder: &str| parhelia_fuse::mount(f.store(), tree(&first, ""), &f.workspace.join(folder), &f.options()).unwrap();
    let (mounted, other) = (mount("shown"), mount("extra/shown"));
    run(&f.workspace, "mount -t tmpfs none extra/other && touch extra/other/file");
    let store = f.store();
    let options = restore::Options { in_place: true, delete: true, ..restore::Options::new(&f.workspace) };
    let restore = || restore::execute(&store, &second, restore::plan(&store, &second, &options, &())?, &());
    let restored = restore();
    let other_is_there = f.workspace.join("extra/other/file").exists();
    run(&f.workspace, "umount extra/other");
    let restored = restored.unwrap();
    assert!(other_is_there && !f.workspace.join("extra/file").exists());
    let counts = restored.counts;
    assert_eq!((counts.files, counts.folders_created, counts.deleted), (0, 0, 1));
    for at in ["shown", "extra/shown"] {
        assert_eq!(fs::read(f.workspace.join(at).join("file")).unwrap(), b"content", "{at}");
    }
    drop((mounted, other));
    restore().unwrap();
    assert_eq!(fs::read(f.workspace.join("shown/file")).unwrap(), b"in the folder\n");
    assert!(!f.workspace.join("extra").exists());
}
