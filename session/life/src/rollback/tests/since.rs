//! Changes to a workspace since its rollback was interrupted.

use std::{fs, os::unix::fs::symlink};

use parhelia_ledger::{LedgerView as _, kind};
use parhelia_store::{
    create::{self, Options},
    event::NewEvent,
    record::{Cause, Checkpoint, Trigger},
};
use serde_json::json;

use super::{Fixture, actor, fixture};
use crate::{
    retention::SAFETY,
    rollback::{interrupted, interrupted_in, last, open, since::worked_on},
};
use parhelia_host::intent;

const BOTH: [&str; 4] = ["a", "b", "dir/c", "same"];

fn put(f: &Fixture, files: &[(&str, &str)]) {
    for (name, content) in files {
        let path = f.workspace.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
}

fn read(f: &Fixture, name: &str) -> Option<String> {
    fs::read_to_string(f.workspace.join(name)).ok()
}

/// A rollback from "new" to "old" that was killed when `a` alone was back; `same` is in both.
fn half_done() -> (Fixture, Checkpoint, Checkpoint) {
    let f = fixture();
    put(&f, &BOTH.map(|name| (name, if name == "same" { "same" } else { "old" })));
    let target = f.create("old", None);
    put(&f, &[("a", "new"), ("b", "new"), ("dir/c", "new"), ("added", "new")]);
    let safety = f.create("new", Some(SAFETY));
    intent::commit(&f.store, "s", &f.intent(&target, &safety), &actor()).unwrap();
    put(&f, &[("a", "old")]);
    (f, target, safety)
}

fn now(f: &Fixture) -> Checkpoint {
    of_session(f, "s", Some(SAFETY))
}

fn of_session(f: &Fixture, session: &str, detail: Option<&str>) -> Checkpoint {
    let options = Options {
        workspace: f.workspace.clone(),
        session: session.into(),
        trigger: Trigger::Manual,
        cause: detail.and_then(|detail| Cause::ALL.into_iter().find(|cause| cause.name() == detail)).unwrap_or_default(),
        trigger_detail: detail.map(str::to_owned),
        ..Options::default()
    };
    create::run(&f.store, &options, &()).unwrap().checkpoint
}

#[test]
fn what_is_as_it_was_before_or_as_it_becomes_was_not_worked_on() {
    let (f, target, safety) = half_done();
    // A file may be missing for a moment before its successor is there, and metadata come last.
    fs::remove_file(f.workspace.join("b")).unwrap();
    fs::write(f.workspace.join("dir/c"), "old").unwrap();
    assert_eq!(worked_on(&f.store, &target, &safety, &now(&f)).unwrap(), Vec::<Vec<u8>>::new());
}

#[test]
fn what_is_neither_was_worked_on() {
    let (f, target, safety) = half_done();
    put(&f, &[("b", "by hand"), ("dir/new", "by hand"), (".git/index", "by git"), ("dir/.git/HEAD", "by git")]);
    fs::remove_file(f.workspace.join("same")).unwrap();
    fs::remove_file(f.workspace.join("a")).unwrap();
    symlink("elsewhere", f.workspace.join("a")).unwrap();
    let found = worked_on(&f.store, &target, &safety, &now(&f)).unwrap();
    assert_eq!(found, ["a", "b", "dir/new", "same"].map(|name| name.as_bytes().to_vec()));
}

#[test]
fn what_was_changed_by_hand_stays_when_the_rest_is_finished() {
    let (f, ..) = half_done();
    put(&f, &[("b", "by hand"), ("new", "by hand")]);
    let (done, told) = f.take_turn();
    done.unwrap();
    assert!(told.contains("since the rollback was interrupted: b, new") && told.contains("is finished now"), "{told}");
    let found = ["a", "b", "dir/c", "same", "added", "new"].map(|name| read(&f, name));
    let wanted = [Some("old"), Some("by hand"), Some("old"), Some("same"), None, Some("by hand")];
    assert_eq!(found, wanted.map(|content| content.map(str::to_owned)));
}

#[test]
fn what_was_changed_by_hand_stays_when_the_rest_is_taken_back() {
    let (f, target, safety) = half_done();
    let intent = intent::Intent { goes_back: true, ..f.intent(&target, &safety) };
    intent::commit(&f.store, "s", &intent, &actor()).unwrap();
    put(&f, &[("b", "by hand")]);
    f.take_turn().0.unwrap();
    assert_eq!((read(&f, "a"), read(&f, "b")), (Some("new".to_owned()), Some("by hand".to_owned())));
}

#[test]
fn the_work_of_another_session_there_is_worth_more_than_a_rollback() {
    for (has_agent, detail, is_given_up) in [(true, None, true), (true, Some(SAFETY), false), (false, None, false)] {
        let (f, ..) = half_done();
        let newer = of_session(&f, "other", detail);
        if has_agent {
            let begun = NewEvent::new(kind::RUN_STARTED, "r", actor());
            let begun = begun.with("session", "other").with("epoch", 1).with("host", "elsewhere").with("boot_id", "none");
            let ended = NewEvent::new(kind::RUN_ENDED, "r", actor()).with("session", "other").with("reason", json!("done"));
            f.store.append_events(&[begun, ended], &()).unwrap();
            assert!(f.store.refresh().unwrap().session("other").unwrap().unwrap().run.is_some());
        }
        let (done, told) = f.take_turn();
        done.unwrap();
        let said = format!("session other has worked there since, up to checkpoint {}", newer.id());
        assert_eq!((told.contains(&said), open(&f.session())), (is_given_up, None), "{told}");
        assert_eq!(
            (read(&f, "b").as_deref(), last(&f.session()).is_none()),
            (Some(if is_given_up { "new" } else { "old" }), is_given_up)
        );
    }
}

#[test]
fn what_is_interrupted_is_told_until_it_is_finished_and_not_while_it_is_done() {
    let (f, target, _) = half_done();
    let told = |folder: &std::path::Path| {
        let found = interrupted_in(&f.store, folder).unwrap();
        found.into_iter().map(|(session, intent)| (session.id, intent.target)).collect::<Vec<_>>()
    };
    let wanted = vec![("s".to_owned(), target.record.id)];
    assert_eq!(told(&f.workspace), wanted);
    assert_eq!((told(&f.workspace.join("dir")), told(f.workspace.parent().unwrap())), (wanted.clone(), wanted));
    assert_eq!(told(f.store.path()), vec![]);
    let turn = intent::turn(&f.store, "s", std::time::Duration::ZERO, &()).unwrap();
    assert!(turn.is_some() && interrupted(&f.store, &f.session()).is_none());
    drop(turn);
    assert!(interrupted(&f.store, &f.session()).is_some());
    f.take_turn().0.unwrap();
    assert!(interrupted(&f.store, &f.session()).is_none() && told(&f.workspace).is_empty());
}
