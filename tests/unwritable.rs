//! Workspaces in which something cannot be changed: mounts, files of other users. What a dry run says is what is done.

use std::{
    fs,
    os::unix::fs::{MetadataExt, chown},
    path::{Path, PathBuf},
    process::Command,
};

use parhelia_tests::{Scratch, user::User, write};
use serde_json::Value;

/// A mount, until this goes.
struct Mounted(PathBuf);

fn run(program: &str, arguments: &[&str], at: &Path) {
    assert!(Command::new(program).args(arguments).arg(at).status().unwrap().success(), "this test needs root");
}

impl Mounted {
    fn bind(what: &Path, at: PathBuf) -> Self {
        run("mount", &["--bind", what.to_str().unwrap()], &at);
        Mounted(at)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The lines of a run with `--json`, and its exit code.
fn json(s: &Scratch, arguments: &[&str]) -> (i32, Vec<Value>) {
    let output = s.run(&[arguments, &["--json"]].concat());
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    (output.status.code().unwrap(), said.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

#[test]
fn a_rollback_asks_before_it_leaves_what_it_cannot_put_back() {
    let s = Scratch::new();
    let (work, outside) = (s.path("work"), s.path("outside"));
    for name in ["file", "config", "sub/file"] {
        write(&work.join(name), b"then").unwrap();
    }
    let then = s.create("s", &work);
    let change = || {
        write(&work.join("file"), b"now").unwrap();
        write(&work.join("extra"), b"now").unwrap();
    };
    change();
    fs::write(&outside, "mounted").unwrap();
    let _mounted = Mounted::bind(&outside, work.join("config"));
    let now = || ["file", "config"].map(|name| fs::read_to_string(work.join(name)).unwrap());
    for how in ["--dry-run", "--yes"] {
        let said = s.expect(4, &["checkpoint", "rollback", &then, how]);
        assert!(said.contains("config (it is a mount of its own"), "{said}");
        assert!(said.contains("nothing was changed") && said.contains("--leave-unwritable"), "{said}");
        assert_eq!(now(), ["now", "mounted"]);
    }
    let absolute = work.join("config");
    for leave in [&["--leave-unwritable"][..], &["--leave", "config"], &["--leave", text(&absolute)]] {
        change();
        let planned = json(&s, &[&["checkpoint", "rollback", &then, "--dry-run"][..], leave].concat());
        let done = json(&s, &[&["checkpoint", "rollback", &then, "--yes"][..], leave].concat());
        assert_eq!((planned.0, done.0), (3, 3), "{planned:?} {done:?}");
        let left = |lines: &[Value]| lines.last().unwrap()["left"].clone();
        assert_eq!(left(&planned.1), left(&done.1));
        assert_eq!(left(&done.1)[0]["path"], "config", "{done:?}");
        let paths = |lines: &[Value]| {
            let actions = lines.iter().filter(|line| line["type"] == "action");
            actions.map(|line| (line["path"].to_string(), line["action"].to_string())).collect::<Vec<_>>()
        };
        assert_eq!(paths(&planned.1), paths(&done.1));
        assert_eq!(now(), ["then", "mounted"]);
        assert!(!work.join("extra").exists());
    }
    for outside in ["/", "..", ".", "sub/../../x"] {
        s.expect(2, &["checkpoint", "rollback", &then, "--yes", "--leave", outside]);
    }
    // Undone, everything is as it was before the last of them.
    s.expect(0, &["checkpoint", "undo", "s", "--yes"]);
    assert_eq!(now(), ["now", "mounted"]);
}

#[test]
fn a_rollback_goes_on_where_only_metadata_cannot_be_put_back() {
    let s = Scratch::new();
    let (work, data) = (s.path("work"), s.path("data"));
    for name in ["file", "volume/lib"] {
        write(&work.join(name), b"then").unwrap();
    }
    let then = s.create("s", &work);
    write(&work.join("file"), b"now").unwrap();
    run("cp", &["-a", text(&work.join("volume"))], &data);
    run("chmod", &["600"], &data.join("lib"));
    let mounted = Mounted::bind(&data, work.join("volume"));
    run("mount", &["-o", "remount,bind,ro"], &mounted.0);
    let planned = json(&s, &["checkpoint", "rollback", &then, "--dry-run"]);
    let done = json(&s, &["checkpoint", "rollback", &then, "--yes"]);
    assert_eq!((planned.0, done.0), (3, 3));
    let left = |lines: &[Value]| lines.last().unwrap()["left"].clone();
    assert_eq!(left(&planned.1), left(&done.1));
    assert_eq!(left(&done.1)[0]["path"], "volume/lib");
    assert_eq!(fs::read_to_string(work.join("file")).unwrap(), "then");
}

#[test]
fn files_that_root_has_left_in_a_users_workspace_do_not_keep_it_from_going_back() {
    let s = Scratch::new();
    let work = s.path("work");
    for name in ["file", "src/file"] {
        write(&work.join(name), b"then").unwrap();
    }
    let user = User::owning(&s, &[&work]);
    let then = user.create("s", &work, &[]);
    write(&work.join("dist/js/app.js"), b"built").unwrap();
    fs::write(work.join("file"), "now").unwrap();
    chown(work.join("dist"), Some(0), Some(0)).unwrap();
    let code = |arguments: &[&str]| {
        let output = user.run(arguments);
        let said = [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned()).concat();
        (output.status.code().unwrap(), said)
    };
    let (refused, said) = code(&["checkpoint", "rollback", &then, "--dry-run"]);
    assert!(
        refused == 4 && said.contains("dist (dist/js in it cannot be removed: this user may not change its folder"),
        "{said}"
    );
    assert_eq!(code(&["checkpoint", "rollback", &then, "--yes"]).0, 4);
    assert_eq!(fs::read_to_string(work.join("file")).unwrap(), "now");
    assert_eq!(code(&["checkpoint", "rollback", &then, "--yes", "--leave", "dist"]).0, 3);
    assert_eq!(fs::read_to_string(work.join("file")).unwrap(), "then");
    assert!(work.join("dist/js/app.js").exists());
    // A restore in place names it, and goes on.
    fs::write(work.join("file"), "now").unwrap();
    chown(work.join("file"), Some(fs::metadata(&work).unwrap().uid()), None).unwrap();
    let restore = ["checkpoint", "restore", &then, "--to", text(&work), "--in-place", "--delete"];
    let (planned, said) = code(&[&restore[..], &["-n"]].concat());
    assert!(planned == 3 && said.contains("dist: dist/js in it"), "{said}");
    assert_eq!(code(&restore).0, 3);
    assert_eq!(fs::read_to_string(work.join("file")).unwrap(), "then");
}

#[test]
fn the_folder_that_a_shell_stands_in_is_filled() {
    let s = Scratch::new();
    let work = s.path("work");
    write(&work.join("deep/file"), b"then").unwrap();
    let then = s.create("s", &work);
    let here = s.path("here");
    fs::create_dir(&here).unwrap();
    let script = "cd \"$1\" && \"$2\" checkpoint restore \"$3\" --to . -q && cat deep/file";
    let binary = parhelia_tests::binary();
    let output = Command::new("sh")
        .args(["-c", script, "sh", text(&here), text(&binary), &then])
        .env("PARHELIA_STORE", s.store())
        .env("HOME", s.path("home"))
        .output()
        .unwrap();
    assert!(output.status.success() && output.stdout == b"then", "{output:?}");
}

#[test]
fn hooks_are_installed_in_settings_that_are_a_mount_of_their_own() {
    let s = Scratch::new();
    let (outside, home) = (s.path("outside.json"), s.path("home/.claude"));
    fs::create_dir_all(&home).unwrap();
    fs::write(home.join("settings.json"), "").unwrap();
    fs::write(&outside, "{\"model\": \"mine\"}").unwrap();
    let _mounted = Mounted::bind(&outside, home.join("settings.json"));
    s.expect(0, &["hooks", "install"]);
    let settings: Value = serde_json::from_slice(&fs::read(&outside).unwrap()).unwrap();
    assert!(settings["model"] == "mine" && settings["hooks"].is_object(), "{settings}");
    s.expect(0, &["hooks", "uninstall"]);
    let settings: Value = serde_json::from_slice(&fs::read(&outside).unwrap()).unwrap();
    assert!(settings["hooks"].as_object().is_none_or(|hooks| hooks.is_empty()), "{settings}");
    let names: Vec<_> = fs::read_dir(&home).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["settings.json"]);
}

/// The exit code and the words of a command.
fn said(s: &Scratch, arguments: &[&str]) -> (i32, String) {
    let output = s.run(arguments);
    let said = [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned()).concat();
    (output.status.code().unwrap(), said)
}

fn checkpoints(s: &Scratch) -> usize {
    s.expect(0, &["--json", "checkpoint", "list", "s"]).lines().count()
}

#[test]
fn a_dry_run_refuses_to_overwrite_what_no_safety_checkpoint_could_hold() {
    let s = Scratch::new();
    let work = s.path("work");
    for name in ["file", "secret"] {
        write(&work.join(name), b"then").unwrap();
    }
    let user = User::owning(&s, &[&work]);
    let then = user.create("s", &work, &[]);
    fs::write(work.join("file"), "now").unwrap();
    fs::write(work.join("secret"), "of root").unwrap();
    chown(work.join("secret"), Some(0), Some(0)).unwrap();
    run("chmod", &["600"], &work.join("secret"));
    let before = user.expect(&["--json", "checkpoint", "list", "s"]).lines().count();
    let restore = ["checkpoint", "restore", &then, "--to", text(&work), "--in-place"];
    for how in [&["-n"][..], &[]] {
        let output = user.run(&[&restore[..], how].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(4), "{said}");
        let [safe, other] = ["--exclude", "--no-safety"].map(|flag| said.find(flag).unwrap_or_else(|| panic!("{said}")));
        assert!(said.contains("secret: it would be overwritten") && safe < other, "{said}");
    }
    assert_eq!(user.expect(&["--json", "checkpoint", "list", "s"]).lines().count(), before);
    assert_eq!(fs::read_to_string(work.join("file")).unwrap(), "now");
    for how in [&["-n"][..], &[]] {
        assert_eq!(user.run(&[&restore[..], &["--exclude", "/secret"], how].concat()).status.code(), Some(0));
    }
    assert_eq!(["file", "secret"].map(|name| fs::read_to_string(work.join(name)).unwrap()), ["then", "of root"]);
}

#[test]
fn a_dry_run_asks_the_place_where_a_folder_would_be_made() {
    let s = Scratch::new();
    let (work, locked, small) = (s.path("work"), s.path("locked"), s.path("small"));
    write(&work.join("file"), &parhelia_tests::noise(3 << 20, 1)).unwrap();
    // Its holes need no room.
    fs::File::create(work.join("sparse")).unwrap().set_len(1 << 30).unwrap();
    let then = s.create("s", &work);
    [&locked, &small].into_iter().for_each(|folder| fs::create_dir(folder).unwrap());
    let read_only = Mounted::bind(&work, locked);
    run("mount", &["-o", "remount,bind,ro"], &read_only.0);
    run("mount", &["-t", "tmpfs", "-o", "size=2m", "none"], &small);
    let small = Mounted(small);
    let below = |folder: &Path| text(&folder.join("in/to")).to_owned();
    for to in [below(&read_only.0), below(&small.0), text(&small.0).to_owned(), "/proc/parhelia-test".to_owned()] {
        for how in [&["-n"][..], &[]] {
            let (code, said) = said(&s, &[&["checkpoint", "restore", &then, "--to", &to][..], how].concat());
            assert!(code == 1 && said.contains("cannot ") && !said.contains("damaged"), "{to} {how:?} {code}: {said}");
            assert_eq!(fs::read_dir(&small.0).unwrap().count(), 0);
        }
    }
    run("mount", &["-o", "remount,size=8m"], &small.0);
    for how in [&["-n"][..], &[]] {
        s.expect(0, &[&["checkpoint", "restore", &then, "--to", &below(&small.0)][..], how].concat());
    }
}

#[test]
fn a_dry_run_fails_on_damage_that_is_known() {
    let s = Scratch::without_parity();
    let work = s.path("work");
    for (seed, name) in [(1, "a"), (2, "b"), (3, "long")] {
        write(&work.join(name), &parhelia_tests::noise(if name == "long" { 3 << 20 } else { 20_000 }, seed)).unwrap();
    }
    let then = s.create("s", &work);
    s.expect(0, &["checkpoint", "restore", &then, "-n", "--to", text(&s.path("to"))]);
    let packs = fs::read_dir(s.store().join("packs")).unwrap().map(|entry| entry.unwrap().path());
    let pack = packs.filter(|path| path.is_file()).max_by_key(|path| fs::metadata(path).unwrap().len()).unwrap();
    let mut bytes = fs::read(&pack).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 100].iter_mut().for_each(|byte| *byte = !*byte);
    fs::write(&pack, bytes).unwrap();
    s.expect(12, &["checkpoint", "verify", &then, "--deep"]);
    for how in [&["-n"][..], &[]] {
        let said = s.expect(12, &[&["checkpoint", "restore", &then, "--to", text(&s.path("to"))][..], how].concat());
        assert!(said.contains("--exclude restores the rest"), "{said}");
        assert!(!s.path("to").exists());
        // What is not hurt is restored.
        let to = s.path("rest");
        let rest = ["checkpoint", "restore", &then, "--exclude", "long", "--to", text(&to)];
        s.expect(0, &[&rest[..], how].concat());
    }
    assert_eq!(fs::read(s.path("rest/a")).unwrap(), fs::read(work.join("a")).unwrap());
}

#[test]
fn a_restore_that_can_write_nothing_fails() {
    let s = Scratch::new();
    let (work, locked) = (s.path("work"), s.path("locked"));
    for name in ["a", "src/b"] {
        write(&work.join(name), b"then").unwrap();
    }
    let then = s.create("s", &work);
    fs::create_dir(&locked).unwrap();
    let mounted = Mounted::bind(&locked, locked.clone());
    run("mount", &["-o", "remount,bind,ro"], &mounted.0);
    let file = format!("{then}:src/b");
    for (what, to) in [(&then, locked.clone()), (&file, locked.join("new")), (&file, locked.clone())] {
        for how in [&["-n"][..], &[]] {
            let (code, said) = said(&s, &[&["checkpoint", "restore", what, "--to", text(&to)][..], how].concat());
            assert_eq!(code, 1, "{said}");
            assert!(said.contains("nothing could be restored") && said.contains("read-only"), "{said}");
            assert!(!said.contains("Restored") && !said.contains("Would restore"), "{said}");
        }
    }
    // What is done in part is said with what is not.
    drop(mounted);
    let part = s.path("part");
    write(&part.join("a"), b"now").unwrap();
    fs::create_dir(part.join("src")).unwrap();
    let mounted = Mounted::bind(&locked, part.join("src"));
    run("mount", &["-o", "remount,bind,ro"], &mounted.0);
    let restore = ["checkpoint", "restore", &then, "--to", text(&part), "--in-place", "--other-folder"];
    for how in [&["-n"][..], &[]] {
        let said = s.expect(3, &[&restore[..], how].concat());
        assert!(said.contains("estore") && said.contains("not restored"), "{said}");
    }
    assert_eq!(fs::read(part.join("a")).unwrap(), b"then");
}

#[test]
fn a_rollback_that_is_refused_leaves_no_safety_checkpoint() {
    let s = Scratch::new();
    let (work, outside) = (s.path("work"), s.path("outside"));
    for name in ["file", "config"] {
        write(&work.join(name), b"then").unwrap();
    }
    let then = s.create("s", &work);
    write(&work.join("file"), b"now").unwrap();
    fs::write(&outside, "mounted").unwrap();
    let _mounted = Mounted::bind(&outside, work.join("config"));
    let before = checkpoints(&s);
    for _ in 0..2 {
        s.expect(4, &["checkpoint", "rollback", &then, "--yes"]);
    }
    assert_eq!(checkpoints(&s), before);
    let asked = s.expect(2, &["checkpoint", "rollback", &then, "--leave-unwritable", "--leave", "file"]);
    assert!(asked.contains(&format!("{then} --dry-run --leave-unwritable --leave file`")), "{asked}");
    s.expect(3, &["checkpoint", "rollback", &then, "--leave-unwritable", "--yes"]);
    assert_eq!(checkpoints(&s), before + 1);
}

#[test]
fn what_a_plan_has_to_say_is_said_once() {
    let s = Scratch::new();
    let work = s.path("work");
    write(&work.join("file"), b"then").unwrap();
    fs::create_dir(work.join("volume")).unwrap();
    let then = s.create("s", &work);
    write(&work.join("file"), b"now").unwrap();
    run("mount", &["-t", "tmpfs", "none"], &work.join("volume"));
    let mounted = Mounted(work.join("volume"));
    write(&mounted.0.join("data"), b"x").unwrap();
    let said = s.expect(0, &["checkpoint", "restore", &then, "--to", text(&work), "--in-place", "--delete"]);
    assert_eq!(said.matches("something is mounted there").count(), 1, "{said}");
    // A file in the place of one is called a file.
    let one = format!("{then}:file");
    let said = s.expect(4, &["checkpoint", "restore", &one, "--to", text(&s.path("work/file"))]);
    assert!(said.contains("exists and is no folder; use another --to, or --in-place to replace it"), "{said}");
}
