//! Rollbacks that were killed, and what becomes of them.

use std::{
    fs,
    path::PathBuf,
    process::{Child, Command},
};

use parhelia_host::intent::{self, Intent};
use parhelia_ledger::{LedgerView as _, kind};
use parhelia_store::{
    create,
    event::{Actor, NewEvent},
    id::Ulid,
};
use parhelia_tests::{
    Scratch, assert_equal,
    recorder::{Fault, Recorder, Trap},
    write,
};
use serde_json::json;

use crate::rollback::work::{Work, git, opened};

/// A rollback that was killed behind its intent, of a workspace that was spoiled.
struct Interrupted {
    _recorder: Recorder,
    work: Work,
    before: PathBuf,
}

/// A process that ends with the test.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn interrupted(with_git: bool) -> Interrupted {
    interrupted_after(with_git, &|_| {})
}

/// The same, where something was done before.
fn interrupted_after(with_git: bool, before: &dyn Fn(&Work)) -> Interrupted {
    let recorder = Recorder::mount();
    recorder.stop_logging();
    let work = Work::at(Scratch::with_store(recorder.path().join("store")), recorder.path().join("work"), with_git);
    before(&work);
    work.spoil();
    recorder.arm(Trap::new(Trap::CHANGES, u64::MAX, Fault::Kill));
    work.rollback(&[]);
    let (steps, _) = recorder.disarm();
    for at in (steps / 2..steps).step_by(3) {
        work.spoil();
        // The head is not what is gone back to.
        let workspace = work.workspace.to_string_lossy().into_owned();
        work.scratch.expect(0, &["checkpoint", "create", &work.session, "--workspace", &workspace]);
        let before = work.copy("before");
        recorder.arm(Trap::new(Trap::CHANGES, at, Fault::Kill));
        work.scratch.run(&["checkpoint", "rollback", &work.target, "--yes"]);
        recorder.disarm();
        let session = opened(&work).view().session(&work.session).unwrap().unwrap();
        if intent::open(&session).is_some() {
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
fn one_that_was_interrupted_is_told_and_leaves_what_was_changed_by_hand() {
    let Interrupted { work, _recorder, .. } = interrupted(false);
    let (by_hand, workspace) = (work.workspace.join("src/m1/f1.rs"), work.workspace.to_string_lossy().into_owned());
    fs::write(&by_hand, "worked on").unwrap();
    for verb in [&["session", "list"][..], &["session", "show", &work.session]] {
        let text = work.scratch.expect(0, verb);
        assert!(text.contains("was interrupted") && text.contains(&format!("checkpoint rollback {}", work.target)), "{text}");
    }
    let text = work.scratch.expect(2, &["session", "recover", &work.session]);
    assert!(text.contains(&format!("It goes on from checkpoint {} (", work.target)), "{text}");
    let text = work.scratch.expect(0, &["checkpoint", "create", &work.session, "--workspace", &workspace]);
    assert!(text.contains("since the rollback was interrupted: src/m1/f1.rs") && text.contains("finished now"), "{text}");
    assert_eq!(fs::read_to_string(&by_hand).unwrap(), "worked on");
    assert!(!work.scratch.expect(0, &["session", "list"]).contains("interrupted"));
}

#[test]
fn one_that_was_interrupted_is_given_up_where_the_agent_of_another_session_has_worked() {
    let Interrupted { work, _recorder, .. } = interrupted(false);
    let workspace = work.workspace.to_string_lossy().into_owned();
    let edit = "echo mine >>src/m1/f1.rs; echo new >src/new.rs";
    let text = work.scratch.expect(0, &["session", "run", "--name", "other", "--workspace", &workspace, "--", "sh", "-c", edit]);
    assert!(text.contains("was interrupted") && text.contains(&work.target), "{text}");
    let now = work.copy("now");
    let text = work.scratch.expect(0, &["checkpoint", "create", &work.session, "--workspace", &workspace]);
    assert!(text.contains("is not finished: session") && text.contains("has worked there since"), "{text}");
    assert_equal(&now, &work.copy("after"));
}

#[test]
fn one_that_was_interrupted_is_not_finished_under_an_agent_that_was_started_by_hand() {
    const CONVERSATION: &str = "5b9d1f6e-57c0-4f0e-9a55-6f8f1f8c0b33";
    let Interrupted { work, _recorder, .. } = interrupted(false);
    let config = work.scratch.path("home/.claude");
    let transcript = config.join(format!("projects/-work/{CONVERSATION}.jsonl"));
    write(&transcript, b"").unwrap();
    let seen = NewEvent::new(kind::CONVERSATION_SEEN, CONVERSATION, Actor::default()).with("session", &*work.session);
    opened(&work).append_events(&[seen.with("transcript", transcript.to_string_lossy())], &()).unwrap();
    let log = fs::File::options().append(true).open(&transcript).unwrap();
    let agent = Killed(Command::new("sleep").arg("100000").current_dir(&work.workspace).stdout(log).spawn().unwrap());
    let now = work.copy("now");
    for verb in [&["checkpoint", "undo", &work.session, "--yes"][..], &["checkpoint", "rollback", &work.target, "--yes"]] {
        let text = work.scratch.expect(4, verb);
        assert!(text.contains("is open in process") || text.contains("is not finished while"), "{text}");
        assert_equal(&now, &work.copy("after"));
    }
    drop(agent);
    let workspace = work.workspace.to_string_lossy().into_owned();
    let text = work.scratch.expect(0, &["checkpoint", "create", &work.session, "--workspace", &workspace]);
    assert!(text.contains("finished now"), "{text}");
}

/// A checkpoint of the workspace by a clock that is elsewhere; what is said of it.
fn created_at(work: &Work, by: &str) -> String {
    work.scratch.at(by, &["checkpoint", "create", &work.session, "--workspace", &work.workspace.to_string_lossy()])
}

#[test]
fn one_that_was_interrupted_after_the_clock_was_set_back_is_finished() {
    // Its id is above that of every later one.
    let ahead = |work: &Work| drop(created_at(work, "+1d"));
    let Interrupted { work, _recorder, .. } = interrupted_after(false, &ahead);
    let text = created_at(&work, "-1h");
    assert!(text.contains("is finished now") && !text.contains("is not finished"), "{text}");
    work.assert_is_target();
    // The head is what was rolled back to, whole.
    let restored = work.scratch.path("restored");
    work.scratch.restore("latest", &restored);
    let _ = fs::remove_dir_all(restored.join(".git"));
    let wanted = work.wanted();
    for folder in [&restored, &wanted] {
        std::process::Command::new("touch").args(["-d", "2020-01-01"]).arg(folder).status().unwrap();
    }
    assert_equal(&wanted, &restored);
}

#[test]
fn one_that_was_interrupted_is_given_up_where_work_has_gone_on_by_a_clock_that_was_set_back() {
    let Interrupted { work, _recorder, .. } = interrupted(false);
    fs::write(work.workspace.join("src/m1/f1.rs"), "worked on").unwrap();
    // What was being built goes in any case.
    work.scratch.expect(0, &["gc", "--quiet"]);
    let now = work.copy("now");
    // As a hook of the agent makes one, which finishes nothing while the agent lives.
    let options =
        create::Options { workspace: work.workspace.clone(), session: work.session.clone(), ..create::Options::default() };
    let newer = create::run(&opened(&work), &options, &()).unwrap().checkpoint;
    let session = opened(&work).view().session(&work.session).unwrap().unwrap();
    // The rollback's safety checkpoint seems to be younger than all that came later.
    let late = Ulid::from_parts(newer.record.id.timestamp_ms() + 86_400_000, 1);
    let intent = Intent { safety: late, ..intent::open(&session).unwrap() };
    let changed = NewEvent::new(kind::SESSION_CHANGED, &work.session, Actor::default()).with("rollback", json!(intent));
    opened(&work).append_events(&[changed], &()).unwrap();
    let text = created_at(&work, "+0");
    assert!(text.contains("is not finished: work has gone on") && text.contains(&newer.id()), "{text}");
    assert_equal(&now, &work.copy("after"));
}

#[test]
fn one_that_was_interrupted_is_finished_where_the_workspace_was_moved_to() {
    let Interrupted { mut work, _recorder, .. } = interrupted(false);
    let moved = work.workspace.with_file_name("moved");
    fs::rename(&work.workspace, &moved).unwrap();
    // This filesystem gives folders nothing that they could be known by.
    let to = moved.to_string_lossy().into_owned();
    work.scratch.expect(0, &["session", "move", &work.session, &to, "--other-folder"]);
    let text = work.scratch.expect(0, &["checkpoint", "create", &work.session, "--workspace", &to]);
    assert!(text.contains("is finished now"), "{text}");
    assert!(!work.workspace.exists());
    work.workspace = moved;
    work.assert_is_target();
}

#[test]
fn undo_goes_by_the_rollback_that_was_committed_last() {
    let work = Work::new(false);
    let other = work.scratch.path("other");
    write(&other.join("file"), b"first").unwrap();
    let path = other.to_string_lossy().into_owned();
    work.scratch.expect(0, &["session", "run", "--workspace", &path, "--", "true"]);
    let sessions = || opened(&work).view().sessions().unwrap();
    let of_other = sessions().into_iter().find(|session| session.id != work.session).unwrap();
    work.spoil();
    work.scratch.at("+1d", &["checkpoint", "rollback", &work.target, "--yes"]);
    fs::write(other.join("file"), "second").unwrap();
    work.scratch.at("-1d", &["checkpoint", "rollback", &of_other.head.unwrap().to_string(), "--yes"]);
    let last = intent::last_rolled_back(&opened(&work), sessions()).unwrap().unwrap();
    assert_eq!(last.id, of_other.id);
    // By what changed last, too.
    let listed = work.scratch.expect(0, &["session", "list", "--json"]);
    let first: serde_json::Value = serde_json::from_str(listed.lines().next().unwrap()).unwrap();
    assert_eq!(first["id"], json!(of_other.id));
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
    assert_eq!(fs::read(work.workspace.join("more/package.json")).unwrap(), b"{}");
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
    let intent = Intent { goes_back: true, ..intent::open(&session).unwrap() };
    let back = NewEvent::new(kind::SESSION_CHANGED, &work.session, Actor::default()).with("rollback", json!(intent));
    store.append_events(&[back], &()).unwrap();
    let workspace = work.workspace.to_string_lossy().into_owned();
    let create = ["checkpoint", "create", &work.session, "--workspace", &workspace];
    let text = work.scratch.expect(0, &create);
    assert!(text.contains("is taken back now"), "{text}");
    assert_equal(&before, &work.copy("after"));
    assert!(intent::open(&opened(&work).view().session(&work.session).unwrap().unwrap()).is_none());
}
