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
