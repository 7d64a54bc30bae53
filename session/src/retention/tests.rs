use std::{collections::HashSet, fs, path::PathBuf, time::Duration};

use parhelia_store::{
    OpenOptions,
    create::{self, Options},
    event::{NewEvent, kind},
    fold::Marks,
    pin::Pin,
    record::Trigger,
};
use proptest::prelude::*;
use serde_json::json;

use super::*;

const START: i64 = 1_800_000_000;

fn checkpoint(n: u64, minutes: i64, trigger: &str) -> Checkpoint {
    let at = Timestamp::from_second(START + minutes * 60).unwrap().to_string();
    let record = json!({
        "schema": 1, "id": Ulid::from_parts(n, n.into()).to_string(), "session": "s", "run": null, "epoch": 0, "parent": null,
        "depth": n + 1, "trigger": trigger, "trigger_detail": null, "message": null, "root": "11".repeat(32), "links": null,
        "parts": {}, "consistency": "unknown", "started_at": at, "created_at": at,
        "workspace": {"path": "/w", "files": 0, "folders": 0, "entries": 0, "bytes": 0}, "rules": {"defaults": true}, "omitted": null,
        "conversation": null, "git": null, "environment": null, "usage": null
    });
    Checkpoint::decode(n + 1, record.to_string()).unwrap()
}

/// Which of some checkpoints, given in order of commit, stay at a minute.
fn kept(policy: &Policy, checkpoints: &[Checkpoint], minute: i64) -> Vec<Option<Kept>> {
    let now = Timestamp::from_second(START + minute * 60).unwrap();
    let mut thinning = keep::Thinning::new(policy, now);
    let marks = Marks::default();
    let mut out: Vec<_> = checkpoints
        .iter()
        .rev()
        .enumerate()
        .map(|(i, checkpoint)| {
            thinning
                .judge(&keep::About { checkpoint, marks: &marks, is_latest: i == 0, is_rolled_back: false, is_used: false })
                .ok()
        })
        .collect();
    out.reverse();
    out
}

fn none_kept_by_number() -> Policy {
    Policy { keep_last: 0, ..Policy::default() }
}

#[test]
fn all_of_an_hour_then_hourly_then_daily_then_none() {
    // One every ten minutes, for ten days.
    let all: Vec<Checkpoint> = (0..1440).map(|i| checkpoint(i, i as i64 * 10, "periodic")).collect();
    let stays = kept(&none_kept_by_number(), &all, 14_390);
    let count = |from_hours_ago: usize, to: usize| stays[1440 - from_hours_ago * 6..1440 - to * 6].iter().flatten().count();
    assert_eq!(count(1, 0), 6);
    assert!((22..=24).contains(&count(24, 1)), "{}", count(24, 1));
    assert!((5..=7).contains(&count(168, 24)), "{}", count(168, 24));
    assert_eq!(count(240, 168), 0);
}

#[test]
fn the_last_ones_stay_however_close_they_are() {
    let all: Vec<Checkpoint> = (0..50).map(|i| checkpoint(i, i as i64, "periodic")).collect();
    let stays = kept(&Policy::default(), &all, 300);
    assert_eq!(stays.iter().filter(|kept| **kept == Some(Kept::Recent)).count(), 10);
    assert_eq!(stays[49], Some(Kept::Latest));
    assert!(stays[39..].iter().all(Option::is_some) && stays[..38].iter().all(Option::is_none));
}

