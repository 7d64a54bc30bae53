//! Rollbacks that are done, or refused.

use std::{fs, process::Stdio, time::Duration};

use parhelia_host::Observer;
use parhelia_ledger::{LedgerView as _, kind};
use parhelia_life::rollback::{self, Options, Rollback};
use parhelia_store::{
    event::{Actor, NewEvent},
    progress::Progress,
};
use parhelia_tests::{assert_equal, host::Caller, noise, write};
use serde_json::Value;

use crate::rollback::work::{Work, git, git_command, opened, safeties};

#[test]
fn a_rollback_restores_and_undo_gives_everything_back() {
    let work = Work::new(false);
    work.spoil();
    work.fetch();
    let before = work.copy("before");
    let text = work.rollback(&[]);
    assert_eq!(fs::read(work.workspace.join("later/node_modules/x/index.js")).unwrap(), b"fetched later");
    assert!(!work.workspace.join("later/package.json").exists());
    fs::rename(work.workspace.join("later"), work.scratch.path("later")).unwrap();
    work.assert_is_target();
    fs::rename(work.scratch.path("later"), work.workspace.join("later")).unwrap();
    assert!(text.contains("Safety checkpoint") && text.contains("session resume"), "{text}");
    let [safety] = &safeties(&work)[..] else { panic!("one safety checkpoint") };
    let listed = work.scratch.expect(0, &["checkpoint", "list", "--json"]);
    let safety = listed.lines().find(|line| line.contains(safety.as_str())).unwrap();
    assert_eq!(serde_json::from_str::<Value>(safety).unwrap()["verification"]["ok"], true, "{safety}");
    work.scratch.expect(0, &["checkpoint", "undo", &work.session, "--yes"]);
    assert_equal(&before, &work.copy("after"));
    work.scratch.expect(0, &["checkpoint", "undo", &work.session, "--yes"]);
    fs::remove_dir_all(work.workspace.join("later")).unwrap();
    work.assert_is_target();
}

#[test]
fn what_an_undo_brought_back_is_where_the_session_goes_on() {
    let work = Work::new(false);
    work.spoil();
    let session = || opened(&work).view().session(&work.session).unwrap().unwrap();
    let head = || session().head.unwrap().to_string();
    let resumed = || {
        let output = work.scratch.run(&["session", "resume", &work.session, "--yes", "--json"]);
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let line = lines.into_iter().find(|line| line["type"] == "started").unwrap();
        (line["from"].as_str().unwrap().to_owned(), line["notices"].to_string())
    };
    let parent =
        |id: &str| opened(&work).view().checkpoint(id.parse().unwrap()).unwrap().unwrap().record.parent.unwrap().to_string();
    let undo = || work.scratch.expect(0, &["checkpoint", "undo", &work.session, "--yes"]);

    work.rollback(&[]);
    assert_eq!(head(), work.target);
    let before_rollback = safeties(&work).pop().unwrap();
    undo();
    assert_eq!(head(), before_rollback);
    // Back and forth.
    undo();
    assert_eq!(head(), safeties(&work)[1]);
    undo();
    let stands_on = head();
    assert_eq!(stands_on, safeties(&work)[2]);
    let config = work.scratch.path("prune.toml");
    fs::write(&config, "[retention]\nkeep_last = 0\nall_hours = 0\nhourly_hours = 0\nkeep_yearly = 1\n").unwrap();
    work.scratch.expect(0, &["session", "prune", "--config", &config.to_string_lossy()]);

    let said = work.scratch.expect(2, &["session", "recover", &work.session]);
    assert!(said.contains(&format!("It goes on from checkpoint {stands_on}")) && !said.contains("passed over"), "{said}");
    let (from, notices) = resumed();
    assert_eq!(from, stands_on);
    assert!(!notices.contains("passed over"), "{notices}");
    assert_eq!(parent(&head()), stands_on);

    // What was rejected does not go on, and what somebody approves then does.
    let ann = Actor { user: Some("ann".into()), ..Actor::default() };
    for (status, code) in [("rejected", 4), ("approved", 0)] {
        let decided = NewEvent::new(kind::CHECKPOINT_DECIDED, head(), ann.clone()).with("status", status);
        opened(&work).append_events(&[decided], &()).unwrap();
        let said = work.scratch.expect(code, &["session", "resume", &work.session, "--yes"]);
        assert_eq!(said.contains("which was rejected by ann"), code == 4, "{said}");
    }

    // Another safety checkpoint is none to go on from, and that is said.
    fs::write(work.workspace.join("src/m1/f1.rs"), "spoiled again").unwrap();
    let place = work.workspace.to_string_lossy();
    work.scratch.expect(0, &["checkpoint", "restore", &work.target, "--to", &place, "--in-place"]);
    let (from, notices) = resumed();
    assert!(!safeties(&work).contains(&from), "{from}");
    assert!(
        notices.contains(&format!("checkpoint {} is newer, and was passed over", safeties(&work).pop().unwrap())),
        "{notices}"
    );
}

