//! Rollbacks that are killed at any step, in each state of git.

use std::{fs, path::Path, process::Command};

use parhelia_tests::{
    Scratch, assert_equal, long,
    recorder::{Fault, Recorder, Trap},
    write,
};

use crate::rollback::work::{Work, git, git_command, safeties};

/// State of the workspace's git when it is rolled back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nothing: there is no git.
    None,
    /// Everything is committed.
    Clean,
    Dirty,
    /// A merge has stopped at a conflict.
    Unmerged,
    /// There is no branch.
    Detached,
    /// Another repository lies in it, which came later.
    Nested,
}

impl State {
    /// Puts the workspace into this state; what the session's rollbacks go to is a checkpoint from before, but for `Detached`.
    fn enter(self, work: &mut Work) {
        let workspace = work.workspace.clone();
        match self {
            State::None | State::Clean | State::Dirty => {}
            State::Unmerged => {
                git(&workspace, &["checkout", "-q", "-b", "other"]);
                fs::write(workspace.join("Cargo.toml"), "theirs\n").unwrap();
                git(&workspace, &["commit", "-qam", "theirs"]);
                git(&workspace, &["checkout", "-q", "main"]);
                fs::write(workspace.join("Cargo.toml"), "ours\n").unwrap();
                git(&workspace, &["commit", "-qam", "ours"]);
                assert!(!git_command(&workspace, &["merge", "-q", "other"]).output().unwrap().status.success());
            }
            State::Detached => {
                git(&workspace, &["checkout", "-q", "--detach"]);
                let path = workspace.to_string_lossy().into_owned();
                let made = work.scratch.summary(&["checkpoint", "create", &work.session, "--workspace", &path]);
                work.target = made["id"].as_str().unwrap().to_owned();
            }
            State::Nested => {
                let nested = workspace.join("nested");
                write(&nested.join("file"), b"mine").unwrap();
                git(&nested, &["init", "-q"]);
                git(&nested, &["add", "file"]);
                git(&nested, &["commit", "-q", "-m", "nested"]);
            }
        }
    }

    /// Leaves what an agent that went wrong left behind in this state.
    fn spoil(self, work: &Work) {
        work.spoil();
        match self {
            State::Clean => {
                git(&work.workspace, &["add", "-A", "src", "new"]);
                git(&work.workspace, &["commit", "-q", "--allow-empty", "-m", "spoiled"]);
            }
            State::Unmerged => fs::write(work.workspace.join("Cargo.toml"), "<<<<<<< ours\n").unwrap(),
            _ => {}
        }
    }
}

/// A rollback is killed at so many of its changes, evenly spread; in the long run at each.
const KILLS: u64 = 6;

/// A safety checkpoint has what was in the workspace before.
fn assert_has(work: &Work, safety: &str, before: &Path) {
    let restored = work.scratch.path("restored");
    work.scratch.restore(safety, &restored);
    let _ = fs::remove_dir_all(restored.join(".git"));
    // Where the kill came before any safety checkpoint, the first one has this as well.
    let _ = fs::remove_file(restored.join("later"));
    fs::remove_dir_all(before.join("target")).unwrap();
    for folder in [&*restored, before] {
        Command::new("touch").args(["-d", "2020-01-01"]).arg(folder).status().unwrap();
    }
    assert_equal(before, &restored);
    fs::remove_dir_all(&restored).unwrap();
}

fn killed_at_any_step_the_next_command_finishes_it(state: State) {
    let recorder = Recorder::mount();
    recorder.stop_logging();
    let at = |name: &str| recorder.path().join(name);
    let mut work = Work::at(Scratch::with_store(at("store")), at("work"), state != State::None);
    state.enter(&mut work);
    let force: &[&str] = if state == State::Unmerged { &["--any-git-state"] } else { &[] };
    state.spoil(&work);
    recorder.arm(Trap::new(Trap::CHANGES, u64::MAX, Fault::Kill));
    work.rollback(force);
    let (steps, _) = recorder.disarm();
    let kills = if long() > 0 { steps } else { KILLS };
    let nested = work.workspace.join("nested");
    let git_facts = || {
        let read = |name: &str| fs::read(work.workspace.join(".git").join(name)).ok();
        (read("index"), read("HEAD"), read("MERGE_HEAD"))
    };
    let mut interrupted = 0;
    for kill in 0..kills {
        state.spoil(&work);
        let (before, facts) = (work.copy("before"), git_facts());
        let had = safeties(&work).len();
        recorder.arm(Trap::new(Trap::CHANGES, steps * kill / kills, Fault::Kill));
        work.scratch.run(&[&["checkpoint", "rollback", &work.target, "--yes"], force].concat());
        recorder.disarm();
        let mut text = String::new();
        fs::write(work.workspace.join("later"), "worked on after the crash").unwrap();
        if kill % 2 == 1 {
            // Whatever captures the session does it as well.
            let workspace = work.workspace.to_string_lossy();
            text = work.scratch.expect(0, &["checkpoint", "create", &work.session, "--workspace", &workspace]);
        }
        text += &work.rollback(force);
        if text.contains("is finished now") {
            interrupted += 1;
            let (_, safety) = text.split_once("in safety checkpoint ").unwrap();
            let place = format!("{}:later", safety.lines().next().unwrap());
            assert_eq!(work.scratch.expect(0, &["checkpoint", "cat", &place]), "worked on after the crash");
        }
        assert_eq!(git_facts(), facts, "{state:?}, killed at step {kill} of {kills}");
        if state == State::Nested {
            assert_eq!(fs::read(nested.join("file")).unwrap(), b"mine");
            assert_eq!(git(&nested, &["status", "--porcelain"]), "");
            fs::rename(&nested, at("aside")).unwrap();
        }
        work.assert_is_target();
        if state == State::Nested {
            fs::rename(at("aside"), &nested).unwrap();
        }
        // The first safety checkpoint of this round has what was before, whoever made it.
        assert_has(&work, &safeties(&work)[had], &before);
    }
    println!("{state:?}: killed at {kills} of {steps} steps, {interrupted} of them behind the intent");
    assert!(interrupted > 0, "no rollback was interrupted behind its intent");
    work.scratch.expect(0, &["check"]);
}

macro_rules! killed {
    ($($name:ident: $state:ident),* $(,)?) => {$(
        #[test]
        fn $name() {
            killed_at_any_step_the_next_command_finishes_it(State::$state);
        }
    )*};
}

killed! {
    killed_outside_git: None,
    killed_where_everything_is_committed: Clean,
    killed_where_something_is_not_committed: Dirty,
    killed_in_the_middle_of_a_merge: Unmerged,
    killed_without_a_branch: Detached,
    killed_with_a_repository_inside: Nested,
}