#[test]
fn only_periodic_ones_are_thinned() {
    let triggers =
        ["manual", "periodic", "detach", "periodic", "shutdown", "complete", "error", "periodic", "manual", "periodic"];
    let all: Vec<Checkpoint> = triggers.iter().enumerate().map(|(i, t)| checkpoint(i as u64, 0, t)).collect();
    let policy = Policy { keep_complete: false, keep_error: false, ..none_kept_by_number() };
    let not = Some(Kept::NotPeriodic);
    let hours_later = kept(&policy, &all, 5 * 60);
    // Of the hour one periodic checkpoint stays, whatever else was made in it.
    assert_eq!(hours_later, [not, None, not, None, not, not, not, Some(Kept::Thinned), not, Some(Kept::Latest)]);
    assert!(all.iter().zip(&hours_later).all(|(c, kept)| c.record.trigger == Trigger::Periodic || !kept.unwrap().is_protected()));
    let too_old = kept(&policy, &all, 169 * 60);
    assert_eq!(too_old.iter().flatten().collect::<Vec<_>>(), [&Kept::Latest]);
    let numbered = kept(&Policy { keep_last: 2, ..policy }, &all, 5 * 60);
    assert_eq!(numbered[7..], [Some(Kept::Recent), Some(Kept::Recent), Some(Kept::Latest)]);
}

#[test]
fn completions_and_errors_stay_unless_the_policy_says_otherwise() {
    let all: Vec<Checkpoint> =
        ["complete", "error", "periodic", "periodic"].iter().enumerate().map(|(i, t)| checkpoint(i as u64, 0, t)).collect();
    let later = 400 * 60;
    let keeping = kept(&Policy::default(), &all, later);
    assert_eq!(keeping, [Some(Kept::Complete), Some(Kept::Error), None, Some(Kept::Latest)]);
    let dropping = Policy { keep_complete: false, keep_error: false, ..Policy::default() };
    assert_eq!(kept(&dropping, &all, later), [None, None, None, Some(Kept::Latest)]);
}

proptest! {
    /// Pruning again at the same time removes nothing more, and what stays later is part of what stays now.
    #[test]
    fn retention_is_stable(made in proptest::collection::vec((0i64..20_000, 0usize..12), 1..60), now in 20_000i64..40_000, step in 0i64..5000) {
        let mut made = made;
        made.sort_unstable();
        let trigger = |i: usize| Trigger::ALL.get(i).copied().unwrap_or(Trigger::Periodic).name();
        let all: Vec<Checkpoint> = made.iter().enumerate().map(|(i, (m, t))| checkpoint(i as u64, *m, trigger(*t))).collect();
        let policy = Policy { keep_last: 3, ..Policy::default() };
        let stays = |checkpoints: &[Checkpoint], now| -> Vec<Checkpoint> {
            let kept = kept(&policy, checkpoints, now);
            checkpoints.iter().zip(kept).filter(|(_, kept)| kept.is_some()).map(|(c, _)| c.clone()).collect()
        };
        let first = stays(&all, now);
        prop_assert!(first.contains(all.last().unwrap()));
        prop_assert_eq!(&stays(&first, now), &first);
        let ids = |list: &[Checkpoint]| list.iter().map(|c| c.record.id).collect::<HashSet<_>>();
        prop_assert!(ids(&stays(&first, now + step)).is_subset(&ids(&first)));
    }
}

struct Fixture {
    _dir: tempfile::TempDir,
    store: Store,
    workspace: PathBuf,
}

fn fixture() -> Fixture {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(&dir.path().join("store"), &OpenOptions { create: true, ..Default::default() }).unwrap();
    let workspace = dir.path().join("work");
    fs::create_dir(&workspace).unwrap();
    Fixture { _dir: dir, store, workspace }
}

impl Fixture {
    fn create(&self, session: &str, trigger: Trigger, detail: Option<&str>) -> Ulid {
        let options = Options {
            workspace: self.workspace.clone(),
            session: session.into(),
            trigger,
            trigger_detail: detail.map(str::to_owned),
            ..Options::default()
        };
        create::run(&self.store, &options, &()).unwrap().checkpoint.record.id
    }

    fn say(&self, kind: &str, id: Ulid, data: serde_json::Value) {
        let event = NewEvent { data: data.as_object().unwrap().clone(), ..NewEvent::new(kind, id.to_string(), Actor::default()) };
        self.store.append_events(&[event], &()).unwrap();
    }

    fn ids(&self) -> Vec<Ulid> {
        self.store.checkpoints().unwrap().iter().map(|c| c.record.id).collect()
    }
}

