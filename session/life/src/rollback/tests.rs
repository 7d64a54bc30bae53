use std::{
    fs,
    path::PathBuf,
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use parhelia_ledger::{LedgerView as _, Session, kind};
use parhelia_store::{
    OpenOptions, Store, create,
    delete::delete_checkpoints,
    error::ErrorKind,
    event::{Actor, NewEvent},
    id::Ulid,
    progress::{Phase, Progress},
    record::{Cause, Checkpoint, Trigger},
    restore::Why,
};

use super::*;
use crate::retention::SAFETY;
use parhelia_host::{
    Error, Observer,
    config::Config,
    intent::{self, held, last_rolled_back, moved_with, needed, shared},
};
use parhelia_session_testing::{NOBODY, PROCESS, WarningLog};

mod obstacles;
mod since;
mod spared;
mod spoken;
mod stash;

struct Fixture {
    _dir: tempfile::TempDir,
    store: Store,
    workspace: PathBuf,
}

fn fixture() -> Fixture {
    let dir = tempfile::tempdir().unwrap();
    let store = parhelia_ledger::open(
        &dir.path().join("store"),
        &OpenOptions { create: true, lock_timeout: Duration::ZERO, ..Default::default() },
    )
    .unwrap();
    let workspace = dir.path().canonicalize().unwrap().join("work");
    fs::create_dir(&workspace).unwrap();
    Fixture { _dir: dir, store, workspace }
}

impl Fixture {
    /// A checkpoint of a workspace in which one file holds this.
    fn create(&self, content: &str, detail: Option<&str>) -> Checkpoint {
        fs::write(self.workspace.join("file"), content).unwrap();
        let options = create::Options {
            workspace: self.workspace.clone(),
            session: "s".into(),
            trigger: Trigger::Manual,
            cause: detail.and_then(|detail| Cause::ALL.into_iter().find(|cause| cause.name() == detail)).unwrap_or_default(),
            trigger_detail: detail.map(str::to_owned),
            ..create::Options::default()
        };
        create::run(&self.store, &options, &()).unwrap().checkpoint
    }

    fn session(&self) -> Session {
        self.store.refresh().unwrap().session("s").unwrap().unwrap()
    }

    fn content(&self) -> String {
        fs::read_to_string(self.workspace.join("file")).unwrap()
    }

    fn intent(&self, target: &Checkpoint, safety: &Checkpoint) -> Intent {
        Intent {
            target: target.record.id,
            safety: safety.record.id,
            sequence: Some(safety.sequence),
            head: self.session().head,
            head_after: target.record.id,
            workspace: self.workspace.clone(),
            stash: None,
            spare: Vec::new(),
            conversation: None,
            conversation_before: None,
            conversation_after: None,
            leave_unwritable: false,
            by_agent: false,
            goes_back: false,
        }
    }

    /// Acts as the next process does; returns its result and its warnings.
    fn take_turn(&self) -> (Result<(), Error>, String) {
        let warned = WarningLog::default();
        let settled = take_turn(&self.store, &PROCESS, "s", Duration::ZERO, &warned);
        (settled.map(|turn| assert!(turn.is_some())), warned.text())
    }

    fn deleted(&self, checkpoints: &[&Checkpoint]) {
        let ids: Vec<Ulid> = checkpoints.iter().map(|checkpoint| checkpoint.record.id).collect();
        delete_checkpoints(&self.store, &ids, None, &()).unwrap();
    }
}

fn actor() -> Actor {
    Actor::program("test")
}

/// A rollback to a checkpoint, with nothing out of the ordinary.
fn wanted<'a>(target: &'a Checkpoint, settings: &'a Config) -> RollbackRequest<'a> {
    RollbackRequest { target, options: Options::default(), config: None, environment: None, settings, host: &NOBODY }
}

/// A session with two states of its workspace, a safety checkpoint of the second, and a rollback to the first that was interrupted.
fn interrupted(change: impl FnOnce(&mut Intent)) -> (Fixture, Checkpoint, Checkpoint) {
    let f = fixture();
    let first = f.create("first", None);
    f.create("second", None);
    let safety = f.create("second", Some(SAFETY));
    let mut intent = f.intent(&first, &safety);
    change(&mut intent);
    intent::commit(&f.store, "s", &intent, &actor()).unwrap();
    assert_eq!(open(&f.session()), Some(intent));
    (f, first, safety)
}

#[test]
fn what_was_interrupted_is_finished_by_whoever_comes_next() {
    let (f, first, safety) = interrupted(|_| {});
    let head = f.session().head;
    let (done, told) = f.take_turn();
    done.unwrap();
    assert!(told.contains("is in safety checkpoint") && told.contains("is finished now"), "{told}");
    let session = f.session();
    assert_eq!((f.content().as_str(), session.head, open(&session)), ("first", Some(first.record.id), None));
    let last = last(&session).unwrap();
    assert_eq!((last.target, last.safety, last.head), (first.record.id, safety.record.id, head));
    assert!(!last.with_conversation && last.sequence == Some(safety.sequence));
    // What was there half done is a checkpoint now.
    let newest = f.store.view().newest_first().unwrap().next().unwrap().unwrap();
    assert!(newest.record.is_safety() && told.contains(&newest.id().to_string()));
    assert_eq!(f.take_turn().1, "", "there is nothing to finish any more");
}

#[test]
fn what_was_being_taken_back_is_taken_back() {
    let (f, _, safety) = interrupted(|intent| intent.goes_back = true);
    fs::write(f.workspace.join("file"), "first").unwrap();
    let (done, told) = f.take_turn();
    done.unwrap();
    assert!(told.contains("is taken back now"), "{told}");
    let session = f.session();
    assert_eq!((f.content().as_str(), open(&session), last(&session)), ("second", None, None));
    assert!(safety.record.is_safety() && told.contains("that had failed"), "{told}");
}

#[test]
fn work_that_has_gone_on_is_worth_more_than_a_rollback() {
    for is_sequence_known in [true, false] {
        let (f, ..) = interrupted(|intent| intent.sequence = intent.sequence.filter(|_| is_sequence_known));
        let newer = f.create("newer", None);
        let (done, told) = f.take_turn();
        done.unwrap();
        assert!(told.contains("work has gone on since") && told.contains(&newer.id().to_string()), "{told}");
        assert_eq!((f.content().as_str(), open(&f.session()), last(&f.session())), ("newer", None, None));
    }
}

#[test]
fn a_rollback_whose_checkpoints_are_gone_leaves_the_workspace_alone() {
    let (f, first, safety) = interrupted(|_| {});
    fs::write(f.workspace.join("file"), "half done").unwrap();
    f.deleted(&[&first, &safety]);
    let (done, told) = f.take_turn();
    done.unwrap();
    assert!(told.contains("neither that checkpoint nor"), "{told}");
    assert_eq!((f.content().as_str(), open(&f.session())), ("half done", None));
}

#[test]
fn a_rollback_of_which_one_checkpoint_is_gone_ends_at_the_other() {
    let (f, first, _) = interrupted(|_| {});
    fs::write(f.workspace.join("file"), "half done").unwrap();
    f.deleted(&[&first]);
    let (failed, _) = f.take_turn();
    let of_this = |e: &Error| matches!(e, Error::RollbackFailed { target, .. } if *target == first.record.id);
    assert!(failed.as_ref().is_err_and(of_this), "{failed:?}");
    assert_eq!((f.content().as_str(), open(&f.session())), ("second", None));
    let (f, first, safety) = interrupted(|_| {});
    fs::write(f.workspace.join("file"), "half done").unwrap();
    f.deleted(&[&safety]);
    f.take_turn().0.unwrap();
    assert_eq!((f.content().as_str(), f.session().head), ("first", Some(first.record.id)));
}

#[test]
fn a_workspace_goes_back_and_forth_and_what_was_left_out_stays() {
    let f = fixture();
    let first = f.create("first", None);
    f.create("second", None);
    let settings = Config::default();
    let wanted = |target| wanted(target, &settings);
    let back = wanted(&first);
    let looked = look(&f.store, &back).unwrap();
    assert_eq!((&looked.workspace, looked.conversation.is_none()), (&f.workspace, true));
    // No agent has worked there, so that nothing is said of a conversation.
    assert!(!looked.notices.iter().any(|notice| notice.to_string().contains("conversation")), "{:?}", looked.notices);
    let done = execute(&f.store, &looked, &back, None, &()).unwrap();
    assert_eq!((f.content().as_str(), done.target, done.stash), ("first", first.record.id, Stash::Nothing));
    assert_eq!((done.changes.len(), done.with_conversation), (1, false));
    assert_eq!((f.session().head, open(&f.session())), (Some(first.record.id), None));
    // And forth again, to what was there before.
    let undone = last(&f.session()).unwrap();
    assert_eq!((undone.target, undone.safety), (done.target, done.safety));
    let safety = f.store.view().checkpoint(done.safety).unwrap().unwrap();
    let forth = wanted(&safety);
    let looked = look(&f.store, &forth).unwrap();
    execute(&f.store, &looked, &forth, Some(&undone), &()).unwrap();
    assert_eq!((f.content().as_str(), f.session().head), ("second", Some(safety.record.id)));
}

/// Does something each time that a checkpoint, or a restore, is about to be committed, with how often that was.
struct AtCommit<F: Fn(usize) + Sync>(AtomicUsize, F);

impl<F: Fn(usize) + Sync> Observer for AtCommit<F> {}

impl<F: Fn(usize) + Sync> Progress for AtCommit<F> {
    fn phase(&self, phase: Phase, _: Option<u64>, _: Option<u64>) {
        if phase == Phase::Commit {
            self.1(self.0.fetch_add(1, Ordering::Relaxed));
        }
    }
}

#[test]
fn what_is_saved_behind_the_safety_checkpoint_stays_and_is_named() {
    let f = fixture();
    let settings = Config::default();
    let first = f.create("first", None);
    for (name, content) in [("file", "second"), ("before", "x"), ("unread/before", "x")] {
        fs::create_dir_all(f.workspace.join("unread")).unwrap();
        fs::write(f.workspace.join(name), content).unwrap();
    }
    let wanted = wanted(&first, &settings);
    let looked = look(&f.store, &wanted).unwrap();
    // The first time everything is read for the safety checkpoint; the second time everything is built.
    let save = AtCommit(AtomicUsize::new(0), |times: usize| {
        let name = ["file", "unread/new"].get(times);
        name.into_iter().for_each(|name| fs::write(f.workspace.join(name), "saved meanwhile").unwrap());
    });
    let done = execute(&f.store, &looked, &wanted, None, &save).unwrap();
    let read = |name: &str| fs::read_to_string(f.workspace.join(name)).ok();
    let saved = Some("saved meanwhile".to_owned());
    assert_eq!((read("file"), read("unread/new"), read("before"), read("unread/before")), (saved.clone(), saved, None, None));
    let named: Vec<_> = done.report.skipped.iter().map(|skipped| (skipped.path.clone(), skipped.why)).collect();
    assert_eq!(named, [(b"file".to_vec(), Why::Changed), (b"unread/new".to_vec(), Why::Changed)]);
}

/// Somebody has asked to stop.
struct Stopped;

impl Observer for Stopped {}

impl Progress for Stopped {
    fn is_cancelled(&self) -> bool {
        true
    }
}

#[test]
fn a_turn_is_had_alone_unless_all_share_it() {
    let f = fixture();
    f.create("first", None);
    let nobody = |turn: Result<Turn, Error>| assert!(matches!(turn, Err(Error::Busy(text)) if text.contains("session s")));
    let alone = held(&f.store, "s", &()).unwrap();
    nobody(held(&f.store, "s", &()));
    nobody(shared(&f.store, "s", &()));
    held(&f.store, "another", &()).unwrap();
    // Whoever waits does so for as long as he has said, or until he is asked to stop.
    let (began, limit) = (Instant::now(), Duration::from_millis(30));
    assert!(take_turn(&f.store, &NOBODY, "s", limit, &()).unwrap().is_none());
    assert!(began.elapsed() >= limit);
    let stopped = take_turn(&f.store, &NOBODY, "s", Duration::from_secs(600), &Stopped).unwrap_err();
    assert_eq!(stopped.kind(), ErrorKind::Cancelled);
    drop(alone);
    let both = [(); 2].map(|()| shared(&f.store, "s", &()).unwrap());
    nobody(held(&f.store, "s", &()));
    drop(both);
    held(&f.store, "s", &()).unwrap();
}

#[test]
fn the_last_rollback_of_several_sessions_goes_by_the_order_of_commits() {
    let f = fixture();
    let (old, new) = (f.create("first", None), f.create("second", None));
    let append = |session: &str, name: &str, value: serde_json::Value| {
        let made = NewEvent::new(kind::SESSION_CREATED, session, actor());
        let changed = NewEvent::new(kind::SESSION_CHANGED, session, actor()).with(name, value);
        f.store.append_events(&[made, changed], &()).unwrap();
    };
    let done = |safety: &Checkpoint, sequence| {
        let (target, safety) = (Ulid::generate(), safety.record.id);
        serde_json::json!(Last {
            target,
            safety,
            sequence,
            head: Some(target),
            by_agent: false,
            with_conversation: false,
            conversation: None
        })
    };
    append("noted", "last_rolled_back", serde_json::Value::Null);
    append("earlier", "last_rollback", done(&old, Some(old.sequence)));
    // A release that did not note the sequence; one under way counts as well as one that is done.
    append("later", "last_rollback", done(&new, None));
    let sessions = || f.store.refresh().unwrap().sessions().unwrap();
    let newest = || last_rolled_back(&f.store, sessions()).unwrap().map(|session| session.id);
    assert_eq!(newest().as_deref(), Some("later"));
    append("under way", "rollback", serde_json::json!(Intent { sequence: Some(99), ..f.intent(&old, &new) }));
    assert_eq!(newest().as_deref(), Some("under way"));
    let of = |id: &str| sessions().into_iter().find(|session| session.id == id).unwrap();
    let last_one = last(&of("later")).unwrap();
    assert_eq!(needed(&of("later")), [Some(last_one.safety), last_one.head].into_iter().flatten().collect::<Vec<_>>());
    let (target, safety) = (old.record.id, new.record.id);
    assert_eq!(needed(&of("under way")), [target, safety, f.session().head.unwrap(), target]);
    assert_eq!(needed(&of("noted")), []);
    let moved = moved_with(&of("under way"), std::path::Path::new("/elsewhere")).unwrap();
    assert_eq!((moved.workspace, moved.target), (PathBuf::from("/elsewhere"), target));
    assert_eq!(last_rolled_back(&f.store, vec![of("noted")]).unwrap(), None);
}

#[test]
fn how_a_conversation_goes_back_is_said_in_a_line() {
    let spoken = |turns, turns_then| ConversationEffect { turns, turns_then, ..ConversationEffect::default() };
    assert_eq!(spoken(None, 1).text(), "comes back with 1 turn");
    assert_eq!(spoken(Some(2), 2).text(), "is at 2 turns, as it is now");
    assert_eq!(spoken(Some(1), 2).text(), "goes on to 2 turns, from 1 turn");
    let long = ConversationEffect {
        prompt_then: Some(format!("a  {}", "b".repeat(100))),
        prompt: Some("and\nthen".into()),
        is_another: true,
        ..spoken(Some(5), 2)
    };
    let then = format!("a {}", "b".repeat(58));
    let expected = format!(
        "goes back to 2 turns, the last \"{then}\"; what was said since (3 turns, the last \"and then\") is kept aside; the session's newer \
         conversation is left"
    );
    assert_eq!(long.text(), expected);
}
