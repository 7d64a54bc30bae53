//! Obstacles to a rollback, and the messages about them.

use std::{ffi::OsString, fs, process::Command};

use parhelia_ledger::{End, EndKind, kind};
use parhelia_store::{
    create::{self, Options as CreateOptions},
    event::NewEvent,
    record::Checkpoint,
};
use serde_json::json;

use super::{Fixture, actor, fixture, wanted};
use crate::rollback::{Look, Options, RollbackRequest, look};
use parhelia_agent::process::{Identity, RUN_MARKER};
use parhelia_host::{
    Error, Result,
    config::Config,
    run::{Begin, Current, begin, end},
};
use parhelia_session_testing::Caller;

fn me() -> Identity {
    Identity::of(std::process::id() as i32).unwrap()
}

/// Begins a run of session `s`, whose agent is this process.
fn begun(f: &Fixture, session: &str, change: impl FnOnce(&mut Begin)) -> Current {
    let workspace = f.workspace.clone();
    let mut wanted =
        Begin { session: session.into(), folder: workspace.clone(), workspace, agent: Some(me()), ..Begin::default() };
    wanted.actor = actor();
    change(&mut wanted);
    let current = begin(&f.store, &wanted).unwrap();
    f.store.refresh().unwrap();
    current
}

fn changed(f: &Fixture, run: &Current, field: &str, value: &str) {
    let changed = NewEvent::new(kind::RUN_CHANGED, &run.run, actor()).in_epoch(run.epoch).with(field, value);
    f.store.append_events(&[changed], &()).unwrap();
    f.store.refresh().unwrap();
}

