//! What verbs tell is so: counts, names, and what to do next.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs;

use common::*;

/// A home with a folder `work` that has a file.
fn work() -> Home {
    let home = Home::new();
    fs::create_dir(home.folder.path().join("work")).unwrap();
    fs::write(home.folder.path().join("work/a"), "content").unwrap();
    home
}

fn id_of(home: &Home, name: &str) -> String {
    home.run(&["session", "show", name, "--json"]).expect(0).json()[0]["id"].as_str().unwrap().to_owned()
}

#[test]
fn hard_links_that_a_restore_makes_again_are_counted_as_planned() {
    let home = work();
    let at = |name: &str| home.folder.path().join("work").join(name);
    fs::hard_link(at("a"), at("b")).unwrap();
    fs::hard_link(at("a"), at("c")).unwrap();
    home.run(&["checkpoint", "create", "s", "-w", "work"]).expect(0);
    fs::remove_file(at("b")).unwrap();
    fs::write(at("b"), "other").unwrap();
    fs::remove_file(at("c")).unwrap();
    let restore = ["checkpoint", "restore", "s@latest", "--to", "work", "--in-place", "--no-safety"];
    let planned = home.run(&[&restore[..], &["--dry-run"]].concat()).expect(0).out;
    let counted = |text: &str| text[text.find(": 0 files").unwrap()..].replace(" to write", "").replace(" written", "");
    assert!(planned.contains("; 2 made a hard link, "), "{planned}");
    let done = home.run(&restore).expect(0).out;
    assert_eq!(counted(&planned), counted(&done));
    assert_eq!(fs::read(at("b")).unwrap(), b"content");
}

#[test]
fn stats_count_the_reserve_by_itself() {
    let home = work();
    home.run(&["checkpoint", "create", "s", "-w", "work"]).expect(0);
    let stats = home.run(&["stats", "--json"]).expect(0).json().pop().unwrap();
    assert_eq!(stats["reserve_bytes"], 1 << 20);
    assert!(stats["stored_bytes"].as_u64().unwrap() < 1 << 20, "{stats}");
    let text = home.run(&["stats"]).expect(0).out;
    let line = |start: &str| text.lines().find(|line| line.starts_with(start)).unwrap_or_default();
    assert!(line("Stored").ends_with("KiB") && line("  packs").contains("(compressed "), "{text}");
    assert!(line("Reserve").contains("1.00 MiB more, for a deletion on a full disk"), "{text}");
}

#[test]
fn a_name_of_two_sessions_is_said_to_be_one() {
    let home = work();
    for _ in 0..2 {
        home.run(&["session", "run", "-w", "work", "--name", "twice", "--", "true"]).expect(0);
    }
    let run = home.run(&["session", "show", "twice"]).expect(10);
    assert!(run.err.contains("'twice' is the name of 2 sessions: work-") && run.err.contains("give an id"), "{run:?}");
}

#[test]
fn a_file_in_the_way_is_not_said_to_be_full() {
    let home = work();
    home.run(&["checkpoint", "create", "s", "-w", "work"]).expect(0);
    fs::write(home.folder.path().join("e"), "").unwrap();
    let run = home.run(&["checkpoint", "restore", "s@latest:a", "--to", "e"]).expect(2);
    assert!(run.err.contains("exists and is not an empty folder; use --in-place"), "{run:?}");
}

#[test]
fn the_name_of_a_session_goes_along_with_its_folder() {
    let home = work();
    let at = |name: &str| home.folder.path().join(name);
    home.run(&["session", "run", "-w", "work", "--name", "quick", "--", "true"]).expect(0);
    let id = id_of(&home, "quick");
    fs::rename(at("work"), at("moved")).unwrap();
    let made = home.run(&["checkpoint", "create", "quick", "-w", "moved", "--json"]).expect(0).json().pop().unwrap();
    assert_eq!(made["session"], id.as_str());
    // Another folder is not taken for it.
    fs::create_dir(at("other")).unwrap();
    let refused = home.run(&["checkpoint", "create", "quick", "-w", "other"]).expect(2);
    assert!(refused.err.contains("or that id to make a checkpoint of that one"), "{refused:?}");
    fs::remove_dir_all(at("moved")).unwrap();
    let refused = home.run(&["checkpoint", "create", "quick", "-w", "other"]).expect(2);
    let command = format!("session move {id} {} --force", at("other").canonicalize().unwrap().display());
    assert!(refused.err.contains(&command), "{refused:?}");
    home.run(&command.split(' ').collect::<Vec<_>>()).expect(0);
    home.run(&["checkpoint", "create", "quick", "-w", "other"]).expect(0);
}

#[test]
fn a_resume_from_a_checkpoint_does_not_say_how_to_resume() {
    let home = work();
    home.run(&["session", "run", "-w", "work", "--name", "s", "--", "true"]).expect(0);
    let latest = format!("{}@latest", id_of(&home, "s"));
    fs::write(home.folder.path().join("work/a"), "since").unwrap();
    let run = home.run(&["session", "resume", "s", "--from", &latest, "--yes"]).expect(0);
    assert!(run.out.contains("Rolled back ") && !run.out.contains("To go on from here"), "{run:?}");
    assert_eq!(fs::read(home.folder.path().join("work/a")).unwrap(), b"content");
}
