//! A rollback does what it says.

use std::{fs, process::Command};

use parhelia_tests::{filesystems::in_memory, write};

use crate::work::Work;

#[test]
fn what_would_be_done_is_what_is_done() {
    let work = Work::new(false);
    let at = |path: &str| work.workspace.join(path);
    // A folder of builds was a plain one when it was captured, and is none any more.
    write(&at("lib/target/was"), b"captured").unwrap();
    let id = work.scratch.create(&work.session, &work.workspace);
    write(&at("lib/Cargo.toml"), b"[package]").unwrap();
    write(&at("lib/target/was"), b"built").unwrap();
    write(&at("lib/target/new"), b"built").unwrap();
    write(&at("src/m0/f7.rs"), b"edited").unwrap();
    let marks = |said: &str| {
        let lines = said
            .lines()
            .map(str::trim_start)
            .filter(|line| line.starts_with(['A', 'M', 'm', 'D', 'L']) && line.as_bytes()[1] == b' ');
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let rollback = |more: &str| work.scratch.expect(0, &["checkpoint", "rollback", &id, more]);
    let foreseen = marks(&rollback("--dry-run"));
    assert!(foreseen.iter().any(|line| line.contains("src/m0/f7.rs")), "{foreseen:?}");
    assert!(!foreseen.iter().any(|line| line.contains("lib/target")), "{foreseen:?}");
    assert_eq!(marks(&rollback("--yes")), foreseen);
    assert_eq!(fs::read(at("lib/target/was")).unwrap(), b"built");
    // What stands in the way of it is said before as well.
    fs::write(at("in the way"), "a file").unwrap();
    let id = work.scratch.create(&work.session, &work.workspace);
    fs::remove_file(at("in the way")).unwrap();
    write(&at("in the way/Cargo.toml"), b"[package]").unwrap();
    write(&at("in the way/target/built"), b"built").unwrap();
    let said = work.scratch.expect(1, &["checkpoint", "rollback", &id, "--dry-run"]);
    assert!(said.contains("in the way"), "{said}");
    assert!(work.scratch.expect(1, &["checkpoint", "rollback", &id, "--yes"]).contains("in the way"));
}

#[test]
fn what_is_mounted_where_the_checkpoint_has_an_empty_folder_is_left() {
    let work = Work::new(false);
    let mnt = work.workspace.join("mnt");
    fs::create_dir(&mnt).unwrap();
    let id = work.scratch.create(&work.session, &work.workspace);
    let workspace = work.workspace.to_string_lossy().into_owned();
    let all: [&[&str]; 3] = [
        &["checkpoint", "restore", &id, "--to", &workspace, "--in-place", "--delete"],
        &["checkpoint", "restore", &id, "--to", &workspace, "--in-place", "--delete", "--no-safety"],
        &["checkpoint", "rollback", &id, "--yes"],
    ];
    for is_bound in [false, true] {
        let elsewhere = work.scratch.path("elsewhere");
        write(&elsewhere.join("file"), b"exists nowhere else").unwrap();
        let mounted = match is_bound {
            false => Some(in_memory(&mnt)),
            true => {
                let bound = Command::new("mount").arg("--bind").arg(&elsewhere).arg(&mnt).status().unwrap();
                assert!(bound.success());
                None
            }
        };
        for verb in all {
            write(&mnt.join("file"), b"exists nowhere else").unwrap();
            write(&work.workspace.join("extra"), b"goes").unwrap();
            let said = work.scratch.expect(0, verb);
            assert!(said.contains("mnt: something is mounted there"), "{said}");
            assert_eq!(fs::read(mnt.join("file")).unwrap(), b"exists nowhere else");
            assert!(!work.workspace.join("extra").exists());
        }
        match mounted {
            Some(mounted) => drop(mounted),
            None => assert!(Command::new("umount").arg(&mnt).status().unwrap().success()),
        }
    }
}
