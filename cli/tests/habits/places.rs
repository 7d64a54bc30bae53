//! Paths, sessions and folders as people type them for verbs that read or restore.

use std::fs;

use super::{last, run_in, work};

#[test]
fn a_diff_of_one_checkpoint_is_with_its_folder() {
    let (home, id) = work();
    fs::write(home.folder.path().join("work/b"), "new\n").unwrap();
    fs::write(home.folder.path().join("work/a"), "two\n").unwrap();
    for (folder, args) in [
        (".", &["diff", &*id][..]),
        ("work", &["diff"]),
        ("work", &["diff", "latest"]),
        ("work", &["diff", "latest", "."]),
        (".", &["diff", "latest", "./work"]),
        (".", &["checkpoint", "diff", "latest", "--workspace", "work"]),
    ] {
        let run = run_in(&home, folder, args).expect(0);
        assert!(run.out.starts_with("M a\nA b\n1 added"), "{args:?}: {run:?}");
        let summary = last(&run_in(&home, folder, &[args, &["--json"]].concat()).expect(0));
        assert!(summary["workspace"].as_str().unwrap().ends_with("/work") && summary["new"].is_null(), "{summary}");
    }
    let run = home.run(&["diff", "latest", "--file", "a"]).expect(0);
    assert!(run.out.contains("-one\n+two\n"), "{run:?}");
    home.run(&["diff", "latest", "--conversation"]).expect(2);
    home.run(&["diff", "latest", "./nowhere"]).expect(10);
    fs::remove_dir_all(home.folder.path().join("work")).unwrap();
    let run = home.run(&["diff", &id]).expect(10);
    assert!(run.err.contains("is not there") && run.err.contains("--workspace DIR"), "{run:?}");
}

#[test]
fn two_checkpoints_of_a_folder_without_an_agent_say_nothing_of_agents() {
    let (home, id) = work();
    fs::write(home.folder.path().join("work/a"), "two\n").unwrap();
    run_in(&home, "work", &["backup", "-m", "second"]).expect(0);
    let run = home.run(&["diff", &id, "latest"]).expect(0);
    assert!(run.out.contains("M a") && !run.out.contains("Environment") && !run.out.contains("Approval"), "{run:?}");
    let run = run_in(&home, "work", &["rollback", &id, "--yes"]).expect(0);
    assert!(run.out.contains("Rolled back") && !run.out.contains("session resume"), "{run:?}");
}

#[test]
fn show_takes_a_session_too() {
    let (home, id) = work();
    let session = home.run(&["show", &id, "--json"]).expect(0).json()[0]["session_id"].clone();
    let session = session.as_str().map_or_else(
        || last(&home.run(&["backup", "-w", "work", "--json"]))["session"].as_str().unwrap().to_owned(),
        str::to_owned,
    );
    let run = home.run(&["show", &session]).expect(0);
    assert!(run.out.starts_with("Session ") && run.out.contains("Checkpoints"), "{run:?}");
    assert!(home.run(&["show", "nobody"]).expect(10).err.contains("no checkpoint matches 'nobody'"));
}

#[test]
fn a_path_in_a_checkpoint_may_be_the_whole_one() {
    let (home, _) = work();
    let path = home.folder.path().join("work/a").canonicalize().unwrap();
    let place = format!("latest:{}", path.display());
    assert_eq!(home.run(&["cat", &place]).expect(0).out, "one\n");
    assert_eq!(home.run(&["ls", &place]).expect(0).out, "a\n");
    home.run(&["restore", &place, "--to", "b"]).expect(0);
    assert_eq!(fs::read(home.folder.path().join("b")).unwrap(), b"one\n");
}

#[test]
fn one_file_goes_into_the_folder_that_is_named() {
    let (home, _) = work();
    fs::create_dir(home.folder.path().join("empty")).unwrap();
    for to in ["empty", "new/", "deeper/new/"] {
        let run = home.run(&["restore", "latest:a", "--to", to, "--dry-run"]).expect(0);
        assert!(run.out.contains(": 1 file, 4 B"), "{to}: {run:?}");
        assert!(to == "empty" || !home.folder.path().join(to).exists(), "a dry run makes nothing");
        home.run(&["restore", "latest:a", "--to", to]).expect(0);
        assert_eq!(fs::read(home.folder.path().join(to).join("a")).unwrap(), b"one\n", "{to}");
    }
    home.run(&["restore", "latest:a", "--to", "name"]).expect(0);
    assert_eq!(fs::read(home.folder.path().join("name")).unwrap(), b"one\n");
}

#[test]
fn restore_starts_no_agent_and_says_what_does() {
    let (home, id) = work();
    let run = home.run(&["restore", &id]).expect(2);
    assert!(run.err.contains("give --to DIR\n") && run.err.contains(&format!("`parhelia checkpoint rollback {id}`")), "{run:?}");
    assert!(!run.err.contains("session resume"), "no agent works there: {run:?}");
    home.run(&["session", "run", "-w", "work", "--name", "agents", "--", "true"]).expect(0);
    let run = home.run(&["restore", "agents@latest"]).expect(2);
    assert!(run.err.contains("session resume") && run.err.contains("--from"), "{run:?}");
    home.run(&["restore", &id, "--yes"]).expect(2);
}

#[test]
fn a_restore_says_whether_it_changes_a_folder_that_is_there() {
    let (home, id) = work();
    let last = |args: &[&str]| home.run(args).expect(0).json().pop().unwrap();
    let planned = last(&["restore", &id, "--to", "new", "--dry-run", "--json"]);
    assert_eq!((&planned["dry_run"], &planned["in_place"]), (&true.into(), &false.into()), "{planned}");
    let done = last(&["restore", &id, "--to", "work", "--in-place", "--json"]);
    assert_eq!((&done["dry_run"], &done["in_place"]), (&false.into(), &true.into()), "{done}");
}
