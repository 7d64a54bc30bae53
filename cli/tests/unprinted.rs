//! Verbs whose report cannot be printed: what they have done is named on standard error, and the exit code is 3.

use std::{
    fs::{self, File},
    process::Stdio,
    thread,
    time::{Duration, Instant},
};

use crate::common::*;

/// Runs a verb whose standard output is a full disk.
fn unprinted(home: &Home, args: &[&str]) -> Run {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let mut command = home.command(args);
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    Run::of(command.stdout(full).stdin(Stdio::null()).output().unwrap())
}

/// Fails unless a verb has said on standard error what it did, once.
#[track_caller]
fn is_told(home: &Home, args: &[&str], deed: &str) {
    let run = unprinted(home, args).expect(3);
    let said = format!("{deed}, but cannot write to standard output: No space left on device");
    assert!(run.err.matches(&said).count() == 1 && run.err.matches("No space left").count() == 1, "{args:?}: {run:?}");
}

fn work() -> Home {
    let home = Home::new();
    fs::create_dir(home.folder.path().join("work")).unwrap();
    fs::write(home.folder.path().join("work/a"), "x").unwrap();
    home
}

fn newest(home: &Home) -> String {
    home.run(&["checkpoint", "show", "s@latest", "--json"]).expect(0).json()[0]["id"].as_str().unwrap().to_owned()
}

#[test]
fn an_agents_exit_code_is_passed_on_though_nobody_reads_the_summary() {
    let home = work();
    let run = ["session", "run", "--json", "-w", "work", "--", "/bin/sh", "-c", "exit 7"];
    let mut child = home.command(&run).stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(7));
    let full = File::options().write(true).open("/dev/full").unwrap();
    assert_eq!(home.command(&run).stdout(full).output().unwrap().status.code(), Some(1), "no agent was started");
}

#[test]
fn a_checkpoint_whose_report_cannot_be_printed_is_named_and_is_3() {
    let home = Home::new();
    let folder = home.folder.path().join("work");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("a"), "x").unwrap();
    let archive = home.folder.path().join("a.tar.zst");
    let archive = archive.to_str().unwrap();
    home.run(&["checkpoint", "create", "s", "-w", "work"]).expect(0);
    home.run(&["export", "latest", "-o", archive]).expect(0);
    let create = ["checkpoint", "create", "s", "-w", "work"];
    for verb in [&create[..], &["checkpoint", "create", "s", "-w", "work", "--json"], &["import", archive]] {
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let output = home.command(verb).stdout(full).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(3), "{verb:?}: {said}");
        let newest = home.run(&["checkpoint", "show", "latest", "--json"]).expect(0).json()[0]["id"].as_str().unwrap().to_owned();
        assert!(said.contains(&format!("checkpoint {newest} is made")) && said.contains("No space left"), "{verb:?}: {said}");
    }
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let output = home.command(&["checkpoint", "restore", "latest", "--to", "out"]).stdout(full).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("is restored to") && said.contains("No space left"), "{said}");
    assert_eq!(fs::read(home.folder.path().join("out/a")).unwrap(), b"x");
    // Nobody listens: what was done is done.
    let mut child = home.command(&create).stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(home.run(&["checkpoint", "list", "--json"]).expect(0).json().pop().unwrap()["checkpoints"], 5);
}

#[test]
fn what_is_deleted_or_collected_is_named() {
    let home = work();
    let create = ["checkpoint", "create", "s", "-w", "work"];
    home.run(&create).expect(0);
    let first = newest(&home);
    fs::write(home.folder.path().join("work/a"), "y").unwrap();
    home.run(&create).expect(0);
    for how in [&["--dry-run"][..], &["--dry-run", "--json"]] {
        let run = unprinted(&home, &[&["checkpoint", "delete", &first], how].concat()).expect(1);
        assert!(!run.err.contains("is deleted"), "{run:?}");
    }
    is_told(&home, &["checkpoint", "delete", &first, "--json"], &format!("checkpoint {first} is deleted"));
    home.run(&["checkpoint", "show", &first]).expect(10);
    let run = unprinted(&home, &["gc"]).expect(3);
    assert!(run.err.contains("gc has freed ") && run.err.contains("but cannot write to standard output"), "{run:?}");
    is_told(&home, &["check", "--rebuild-index"], "the index was made anew");
    for content in ["1", "2"] {
        fs::write(home.folder.path().join("work/a"), content).unwrap();
        home.run(&create).expect(0);
    }
    let config = home.folder.path().join("own.toml");
    fs::write(&config, "[retention]\nall_hours = 0\n").unwrap();
    let prune = ["session", "prune", "s", "--keep-last", "1", "--config", config.to_str().unwrap()];
    let run = unprinted(&home, &prune).expect(3);
    assert!(run.err.contains("retention removed 1 checkpoint: ") && run.err.contains("No space left"), "{run:?}");
    let left = home.run(&["checkpoint", "list", "--json"]).expect(0).json().pop().unwrap();
    assert_eq!(left["checkpoints"], 2);
}

