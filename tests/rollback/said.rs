//! A rollback does what it says.

use std::{
    fs,
    io::{BufRead, BufReader},
    process::{Command, Stdio},
};

use parhelia_host::intent::held;
use parhelia_tests::{filesystems::in_memory, write};
use rustix::process::{Pid, Signal, kill_process};

use crate::rollback::work::{Work, git, opened};

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
        // Behind the path stands what is to be done, or was done.
        lines.map(|line| line.split(" (").next().unwrap().to_owned()).collect::<Vec<_>>()
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
    let said = work.scratch.expect(4, &["checkpoint", "rollback", &id, "--dry-run"]);
    assert!(said.contains("in the way"), "{said}");
    assert!(work.scratch.expect(4, &["checkpoint", "rollback", &id, "--yes"]).contains("in the way"));
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
            None => assert!(Command::new("umount").arg("--lazy").arg(&mnt).status().unwrap().success()),
        }
    }
}

#[test]
fn a_turn_that_another_process_has_is_waited_for_as_long_as_the_lock_and_that_is_said() {
    let work = Work::new(false);
    let store = opened(&work);
    let _turn = held(&store, &work.session, &()).unwrap();
    let workspace = work.workspace.to_string_lossy().into_owned();
    let all: [&[&str]; 5] = [
        &["checkpoint", "rollback", &work.target, "--yes"],
        &["checkpoint", "create", &work.session, "--workspace", &workspace],
        &["session", "resume", &work.session, "--yes"],
        &["session", "move", &work.session, &workspace],
        &["session", "end", &work.session],
    ];
    for verb in all {
        let said = work.scratch.expect(11, &[&["--lock-timeout", "3"], verb].concat());
        assert!(
            said.contains(&format!("waiting for another process that makes a checkpoint of session {}", work.session)),
            "{said}"
        );
        let said = work.scratch.expect(11, &[&["--lock-timeout", "0"], verb].concat());
        assert!(!said.contains("waiting for") && said.contains("try again when it is done"), "{said}");
    }
    for verb in [all[0], all[2], all[4]] {
        let mut waiting = work.scratch.command(verb);
        let mut waiting = waiting.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(waiting.stderr.take().unwrap()).lines().map_while(Result::ok);
        assert!(lines.any(|line| line.contains("waiting for another process")), "{verb:?}");
        kill_process(Pid::from_child(&waiting), Signal::INT).unwrap();
        assert_eq!(waiting.wait().unwrap().code(), Some(130), "{verb:?}");
        let rest: Vec<String> = lines.collect();
        assert!(rest.iter().any(|line| line == "parhelia: interrupted"), "{verb:?}: {rest:?}");
    }
}

#[test]
fn what_reads_the_output_is_no_stranger() {
    let work = Work::new(false);
    work.spoil();
    let rollback = work.scratch.command(&["checkpoint", "rollback", &work.target, "--yes"]);
    let mut shell = Command::new("sh");
    shell.args(["-c", "\"$@\" 2>&1 | cat", "sh"]).arg(rollback.get_program()).args(rollback.get_args()).env_clear();
    shell.envs(rollback.get_envs().filter_map(|(name, value)| Some((name, value?)))).current_dir(&work.workspace);
    let output = shell.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("To go on from here") && !said.contains("left alone"), "{said}");
}

#[test]
fn what_cannot_be_done_any_more_is_not_offered() {
    let work = Work::new(false);
    work.spoil();
    work.rollback(&[]);
    let safety = crate::rollback::work::safeties(&work).pop().unwrap();
    for more in [&["--dry-run"][..], &[]] {
        let said = work.scratch.expect(0, &[&["checkpoint", "delete", &safety], more].concat());
        assert!(said.contains("cannot be undone without"), "{said}");
    }
    work.scratch.expect(0, &["session", "end", &work.session]);
    fs::write(work.workspace.join("src/m1/f1.rs"), "spoiled").unwrap();
    let said = work.rollback(&[]);
    assert!(said.contains("Undo with") || said.contains("undo"), "{said}");
    assert!(!said.contains("session resume"), "{said}");
}

#[test]
fn before_the_first_commit_there_is_nothing_to_stash_upon() {
    let work = Work::new(false);
    git(&work.workspace, &["init", "-q", "-b", "main"]);
    let id = work.scratch.create(&work.session, &work.workspace);
    fs::write(work.workspace.join("src/m1/f1.rs"), "spoiled").unwrap();
    let said = work.scratch.expect(0, &["checkpoint", "rollback", &id, "--yes"]);
    assert!(said.contains("no stash entry was made (the repository has no commit yet)"), "{said}");
}
