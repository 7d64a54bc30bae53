//! Rollbacks near the store, and of folders that are read-only.

use std::{
    ffi::OsStr,
    fs,
    os::unix::{ffi::OsStrExt, fs::PermissionsExt},
    path::Path,
    process::Command,
};

use parhelia_tests::{Scratch, user::User, write};
use serde_json::Value;

use crate::rollback::work::Work;

#[test]
fn a_store_inside_the_workspace_survives_and_the_session_goes_on() {
    let ground = tempfile::tempdir().unwrap();
    let workspace = fs::canonicalize(ground.path()).unwrap().join("work");
    let work = Work::at(Scratch::with_store(workspace.join("data/store")), workspace.clone(), false);
    work.spoil();
    write(&workspace.join("data/other"), b"made later").unwrap();
    work.rollback(&[]);
    assert!(!workspace.join("new").exists() && !workspace.join("data/other").exists());
    assert!(workspace.join("src/m2/f2.rs").exists());
    let create = ["checkpoint", "create", &work.session, "--workspace", &workspace.to_string_lossy()].map(str::to_owned);
    work.scratch.expect(0, &create);
    work.scratch.expect(0, &["checkpoint", "undo", &work.session, "--yes"]);
    assert_eq!(fs::read(workspace.join("new/deep/file")).unwrap(), b"made later");
    assert_eq!(fs::read(workspace.join("data/other")).unwrap(), b"made later");
    // A checkpoint from before the store was there has nothing in its place.
    let before = fs::read_dir(workspace.join("data/store/packs")).unwrap().count();
    work.rollback(&[]);
    work.scratch.expect(0, &create);
    assert!(fs::read_dir(workspace.join("data/store/packs")).unwrap().count() >= before);
    work.scratch.expect(0, &["check", "--read-data", "--quiet"]);
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_file_that_became_a_read_only_folder_and_one_that_was_one_go_back_and_forth() {
    let scratch = Scratch::new();
    let workspace = scratch.path("work");
    write(&workspace.join("module/pkg/code"), b"a folder").unwrap();
    write(&workspace.join("module/pkg/deep/more"), b"more").unwrap();
    write(&workspace.join("plain"), b"a file").unwrap();
    for folder in ["module/pkg/deep", "module/pkg", "module"] {
        set_mode(&workspace.join(folder), 0o555);
    }
    let user = User::owning(&scratch, &[&workspace]);
    user.expect(&["session", "run", "--workspace", &workspace.to_string_lossy(), "--", "true"]);
    let list = user.expect(&["checkpoint", "list", "--json"]);
    let first: Value = serde_json::from_str(list.lines().next().unwrap()).unwrap();
    let (id, session) = (first["id"].as_str().unwrap(), first["session"].as_str().unwrap());
    fs::remove_dir_all(workspace.join("module")).unwrap();
    write(&workspace.join("module"), b"now a file").unwrap();
    fs::remove_file(workspace.join("plain")).unwrap();
    write(&workspace.join("plain/inner/file"), b"now a folder").unwrap();
    set_mode(&workspace.join("plain/inner"), 0o555);
    set_mode(&workspace.join("plain"), 0o500);
    User::owning(&scratch, &[&workspace]);
    user.expect(&["checkpoint", "rollback", id, "--yes"]);
    assert_eq!(fs::read(workspace.join("module/pkg/deep/more")).unwrap(), b"more");
    assert_eq!(fs::read(workspace.join("plain")).unwrap(), b"a file");
    user.expect(&["checkpoint", "undo", session, "--yes"]);
    assert_eq!(fs::read(workspace.join("module")).unwrap(), b"now a file");
    assert_eq!(fs::read(workspace.join("plain/inner/file")).unwrap(), b"now a folder");
    assert_eq!(fs::metadata(workspace.join("plain")).unwrap().permissions().mode() & 0o777, 0o500);
    user.expect(&["checkpoint", "undo", session, "--yes"]);
    assert_eq!(fs::read(workspace.join("module/pkg/code")).unwrap(), b"a folder");
    assert_eq!(fs::metadata(workspace.join("module/pkg")).unwrap().permissions().mode() & 0o777, 0o555);
    user.expect(&["checkpoint", "create", session, "--workspace", &workspace.to_string_lossy()]);
}

#[test]
fn what_cannot_be_read_is_named_and_a_look_needs_no_store_that_can_be_written() {
    let scratch = Scratch::new();
    let workspace = scratch.path("work");
    let file = workspace.join("a");
    write(&file, b"good").unwrap();
    let user = User::owning(&scratch, &[&workspace]);
    let id = user.create("s", &workspace, &[]);
    fs::write(&file, "changed").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o000)).unwrap();
    let roll = |how: &str, said: &str| {
        let output = user.run(&["checkpoint", "rollback", &id, how]);
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(3) && text.contains(said), "{text}");
        assert_eq!(fs::read(&file).unwrap(), b"changed");
        text
    };
    let planned = roll("--dry-run", "a: would be left as it is, since the safety checkpoint does not have it");
    assert!(!planned.contains("M a"), "{planned}");
    roll("--yes", "a: left as it is, since the safety checkpoint does not have it");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();

    let writable = |mode: &str| {
        assert!(Command::new("chmod").args(["-R", mode]).arg(scratch.store()).status().unwrap().success());
    };
    writable("a-w");
    let shown = user.run(&["checkpoint", "rollback", &id, "--dry-run"]);
    writable("u+w");
    let shown = (shown.status.code(), String::from_utf8_lossy(&shown.stdout).into_owned(), shown.stderr);
    assert!(shown.0 == Some(0) && shown.1.contains("M a"), "{}{}", shown.1, String::from_utf8_lossy(&shown.2));
    user.expect(&["checkpoint", "rollback", &id, "--yes"]);
    assert_eq!(fs::read(&file).unwrap(), b"good");
}

#[test]
fn folders_and_arguments_that_are_no_text_are_recorded_as_they_are() {
    let (scratch, odd) = (Scratch::new(), OsStr::from_bytes(b"odd \\ \xff"));
    let workspace = scratch.path("w").join(odd);
    write(&workspace.join("file"), b"one").unwrap();
    let config = scratch.path("c").join(odd);
    let noted = scratch.path("noted");
    let mut begin: Vec<&OsStr> = ["session", "run", "--name", "odd", "-w"].map(OsStr::new).to_vec();
    begin.push(workspace.as_os_str());
    begin.extend(["--", "sh", "-c", "printf '%s' \"$1\" > \"$2\"", "sh"].map(OsStr::new));
    begin.extend([odd, noted.as_os_str()]);
    let status = scratch.command(&begin).env("CLAUDE_CONFIG_DIR", &config).status().unwrap();
    assert!(status.success());
    assert_eq!(fs::read(&noted).unwrap(), odd.as_bytes());
    fs::remove_file(&noted).unwrap();
    scratch.expect(0, &["session", "resume", "odd", "--yes"]);
    assert_eq!(fs::read(&noted).unwrap(), odd.as_bytes(), "the same command ran again");
    fs::write(workspace.join("file"), "two").unwrap();
    scratch.expect(0, &["checkpoint", "rollback", "odd@latest", "--yes"]);
    assert_eq!(fs::read(workspace.join("file")).unwrap(), b"one");
    scratch.expect(0, &["checkpoint", "undo", "odd", "--yes"]);
    assert_eq!(fs::read(workspace.join("file")).unwrap(), b"two");
}
