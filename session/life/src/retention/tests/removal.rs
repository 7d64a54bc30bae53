//! Removals: which checkpoints go, of which session, and how that is reported.

use std::sync::Mutex;

use parhelia_ledger::LedgerView as _;
use parhelia_store::clock;
use parhelia_store::delete::delete_checkpoints;

use super::*;

#[test]
fn a_policy_is_what_was_configured() {
    let set = config::Retention {
        automatic: true,
        keep_last: 1,
        keep_hourly: 2,
        keep_daily: 3,
        keep_weekly: 4,
        keep_monthly: 5,
        keep_yearly: 6,
        max_age_hours: 7,
        folder_max_age_hours: 8,
        keep_complete: false,
        keep_error: true,
        all_hours: 9,
        hourly_hours: 10,
        max_store_bytes: 11,
    };
    let expected = Policy {
        keep_last: 1,
        calendar: Calendar { hourly: 2, daily: 3, weekly: 4, monthly: 5, yearly: 6 },
        only_kept: false,
        max_age_hours: 7,
        folder_max_age_hours: 8,
        keep_complete: false,
        keep_error: true,
        all_hours: 9,
        hourly_hours: 10,
        max_store_bytes: 11,
        thins_by_clock: false,
    };
    assert_eq!(Policy::from(&set), expected);
}

#[test]
fn a_session_is_an_agents_by_its_runs_or_its_conversations_and_a_plan_is_of_one_session() {
    let f = fixture();
    for session in ["folder", "ran", "talked"] {
        (0..4).for_each(|_| _ = f.create(session, Trigger::Manual, None));
    }
    f.append(kind::RUN_STARTED, "r1", json!({ "session": "ran", "epoch": 1 }));
    f.append(kind::CONVERSATION_SEEN, "c1", json!({ "session": "talked" }));
    let goes = |session| {
        let plan = plan(&f.store, &none_kept_by_number(), session, in_hours(1000)).unwrap();
        let count = |wanted: &str| plan.remove.iter().filter(|(c, _)| c.record.session == wanted).count();
        (plan.keep.len() + plan.remove.len(), count("folder"), count("ran"), count("talked"))
    };
    // The latest stays, and its parent.
    assert_eq!(goes(None), (12, 0, 2, 2));
    assert_eq!(goes(Some("ran")), (4, 0, 2, 0));
    assert_eq!(goes(Some("folder")), (4, 0, 0, 0));
}

#[test]
fn a_safety_checkpoint_of_a_folder_stays_as_long_as_its_folder_says_or_else_as_an_agents() {
    let all =
        [Checkpoint { record: safety(checkpoint(0, 0, "manual")), ..checkpoint(0, 0, "manual") }, checkpoint(1, 1, "manual")];
    let at = |policy: &Policy, hours: i64| judged(policy, false, &all, hours * 60)[0];
    let (own, none) = (Policy { folder_max_age_hours: 24, ..none_kept_by_number() }, none_kept_by_number());
    assert_eq!((at(&own, 23), at(&own, 24)), (Ok(KeepReason::Safety), Err(RemovalReason::TooOld)));
    assert_eq!((at(&none, 167), at(&none, 168)), (Ok(KeepReason::Safety), Ok(KeepReason::NotPeriodic)));
}

fn safety(checkpoint: Checkpoint) -> parhelia_store::record::Record {
    parhelia_store::record::Record { trigger_detail: Some(SAFETY.into()), ..checkpoint.record }
}

#[test]
fn what_is_needed_or_gone_by_now_is_not_removed_and_what_is_removed_says_why() {
    let f = fixture();
    let ids: Vec<Ulid> = (0..5).map(|_| f.create("s", Trigger::Periodic, None)).collect();
    let policy = none_kept_by_any_rule();
    let planned = plan(&f.store, &policy, None, clock::timestamp()).unwrap();
    assert_eq!(planned.remove.len(), 3);
    f.say(kind::CHECKPOINT_TAGGED, ids[0], json!({"tag": "needed"}));
    delete_checkpoints(&f.store, &ids[1..2], Some("by somebody else"), &()).unwrap();
    let mut report = RetentionReport::new(&planned, &policy);
    remove(&f.store, None, &planned.remove, &Actor::default(), &(), &mut report).unwrap();
    assert_eq!(report.removed.iter().map(|(c, _)| c.record.id).collect::<Vec<_>>(), ids[2..3]);
    assert_eq!(f.ids(), [ids[0], ids[3], ids[4]]);
    let deleted = f.store.view().marks(ids[2]).unwrap().deleted.unwrap();
    assert_eq!(deleted.reason.as_deref(), Some("no rule keeps it"));
}

