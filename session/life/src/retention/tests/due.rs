//! Tests: checkpoints that are due in one session are found without looking at everything, and equal a full plan's.

use std::cell::Cell;

use parhelia_ledger::LedgerView as _;
use parhelia_store::create::Outcome;

use super::*;
use crate::retention::{due::due, keep::About};

/// The places of those that go, of checkpoints in order of commit, and how often marks were asked for. `marked` ones are marked, or else in use.
fn goes(policy: &Policy, checkpoints: &[Checkpoint], marked: &[bool], are_marks: bool, now: i64) -> (Vec<usize>, usize) {
    let briefs: Vec<Brief> = checkpoints.iter().map(Brief::from).collect();
    let now = Timestamp::from_second(START + now * 60).unwrap();
    let mut thinning = keep::Thinner::new(policy, true, now, TimeZone::UTC);
    let asked = Cell::new(0);
    let mut gone = Vec::new();
    for (i, brief) in briefs.iter().enumerate().rev() {
        let about = About {
            brief,
            is_elsewhere: false,
            is_latest: i + 1 == briefs.len(),
            is_parent: false,
            is_resumed: false,
            is_rolled_back: false,
            is_used: marked[i] && !are_marks,
            marked: &|_| {
                asked.set(asked.get() + 1);
                (marked[i] && are_marks).then_some(KeepReason::Tagged)
            },
        };
        if thinning.judge(&about).is_err() {
            gone.push(i);
        }
    }
    (gone, asked.get())
}

proptest! {
    /// A marked checkpoint is as one that is known to be needed from the start, and without any mark no fewer go.
    #[test]
    fn marks_that_are_read_late_count_as_if_they_were_read_first(
        made in prop::collection::vec((0i64..20_000, 0usize..9, prop::bool::weighted(0.3)), 1..60), now in 20_000i64..40_000,
        keep_last in 0u64..4, daily in 0u64..3, max_age_hours in prop::sample::select(vec![0u64, 100, 168, 400]),
    ) {
        let mut made = made;
        made.sort_unstable();
        let trigger = |i: usize| Trigger::ALL.get(i).copied().unwrap_or(Trigger::Periodic);
        let all: Vec<Checkpoint> = made.iter().enumerate().map(|(i, (m, t, _))| checkpoint(i as u64, *m, trigger(*t).name())).collect();
        let marked: Vec<bool> = made.iter().map(|(_, _, marked)| *marked).collect();
        let policy = Policy { keep_last, max_age_hours, calendar: Calendar { daily, ..Calendar::default() }, ..Policy::default() };
        let (late, _) = goes(&policy, &all, &marked, true, now);
        prop_assert_eq!(&late, &goes(&policy, &all, &marked, false, now).0);
        let unmarked = goes(&policy, &all, &vec![false; all.len()], true, now).0;
        prop_assert!(late.iter().all(|place| unmarked.contains(place)));
    }
}

#[test]
fn marks_are_asked_for_where_something_would_go_or_keep_its_time() {
    let by_hand: Vec<Checkpoint> = (0..1000).map(|i| checkpoint(i, i as i64, "manual")).collect();
    assert_eq!(goes(&Policy::default(), &by_hand, &vec![false; 1000], true, 1100), (vec![], 0));
    // Sixteen hours of minutes: one stays of each hour, and the ten last ones.
    let periodic: Vec<Checkpoint> = (0..1000).map(|i| checkpoint(i, i as i64, "periodic")).collect();
    let (gone, asked) = goes(&Policy::default(), &periodic, &vec![false; 1000], true, 1100);
    assert!(gone.len() > 950 && asked <= gone.len() + 18, "{} {asked}", gone.len());
}

#[test]
fn what_is_due_is_what_a_plan_of_the_session_removes() {
    let f = fixture();
    let mut ids = Vec::new();
    for i in 0..90 {
        let (trigger, detail) = match i % 6 {
            0 => (Trigger::Manual, None),
            1 => (Trigger::Manual, Some("safety")),
            2 => (Trigger::Error, None),
            _ => (Trigger::Periodic, None),
        };
        ids.push(f.create("a", trigger, detail));
        f.create("b", Trigger::Periodic, None);
    }
    f.say(kind::CHECKPOINT_TAGGED, ids[9], json!({"tag": "stable"}));
    f.say(kind::CHECKPOINT_DECIDED, ids[10], json!({"status": "approved"}));
    f.append(kind::RUN_STARTED, "r1", json!({ "session": "b", "epoch": 1, "resumed_from": ids[15].to_string() }));
    f.append(kind::SESSION_HEAD, "a", json!({ "checkpoint": ids[70].to_string() }));
    let mut pin = Pin::take(&f.store.layout().pins(), false, "mount").unwrap();
    pin.add([ids[22]]).unwrap();
    let policies = [Policy::default(), Policy { folder_max_age_hours: 100, ..none_kept_by_number() }, none_kept_by_any_rule()];
    for policy in &policies {
        for hours in [0, 2, 30, 200] {
            let planned = plan(&f.store, policy, Some("a"), in_hours(hours)).unwrap();
            let due = due(&f.store, policy, "a", in_hours(hours)).unwrap();
            assert_eq!(due.remove, planned.remove, "{policy:?} {hours}");
            assert_eq!(due.kept, planned.keep.len() as u64);
        }
    }
    let removed = plan(&f.store, &policies[1], Some("a"), in_hours(200)).unwrap().remove;
    assert!(removed.len() > 50 && !removed.iter().any(|(c, _)| [ids[9], ids[10], ids[15], ids[22]].contains(&c.record.id)));
}