#[test]
fn a_dry_run_changes_nothing_and_without_a_terminal_nothing_is_done_unasked() {
    let work = Work::new(false);
    work.spoil();
    let before = work.copy("before");
    let text = work.scratch.expect(0, &["checkpoint", "rollback", &work.target, "--dry-run"]);
    assert!(text.contains("D new") && text.contains("M src/m1/f1.rs"), "{text}");
    let text = work.scratch.expect(2, &["checkpoint", "rollback", &work.target]);
    assert!(text.contains("--yes"), "{text}");
    assert_equal(&before, &work.copy("after"));
    assert!(work.scratch.expect(4, &["checkpoint", "undo", &work.session]).contains("not rolled back"));
}

#[test]
fn what_cannot_be_brought_back_changes_nothing() {
    let work = Work::new(false);
    work.spoil();
    let before = work.copy("before");
    let (packs, away) = (work.scratch.store().join("packs"), work.scratch.path("away"));
    fs::rename(&packs, &away).unwrap();
    fs::create_dir(&packs).unwrap();
    for how in ["--yes", "--dry-run"] {
        let output = work.scratch.run(&["checkpoint", "rollback", &work.target, how]);
        assert!(!output.status.success(), "{how}: {}", String::from_utf8_lossy(&output.stdout));
        assert_equal(&before, &work.copy("after"));
    }
    for pack in fs::read_dir(&away).unwrap().flatten() {
        fs::rename(pack.path(), packs.join(pack.file_name())).unwrap();
    }
    work.rollback(&[]);
    work.assert_is_target();
}

#[test]
fn git_gets_a_stash_entry_and_is_not_touched_otherwise() {
    let work = Work::new(true);
    work.spoil();
    git(&work.workspace, &["add", "src/m1"]);
    let nested = work.workspace.join("nested");
    fs::create_dir(&nested).unwrap();
    git(&nested, &["init", "-q"]);
    fs::write(nested.join("file"), "mine").unwrap();
    let git_folder = work.workspace.join(".git");
    let facts = || {
        let read = |name: &str| fs::read(git_folder.join(name)).unwrap();
        (read("index"), read("HEAD"), git(&work.workspace, &["for-each-ref", "refs/heads"]))
    };
    let before = facts();
    let text = work.rollback(&[]);
    assert!(text.contains("Stashed changes") && text.contains("nested"), "{text}");
    assert_eq!(facts(), before);
    assert_eq!(fs::read(nested.join("file")).unwrap(), b"mine");
    assert_eq!(git(&work.workspace, &["show", "stash@{0}:src/m1/f1.rs"]), "spoiled");
    fs::remove_dir_all(&nested).unwrap();
    work.assert_is_target();
}

#[test]
fn it_is_refused_in_the_middle_of_a_merge_and_on_another_branch() {
    let work = Work::new(true);
    git(&work.workspace, &["checkout", "-q", "-b", "other"]);
    let text = work.scratch.expect(4, &["checkpoint", "rollback", &work.target, "--yes"]);
    assert!(text.contains("branch main") && text.contains("--any-git-state"), "{text}");
    git(&work.workspace, &["checkout", "-q", "main"]);
    fs::write(work.workspace.join(".git/MERGE_HEAD"), git(&work.workspace, &["rev-parse", "HEAD"])).unwrap();
    let text = work.scratch.expect(4, &["checkpoint", "rollback", &work.target, "--yes"]);
    assert!(text.contains("merge"), "{text}");
    fs::write(work.workspace.join("src/m1/f1.rs"), "spoiled").unwrap();
    work.rollback(&["--any-git-state"]);
    assert!(fs::read(work.workspace.join("src/m1/f1.rs")).unwrap() == noise(3_000, 1));
}

