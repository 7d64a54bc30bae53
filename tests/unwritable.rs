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
