//! The arguments of `create`.

use std::fs;

use super::{last, run_in, work};
use crate::common::*;

#[test]
fn a_dry_run_of_create_says_what_would_be_captured_and_writes_nothing() {
    let home = Home::new();
    let at = |name: &str| home.folder.path().join("work").join(name);
    fs::create_dir_all(at("x")).unwrap();
    fs::write(at("a"), "one\n").unwrap();
    fs::write(at("x/log"), "noise").unwrap();
    let args = ["create", "-w", "work", "--exclude", "*og", "--dry-run"];
    let run = Run::of(home.command(&args).env_remove("PARHELIA_STORE").output().unwrap()).expect(0);
    assert!(run.out.contains("Would capture 1 file, 4 B") && run.out.contains("first checkpoint"), "{run:?}");
    assert!(run.out.contains("Would leave out 1 entry:\n  x/log: excluded"), "{run:?}");
    assert!(!home.folder.path().join(".local/share/parhelia").exists());
    let id = home.run(&["create", "-w", "work", "-q"]).expect(0).out.trim().to_owned();
    fs::write(at("a"), "two!\n").unwrap();
    fs::remove_file(at("x/log")).unwrap();
    let run = home.run(&["create", "-w", "work", "-n"]).expect(0);
    assert!(run.out.contains(&format!("Changed since checkpoint {id}: 1 modified, 1 deleted.\n  M a\n  D x/log\n")), "{run:?}");
    let summary = last(&home.run(&["create", "-w", "work", "-n", "--json"]).expect(0));
    assert_eq!(
        (summary["files"].as_u64(), summary["modified"].as_u64(), summary["parent"].as_str()),
        (Some(1), Some(1), Some(&*id))
    );
    assert_eq!(last(&home.run(&["list", "--json"]).expect(0))["checkpoints"], 1);
}

#[test]
fn a_folder_that_is_given_is_captured_and_so_are_several() {
    let (home, _) = work();
    let path = home.folder.path().join("work").canonicalize().unwrap();
    for name in [path.to_str().unwrap(), "work", "./work", "work/"] {
        let made = last(&home.run(&["backup", name, "--json"]).expect(0));
        assert_eq!(made["workspace"], path.to_str().unwrap(), "{name}");
    }
    let at = |name: &str| home.folder.path().join(name);
    fs::create_dir_all(at("secret")).unwrap();
    fs::write(at("secret/s"), "s").unwrap();
    let run = home.run(&["-q", "backup", "work", "secret"]).expect(0);
    assert_eq!(run.out.lines().count(), 2, "{run:?}");
    assert_eq!(home.run(&["ls", "secret@latest"]).expect(0).out, "s\n", "a new session has the folder's name");
    let lines = home.run(&["--json", "backup", "work", "secret"]).expect(0).json();
    let folders: Vec<_> = lines.iter().filter(|line| line["type"] == "summary").map(|line| &line["workspace"]).collect();
    assert_eq!(folders, [path.to_str().unwrap(), path.with_file_name("secret").to_str().unwrap()]);
    let run = home.run(&["backup", "work", "nothing"]).expect(2);
    assert!(run.err.contains("nothing is no folder"), "{run:?}");
    assert!(home.run(&["backup", "./nothing"]).expect(10).err.contains("./nothing: No such file or directory"));
    // What cannot be captured keeps nothing else from it.
    let run = home.run(&["-q", "backup", "store", "work"]).expect(2);
    assert!(run.out.lines().count() == 1 && run.err.contains("is the store"), "{run:?}");
}

#[test]
fn a_session_has_its_folders_name() {
    let (home, _) = work();
    let made = last(&home.run(&["create", "work", "-w", "work", "--json"]).expect(0));
    assert_eq!(
        last(&home.run(&["create", "work", "--json"]).expect(0))["parent"],
        made["id"],
        "the folder's own session goes on"
    );
}