#[test]
fn what_is_written_or_mounted_is_named() {
    let home = work();
    home.run(&["checkpoint", "create", "s", "-w", "work"]).expect(0);
    let id = newest(&home);
    fs::create_dir(home.folder.path().join("mnt")).unwrap();
    is_told(&home, &["export", "latest", "-o", "a.tar.zst"], &format!("checkpoint {id} is exported to a.tar.zst"));
    let settings = home.folder.path().join(".claude/settings.json");
    is_told(&home, &["hooks", "install"], &format!("hooks were put into {}", settings.display()));
    is_told(&home, &["hooks", "uninstall"], &format!("hooks were taken out of {}", settings.display()));
    // Nothing was changed.
    unprinted(&home, &["hooks", "uninstall"]).expect(1);
    let unit = home.folder.path().join(".config/systemd/user/parhelia-resume.service");
    is_told(&home, &["session", "unit", "--install"], &format!("{} is written", unit.display()));
    let mounted = unprinted(&home, &["mount", "latest", "mnt"]);
    let read = std::process::Command::new("cat").arg(home.folder.path().join("mnt/a")).output().unwrap();
    let unmounted = unprinted(&home, &["umount", "mnt", "--json"]);
    assert_eq!(mounted.code, 3, "{mounted:?}");
    assert!(mounted.err.contains("a mount is on mnt (process ") && mounted.err.contains("No space left"), "{mounted:?}");
    assert_eq!(read.stdout, b"x");
    assert_eq!(unmounted.code, 3, "{unmounted:?}");
    assert!(unmounted.err.contains("mnt is unmounted, but cannot write to standard output"), "{unmounted:?}");
    home.run(&["umount", "mnt"]).expect(10);
}

#[test]
fn what_is_done_to_a_session_is_named() {
    let home = work();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let run = ["session", "run", "--workspace", "work", "--name", "s", "--interval", "0", "--", "sleep", "600"];
    let mut running = home.command(&run).env("PATH", path).stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let is_live = || {
        let listed = home.run(&["session", "list", "--json"]);
        listed.code == 0 && listed.json()[0]["observed"] == "live"
    };
    let limit = Instant::now() + Duration::from_secs(60);
    while !is_live() {
        assert!(Instant::now() < limit, "the session does not begin");
        thread::sleep(Duration::from_millis(20));
    }
    let session = home.run(&["session", "show", "s", "--json"]).expect(0).json()[0]["id"].as_str().unwrap().to_owned();
    let latest = format!("{session}@latest");
    let newest = || home.run(&["checkpoint", "show", &latest, "--json"]).expect(0).json()[0]["id"].as_str().unwrap().to_owned();
    let paused = unprinted(&home, &["session", "pause", "s"]);
    let first = newest();
    let resumed = unprinted(&home, &["session", "resume", "s"]);
    rustix::process::kill_process(rustix::process::Pid::from_child(&running), rustix::process::Signal::TERM).unwrap();
    running.wait().unwrap();
    for (run, deed) in [(&paused, format!("is paused at checkpoint {first}, but")), (&resumed, "is active again, but".into())] {
        assert!(run.code == 3 && run.err.contains(&format!("session {session} {deed}")), "{run:?}");
    }
    let file = home.folder.path().join("work/a");
    fs::write(&file, "y").unwrap();
    let run = unprinted(&home, &["checkpoint", "rollback", &first, "--yes"]).expect(3);
    assert!(run.err.contains(&format!("is rolled back to checkpoint {first}; safety checkpoint ")), "{run:?}");
    assert!(run.err.contains("is made, but cannot write to standard output: No space left"), "{run:?}");
    assert_eq!(fs::read(&file).unwrap(), b"x");
    let run = unprinted(&home, &["checkpoint", "undo", &session, "--yes", "--json"]).expect(3);
    assert!(run.err.contains("is rolled back to checkpoint ") && run.err.contains("No space left"), "{run:?}");
    assert_eq!(fs::read(&file).unwrap(), b"y");
    let moved = home.folder.path().join("moved");
    fs::rename(home.folder.path().join("work"), &moved).unwrap();
    let deed = format!("session {session} works in {} from here on", moved.canonicalize().unwrap().display());
    is_told(&home, &["session", "move", "s", "moved"], &deed);
    is_told(&home, &["session", "end", "s"], &format!("session {session} has ended"));
}
