//! Entries that a rollback leaves as they are: because that was asked for, or because they stay on purpose. What stays is named, and nothing else is.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
};

use parhelia_tests::{Scratch, write};
use serde_json::Value;

/// A session with files in folders, all of which have changed since its checkpoint.
struct Changed {
    scratch: Scratch,
    work: PathBuf,
    then: String,
}

const FILES: [&str; 4] = ["a", "src/a", "src/b", "src/deep/c"];

impl Changed {
    fn new() -> Self {
        let scratch = Scratch::new();
        let work = scratch.path("work");
        for name in FILES {
            write(&work.join(name), b"then").unwrap();
        }
        symlink("src", work.join("link")).unwrap();
        let then = scratch.create("s", &work);
        let changed = Changed { scratch, work, then };
        changed.change();
        changed
    }

    fn change(&self) {
        FILES.iter().for_each(|name| write(&self.work.join(name), b"now").unwrap());
    }

    /// The files that are as they were changed.
    fn now(&self) -> Vec<&str> {
        FILES.into_iter().filter(|name| fs::read(self.work.join(name)).unwrap() == b"now").collect()
    }

    /// Exit code, lines and words of a rollback that is asked for in a folder of the workspace.
    fn rollback(&self, folder: &str, arguments: &[&str]) -> (i32, Vec<Value>, String) {
        let arguments = [&["checkpoint", "rollback", &self.then, "--json"][..], arguments].concat();
        let output = self.scratch.command(&arguments).current_dir(self.work.join(folder)).output().unwrap();
        let lines = String::from_utf8(output.stdout).unwrap();
        let lines = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        (output.status.code().unwrap(), lines, String::from_utf8(output.stderr).unwrap())
    }
}