fn in_hours(hours: u64) -> Timestamp {
    Timestamp::now() + Duration::from_secs(hours * 3600)
}

#[test]
fn what_somebody_needs_stays_and_each_session_keeps_its_latest() {
    let f = fixture();
    let periodic = |session| f.create(session, Trigger::Periodic, None);
    let (approved, tagged, linked, used) = (periodic("a"), periodic("a"), periodic("a"), periodic("a"));
    let safety = f.create("a", Trigger::Manual, Some("safety"));
    let gone = [periodic("a"), periodic("a")];
    let rejected = periodic("a");
    let (latest, other) = (periodic("a"), periodic("b"));
    f.say(kind::CHECKPOINT_DECIDED, approved, json!({"status": "approved"}));
    f.say(kind::CHECKPOINT_DECIDED, rejected, json!({"status": "rejected"}));
    f.say(kind::CHECKPOINT_TAGGED, tagged, json!({"tag": "stable"}));
    f.say(kind::CHECKPOINT_LINKED, linked, json!({"tracker": "github", "id": "1", "url": "u"}));
    let mut pin = Pin::take(&f.store.layout().pins(), false, "mount").unwrap();
    pin.add([used]).unwrap();
    let policy = Policy { keep_last: 1, ..Policy::default() };
    let actor = Actor { user: None, via: "retention".into() };
    let day = prune(&f.store, &policy, None, &actor, in_hours(40), &()).unwrap();
    assert!(
        !day.removed.is_empty() && day.removed.iter().all(|(c, why)| gone.contains(&c.record.id) && *why == Removed::Thinned)
    );
    assert!(f.ids().contains(&safety));
    prune(&f.store, &policy, None, &actor, in_hours(1000), &()).unwrap();
    assert_eq!(f.ids(), [approved, tagged, linked, used, latest, other]);
    let deleted = f.store.view().marks(safety).unwrap().deleted.unwrap();
    assert_eq!(deleted.reason.as_deref(), Some(Removed::TooOld.text()));
}

#[test]
fn what_latest_names_stays_beside_a_newer_safety_checkpoint() {
    let f = fixture();
    let latest = f.create("a", Trigger::Periodic, None);
    let safety = f.create("a", Trigger::Manual, Some("safety"));
    let policy = Policy { keep_last: 0, ..Policy::default() };
    prune(&f.store, &policy, None, &Actor::default(), in_hours(1000), &()).unwrap();
    assert_eq!(f.ids(), [latest, safety]);
}

/// A megabyte that nothing else has.
fn noise(seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; 1 << 20];
    blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof().fill(&mut bytes);
    bytes
}

#[test]
fn a_store_that_is_too_large_loses_its_oldest() {
    let f = fixture();
    let mut ids = Vec::new();
    for i in 0..6 {
        fs::write(f.workspace.join("file"), noise(i)).unwrap();
        ids.push(f.create("s", Trigger::Periodic, None));
    }
    f.say(kind::CHECKPOINT_TAGGED, ids[0], json!({"tag": "first"}));
    let policy = Policy { max_store_bytes: 4 << 20, ..Policy::default() };
    let actor = Actor::default();
    let report = prune(&f.store, &policy, None, &actor, Timestamp::now(), &()).unwrap();
    assert!(report.excess_bytes() == 0 && report.freed_bytes > 2 << 20, "{report:?}");
    let left = f.ids();
    assert!(left.contains(&ids[0]) && left.contains(&ids[5]) && !left.contains(&ids[1]) && left.len() >= 3, "{left:?}");
    // What is protected stays, and the report says by how much that is too much.
    let policy = Policy { max_store_bytes: 1000, ..Policy::default() };
    let report = prune(&f.store, &policy, None, &actor, Timestamp::now(), &()).unwrap();
    assert_eq!(f.ids(), [ids[0], ids[5]]);
    assert!(report.excess_bytes() > 2 << 20 && report.protected.values().sum::<u64>() == 2, "{report:?}");
}