#[test]
fn files_that_are_unmerged_go_back_when_forced_and_undo_gives_the_conflict_back() {
    let work = Work::new(true);
    let file = work.workspace.join("Cargo.toml");
    git(&work.workspace, &["checkout", "-q", "-b", "other"]);
    fs::write(&file, "theirs\n").unwrap();
    git(&work.workspace, &["commit", "-qam", "theirs"]);
    git(&work.workspace, &["checkout", "-q", "main"]);
    fs::write(&file, "ours\n").unwrap();
    git(&work.workspace, &["commit", "-qam", "ours"]);
    assert!(!git_command(&work.workspace, &["merge", "-q", "other"]).output().unwrap().status.success());
    let conflict = fs::read_to_string(&file).unwrap();
    assert!(conflict.contains("<<<<<<<"), "{conflict}");
    let git_folder = work.workspace.join(".git");
    let facts = || ["index", "HEAD", "MERGE_HEAD"].map(|name| fs::read(git_folder.join(name)).unwrap());
    let before = facts();
    let text = work.scratch.expect(4, &["checkpoint", "rollback", &work.target, "--yes"]);
    assert!(text.contains("merge") && text.contains("--any-git-state"), "{text}");
    let text = work.rollback(&["--any-git-state"]);
    assert!(text.contains("no stash entry was made"), "git stashes nothing that is unmerged: {text}");
    assert_eq!(fs::read(&file).unwrap(), b"[package]\n");
    let text = work.scratch.expect(4, &["checkpoint", "undo", &work.session, "--yes"]);
    assert!(text.contains("merge") && text.contains("--any-git-state"), "{text}");
    work.scratch.expect(0, &["checkpoint", "undo", &work.session, "--yes", "--any-git-state"]);
    assert_eq!(fs::read_to_string(&file).unwrap(), conflict);
    assert_eq!(facts(), before);
}

#[test]
fn without_a_branch_a_rollback_is_refused_to_one_and_goes_to_a_checkpoint_that_had_none() {
    let mut work = Work::new(true);
    let head = git(&work.workspace, &["rev-parse", "HEAD"]);
    git(&work.workspace, &["checkout", "-q", "--detach"]);
    let text = work.scratch.expect(4, &["checkpoint", "rollback", &work.target, "--yes"]);
    assert!(text.contains("branch main") && text.contains("no branch"), "{text}");
    let workspace = work.workspace.to_string_lossy().into_owned();
    let made = work.scratch.summary(&["checkpoint", "create", &work.session, "--workspace", &workspace]);
    work.target = made["id"].as_str().unwrap().to_owned();
    work.spoil();
    assert!(work.rollback(&[]).contains("Stashed changes"));
    work.assert_is_target();
    assert_eq!(fs::read_to_string(work.workspace.join(".git/HEAD")).unwrap().trim(), head);
}

#[test]
fn the_repository_of_a_submodule_is_left_alone_and_its_files_go_back() {
    let mut work = Work::new(true);
    let library = work.scratch.path("library");
    write(&library.join("lib.rs"), b"of the library").unwrap();
    git(&library, &["init", "-q", "-b", "main"]);
    git(&library, &["add", "lib.rs"]);
    git(&library, &["commit", "-q", "-m", "first"]);
    let from = library.to_string_lossy().into_owned();
    git(&work.workspace, &["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", &from, "library"]);
    git(&work.workspace, &["commit", "-q", "-m", "submodule"]);
    let workspace = work.workspace.to_string_lossy().into_owned();
    let made = work.scratch.summary(&["checkpoint", "create", &work.session, "--workspace", &workspace]);
    work.target = made["id"].as_str().unwrap().to_owned();
    let (file, inner) = (work.workspace.join("library/lib.rs"), work.workspace.join("library"));
    fs::write(&file, "committed later").unwrap();
    git(&inner, &["commit", "-qam", "later"]);
    fs::write(&file, "not committed").unwrap();
    let later = git(&inner, &["rev-parse", "HEAD"]);
    work.rollback(&[]);
    assert_eq!(fs::read_to_string(&file).unwrap(), "of the library");
    assert_eq!(git(&inner, &["rev-parse", "HEAD"]), later, "commits stay reachable");
    work.scratch.expect(0, &["checkpoint", "undo", &work.session, "--yes"]);
    assert_eq!(fs::read_to_string(&file).unwrap(), "not committed");
}

