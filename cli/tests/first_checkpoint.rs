//! The checkpoint that `session run` and `session resume` make before they start anything.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    process::Stdio,
    thread,
    time::{Duration, Instant},
};

use crate::common::*;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// A home in which every program of the system is found, with files in a workspace.
fn home(files: &[&str]) -> Home {
    let home = Home::new();
    fs::create_dir(home.folder.path().join("work")).unwrap();
    for name in files {
        fs::write(home.folder.path().join("work").join(name), name).unwrap();
    }
    home
}

fn run(home: &Home, args: &[&str]) -> Run {
    let mut command = home.command(args);
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default()).stdin(Stdio::null());
    Run::of(command.output().unwrap())
}

fn checkpoints(home: &Home) -> Vec<Value> {
    let mut found = run(home, &["checkpoint", "list", "--json"]).expect(0).json();
    found.retain(|line| line["type"] == "checkpoint");
    found
}

fn id(value: &Value) -> &str {
    value["id"].as_str().unwrap()
}

#[test]
fn what_a_program_removes_at_once_is_in_the_checkpoint_before() {
    let home = home(&["first", "second"]);
    run(&home, &["session", "run", "-w", "work", "--name", "it", "--interval", "0", "--", "rm", "first"]).expect(0);
    let found = checkpoints(&home);
    let [last, before] = &found[..] else { panic!("{found:?}") };
    assert_eq!((&before["trigger"], &before["trigger_detail"]), (&"periodic".into(), &"start".into()));
    assert_eq!((&before["files"], &last["files"]), (&2.into(), &1.into()));
    run(&home, &["checkpoint", "restore", id(before), "--to", "back"]).expect(0);
    assert_eq!(fs::read_to_string(home.folder.path().join("back/first")).unwrap(), "first");

    // So is what somebody has made since, when the session is resumed; and nothing is captured twice.
    fs::write(home.folder.path().join("work/third"), "third").unwrap();
    run(&home, &["session", "resume", "it", "--yes", "--interval", "0"]).expect(1);
    let found = checkpoints(&home);
    let starts: Vec<&Value> = found.iter().filter(|one| one["trigger_detail"] == "start").collect();
    assert_eq!((found.len(), starts.len(), &starts[0]["files"]), (4, 2, &2.into()));
    run(&home, &["session", "resume", "it", "--yes", "--interval", "0"]).expect(1);
    assert_eq!(checkpoints(&home).len(), 5, "the last one alone");
}

#[test]
fn nothing_is_started_after_a_signal_that_came_before() {
    for signal in [Signal::TERM, Signal::INT] {
        let home = home(&["file"]);
        let folder = home.folder.path();
        let (asked, go, started) = (folder.join("asked"), folder.join("go"), folder.join("started"));
        // A capture that takes its time, since it looks at a repository.
        fs::create_dir(folder.join("bin")).unwrap();
        let program = |name: &str, text: String| {
            fs::write(folder.join("bin").join(name), format!("#!/bin/sh\n{text}\n")).unwrap();
            fs::set_permissions(folder.join("bin").join(name), fs::Permissions::from_mode(0o755)).unwrap();
        };
        program("git", format!("touch '{}'; until [ -e '{}' ]; do sleep 0.02; done; exit 1", asked.display(), go.display()));
        program("claude", format!("[ \"$1\" = --version ] || touch '{}'", started.display()));
        fs::create_dir_all(folder.join("work/.git/objects")).unwrap();
        fs::create_dir_all(folder.join("work/.git/refs")).unwrap();
        fs::write(folder.join("work/.git/HEAD"), "ref: refs/heads/main\n").unwrap();

        let mut command = home.command(&["session", "run", "-w", "work", "--name", "it", "--", "claude"]);
        let path = std::env::join_paths([folder.join("bin"), "/usr/bin".into(), "/bin".into()]).unwrap();
        command.env("PATH", path).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        let limit = Instant::now() + Duration::from_secs(60);
        while !asked.exists() {
            assert!(Instant::now() < limit, "nobody asks git");
            thread::sleep(Duration::from_millis(5));
        }
        kill_process(Pid::from_raw(child.id() as i32).unwrap(), signal).unwrap();
        fs::write(&go, "").unwrap();
        let ended = Run::of(child.wait_with_output().unwrap());
        assert_eq!((ended.code, started.exists()), (130, false), "{signal:?}: {ended:?}");
        let shown = run(&home, &["session", "show", "it", "--json"]).expect(0).json().swap_remove(0);
        assert_eq!((&shown["status"], &shown["wanted"]), (&"ended".into(), &"ended".into()), "{shown}");
        assert!(shown["status_reason"].as_str().unwrap_or_default().contains("could not be started"), "{shown}");
    }
}
