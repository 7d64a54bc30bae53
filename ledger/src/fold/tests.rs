mod folds;

use proptest::prelude::*;
use serde_json::{Value, json};

use parhelia_store::{
    check,
    event::{Actor, AppendOutcome, NewEvent},
};

use super::*;
use crate::{
    VerifyLevel,
    end::{End, EndKind},
    kind,
    marks::ApprovalStatus,
    session::{Goal, Status},
    testing::TestStore,
    view::LedgerView as _,
};

fn actor() -> Actor {
    Actor { user: Some("ann".into()), via: "cli".into(), ..Actor::default() }
}

fn new(kind: &str, subject: impl Into<String>) -> NewEvent {
    NewEvent::new(kind, subject, actor())
}

fn append(test: &TestStore, event: NewEvent) -> Result<AppendOutcome> {
    test.store.append_events(&[event], &()).map(|mut appended| appended.remove(0))
}

fn started(test: &TestStore, run: &str, epoch: Option<u64>) -> Result<AppendOutcome> {
    let event = new(kind::RUN_STARTED, run).with("session", "test").with("pid", 7).with("argv", json!(["agent", "-p"]));
    append(test, NewEvent { epoch, ..event })
}

/// Everything projected, as another process sees it.
fn projected(test: &TestStore) -> String {
    let view = test.open().view();
    format!(
        "{:?} {:?} {:?} {:?}",
        view.sessions().unwrap(),
        view.runs().unwrap(),
        view.all_marks().unwrap(),
        view.last_event().unwrap()
    )
}

fn is_clean(test: &TestStore) {
    let report = check::run(test.store.layout(), &check::CheckOptions::default(), &()).unwrap();
    assert!(report.is_clean(), "{:?}", report.findings);
}

#[test]
fn a_checkpoint_makes_its_session() {
    let test = TestStore::new();
    let a = test.checkpoint(1);
    let session = test.store.view().session("test").unwrap().unwrap();
    assert_eq!((session.name.as_str(), session.head, session.epoch), ("test", Some(a), 0));
    assert_eq!((session.status, session.totals.checkpoints), (Status::Active, 1));
    assert!(matches!(test.store.view().session_named("other"), Err(Error::NoSession { .. })));
}

#[test]
fn sessions_are_ordered_by_the_entry_that_changed_them_last() {
    let test = TestStore::new();
    for session in ["a", "b"] {
        append(&test, new(kind::SESSION_CREATED, session)).unwrap();
    }
    let order = || {
        let mut sessions = test.open().view().sessions().unwrap();
        sessions.sort_by_key(|session| session.changed_sequence);
        sessions.into_iter().map(|session| session.id).collect::<Vec<_>>()
    };
    assert_eq!(order(), ["a", "b"]);
    test.store.absorb().unwrap();
    // No event says of itself when it was.
    append(&test, new(kind::SESSION_CHANGED, "a").with("name", "x").with("changed_sequence", 0)).unwrap();
    assert_eq!(order(), ["b", "a"]);
    test.store.absorb().unwrap();
    assert_eq!(order(), ["b", "a"]);
}

#[test]
fn runs_fence_each_other() {
    let test = TestStore::new();
    test.checkpoint(1);
    assert_eq!(started(&test, "r1", None).unwrap().event.epoch, 1);
    let lease = |run: &str, epoch| new(kind::RUN_LEASE, run).with("holder", "me").with("ttl_seconds", 90).in_epoch(epoch);
    append(&test, lease("r1", 1)).unwrap();
    started(&test, "r2", Some(2)).unwrap();
    let late = append(&test, lease("r1", 1));
    assert!(matches!(late, Err(Error::Fenced { epoch: 1, current: 2, .. })), "{late:?}");
    let same = started(&test, "r3", Some(2));
    assert!(matches!(same, Err(Error::Fenced { current: 2, .. })), "{same:?}");
    let id = test.ids()[0].to_string();
    for refused in [
        new(kind::SESSION_STATUS, "test").with("status", "ended"),
        new(kind::SESSION_HEAD, "test").with("checkpoint", id.as_str()),
        new(kind::CHECKPOINT_DECIDED, id.as_str()).with("status", "approved"),
        new(kind::CONVERSATION_SEEN, "another").with("session", "test").with("run", "r1"),
    ] {
        assert!(matches!(append(&test, refused.in_epoch(1)), Err(Error::Fenced { .. })));
    }
    // What an old run says of itself is welcome.
    append(&test, new(kind::RUN_ENDED, "r1").with("exit_reason", "killed").in_epoch(1)).unwrap();
    let run = test.store.view().run("r1").unwrap().unwrap();
    assert_eq!((run.exit_reason.as_deref(), run.pid, run.is_open()), (Some("killed"), Some(7), false));
    assert_eq!(run.argv, ["agent", "-p"]);
    let session = test.store.view().session("test").unwrap().unwrap();
    assert_eq!((session.epoch, session.run.as_deref(), session.runs.len()), (2, Some("r2"), 2));
    is_clean(&test);
}