#[test]
fn whoever_asks_to_stop_behind_the_intent_gets_everything_back() {
    struct Stops<'a>(&'a Work);
    impl Progress for Stops<'_> {
        fn is_cancelled(&self) -> bool {
            let store = parhelia_ledger::open(&self.0.scratch.store(), &Default::default()).unwrap();
            let session = store.view().session(&self.0.session).unwrap().unwrap();
            rollback::open(&session).is_some()
        }
    }
    impl Observer for Stops<'_> {}
    let work = Work::new(false);
    work.spoil();
    let before = work.copy("before");
    let store = parhelia_ledger::open(&work.scratch.store(), &Default::default()).unwrap();
    let target = store.view().checkpoint(work.target.parse().unwrap()).unwrap().unwrap();
    let rollback = Rollback::plan(&store, &Caller, &target, None, Options::default()).unwrap();
    let failed = rollback.execute(&Stops(&work)).unwrap_err();
    assert!(failed.to_string().contains("everything is as it was before"), "{failed}");
    assert_equal(&before, &work.copy("after"));
    let session = store.refresh().unwrap().session(&work.session).unwrap().unwrap();
    assert!(rollback::open(&session).is_none() && rollback::last(&session).is_none());
}

#[test]
fn what_another_session_works_in_is_kept() {
    let work = Work::new(false);
    let inner = work.workspace.join("src/m4").to_string_lossy().into_owned();
    work.scratch.expect(0, &["session", "run", "--name", "inner", "--workspace", &inner, "--", "true"]);
    fs::write(work.workspace.join("src/m4/f4.rs"), "of the other session").unwrap();
    work.spoil();
    let text = work.rollback(&[]);
    assert!(text.contains("src/m4: session m4-"), "{text}");
    assert_eq!(fs::read_to_string(work.workspace.join("src/m4/f4.rs")).unwrap(), "of the other session");
    fs::write(work.workspace.join("src/m4/f4.rs"), noise(3_000, 4)).unwrap();
    assert!(fs::read(work.workspace.join("src/m1/f1.rs")).unwrap() == noise(3_000, 1));
}

#[test]
fn what_is_left_out_by_now_is_neither_captured_nor_touched() {
    let work = Work::new(false);
    write(&work.workspace.join("secret.txt"), b"of before").unwrap();
    let path = work.workspace.to_string_lossy().into_owned();
    let target = work.scratch.summary(&["checkpoint", "create", &work.session, "--workspace", &path])["id"].clone();
    let target = target.as_str().unwrap();
    fs::write(work.workspace.join("secret.txt"), "of now").unwrap();
    fs::write(work.workspace.join("parhelia.toml"), "[capture]\nexclude = [\"secret.txt\"]\n").unwrap();
    work.scratch.expect(0, &["checkpoint", "rollback", target, "--yes"]);
    assert_eq!(fs::read_to_string(work.workspace.join("secret.txt")).unwrap(), "of now");
    let safety = safeties(&work).pop().unwrap();
    work.scratch.expect(10, &["checkpoint", "cat", &format!("{safety}:secret.txt")]);
}