#[test]
fn what_is_no_folder_captures_another_one_only_where_that_is_said() {
    let (home, _) = work();
    let at = |name: &str| home.folder.path().join(name);
    fs::create_dir(at("documents")).unwrap();
    fs::write(at("notes.txt"), "n").unwrap();
    std::os::unix::fs::symlink("nowhere", at("dangling")).unwrap();
    let number = || last(&home.run(&["list", "--json", "-n", "1000"]).expect(0))["checkpoints"].clone();
    let before = number();
    for (name, answers) in [
        ("notes.txt", &["is a file", "--files-from -", "create notes.txt --workspace ."][..]),
        ("dangling", &["is a file"]),
        ("documnets", &["did you mean the folder documents?", "create documnets --workspace ."]),
        ("Documents", &["did you mean the folder documents?"]),
    ] {
        for verb in ["backup", "create"] {
            let run = home.run(&["-q", verb, name]).expect(2);
            assert!(answers.iter().all(|answer| run.err.contains(answer)), "{name}: {run:?}");
        }
    }
    assert_eq!(number(), before, "nothing was captured");
    // Meant, it is said once, and then known.
    home.run(&["create", "notes.txt", "-w", "."]).expect(0);
    home.run(&["create", "notes.txt"]).expect(0);
    home.run(&["-q", "create", "notes.txt"]).expect(0);
    let run = home.run(&["create", "notes.tx"]).expect(2);
    assert!(run.err.contains("did you mean the session notes.txt?"), "{run:?}");
    home.run(&["create", "release-1", "-w", "."]).expect(0);
    home.run(&["create", "release-2"]).expect(0);
}

#[test]
fn a_slip_in_a_short_name_of_a_folder_captures_no_other_folder() {
    let home = Home::new();
    for folder in ["src", "lib", "test", "build"] {
        fs::create_dir(home.folder.path().join(folder)).unwrap();
    }
    for (typed, folder) in [("scr", "src"), ("lbi", "lib"), ("tset", "test"), ("buid", "build"), ("sr", "src"), ("tests", "test")]
    {
        for more in [&[][..], &["-q"], &["-n"]] {
            let run = home.run(&[&["create", typed], more].concat()).expect(2);
            assert!(run.err.contains(&format!("did you mean the folder {folder}?")), "{typed}: {run:?}");
        }
    }
    assert_eq!(last(&home.run(&["list", "--json"]).expect(0))["checkpoints"], 0);
    // The name of a session that exists is no slip.
    home.run(&["create", "scr", "-w", "."]).expect(0);
    home.run(&["create", "scr"]).expect(0);
    for name in ["web", "release-1", "a"] {
        home.run(&["create", name]).expect(0);
    }
}

#[test]
fn a_folder_has_one_session_however_it_is_typed() {
    for first in ["src", "./src", "src/"] {
        let home = Home::new();
        fs::create_dir(home.folder.path().join("src")).unwrap();
        let session = |folder: &str, args: &[&str]| {
            let run = run_in(&home, folder, &[&["create", "--json"], args].concat()).expect(0);
            last(&run)["session"].as_str().unwrap().to_owned()
        };
        let made = session(".", &[first]);
        let whole = home.folder.path().join("src");
        for args in [&["src"][..], &["./src"], &["src/"], &["src/."], &[whole.to_str().unwrap()], &["-w", "src"]] {
            assert_eq!(session(".", args), made, "{first} {args:?}");
        }
        assert_eq!(session("src", &[]), made, "{first}");
    }
}

#[test]
fn a_folder_whose_only_session_has_another_name_goes_on_with_that() {
    let home = Home::new();
    for folder in ["src", "lib"] {
        fs::create_dir(home.folder.path().join(folder)).unwrap();
    }
    home.run(&["create", "code", "-w", "src"]).expect(0);
    for args in [&["src"][..], &["./src"]] {
        let made = last(&home.run(&[&["create", "--json"], args].concat()).expect(0));
        assert_eq!(made["session"], "code", "{args:?}");
    }
    // Of several, none is meant.
    home.run(&["create", "other", "-w", "src"]).expect(0);
    assert_eq!(last(&home.run(&["create", "src", "--json"]).expect(0))["session"], "src");
    assert_eq!(last(&home.run(&["create", "lib", "--json"]).expect(0))["session"], "lib");
}