#[test]
fn what_an_agent_prints_of_its_cost_counts_and_nothing_that_was_spent_comes_back() {
    let test = TestStore::new();
    test.checkpoint(1);
    let cost_after = |conversation: &str, cost: Value| {
        append(&test, new(kind::CONVERSATION_SEEN, conversation).with("session", "test").with("printed_cost_usd", cost)).unwrap();
        let session = test.store.view().session("test").unwrap().unwrap();
        let last = session.conversations.last().unwrap();
        assert_eq!((last.id.as_str(), last.cost_source.is_some()), (conversation, last.cost_usd.is_some()));
        (last.cost_usd, session.totals.cost_usd)
    };
    assert_eq!(cost_after("a", Value::Null), (None, None));
    assert_eq!(cost_after("a", json!(-1.0)), (None, None));
    assert_eq!(cost_after("a", json!(0.25)), (Some(0.25), Some(0.25)));
    assert_eq!(cost_after("b", json!(0.5)), (Some(0.5), Some(0.75)));
    assert_eq!(cost_after("a", json!(0.125)), (Some(0.25), Some(0.75)));
    is_clean(&test);
}

#[test]
fn what_is_said_of_a_checkpoint_adds_up_and_outlives_it() {
    let test = TestStore::new();
    let id = test.checkpoint(1);
    let about = |kind: &str| new(kind, id.to_string());
    for event in [
        about(kind::CHECKPOINT_TAGGED).with("tag", "milestone/v1"),
        about(kind::CHECKPOINT_TAGGED).with("tag", "stable"),
        about(kind::CHECKPOINT_UNTAGGED).with("tag", "stable"),
        about(kind::CHECKPOINT_ANNOTATED).with("text", "works"),
        about(kind::CHECKPOINT_LINKED)
            .with("tracker", "github")
            .with("id", "o/r#1")
            .with("url", "https://github.com/o/r/issues/1"),
        about(kind::CHECKPOINT_DECIDED).with("status", "approved").with("reason", "fine").with("policy", "review"),
        // A policy does not overrule a person.
        NewEvent { actor: Actor::program("policy"), ..about(kind::CHECKPOINT_DECIDED).with("status", "auto_approved") },
        about(kind::CHECKPOINT_VERIFIED).with("level", "deep").with("ok", true),
    ] {
        append(&test, event).unwrap();
    }
    for wrong in ["", "a b", "/x", "a//b", ".."] {
        assert!(append(&test, about(kind::CHECKPOINT_TAGGED).with("tag", wrong)).is_err(), "{wrong:?}");
    }
    test.delete(id);
    let again = append(&test, about(kind::CHECKPOINT_TAGGED).with("tag", "late"));
    assert!(matches!(again, Err(Error::NoCheckpoint { .. })));
    for _ in 0..2 {
        let marks = test.open().view().marks(id).unwrap();
        assert_eq!(marks.tags.iter().collect::<Vec<_>>(), ["milestone/v1"]);
        assert_eq!((marks.annotations[0].text.as_str(), marks.links.len()), ("works", 1));
        let approval = marks.approval.unwrap();
        assert_eq!((approval.status, approval.user.as_deref()), (ApprovalStatus::Approved, Some("ann")));
        assert_eq!(marks.verification.unwrap().level, VerifyLevel::Deep);
        assert!(marks.deleted.is_some());
        test.store.absorb().unwrap();
    }
    is_clean(&test);
}

#[test]
fn what_is_wanted_of_a_session_is_not_how_it_is() {
    let test = TestStore::new();
    test.checkpoint(1);
    let goal = || test.open().view().session("test").unwrap().unwrap().goal();
    let status = |name: &str| new(kind::SESSION_STATUS, "test").with("status", name);
    started(&test, "r1", None).unwrap();
    assert_eq!(goal(), Goal::Running);
    for (event, wanted) in [
        (status("paused").with("wanted", "running"), Goal::Running),
        (status("paused"), Goal::Paused),
        (status("error"), Goal::Paused),
        (status("active"), Goal::Running),
        (status("error"), Goal::Running),
        (status("ended"), Goal::Ended),
    ] {
        append(&test, event.clone()).unwrap();
        assert_eq!(goal(), wanted, "{event:?}");
    }
    test.store.absorb().unwrap();
    assert_eq!(goal(), Goal::Ended);
    // As an earlier release has projected it.
    let mut old = serde_json::to_value(test.open().view().session("test").unwrap().unwrap()).unwrap();
    old["status"] = json!("error");
    old.as_object_mut().unwrap().remove("wanted");
    assert_eq!(serde_json::from_value::<Session>(old).unwrap().goal(), Goal::Running);
}

