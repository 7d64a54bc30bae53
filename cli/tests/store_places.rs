//! No new store takes the place of one whose disk may only not be mounted.

use std::{fs, os::unix::fs::symlink, process::Command};

use crate::common::*;

/// A command for the default store.
fn usual(home: &Home, args: &[&str]) -> Command {
    let mut command = home.command(args);
    command.env_remove("PARHELIA_STORE");
    command
}

fn run(home: &Home, args: &[&str]) -> Run {
    Run::of(usual(home, args).output().unwrap())
}

fn work(home: &Home) {
    fs::create_dir(home.folder.path().join("work")).unwrap();
    fs::write(home.folder.path().join("work/a"), "a").unwrap();
}

#[test]
fn init_makes_no_other_store_where_one_was_unless_that_is_said() {
    let home = Home::new();
    work(&home);
    home.run(&["create", "-w", "work"]).expect(0);
    let away = home.folder.path().join("away");
    for is_empty in [false, true] {
        fs::rename(home.store(), &away).unwrap();
        if is_empty {
            fs::create_dir(home.store()).unwrap();
        }
        let refused = home.run(&["init"]).expect(10);
        assert!(refused.err.contains("where one went up to journal entry ") && refused.err.contains(" on 20"), "{refused:?}");
        let (mount, new) = (refused.err.find("mount it").unwrap(), refused.err.find("`parhelia init --new`").unwrap());
        assert!(mount < new, "the safe step comes first: {refused:?}");
        for args in [&["create", "-w", "work"][..], &["session", "prune"], &["gc"], &["check"]] {
            home.run(args).expect(10);
        }
        assert_eq!(home.store().exists(), is_empty, "nothing was made");
        if is_empty {
            fs::remove_dir(home.store()).unwrap();
        }
        fs::rename(&away, home.store()).unwrap();
        home.run(&["init"]).expect(0);
    }
    // Another place is another matter, and so is what somebody means.
    let other = home.folder.path().join("other");
    home.run(&["--store", other.to_str().unwrap(), "init"]).expect(0);
    fs::rename(home.store(), &away).unwrap();
    home.run(&["init", "--new"]).expect(0);
    home.run(&["create", "-w", "work"]).expect(0);
    home.run(&["gc"]).expect(0);
    home.run(&["init", "--new", "--accept-older"]).expect(2);
}

#[test]
fn the_default_store_does_not_make_itself_where_one_was() {
    let home = Home::without_store();
    work(&home);
    let disk = home.folder.path().join("disk");
    fs::create_dir_all(disk.join("store")).unwrap();
    let data = home.folder.path().join(".local/share");
    fs::create_dir_all(&data).unwrap();
    symlink(disk.join("store"), data.join("parhelia")).unwrap();
    run(&home, &["-q", "create", "-w", "work"]).expect(0);
    let away = home.folder.path().join("away");
    fs::rename(&disk, &away).unwrap();
    for is_empty in [false, true] {
        if is_empty {
            fs::create_dir_all(disk.join("store")).unwrap();
        }
        for args in
            [&["-q", "create", "-w", "work"][..], &["create", "-w", "work", "-n"], &["init"], &["status"], &["list"], &["gc"]]
        {
            let refused = run(&home, args).expect(10);
            assert!(refused.err.contains("mount"), "{args:?} {refused:?}");
        }
        let left = fs::read_dir(disk.join("store")).map(Iterator::count).unwrap_or_default();
        assert_eq!(left, 0, "nothing was made");
    }
    fs::remove_dir_all(&disk).unwrap();
    fs::rename(&away, &disk).unwrap();
    assert_eq!(run(&home, &["list", "--json"]).expect(0).json().pop().unwrap()["checkpoints"], 1);
}

#[test]
fn a_default_store_behind_a_symlink_to_nothing_is_missing() {
    let home = Home::without_store();
    work(&home);
    let data = home.folder.path().join(".local/share");
    fs::create_dir_all(&data).unwrap();
    symlink(home.folder.path().join("disk"), data.join("parhelia")).unwrap();
    for args in [&["-q", "create", "-w", "work"][..], &["create", "-w", "work", "-n"], &["init"], &["status"], &["list"]] {
        let refused = run(&home, args).expect(10);
        assert!(refused.err.contains("/parhelia leads to nothing; if it leads to a disk, mount that"), "{args:?} {refused:?}");
    }
    assert!(!home.folder.path().join("disk").exists());
}