#[test]
fn a_limit_is_about_all_sessions_and_the_oldest_go_first() {
    let f = fixture();
    let mut ids = Vec::new();
    for i in 0..5 {
        fs::write(f.workspace.join("file"), noise(i)).unwrap();
        ids.push(f.create("large", Trigger::Manual, None));
    }
    fs::write(f.workspace.join("file"), "small").unwrap();
    let small = [f.create("small", Trigger::Periodic, None), f.create("small", Trigger::Periodic, None)];
    // Older than its session keeps any, but of another session than the one that is pruned: it is there, and counts.
    let policy = Policy { max_store_bytes: 3 << 20, keep_last: 1, ..Policy::default() };
    let forecast = forecast(&f.store, &policy, Some("small"), Timestamp::now(), &()).unwrap();
    let goes: Vec<Ulid> = forecast.plan.remove.iter().map(|(c, _)| c.record.id).collect();
    assert_eq!(goes, ids[..3], "{forecast:?}");
    assert!(forecast.excess_bytes == 0 && forecast.estimated_freed_bytes > 3 << 20, "{forecast:?}");
    assert_eq!(f.ids().len(), 7, "a forecast changes nothing");
    let report = prune(&f.store, &policy, Some("small"), &Actor::default(), Timestamp::now(), &()).unwrap();
    assert_eq!(f.ids(), [&ids[3..], &small[..]].concat(), "{report:?}");
    assert!(report.removed.len() == 3 && report.removed.iter().all(|(_, why)| *why == Removed::StoreTooLarge), "{report:?}");
    assert_eq!((report.kept, report.excess_bytes()), (4, 0));
}

#[test]
fn a_limit_is_not_given_up_while_anything_may_go() {
    let f = fixture();
    // All share nearly everything, so that each frees nearly nothing.
    fs::write(f.workspace.join("large"), noise(0)).unwrap();
    for i in 0..12 {
        fs::write(f.workspace.join("file"), &noise(100 + i)[..20_000]).unwrap();
        f.create(if i % 2 == 0 { "a" } else { "b" }, Trigger::Periodic, None);
    }
    let last = f.ids()[10..].to_vec();
    let policy = Policy { max_store_bytes: 1 << 20, ..Policy::default() };
    let foretold = forecast(&f.store, &policy, None, Timestamp::now(), &()).unwrap();
    assert!(foretold.plan.remove.iter().all(|(_, why)| *why == Removed::StoreTooLarge), "{foretold:?}");
    let report = prune(&f.store, &policy, Some("a"), &Actor::default(), Timestamp::now(), &()).unwrap();
    assert_eq!(f.ids(), last);
    assert_eq!((report.kept, &report.protected), (2, &BTreeMap::from([(Kept::Latest.text(), 2)])));
    assert!(report.excess_bytes() > 0);
}

#[test]
fn what_was_removed_before_something_failed_is_reported() {
    struct UntilOneGoes<'a>(&'a Store, usize);
    impl parhelia_store::progress::Progress for UntilOneGoes<'_> {
        fn is_cancelled(&self) -> bool {
            self.0.refresh().unwrap().checkpoints().unwrap().len() < self.1
        }
    }
    let f = fixture();
    for i in 0..6 {
        fs::write(f.workspace.join("file"), noise(i)).unwrap();
        f.create("s", Trigger::Periodic, None);
    }
    let policy = Policy { max_store_bytes: 1 << 20, ..Policy::default() };
    let stops = UntilOneGoes(&f.store, 6);
    let report = prune(&f.store, &policy, None, &Actor::default(), Timestamp::now(), &stops).unwrap();
    assert!(report.failed.as_ref().is_some_and(|e| e.to_string() == "interrupted"), "{report:?}");
    assert_eq!(report.removed.len(), 6 - f.ids().len());
    assert!(!report.removed.is_empty());
    let refused = prune(&f.store, &policy, None, &Actor::default(), Timestamp::now(), &UntilOneGoes(&f.store, 100));
    assert!(refused.is_err(), "nothing was removed: {refused:?}");
}