fn left(lines: &[Value]) -> Vec<String> {
    let left = lines.last().unwrap()["left"].as_array().unwrap();
    left.iter().map(|entry| entry["path"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_path_that_is_left_is_one_of_the_current_folder() {
    let changed = Changed::new();
    let absolute = changed.work.join("src/a");
    for (folder, path, meant) in [
        ("src", "a", "src/a"),
        ("src", "./a", "src/a"),
        ("src/deep", "../a", "src/a"),
        ("src", "../a", "a"),
        ("", "a", "a"),
        ("", "link/a", "src/a"),
        ("..", "src/a", "src/a"),
        ("src", absolute.to_str().unwrap(), "src/a"),
    ] {
        changed.change();
        let (code, planned, _) = changed.rollback(folder, &["--dry-run", "--leave", path]);
        assert_eq!((code, left(&planned)), (3, vec![meant.to_owned()]), "{folder} {path}");
        let (code, done, _) = changed.rollback(folder, &["--yes", "--leave", path]);
        assert_eq!((code, left(&done)), (3, vec![meant.to_owned()]), "{folder} {path}");
        assert_eq!(changed.now(), [meant], "{folder} {path}");
    }
    changed.change();
    changed.rollback("src", &["--yes", "--leave", "."]);
    assert_eq!(changed.now(), ["src/a", "src/b", "src/deep/c"]);
    // What only the checkpoint has may be left as well.
    fs::remove_dir_all(changed.work.join("src/deep")).unwrap();
    assert_eq!(changed.rollback("src", &["--yes", "--leave", "deep/c"]).0, 3);
    assert!(changed.work.join("src/b").exists() && !changed.work.join("src/deep/c").exists());
}

#[test]
fn a_path_that_nothing_has_is_not_left() {
    let changed = Changed::new();
    let paths = [("", "src/aa"), ("", "SRC/a"), ("", "src/*"), ("src", "src/a"), ("", "src/a/b"), ("..", "a/b")];
    for (folder, path) in paths {
        for how in ["--dry-run", "--yes"] {
            let (code, _, said) = changed.rollback(folder, &[how, "--leave", path]);
            assert_eq!(code, 2, "{folder} {path}: {said}");
            assert!(said.contains("cannot leave"), "{said}");
        }
    }
    let (_, _, said) = changed.rollback("src", &["--yes", "--leave", "src/a"]);
    assert!(said.contains("has src/src/a") && said.contains(&format!("give {}", changed.work.join("src/a").display())), "{said}");
    assert_eq!(changed.now(), FILES);
    let listed = changed.scratch.expect(0, &["--json", "checkpoint", "list", "s"]);
    assert_eq!(listed.lines().filter(|line| line.contains("\"safety\"")).count(), 0, "{listed}");
}

/// A mount, until this goes.
struct Mounted(PathBuf);

impl Mounted {
    fn tmpfs(at: PathBuf) -> Self {
        fs::create_dir_all(&at).unwrap();
        let mounted = Command::new("mount").args(["-t", "tmpfs", "none"]).arg(&at).status().unwrap();
        assert!(mounted.success(), "this test needs root");
        Mounted(at)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

fn action(lines: &[Value], path: &str) -> String {
    let action = lines.iter().find(|line| line["type"] == "action" && line["path"] == path);
    action.map(|line| line["action"].as_str().unwrap().to_owned()).unwrap_or_default()
}

fn is_there(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

#[test]
fn a_new_folder_that_stays_for_what_is_in_it_is_not_called_removed() {
    let changed = Changed::new();
    let work = &changed.work;
    let fill = || {
        write(&work.join("new/package.json"), b"{}").unwrap();
        write(&work.join("new/node_modules/z"), b"z").unwrap();
        write(&work.join("gone/file"), b"z").unwrap();
        write(&work.join("deep/in/file"), b"z").unwrap();
    };
    fill();
    let inside = Mounted::tmpfs(work.join("deep/in/m"));
    let new = Mounted::tmpfs(work.join("t"));
    write(&inside.0.join("x"), b"x").unwrap();
    write(&new.0.join("x"), b"x").unwrap();
    let planned = changed.rollback("", &["--dry-run"]);
    let done = changed.rollback("", &["--yes"]);
    for (code, lines, said) in [&planned, &done] {
        assert_eq!(*code, 0, "{said}");
        assert_eq!(
            [action(lines, "new"), action(lines, "gone"), action(lines, "deep")],
            ["empty", "delete", "empty"],
            "{lines:?}"
        );
        assert_eq!(left(lines), ["deep", "new", "t"], "{lines:?}");
        assert!(said.contains("new: it stays, since new/node_modules in it"), "{said}");
        assert!(said.contains("deep: it stays, since deep/in/m in it is a mount of its own"), "{said}");
        assert!(said.contains("t: it is a mount of its own"), "{said}");
    }
    assert!(is_there(&work.join("new/node_modules/z")) && !is_there(&work.join("new/package.json")));
    assert!(is_there(&work.join("deep/in/m/x")) && !is_there(&work.join("deep/in/file")) && is_there(&work.join("t/x")));
    assert!(!is_there(&work.join("gone")));
    // A restore in place removes what its own capture did not leave out, and counts mounts apart.
    fill();
    let deleted = ["new", "package.json", "node_modules", "z", "gone", "gone/file", "deep/in/file"].len();
    let to = work.to_str().unwrap();
    let restore = ["checkpoint", "restore", &changed.then, "--to", to, "--in-place", "--delete"];
    for how in [&["-n"][..], &["-v"]] {
        let said = changed.scratch.expect(0, &[&restore[..], how, &["--json"]].concat());
        let lines: Vec<Value> = said.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        assert_eq!([action(&lines, "new"), action(&lines, "gone"), action(&lines, "deep")], ["delete", "delete", "empty"]);
        let counts = lines.iter().find(|line| line["mounted"].is_u64()).unwrap();
        assert_eq!(
            (&counts["mounted"], &counts["spared"], &counts["deleted"]),
            (&2.into(), &0.into(), &deleted.into()),
            "{said}"
        );
    }
}

#[test]
fn a_folder_in_the_place_of_a_file_is_left_only_if_that_is_asked_for() {
    let changed = Changed::new();
    let work = &changed.work;
    fs::remove_file(work.join("a")).unwrap();
    write(&work.join("a/package.json"), b"{}").unwrap();
    write(&work.join("a/node_modules/x"), b"x").unwrap();
    let checkpoints = || changed.scratch.expect(0, &["--json", "checkpoint", "list", "s"]).lines().count();
    let before = checkpoints();
    for how in ["--dry-run", "--yes"] {
        let (code, _, said) = changed.rollback("", &[how]);
        assert_eq!(code, 4, "{said}");
        assert!(
            said.contains("a/node_modules") && said.contains("--leave PATH") && said.contains("nothing was changed"),
            "{said}"
        );
        assert!(is_there(&work.join("a/package.json")) && fs::read(work.join("src/a")).unwrap() == b"now");
    }
    assert_eq!(checkpoints(), before);
    for leave in [&["--leave-unwritable"][..], &["--leave", "a"]] {
        write(&work.join("src/a"), b"now").unwrap();
        let planned = changed.rollback("", &[&["--dry-run"][..], leave].concat());
        let done = changed.rollback("", &[&["--yes"][..], leave].concat());
        assert_eq!((planned.0, done.0), (3, 3), "{} {}", planned.2, done.2);
        assert_eq!((left(&planned.1), left(&done.1)), (vec!["a".to_owned()], vec!["a".to_owned()]));
        assert!(is_there(&work.join("a/package.json")) && fs::read(work.join("src/a")).unwrap() == b"then");
    }
}
