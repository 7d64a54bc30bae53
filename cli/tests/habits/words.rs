//! First words of other tools, and verbs under other names.

use std::fs;

use super::{last, work};
use crate::common::*;

#[test]
fn verbs_of_checkpoint_work_alone_and_by_their_names_elsewhere() {
    let (home, id) = work();
    assert_eq!(id.len(), 26, "-q prints the id alone: {id}");
    for args in [&["snapshots"][..], &["list"], &["show", &id], &["checkpoint", "snapshots"]] {
        assert!(home.run(args).expect(0).out.contains(&id), "{args:?}");
    }
    assert_eq!(home.run(&["ls", "latest"]).expect(0).out, "a\n");
    assert_eq!(home.run(&["cat", "latest:a"]).expect(0).out, "one\n");
    home.run(&["restore", "latest", "--target", "copy"]).expect(0);
    home.run(&["restore", "latest", "-t", "copied"]).expect(0);
    for copy in ["copy", "copied"] {
        assert_eq!(fs::read(home.folder.path().join(copy).join("a")).unwrap(), b"one\n");
    }
    assert!(home.run(&["forget", &id, "--dry-run"]).expect(0).out.starts_with(&format!("Would delete {id}")));
    assert!(home.run(&["undo"]).expect(4).err.contains("was rolled back"));
    home.run(&["rm", &id]).expect(0);
    home.run(&["show", &id]).expect(10);
}

#[test]
fn help_names_each_verb_once() {
    let home = Home::new();
    for args in [&["help"][..], &["--help"]] {
        let help = home.run(args).expect(0).out;
        assert!(help.contains("\n  checkpoint ") && help.contains("\n  status "), "{help}");
        assert!(help.matches("\n  restore ").count() == 1 && help.contains("\n  init "), "{help}");
        assert!(help.contains("`backup` is `create`, `snapshots` is `list`"), "{help}");
    }
    assert!(home.run(&["help", "checkpoint", "diff"]).expect(0).out.contains("Compare two checkpoints"));
    assert!(home.run(&["diff", "--help"]).expect(0).out.contains("Usage: parhelia diff"));
}

#[test]
fn init_makes_a_store_and_says_where_nobody_needs_it() {
    let home = Home::without_store();
    let run = home.run(&["init"]).expect(0);
    assert!(run.out.starts_with("Made a store at ") && !run.out.contains("No init is needed"), "{run:?}");
    let run = Run::of(home.command(&["init"]).env_remove("PARHELIA_STORE").output().unwrap()).expect(0);
    assert!(run.out.starts_with("Made a store at ") && run.out.contains("No init is needed"), "{run:?}");
    home.run(&["list"]).expect(0);
    assert_eq!(last(&home.run(&["init", "--json"]).expect(0))["created"], false);
    let other = home.folder.path().join("other");
    home.run(&["init", "--store", other.to_str().unwrap()]).expect(0);
    assert!(other.join("store.json").is_file());
}

#[test]
fn words_of_other_tools_are_answered_with_what_to_type() {
    let home = Home::new();
    for (word, answer) in [
        ("prune", "parhelia gc"),
        ("commit", "parhelia checkpoint create"),
        ("checkout", "parhelia restore CHECKPOINT --to DIR"),
        ("unlock", "nothing to unlock"),
        ("resume", "parhelia session resume"),
    ] {
        let run = home.run(&[word]).expect(2);
        assert!(run.err.contains(answer), "{word}: {run:?}");
    }
    for (args, answer) in [
        (&["copy"][..], "`parhelia copy-store DEST` copies the whole store"),
        (&["init", "new store"], "`parhelia --store 'new store' init`"),
        (&["check", "--read-data-subset=10%"], "`--read-data=PERCENT`"),
        (&["check", "--read-data=0"], "give a whole number from 1 to 100"),
        (&["check", "--read-data-subset"], "Usage: parhelia check\n"),
    ] {
        let run = home.run(args).expect(2);
        assert!(run.err.contains(answer), "{args:?}: {run:?}");
    }
    home.run(&["check", "--read-data=10%"]).expect(0);
    let run = home.run(&["snapshto"]).expect(2);
    assert!(run.err.contains("'snapshots'"), "{run:?}");
    let run = home.run(&["checkpoint", "unmake"]).expect(2);
    assert!(!run.err.contains("similar"), "{run:?}");
    let run = home.run(&["checkpoint", "list", "--target", "x"]).expect(2);
    assert!(!run.err.contains("--store"), "{run:?}");
    let run = home.run(&["checkpoint", "create", "--excldue", "x"]).expect(2);
    assert!(run.err.contains("'--exclude'"), "{run:?}");
}

#[test]
fn usage_lines_name_no_flag_that_the_environment_sets() {
    let home = Home::new();
    for args in [&["checkpoint", "cat"][..], &["restore"], &["export", "--nonsense"]] {
        let run = home.run(args).expect(2);
        assert!(run.err.contains("Usage: parhelia ") && !run.err.contains("--store"), "{run:?}");
    }
}
