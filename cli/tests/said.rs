//! Counts, names and next steps that verbs tell are so.

use std::{ffi::OsStr, fs, os::unix::ffi::OsStrExt, process::Command};

use crate::common::*;

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
    // One that can go on is meant before those that cannot.
    home.run(&["session", "run", "-w", "work", "--name", "twice", "--", "/bin/sh", "-c", "kill -9 $$"]).expect(137);
    let shown = home.run(&["session", "show", "twice", "--json"]).expect(0).json();
    assert_eq!(shown[0]["status"], "error", "{shown:?}");
    // What is not taken back is done by an id: said twice, it would be done to another one.
    let refused = home.run(&["session", "end", "twice"]).expect(10);
    assert!(refused.err.contains("is the name of 3 sessions"), "{refused:?}");
}

#[test]
fn a_file_in_the_way_is_not_said_to_be_full() {
    let home = work();
    home.run(&["checkpoint", "create", "s", "-w", "work"]).expect(0);
    fs::write(home.folder.path().join("e"), "").unwrap();
    let run = home.run(&["checkpoint", "restore", "s@latest:a", "--to", "e"]).expect(4);
    assert!(run.err.contains("exists and is no folder; use another --to, or --in-place"), "{run:?}");
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
    let refused = home.run(&["checkpoint", "create", "quick", "-w", "other"]).expect(4);
    assert!(refused.err.contains("or that id to make a checkpoint of that one"), "{refused:?}");
    fs::remove_dir_all(at("moved")).unwrap();
    let refused = home.run(&["checkpoint", "create", "quick", "-w", "other"]).expect(4);
    let command = format!("session move {id} {} --other-folder", at("other").canonicalize().unwrap().display());
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

#[test]
fn a_command_that_is_said_can_be_pasted_into_a_shell() {
    let home = Home::new();
    let folder = home.folder.path().join(OsStr::from_bytes(b"it's; $(touch x) \xff\n"));
    fs::create_dir(&folder).unwrap();
    let run = |args: &[&str]| Run::of(home.command(args).current_dir(&folder).output().unwrap()).expect(0);
    fs::write(folder.join("a"), "first").unwrap();
    run(&["checkpoint", "create", "s"]);
    fs::write(folder.join("a"), "second").unwrap();
    let restored = run(&["checkpoint", "restore", "s@latest", "--to", ".", "--in-place"]);
    assert_eq!(fs::read(folder.join("a")).unwrap(), b"first");
    let shown = |start: &str| restored.out.lines().find(|line| line.starts_with(start)).unwrap_or_default();
    assert!(shown("Restored ").contains(r"it's; $(touch x) \xff\n: 1 file"), "{restored:?}");
    let command =
        shown("Safety checkpoint of ").split('`').find(|span| span.starts_with("parhelia checkpoint restore ")).unwrap();
    let ours = home.command(&[]);
    let mut bash = Command::new("bash");
    bash.args(["-c", &format!("parhelia() {{ {} \"$@\"; }}; {command}", ours.get_program().to_str().unwrap())]);
    bash.env_clear().envs(ours.get_envs().filter_map(|(name, value)| Some((name, value?)))).current_dir(home.folder.path());
    let back = Run::of(bash.output().unwrap()).expect(0);
    assert_eq!(fs::read(folder.join("a")).unwrap(), b"second", "{command}: {back:?}");
    assert!(!folder.join("x").exists() && !home.folder.path().join("x").exists());
}

#[test]
fn a_restore_in_place_says_of_what_no_safety_checkpoint_is_made() {
    let home = work();
    home.run(&["checkpoint", "create", "s", "-w", "work"]).expect(0);
    let other = home.folder.path().join("other");
    fs::create_dir(&other).unwrap();
    for name in ["a", "more"] {
        fs::write(other.join(name), "precious").unwrap();
    }
    let text = "no session works in ";
    let entries = "no safety checkpoint is made of 2 entries that are overwritten or removed";
    let restore = ["checkpoint", "restore", "s@latest", "--to", "other", "--in-place", "--delete"];
    for more in [&[][..], &["-n"], &["--no-safety"]] {
        let refused = home.run(&[&restore[..], more].concat()).expect(4);
        assert!(refused.err.contains(entries) && refused.err.contains("; --other-folder restores "), "{refused:?}");
    }
    assert_eq!(fs::read(other.join("more")).unwrap(), b"precious");
    // What is only added takes nothing away.
    fs::rename(other.join("a"), other.join("b")).unwrap();
    home.run(&[&restore[..6], &["-n"]].concat()).expect(0);
    fs::rename(other.join("b"), other.join("a")).unwrap();
    let said = |more: &[&str]| home.run(&[&restore[..], &["--other-folder"], more].concat()).expect(0);
    let planned = said(&["-n"]);
    assert!(planned.err.contains(text) && planned.err.contains(entries), "{planned:?}");
    assert_eq!(said(&["-n", "--json"]).json().pop().unwrap()["unsecured"], 2);
    assert!(!said(&["-n", "--no-safety"]).err.contains(text));
    let done = said(&["--json"]);
    let summary = done.json().pop().unwrap();
    assert!(done.err.contains(text) && summary["safety"].is_null() && summary["unsecured"] == 2, "{done:?}");
    assert!(!said(&[]).err.contains(text), "nothing is overwritten any more");
    // In a session's folder there is one.
    fs::write(home.folder.path().join("work/a"), "since").unwrap();
    let secured = home.run(&["checkpoint", "restore", "s@latest", "--to", "work", "--in-place", "--json"]).expect(0);
    assert!(!secured.err.contains("no safety") && secured.json().pop().unwrap()["unsecured"] == 0, "{secured:?}");
}

#[test]
fn a_dry_run_of_a_restore_ends_as_the_restore_does() {
    let home = work();
    let a = home.folder.path().join("work/a");
    home.run(&["checkpoint", "create", "s", "-w", "work"]).expect(0);
    fs::remove_file(&a).unwrap();
    fs::create_dir(&a).unwrap();
    fs::write(a.join("kept"), "").unwrap();
    let restore = ["checkpoint", "restore", "s@latest", "--to", "work", "--in-place"];
    let planned = home.run(&[&restore[..], &["--dry-run"]].concat()).expect(3);
    let done = home.run(&restore).expect(3);
    for run in [planned, done] {
        assert!(run.err.contains("parhelia: a: "), "{run:?}");
    }
}

#[test]
fn a_session_is_found_though_another_folder_is_where_it_was() {
    let home = work();
    let at = |name: &str| home.folder.path().join(name);
    home.run(&["checkpoint", "create", "s", "-w", "work"]).expect(0);
    let refused = home.run(&["session", "move", "s"]).expect(4);
    assert!(refused.err.contains("which is there; give the folder to go on in"), "{refused:?}");
    fs::rename(at("work"), at("moved")).unwrap();
    fs::create_dir(at("work")).unwrap();
    let moved = home.run(&["session", "move", "s"]).expect(0);
    assert!(moved.out.contains(&format!("works in {} from here on", at("moved").canonicalize().unwrap().display())), "{moved:?}");
    fs::remove_dir_all(at("moved")).unwrap();
    fs::create_dir(at("moved")).unwrap();
    let refused = home.run(&["session", "move", "s"]).expect(4);
    assert!(refused.err.contains("give the folder"), "{refused:?}");
}

#[test]
fn a_session_without_a_folder_is_not_rolled_back() {
    let home = work();
    home.run(&["checkpoint", "create", "s", "-w", "work"]).expect(0);
    home.run(&["export", "s@latest", "--output", "archive"]).expect(0);
    let at_other = |args: &[&str]| {
        let mut command = home.command(args);
        Run::of(command.env("PARHELIA_STORE", home.folder.path().join("other")).output().unwrap())
    };
    at_other(&["init"]).expect(0);
    at_other(&["import", "archive"]).expect(0);
    let listed = at_other(&["checkpoint", "list", "--json"]).expect(0).json();
    let id = listed[0]["id"].as_str().unwrap();
    // Nobody is asked first, either.
    for how in [&["--yes"][..], &["--dry-run"], &[]] {
        let refused = at_other(&[&["checkpoint", "rollback", id], how].concat()).expect(4);
        assert!(refused.err.contains("has no folder that could be rolled back"), "{refused:?}");
        assert!(refused.err.contains(&format!("`parhelia checkpoint restore {id} --to DIR`")), "{refused:?}");
    }
}

#[test]
fn a_refused_verb_says_why_and_what_fits() {
    let home = work();
    fs::write(home.folder.path().join("work/noexec"), "").unwrap();
    let run = home.run(&["session", "run", "-w", "work", "--", "./noexec"]).expect(1);
    assert!(run.err.contains("cannot start ./noexec: Permission denied"), "{run:?}");
    let run = home.run(&["session", "run", "-w", "work", "--", "./nothing"]).expect(1);
    assert!(run.err.contains("cannot start ./nothing: No such file"), "{run:?}");

    // Nothing is said to be captured that is not.
    let at = |name: &str| home.folder.path().join(name);
    fs::create_dir(at("other")).unwrap();
    fs::create_dir(at("work/same")).unwrap();
    home.run(&["checkpoint", "create", "same", "-w", "other"]).expect(0);
    let here = |args: &[&str]| Run::of(home.command(args).current_dir(at("work")).output().unwrap());
    let refused = here(&["checkpoint", "create", "same", "-w", "."]).expect(4);
    assert!(refused.err.contains("which is another folder than") && !refused.err.contains("is captured"), "{refused:?}");
    let made = here(&["checkpoint", "create", "new"]).expect(0);
    assert!(made.err.contains("is captured, as the new session new"), "{made:?}");

    fs::write(at("work/a"), "since").unwrap();
    home.run(&["checkpoint", "rollback", "new@latest", "--yes"]).expect(0);
    let refused = home.run(&["checkpoint", "undo", "new"]).expect(2);
    let hint = "give --yes to undo without being asked; `parhelia checkpoint undo new --dry-run` shows";
    assert!(refused.err.contains(hint), "{refused:?}");
}
