//! Rollbacks that were killed, and what becomes of them.

use std::{fs, path::PathBuf};

use parhelia_session::rollback::{self, Intent};
use parhelia_store::{
    create,
    event::{Actor, NewEvent, kind},
};
use parhelia_tests::{
    Scratch, assert_equal,
    recorder::{Fault, Recorder, Trap},
    write,
};
use serde_json::json;

use crate::work::{Work, git, opened};

/// A rollback that was killed behind its intent, of a workspace that was spoiled.
struct Interrupted {
    _recorder: Recorder,
    work: Work,
    before: PathBuf,
}

fn interrupted(with_git: bool) -> Interrupted {
    let recorder = Recorder::mount();
    recorder.stop_logging();
    let work = Work::at(Scratch::with_store(recorder.path().join("store")), recorder.path().join("work"), with_git);
    work.spoil();
    recorder.arm(Trap::new(Trap::CHANGES, u64::MAX, Fault::Kill));
    work.rollback(&[]);
    let (steps, _) = recorder.disarm();
    for at in (steps / 2..steps).step_by(3) {
        work.spoil();
        let before = work.copy("before");
        recorder.arm(Trap::new(Trap::CHANGES, at, Fault::Kill));
        work.scratch.run(&["checkpoint", "rollback", &work.target, "--yes"]);
        recorder.disarm();
        let session = opened(&work).view().session(&work.session).unwrap().unwrap();
        if rollback::open(&session).is_some() {
            return Interrupted { _recorder: recorder, work, before };
        }
    }
    panic!("no rollback was interrupted behind its intent");
}

#[test]
fn one_that_was_interrupted_is_given_up_where_work_has_gone_on() {
    let Interrupted { work, _recorder, .. } = interrupted(false);
    fs::write(work.workspace.join("src/m1/f1.rs"), "worked on").unwrap();
    // What was being built goes in any case.
    work.scratch.expect(0, &["gc", "--quiet"]);
    let now = work.copy("now");
    // As the hooks of an agent make one that lives all the time.
    let options =
        create::Options { workspace: work.workspace.clone(), session: work.session.clone(), ..create::Options::default() };
    let newer = create::run(&opened(&work), &options, &()).unwrap().checkpoint.id();
    let workspace = work.workspace.to_string_lossy().into_owned();
    let text = work.scratch.expect(0, &["checkpoint", "create", &work.session, "--workspace", &workspace]);
    assert!(text.contains("is not finished: work has gone on") && text.contains(&newer), "{text}");
    assert_equal(&now, &work.copy("after"));
    let text = work.scratch.expect(0, &["checkpoint", "create", &work.session, "--workspace", &workspace]);
    assert!(!text.contains("interrupted"), "it is said once: {text}");
}

#[test]
fn one_that_was_interrupted_is_given_up_where_git_has_moved() {
    let Interrupted { work, _recorder, .. } = interrupted(true);
    git(&work.workspace, &["commit", "-q", "--allow-empty", "-m", "by hand"]);
    work.scratch.expect(0, &["gc", "--quiet"]);
    let now = work.copy("now");
    let workspace = work.workspace.to_string_lossy().into_owned();
    let text = work.scratch.expect(0, &["checkpoint", "create", &work.session, "--workspace", &workspace]);
    assert!(text.contains("is not finished: git is elsewhere"), "{text}");
    assert_equal(&now, &work.copy("after"));
}

#[test]
fn one_that_was_interrupted_is_what_undo_undoes_and_no_dry_run_finishes_it() {
    let Interrupted { work, before, _recorder } = interrupted(false);
    let now = work.copy("now");
    let text = work.scratch.expect(0, &["checkpoint", "rollback", &work.target, "--dry-run"]);
    assert!(text.contains("would be finished first"), "{text}");
    let text = work.scratch.expect(2, &["checkpoint", "rollback", &work.target]);
    assert!(text.contains("--yes"), "{text}");
    assert_equal(&now, &work.copy("after"));
    let text = work.scratch.expect(0, &["checkpoint", "undo", &work.session, "--yes"]);
    assert!(text.contains("is finished now"), "{text}");
    assert_equal(&before, &work.copy("after"));
}

#[test]
fn what_is_left_out_and_came_after_an_interruption_is_kept() {
    let Interrupted { work, _recorder, .. } = interrupted(false);
    write(&work.workspace.join("more/package.json"), b"{}").unwrap();
    write(&work.workspace.join("more/node_modules/x"), b"fetched after the crash").unwrap();
    let workspace = work.workspace.to_string_lossy().into_owned();
    let text = work.scratch.expect(0, &["checkpoint", "create", &work.session, "--workspace", &workspace]);
    assert!(text.contains("is finished now"), "{text}");
    assert_eq!(fs::read(work.workspace.join("more/node_modules/x")).unwrap(), b"fetched after the crash");
    assert!(!work.workspace.join("more/package.json").exists());
}

#[test]
fn one_whose_target_is_gone_is_taken_back() {
    let Interrupted { work, before, _recorder } = interrupted(false);
    work.scratch.expect(0, &["checkpoint", "delete", &work.target]);
    let workspace = work.workspace.to_string_lossy().into_owned();
    let create = ["checkpoint", "create", &work.session, "--workspace", &workspace];
    let text = work.scratch.expect(1, &create);
    assert!(text.contains("everything is as it was before"), "{text}");
    assert_equal(&before, &work.copy("after"));
    work.scratch.expect(0, &create);
}

#[test]
fn one_that_was_being_taken_back_is_taken_back() {
    let Interrupted { work, before, _recorder } = interrupted(false);
    let store = opened(&work);
    let session = store.view().session(&work.session).unwrap().unwrap();
    let intent = Intent { goes_back: true, ..rollback::open(&session).unwrap() };
    let back = NewEvent::new(kind::SESSION_CHANGED, &work.session, Actor::default()).with("rollback", json!(intent));
    store.append_events(&[back], &()).unwrap();
    let workspace = work.workspace.to_string_lossy().into_owned();
    let create = ["checkpoint", "create", &work.session, "--workspace", &workspace];
    let text = work.scratch.expect(0, &create);
    assert!(text.contains("is taken back now"), "{text}");
    assert_equal(&before, &work.copy("after"));
    assert!(rollback::open(&opened(&work).view().session(&work.session).unwrap().unwrap()).is_none());
}