#[test]
fn it_is_refused_while_another_session_is_alive_there() {
    let work = Work::new(false);
    let inner = work.workspace.join("src");
    let mut command = work.scratch.command(&["session", "run", "--workspace", &inner.to_string_lossy(), "--", "sleep", "1000"]);
    let mut other = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let refused = (0..200).any(|_| {
        std::thread::sleep(Duration::from_millis(20));
        let text = work.scratch.run(&["checkpoint", "rollback", &work.target, "--dry-run"]);
        String::from_utf8_lossy(&text.stderr).contains("is alive in the same workspace")
    });
    let pid = rustix::process::Pid::from_raw(other.id() as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    other.wait().unwrap();
    assert!(refused);
    work.scratch.expect(0, &["checkpoint", "rollback", &work.target, "--yes"]);
}

#[test]
fn repositories_that_git_does_not_tell_of_are_kept_and_one_that_is_gone_comes_back() {
    let mut work = Work::new(true);
    let repository = |name: &str, content: &str| {
        let folder = work.workspace.join(name);
        write(&folder.join("file"), content.as_bytes()).unwrap();
        git(&folder, &["init", "-q", "-b", "main"]);
        git(&folder, &["add", "file"]);
        git(&folder, &["commit", "-q", "-m", name]);
        git(&folder, &["rev-parse", "HEAD"])
    };
    fs::write(work.workspace.join(".gitignore"), ".worktrees/\n/gone/\n").unwrap();
    let gone = repository("gone", "of then");
    let workspace = work.workspace.to_string_lossy().into_owned();
    let made = work.scratch.summary(&["checkpoint", "create", &work.session, "--workspace", &workspace]);
    work.target = made["id"].as_str().unwrap().to_owned();
    fs::remove_dir_all(work.workspace.join("gone")).unwrap();
    let ignored = repository(".worktrees/deep/x", "mine");
    write(&work.workspace.join(".worktrees/note"), b"no repository").unwrap();
    work.rollback(&[]);
    let head = |name: &str| git(&work.workspace.join(name), &["rev-parse", "HEAD"]);
    assert_eq!((head(".worktrees/deep/x"), head("gone")), (ignored.clone(), gone));
    assert_eq!(git(&work.workspace.join(".worktrees/deep/x"), &["status", "--porcelain"]), "");
    assert_eq!(git(&work.workspace.join("gone"), &["status", "--porcelain"]), "");
    assert!(!work.workspace.join(".worktrees/note").exists());
    work.scratch.expect(0, &["checkpoint", "undo", &work.session, "--yes"]);
    assert_eq!(fs::read(work.workspace.join(".worktrees/note")).unwrap(), b"no repository");
    assert_eq!(head(".worktrees/deep/x"), ignored);
}

#[test]
fn where_git_cannot_be_asked_it_is_refused() {
    let work = Work::new(true);
    fs::write(work.workspace.join(".git/config"), "[broken").unwrap();
    let text = work.scratch.expect(4, &["checkpoint", "rollback", &work.target, "--yes"]);
    assert!(text.contains("git could not be asked") && text.contains("--any-git-state"), "{text}");
    work.spoil();
    work.rollback(&["--any-git-state"]);
    work.assert_is_target();
}

#[test]
fn whatever_is_pruned_a_rollback_can_be_undone() {
    let work = Work::new(false);
    work.spoil();
    let before = work.copy("before");
    work.rollback(&[]);
    let config = work.scratch.path("prune.toml");
    let settings = "[retention]\nkeep_last = 0\nall_hours = 0\nhourly_hours = 0\nkeep_yearly = 1\n";
    fs::write(&config, settings).unwrap();
    let workspace = work.workspace.to_string_lossy().into_owned();
    for _ in 0..3 {
        work.scratch.expect(0, &["checkpoint", "create", &work.session, "--workspace", &workspace]);
        work.scratch.expect(0, &["session", "prune", "--config", &config.to_string_lossy()]);
    }
    work.scratch.expect(0, &["checkpoint", "undo", &work.session, "--yes"]);
    assert_equal(&before, &work.copy("after"));
    // Somebody may delete by hand what the session would go back to.
    work.rollback_to(&safeties(&work)[0]);
    let session = opened(&work).view().session(&work.session).unwrap().unwrap();
    let head = rollback::last(&session).unwrap().head.unwrap().to_string();
    work.scratch.expect(0, &["checkpoint", "delete", &head]);
    work.scratch.expect(0, &["checkpoint", "undo", &work.session, "--yes"]);
    // ... and what the undo itself can be undone with.
    let newest = safeties(&work).pop().unwrap();
    work.scratch.expect(0, &["checkpoint", "delete", &newest]);
    let text = work.scratch.expect(4, &["checkpoint", "undo", &work.session, "--yes"]);
    assert!(text.contains(&format!("its safety checkpoint {newest} was deleted")), "{text}");
}

#[test]
fn an_undo_reaches_behind_no_restore_in_place() {
    let work = Work::new(false);
    work.spoil();
    work.rollback(&[]);
    fs::write(work.workspace.join("precious"), "since the rollback").unwrap();
    let to = work.workspace.to_str().unwrap();
    let restore = |id: &str| work.scratch.expect(0, &["checkpoint", "restore", id, "--to", to, "--in-place", "--delete"]);
    restore(&work.target);
    assert!(!work.workspace.join("precious").exists());
    fs::write(work.workspace.join("newer"), "since the restore").unwrap();
    let made = safeties(&work);
    let (before_rollback, before_restore) = (&made[0], &made[1]);
    let text = work.scratch.expect(4, &["checkpoint", "undo", &work.session, "--yes"]);
    assert!(text.contains(before_rollback) && text.contains(before_restore), "{text}");
    assert!(work.workspace.join("newer").exists());
    restore(before_restore);
    assert_eq!(fs::read_to_string(work.workspace.join("precious")).unwrap(), "since the rollback");
}