#[test]
fn a_limit_counts_what_the_rules_would_remove_elsewhere_as_kept_and_none_looks_at_no_size() {
    let f = fixture();
    for (i, session) in ["a", "a", "a", "a", "b", "b"].into_iter().enumerate() {
        fs::write(f.workspace.join("file"), noise(i as u64)).unwrap();
        f.create(session, Trigger::Periodic, None);
    }
    let policy = none_kept_by_any_rule();
    let report = prune(&f.store, &policy, Some("b"), &Actor::default(), clock::timestamp(), &()).unwrap();
    assert_eq!((report.removed.len(), report.kept, report.store_bytes), (0, 2, 0));
    let policy = Policy { max_store_bytes: 11 << 19, ..policy };
    let report = prune(&f.store, &policy, Some("b"), &Actor::default(), clock::timestamp(), &()).unwrap();
    // One of the two that the rules would remove of the other session is enough.
    assert_eq!((report.removed.len(), report.kept, f.ids().len()), (1, 5, 5));
}

#[test]
fn a_new_checkpoint_makes_old_ones_go_where_that_is_configured() {
    #[derive(Default)]
    struct Notices(Mutex<Vec<String>>);
    impl Progress for Notices {
        fn notice(&self, text: &str) {
            self.0.lock().unwrap().push(text.to_owned());
        }
    }
    let f = fixture();
    let ids: Vec<Ulid> = (0..4).map(|_| f.create("s", Trigger::Periodic, None)).collect();
    f.create("other", Trigger::Periodic, None);
    let options = Options { workspace: f.workspace.clone(), session: "s".into(), ..Options::default() };
    let made = create::run(&f.store, &options, &()).unwrap();
    let on = config::Retention { automatic: true, keep_yearly: 1, ..config::Retention::default() };
    let off = config::Retention { automatic: false, ..on.clone() };
    let skipped = Outcome { skipped: true, ..made.clone() };
    let said = Notices::default();
    let actor = Actor { user: Some("somebody".into()), via: "cli".into(), ..Actor::default() };
    assert!(after(&f.store, &made, &off, (&actor, false), &said).is_none());
    assert!(after(&f.store, &skipped, &on, (&actor, false), &said).is_none());
    assert_eq!(f.ids().len(), 6);
    let report = after(&f.store, &made, &on, (&actor, false), &said).unwrap();
    let mut removed: Vec<Ulid> = report.removed.iter().map(|(c, _)| c.record.id).collect();
    removed.sort_unstable();
    // The last one is the parent of the new one, which is that of its year.
    assert_eq!(removed, ids[..3]);
    let deletions = f.store.events_after(0).unwrap().into_iter().filter(|(_, event)| event.kind == kind::CHECKPOINT_DELETED);
    assert!(
        deletions.clone().count() == 3
            && deletions.into_iter().all(|(_, event)| event.actor == Actor { via: "retention".into(), ..actor.clone() })
    );
    assert!(said.0.lock().unwrap().is_empty());
    // It is worth a word where that cannot be done. Before something is due, nothing is asked for that may fail.
    f.create("s", Trigger::Periodic, None);
    let made = create::run(&f.store, &options, &()).unwrap();
    let pins = f.store.layout().pins();
    fs::remove_dir_all(&pins).unwrap();
    fs::write(&pins, "no folder").unwrap();
    assert!(after(&f.store, &made, &on, (&actor, false), &said).is_none());
    let said = said.0.into_inner().unwrap();
    assert!(said.len() == 1 && said[0].contains("the checkpoint is made, but not all older ones were removed"), "{said:?}");
}