#[test]
fn after_a_checkpoint_goes_what_is_due_of_its_session_alone() {
    let f = fixture();
    for _ in 0..4 {
        f.create("a", Trigger::Periodic, None);
        f.create("b", Trigger::Periodic, None);
    }
    let options =
        Options { workspace: f.workspace.clone(), session: "a".into(), trigger: Trigger::Periodic, ..Options::default() };
    let made: Outcome = create::run(&f.store, &options, &()).unwrap();
    let config = config::Retention { automatic: true, hourly_hours: 24, ..config::Retention::default() };
    let report = after(&f.store, &made, &config, (&Actor::default(), false), &()).unwrap();
    let left = f.store.checkpoints().unwrap();
    let of = |session: &str| left.iter().filter(|c| c.record.session == session).count();
    // The latest, the one before, and another one of the hour.
    assert_eq!((report.removed.len(), report.kept, of("a"), of("b")), (2, 3, 3, 4));
    let deleted = f.store.view().marks(report.removed[0].0.record.id).unwrap().deleted.unwrap();
    assert_eq!(deleted.reason.as_deref(), Some(RemovalReason::Thinned.text()));
}

#[test]
fn an_agents_checkpoint_makes_none_of_another_session_go_though_the_store_is_too_large() {
    let f = fixture();
    for i in 0..4 {
        fs::write(f.workspace.join("file"), noise(i)).unwrap();
        f.create("theirs", Trigger::Manual, None);
    }
    let options = Options { workspace: f.workspace.clone(), session: "agents".into(), ..Options::default() };
    fs::write(f.workspace.join("file"), noise(9)).unwrap();
    let made: Outcome = create::run(&f.store, &options, &()).unwrap();
    let config = config::Retention { automatic: true, keep_last: 1, max_store_bytes: 1, ..config::Retention::default() };
    let report = after(&f.store, &made, &config, (&Actor::default(), true), &()).unwrap();
    assert_eq!((report.removed.len(), f.ids().len()), (0, 5));
    let report = after(&f.store, &made, &config, (&Actor::default(), false), &()).unwrap();
    assert!(!report.removed.is_empty(), "a person's does");
}

#[test]
fn the_settled_beginning_of_a_session_is_not_looked_at_again_before_something_of_it_may_go() {
    let f = fixture();
    let mut ids: Vec<Ulid> = (0..150).map(|_| f.create("a", Trigger::Manual, None)).collect();
    ids.extend((0..20).map(|_| f.create("a", Trigger::Periodic, None)));
    let same = |policy: &Policy, hours: u64| {
        let planned = plan(&f.store, policy, Some("a"), in_hours(hours)).unwrap();
        let due = due(&f.store, policy, "a", in_hours(hours)).unwrap();
        assert_eq!(due.remove, planned.remove, "{policy:?} {hours}");
        (due.remove.len(), due.kept)
    };
    let policy = Policy { keep_last: 3, ..Policy::default() };
    assert_eq!(same(&policy, 0), (0, 170));
    // All but the newest 64 are noted.
    assert_eq!(same(&policy, 0), (0, 64));
    // One more may stay where an hour ended between them.
    assert!((16..=17).contains(&same(&policy, 5).0));
    // Under other rules, and as an agent's session, all are looked at.
    assert_eq!(same(&Policy { folder_max_age_hours: 10, ..policy.clone() }, 11).0, 167);
    assert_eq!(same(&Policy { only_kept: true, all_hours: 0, ..policy.clone() }, 11).0, 167);
    f.append(kind::RUN_STARTED, "r1", json!({ "session": "a", "epoch": 1 }));
    assert_eq!(same(&policy, 0), (0, 170));
    assert!((47..=48).contains(&same(&policy, 100).1));
    assert_eq!(same(&policy, 169).0, 167);
    // A note that does not decode, or is lost, is none.
    for name in fs::read_dir(f.store.layout().cache()).unwrap().flatten().map(|entry| entry.path()) {
        if name.extension().is_some_and(|end| end == "settled") {
            fs::write(name, "{").unwrap();
        }
    }
    assert_eq!(same(&policy, 0), (0, 170));
}