#[test]
fn a_key_is_used_once() {
    let test = TestStore::new();
    let id = test.checkpoint(1).to_string();
    let note = |text: &str| new(kind::CHECKPOINT_ANNOTATED, id.as_str()).with("text", text).once("k1");
    let first = append(&test, note("one")).unwrap();
    for _ in 0..2 {
        let again = append(&test, note("two")).unwrap();
        assert_eq!((again.existed, &again.event), (true, &first.event));
        test.store.absorb().unwrap();
    }
    assert!(append(&test, new(kind::CHECKPOINT_TAGGED, id.as_str()).with("tag", "t").once("k1")).is_err());
    let both = test.store.append_events(&[note("x").once("k2"), note("y").once("k2")], &()).unwrap();
    assert_eq!(both.iter().map(|a| a.existed).collect::<Vec<_>>(), [false, true]);
    let with_key = |(_, event): &(u64, Event)| event.idempotency_key.is_some();
    assert_eq!(test.store.events_after(0).unwrap().iter().filter(|one| with_key(one)).count(), 2);
}

#[test]
fn the_time_of_a_run_is_added_once_it_is_over() {
    let test = TestStore::new();
    test.checkpoint(1);
    let worked = || test.open().view().session("test").unwrap().unwrap().totals.active_seconds;
    let end = |run: &str| append(&test, new(kind::RUN_ENDED, run).with("exit_reason", "exited")).unwrap();
    started(&test, "r1", None).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(1100));
    assert_eq!(worked(), 0);
    end("r1");
    let first = worked();
    assert!((1..60).contains(&first), "{first}");
    // Said twice, it is added once.
    std::thread::sleep(std::time::Duration::from_millis(1100));
    end("r1");
    assert_eq!(worked(), first);
    started(&test, "r2", None).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(1100));
    end("r2");
    assert!(worked() > first);
    test.store.absorb().unwrap();
    assert!(worked() > first);
}

#[test]
fn an_end_that_was_told_stands_whatever_is_guessed_before_or_after() {
    let test = TestStore::new();
    test.checkpoint(1);
    let told = |run: &str| new(kind::RUN_ENDED, run).with("exit_reason", "done").with("end", json!(End::exited(0)));
    let guess = End::of(EndKind::Unknown);
    let guessed = |run: &str| {
        let ended = new(kind::RUN_ENDED, run).with("exit_reason", "nothing says why").with("end", json!(guess));
        ended.with("heard", "2026-01-01T00:00:00Z")
    };
    for (run, events) in [("r1", [told("r1"), guessed("r1")]), ("r2", [guessed("r2"), told("r2")])] {
        started(&test, run, None).unwrap();
        for event in events {
            append(&test, event).unwrap();
        }
        let run = test.open().view().run(run).unwrap().unwrap();
        assert_eq!((run.ending(), run.exit_reason.as_deref()), (Some(End::exited(0)), Some("done")));
        assert_eq!(run.extra.get("heard"), None);
    }
}

#[test]
fn a_batch_is_appended_whole_or_not_at_all() {
    let test = TestStore::new();
    let made = new(kind::SESSION_CREATED, "new").with("name", "fix auth");
    let run = new(kind::RUN_STARTED, "r").with("session", "new");
    test.store.append_events(&[made, run.clone()], &()).unwrap();
    let session = test.store.view().session_named("fix auth").unwrap();
    assert_eq!((session.id.as_str(), session.epoch), ("new", 1));
    let before = projected(&test);
    let fits = new(kind::SESSION_CHANGED, "new").with("policy", "strict");
    assert!(test.store.append_events(&[fits, run], &()).is_err());
    assert_eq!(projected(&test), before);
    append(&test, new(kind::SESSION_STATUS, "new").with("status", "ended")).unwrap();
    assert!(append(&test, new(kind::SESSION_STATUS, "new").with("status", "active")).is_err());
    assert!(append(&test, new(kind::SESSION_STATUS, "nobody").with("status", "active")).is_err());
}

#[test]
fn unknown_kinds_and_fields_are_kept() {
    let test = TestStore::new();
    append(&test, new("weather.observed", "sky").with("colour", "blue")).unwrap();
    append(&test, new(kind::SESSION_CREATED, "s").with("mood", "good")).unwrap();
    let events = test.store.events_after(0).unwrap();
    assert_eq!(events[0].1.data["colour"], "blue");
    assert!(events[1].1.previous.is_some());
    assert_eq!(test.store.view().session("s").unwrap().unwrap().extra["mood"], "good");
    is_clean(&test);
}
