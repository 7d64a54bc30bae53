//! `mount`, `umount` and `mounts`, on real mounts.

use std::{fs, path::Path, process::Command};

use crate::common::make_store;

#[test]
fn a_checkpoint_is_mounted_listed_and_unmounted() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    for name in ["work/sub", "mnt", "home"] {
        fs::create_dir_all(folder.path().join(name)).unwrap();
    }
    fs::write(folder.path().join("work/sub/f"), "content").unwrap();
    make_store(&folder.path().join("store"));
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_parhelia"));
        let path_variable = std::env::var_os("PATH").unwrap_or_default();
        command.env_clear().env("PATH", path_variable).env("HOME", path("home")).env("PARHELIA_STORE", path("store"));
        let output = command.args(arguments).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        (output.status.code(), said)
    };
    assert_eq!(run(&["checkpoint", "create", "s", "--workspace", &path("work")]).0, Some(0));
    let refused = run(&["mount", "latest", &path("nowhere")]);
    assert_eq!(refused.0, Some(2), "{}", refused.1);
    assert_eq!(run(&["mount", "latest~7", &path("mnt")]).0, Some(10));
    for (what, file) in [(Some("latest"), "sub/f"), (Some("latest:sub"), "f"), (None, "sessions/s/latest/workspace/sub/f")] {
        let mountpoint = path("mnt");
        let arguments: Vec<&str> = ["mount"].into_iter().chain(what).chain([mountpoint.as_str()]).collect();
        let mounted = run(&arguments);
        assert_eq!(mounted.0, Some(0), "{}", mounted.1);
        // Read by another process: one that another test forks meanwhile would keep the file open.
        let read = Command::new("cat").arg(folder.path().join("mnt").join(file)).output().unwrap();
        let listed = run(&["mounts", "--json"]);
        let unmounted = run(&["umount", &mountpoint]);
        assert_eq!(read.stdout, b"content", "{what:?}");
        assert!(listed.1.contains("\"mounts\":1"), "{}", listed.1);
        assert_eq!(unmounted.0, Some(0), "{}", unmounted.1);
    }
    assert_eq!(run(&["umount", &path("mnt")]).0, Some(10));
    assert!(run(&["mounts", "--json"]).1.contains("\"mounts\":0"));
}

#[test]
fn a_mount_keeps_nothing_of_its_caller() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for name in ["work", "-mnt", "home"] {
        fs::create_dir_all(at(name)).unwrap();
    }
    fs::write(at("work/f"), "content").unwrap();
    make_store(&at("store"));
    let script = r#"
        "$parhelia" checkpoint create s --workspace work --quiet
        exec 9>lock 19>other; flock 9; flock 19
        "$parhelia" --lock-timeout 5 mount --json -- latest -mnt
    "#;
    let bash = |script: &str| {
        let mut command = Command::new("bash");
        command.args(["-ec", script]).current_dir(folder.path()).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("HOME", at("home"));
        let output = command.env("PARHELIA_STORE", "store").env("parhelia", env!("CARGO_BIN_EXE_parhelia")).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.success(), said + &String::from_utf8_lossy(&output.stderr))
    };
    let (mounted, said) = bash(script);
    assert!(mounted, "{said}");
    let summary: serde_json::Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
    let content = fs::read_to_string(at("-mnt/f"));
    let working_folder = fs::read_link(format!("/proc/{}/cwd", summary["process"]));
    let unlocked = bash("flock -n lock true && flock -n other true");
    let unmounted = bash(r#""$parhelia" umount -- -mnt"#);
    assert_eq!(content.unwrap(), "content");
    assert_eq!(working_folder.unwrap(), Path::new("/"));
    assert!(unlocked.0, "{}", unlocked.1);
    assert!(unmounted.0, "{}", unmounted.1);
}
