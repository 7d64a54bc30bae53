//! Entries that cannot be read: named, and never taken for deleted ones.

use std::{fs, os::unix::fs::PermissionsExt, process::Command};

use crate::common::*;

/// A command line as it is run by somebody who may not read everything: root without that privilege.
fn run(home: &Home, args: &[&str]) -> Run {
    let ours = home.command(args);
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-dac_override,-dac_read_search"]);
    command.arg(ours.get_program()).args(ours.get_args()).env_clear().current_dir(home.folder.path().join("work"));
    command.envs(ours.get_envs().filter_map(|(name, value)| Some((name, value?))));
    Run::of(command.output().unwrap())
}

/// A checkpoint of `a`, `b` and `d/x`, after which `b` and `d` cannot be read any more.
fn work() -> (Home, String) {
    let home = Home::new();
    let at = |name: &str| home.folder.path().join("work").join(name);
    fs::create_dir_all(at("d")).unwrap();
    for name in ["a", "b", "d/x"] {
        fs::write(at(name), name).unwrap();
    }
    let id = run(&home, &["create", "-q"]).expect(0).out.trim().to_owned();
    for name in ["b", "d"] {
        fs::set_permissions(at(name), fs::Permissions::from_mode(0o000)).unwrap();
    }
    (home, id)
}

fn assert_told(run: &Run) {
    assert!(run.err.contains("b: not read: Permission denied") && run.err.contains("d: not read: "), "{run:?}");
    assert!(!run.out.contains("deleted") && !run.out.contains("D b") && !run.out.contains("d/x"), "{run:?}");
}

#[test]
fn what_cannot_be_read_is_no_deletion() {
    let (home, id) = work();
    let diff = run(&home, &["diff"]).expect(3);
    assert_told(&diff);
    assert!(diff.out.starts_with("No difference in what could be read."), "{diff:?}");
    let status = run(&home, &["status"]).expect(3);
    assert_told(&status);
    assert!(status.out.contains("Nothing that could be read has changed since."), "{status:?}");
    assert_told(&run(&home, &["create", "-n"]).expect(3));
    for args in [&["diff", "--json"][..], &["status", "--json"], &["create", "-n", "--json"]] {
        let lines = run(&home, args).expect(3).json();
        let omitted: Vec<_> = lines.iter().filter(|line| line["type"] == "omission").map(|line| line["path"].clone()).collect();
        assert_eq!(omitted, ["b", "d"], "{args:?}");
        assert_eq!(lines.last().unwrap()["deleted"], 0, "{args:?}");
        assert!(!lines.iter().any(|line| line["type"] == "change"), "{args:?}");
    }
    // A file that is really gone is a difference all the same, and so is a copy of what cannot be read: nothing was renamed.
    fs::remove_file(home.folder.path().join("work/a")).unwrap();
    fs::write(home.folder.path().join("work/copy"), "b").unwrap();
    assert!(run(&home, &["diff"]).expect(3).out.starts_with("D a\nA copy\n1 added, 1 deleted\n"), "{id}");
}

#[test]
fn one_file_that_cannot_be_read_is_not_said_to_be_the_same() {
    let (home, _) = work();
    for file in ["b", "d/x"] {
        let one = run(&home, &["diff", "--file", file]).expect(3);
        assert!(one.out.is_empty() && one.err.lines().count() == 1 && one.err.contains("not read"), "{one:?}");
    }
    let one = run(&home, &["diff", "--file", "a"]).expect(0);
    assert!(one.out.contains("a: no difference.") && one.err.is_empty(), "{one:?}");
}

#[test]
fn a_checkpoint_that_lacks_what_could_not_be_read_deletes_nothing() {
    let (home, id) = work();
    run(&home, &["create", "-q"]).expect(3);
    let diff = run(&home, &["diff", &id, "latest"]).expect(3);
    assert_told(&diff);
    assert!(diff.out.contains("No changes"), "{diff:?}");
}