/// Looks with what is wanted changed by hand.
fn looked(f: &Fixture, target: &Checkpoint, change: impl FnOnce(&mut RollbackRequest<'_>)) -> Result<Look> {
    let settings = Config::default();
    let mut wanted = wanted(target, &settings);
    change(&mut wanted);
    look(&f.store, &wanted)
}

fn is_refused(looked: Result<Look>, reason: &str) {
    match looked {
        Err(Error::Refused(text)) => assert!(text.to_string().contains(reason), "{text}"),
        other => panic!("{other:?} in place of {reason}"),
    }
}

fn is_told(look: &Look, text: &str) -> bool {
    look.notices.iter().any(|notice| notice.to_string().contains(text))
}

#[test]
fn a_live_agent_is_stopped_left_alone_or_in_the_way() {
    let f = fixture();
    let first = f.create("first", None);
    let run = begun(&f, "s", |_| {});
    let alive = format!("alive (process {})", me().process);
    is_refused(looked(&f, &first, |_| {}), &alive);
    let shown = looked(&f, &first, |wanted| wanted.options.dry_run = true).unwrap();
    assert!(is_told(&shown, &alive) && shown.stops.is_none());
    let alone = looked(&f, &first, |wanted| wanted.options.files_only = true).unwrap();
    assert!(is_told(&alone, "it is not told that its files change") && alone.stops.is_none() && alone.files_only);
    let stopped = looked(&f, &first, |wanted| wanted.options.stop = true).unwrap();
    assert_eq!(stopped.stops.map(|run| run.id), Some(run.run.clone()));
    // Its process may outlive its run.
    end(&f.store, &run, (End::of(EndKind::Unknown), "lost"), (parhelia_ledger::Status::Paused, None), actor()).unwrap();
    f.store.refresh().unwrap();
    is_refused(looked(&f, &first, |_| {}), &alive);
    assert!(looked(&f, &first, |wanted| wanted.options.stop = true).unwrap().stops.is_none());
}

#[test]
fn from_inside_the_agent_files_alone_go_back() {
    let f = fixture();
    let first = f.create("first", None);
    let run = begun(&f, "s", |_| {});
    let variable = |name: &str| (name == RUN_MARKER).then(|| OsString::from(&run.run));
    for files_only in [false, true] {
        let settings = Config::default();
        let wanted = RollbackRequest {
            options: Options { files_only, ..Options::default() },
            host: &Caller(variable),
            ..wanted(&first, &settings)
        };
        let looked = look(&f.store, &wanted).unwrap();
        // Who has asked for that need not be told.
        assert_eq!((looked.files_only, is_told(&looked, "called from inside the agent")), (true, !files_only));
        assert!(looked.stops.is_none() && !is_told(&looked, "no conversation"), "{:?}", looked.notices);
    }
}

#[test]
fn a_session_that_is_elsewhere_or_just_begins_is_waited_for() {
    let f = fixture();
    let first = f.create("first", None);
    let run = begun(&f, "s", |begin| begin.agent = None);
    changed(&f, &run, "launcher", "");
    let starting = begun(&f, "s", |begin| (begin.agent, begin.launcher) = (None, Some(me())));
    let begins = format!("just being started (process {})", me().process);
    is_refused(looked(&f, &first, |_| {}), &begins);
    assert!(is_told(&looked(&f, &first, |wanted| wanted.options.dry_run = true).unwrap(), &begins));
    changed(&f, &starting, "pid_namespace", "pid:[1]");
    is_refused(looked(&f, &first, |_| {}), "is taken for alive on");
    let shown = looked(&f, &first, |wanted| wanted.options.dry_run = true).unwrap();
    assert!(is_told(&shown, "is taken for alive on"), "{:?}", shown.notices);
    let forced = looked(&f, &first, |wanted| wanted.options.take_over = true).unwrap();
    assert!(is_told(&forced, "may still have the session, and is not told"), "{:?}", forced.notices);
}

#[test]
fn other_sessions_keep_their_folders_and_end_first_where_they_are_alive() {
    let f = fixture();
    let first = f.create("first", None);
    let below = f.workspace.join("below");
    fs::create_dir(&below).unwrap();
    let options = |workspace| CreateOptions { workspace, session: "t".into(), ..CreateOptions::default() };
    create::run(&f.store, &options(below.clone()), &()).unwrap();
    let kept = looked(&f, &first, |_| {}).unwrap();
    assert!(is_told(&kept, "below: session t works there") && kept.nested == [b"below"], "{kept:?}");
    let run = begun(&f, "t", |_| {});
    is_refused(looked(&f, &first, |_| {}), "session t is alive in the same workspace");
    assert!(is_told(&looked(&f, &first, |wanted| wanted.options.dry_run = true).unwrap(), "session t is alive"));
    end(&f.store, &run, (End::of(EndKind::Unknown), "done"), (parhelia_ledger::Status::Ended, None), actor()).unwrap();
    f.store.refresh().unwrap();
    let ended = looked(&f, &first, |_| {}).unwrap();
    assert!(ended.nested.is_empty() && !is_told(&ended, "session t"), "{ended:?}");
}

fn git(f: &Fixture, arguments: &[&str]) -> String {
    let mut command = Command::new("git");
    command.args(["-c", "user.name=n", "-c", "user.email=e", "-c", "init.defaultBranch=main"]).args(arguments);
    let out = command.env_remove("GIT_DIR").env_remove("GIT_INDEX_FILE").current_dir(&f.workspace).output().unwrap();
    assert!(out.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap().trim_end().to_owned()
}

#[test]
fn git_stands_against_a_rollback_where_it_is_elsewhere_or_in_the_middle_of_something() {
    let f = fixture();
    git(&f, &["init"]);
    git(&f, &["commit", "--allow-empty", "-m", "1"]);
    let mut first = f.create("first", None);
    let then = git(&f, &["rev-parse", "HEAD"]);
    first.record.git = Some(json!({ "branch": "main", "head": then }));
    let path = |name: &str| std::env::var_os(name);
    let looked = |target: &Checkpoint, any_git_state: bool| {
        let settings = Config::default();
        look(
            &f.store,
            &RollbackRequest {
                options: Options { any_git_state, ..Options::default() },
                host: &Caller(path),
                ..wanted(target, &settings)
            },
        )
    };
    let same = looked(&first, false).unwrap();
    assert!(!is_told(&same, "HEAD") && same.nested.is_empty(), "{:?}", same.notices);
    git(&f, &["commit", "--allow-empty", "-m", "2"]);
    let now = git(&f, &["rev-parse", "HEAD"]);
    let newer = looked(&first, false).unwrap();
    let expected = format!("HEAD ({}) is 1 commit newer than the checkpoint's ({})", &now[..12], &then[..12]);
    assert!(is_told(&newer, &expected), "{:?}", newer.notices);
    // A repository that the checkpoint does not have is kept; one that it has goes back.
    for name in ["had", "made"] {
        git(&f, &["init", name]);
        fs::write(f.workspace.join(name).join("file"), name).unwrap();
        if name == "had" {
            let git = first.record.git.take();
            first = f.create("first", None);
            first.record.git = git;
        }
    }
    let nested = looked(&first, false).unwrap();
    assert!(is_told(&nested, "made: a repository that the checkpoint does not have") && nested.nested == [b"made"], "{nested:?}");
    fs::write(f.workspace.join(".git/MERGE_HEAD"), &now).unwrap();
    is_refused(looked(&first, false), "git is in the middle of a merge");
    looked(&first, true).unwrap();
    fs::remove_file(f.workspace.join(".git/MERGE_HEAD")).unwrap();
    git(&f, &["checkout", "-b", "other"]);
    is_refused(looked(&first, false), "was made on branch main, and other is checked out");
    looked(&first, true).unwrap();
    git(&f, &["checkout", "--detach"]);
    is_refused(looked(&first, false), "was made on branch main, and no branch is checked out");
}

#[test]
fn without_git_nobody_can_tell_whether_a_rollback_stands_against_it() {
    let f = fixture();
    git(&f, &["init"]);
    let first = f.create("first", None);
    let settings = Config::default();
    let nowhere = |name: &str| (name == "PATH").then(|| OsString::from("/nonexistent"));
    let without = |any_git_state: bool| {
        look(
            &f.store,
            &RollbackRequest {
                options: Options { any_git_state, ..Options::default() },
                host: &Caller(nowhere),
                ..wanted(&first, &settings)
            },
        )
    };
    is_refused(without(false), "git could not be asked whether");
    assert!(is_told(&without(true).unwrap(), "git could not be asked: "));
}
