mod due;
mod foretold;
mod limited;
mod removal;

use std::{collections::HashSet, fs, path::PathBuf, time::Duration};

use parhelia_ledger::{LedgerView as _, kind};
use parhelia_store::{
    OpenOptions, clock,
    create::{self, Options},
    event::NewEvent,
    pin::Pin,
    record::{Cause, Trigger},
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
    Checkpoint::decode(n + 1, record.to_string(), &parhelia_store::keys::Ids::default()).unwrap()
}

fn with_message(mut checkpoint: Checkpoint, message: &str) -> Checkpoint {
    checkpoint.record.message = Some(message.into());
    checkpoint
}

/// The decisions about some checkpoints, given in order of commit, at a minute.
fn judged(policy: &Policy, is_agents: bool, checkpoints: &[Checkpoint], minute: i64) -> Vec<Result<KeepReason, RemovalReason>> {
    let now = Timestamp::from_second(START + minute * 60).unwrap();
    let mut thinning = keep::Thinner::new(policy, is_agents, now, TimeZone::UTC);
    let briefs: Vec<Brief> = checkpoints.iter().map(Brief::from).collect();
    let mut out: Vec<_> = briefs
        .iter()
        .rev()
        .enumerate()
        .map(|(i, brief)| {
            thinning.judge(&keep::About {
                brief,
                marked: &|_| None,
                is_elsewhere: false,
                is_latest: i == 0,
                is_parent: false,
                is_resumed: false,
                is_rolled_back: false,
                is_used: false,
            })
        })
        .collect();
    out.reverse();
    out
}

/// The reasons for keeping checkpoints of an agent's session; none for one that is removed.
fn kept(policy: &Policy, checkpoints: &[Checkpoint], minute: i64) -> Vec<Option<KeepReason>> {
    judged(policy, true, checkpoints, minute).into_iter().map(Result::ok).collect()
}

fn none_kept_by_number() -> Policy {
    Policy { keep_last: 0, ..Policy::default() }
}

fn none_kept_by_any_rule() -> Policy {
    Policy { only_kept: true, all_hours: 0, hourly_hours: 0, ..none_kept_by_number() }
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
    // The latest is one of the ten.
    assert_eq!(stays.iter().filter(|kept| **kept == Some(KeepReason::Recent)).count(), 9);
    assert_eq!(stays[49], Some(KeepReason::Latest));
    assert!(stays[40..].iter().all(Option::is_some) && stays[..40].iter().all(Option::is_none));
}

#[test]
fn only_periodic_ones_are_thinned() {
    let triggers =
        ["manual", "periodic", "detach", "periodic", "shutdown", "complete", "error", "periodic", "manual", "periodic"];
    let all: Vec<Checkpoint> = triggers.iter().enumerate().map(|(i, t)| checkpoint(i as u64, 0, t)).collect();
    let policy = Policy { keep_complete: false, keep_error: false, ..none_kept_by_number() };
    assert!(kept(&policy, &all, 30).iter().all(Option::is_some), "all of the first hour stay");
    let not = Some(KeepReason::NotPeriodic);
    let hours_later = kept(&policy, &all, 5 * 60);
    // Of the hour one periodic checkpoint stays, whatever else was made in it.
    assert_eq!(hours_later, [not, None, not, None, not, not, not, Some(KeepReason::Thinned), not, Some(KeepReason::Latest)]);
    assert!(all.iter().zip(&hours_later).all(|(c, kept)| c.record.trigger == Trigger::Periodic || !kept.unwrap().is_protected()));
    let too_old = kept(&policy, &all, 169 * 60);
    assert_eq!(too_old.iter().flatten().collect::<Vec<_>>(), [&KeepReason::Latest]);
    let numbered = kept(&Policy { keep_last: 3, ..policy }, &all, 5 * 60);
    assert_eq!(numbered[7..], [Some(KeepReason::Recent), Some(KeepReason::Recent), Some(KeepReason::Latest)]);
}

const DAY: i64 = 24 * 60;

#[test]
fn number_and_calendar_win_over_age() {
    let all: Vec<Checkpoint> = (0..6).map(|i| checkpoint(i, i as i64 * DAY, "manual")).collect();
    let later = 100 * DAY;
    assert_eq!(kept(&none_kept_by_number(), &all, later)[..5], [None; 5], "older than the age alone allows");
    let numbered = kept(&Policy { keep_last: 3, ..Policy::default() }, &all, later);
    assert_eq!(numbered, [None, None, None, Some(KeepReason::Recent), Some(KeepReason::Recent), Some(KeepReason::Latest)]);
    let daily = Policy { calendar: Calendar { daily: 4, ..Calendar::default() }, ..none_kept_by_number() };
    let by_day = judged(&daily, true, &all, later);
    assert_eq!(by_day[..2], [Err(RemovalReason::TooOld); 2]);
    assert_eq!(
        by_day[2..],
        [Ok(KeepReason::Calendar), Ok(KeepReason::Calendar), Ok(KeepReason::Calendar), Ok(KeepReason::Latest)]
    );
}

#[test]
fn a_folder_that_is_no_agents_has_no_age_unless_it_is_given_one() {
    // One a week, for a year.
    let all: Vec<Checkpoint> = (0..52).map(|i| checkpoint(i, i as i64 * 7 * DAY, "manual")).collect();
    let later = 52 * 7 * DAY;
    assert!(judged(&Policy::default(), false, &all, later).iter().all(Result::is_ok));
    // Also where something makes them at intervals.
    let periodic: Vec<Checkpoint> = (0..52).map(|i| checkpoint(i, i as i64 * 7 * DAY, "periodic")).collect();
    assert!(judged(&Policy::default(), false, &periodic, later).iter().all(Result::is_ok));
    let aged = judged(&Policy { folder_max_age_hours: 24 * 7 * 20, ..Policy::default() }, false, &all, later);
    assert_eq!(aged.iter().filter(|judged| judged.is_ok()).count(), 19);
    assert_eq!(aged[..33], [Err(RemovalReason::TooOld); 33]);
    assert_eq!(kept(&Policy::default(), &all, later).iter().flatten().count(), 10, "an agent's session has one");
}

#[test]
fn a_rule_whose_number_is_0_is_off() {
    let all: Vec<Checkpoint> = (0..30).map(|i| checkpoint(i, i as i64 * DAY, "manual")).collect();
    let off = Policy {
        keep_last: 0,
        max_age_hours: 0,
        folder_max_age_hours: 0,
        all_hours: 0,
        hourly_hours: 0,
        max_store_bytes: 0,
        ..Policy::default()
    };
    let years_later = 2000 * DAY;
    for is_agents in [false, true] {
        assert!(judged(&off, is_agents, &all, years_later).iter().all(Result::is_ok), "no rule removes anything");
    }
    let safety = |mut checkpoint: Checkpoint| {
        checkpoint.record.trigger_detail = Some(SAFETY.into());
        checkpoint
    };
    let all = [safety(checkpoint(0, 0, "manual")), checkpoint(1, 1, "manual")];
    assert_eq!(kept(&off, &all, years_later), [Some(KeepReason::Safety), Some(KeepReason::Latest)]);
    assert_eq!(kept(&Policy::default(), &all, 169 * 60), [None, Some(KeepReason::Latest)], "it is not one of the last ten");
}

#[test]
fn what_no_rule_keeps_goes_where_a_calendar_or_a_number_is_asked_for() {
    // Three a day for ten days, the second of each day with a message.
    let all: Vec<Checkpoint> = (0..30).map(|i| checkpoint(i, (i / 3) as i64 * DAY + (i % 3) as i64 * 60, "manual")).collect();
    let all: Vec<Checkpoint> =
        all.into_iter().enumerate().map(|(i, c)| if i % 3 == 1 { with_message(c, "works") } else { c }).collect();
    let now = 10 * DAY;
    let count = |policy: &Policy, what: Result<KeepReason, RemovalReason>| {
        judged(policy, false, &all, now).into_iter().filter(|judged| *judged == what).count()
    };
    let five = Policy { keep_last: 5, ..Policy::default() };
    assert_eq!(
        count(&five, Err(RemovalReason::NoRule)),
        0,
        "as a default it guards the last five, and says nothing of the others"
    );
    let five = Policy { only_kept: true, ..five };
    // The latest, its message-bearing neighbour and three more; of the others, those with a message.
    assert_eq!(
        (count(&five, Ok(KeepReason::Message)), count(&five, Ok(KeepReason::Latest)), count(&five, Ok(KeepReason::Recent))),
        (10, 1, 2)
    );
    assert_eq!(count(&five, Err(RemovalReason::NoRule)), 17);
    let calendar = Calendar { daily: 7, weekly: 1, ..Calendar::default() };
    let daily = Policy { calendar, ..none_kept_by_number() };
    assert_eq!((count(&daily, Ok(KeepReason::Calendar)), count(&daily, Ok(KeepReason::Latest))), (6, 1));
    assert_eq!(count(&daily, Err(RemovalReason::NoRule)), 30 - 10 - 7);
    // One of each day, without an end, is not what a calendar of seven days asks for; what is young stays.
    let periodic: Vec<Checkpoint> = (0..30).map(|i| checkpoint(i, i as i64 * DAY, "periodic")).collect();
    assert_eq!(judged(&daily, false, &periodic, 29 * DAY).iter().flatten().count(), 7);
    let young: Vec<Checkpoint> = (0..9).map(|i| checkpoint(i, i as i64, "manual")).collect();
    assert_eq!(judged(&daily, false, &young, 10).iter().flatten().count(), 9);
    assert_eq!(judged(&daily, false, &young, 100).iter().flatten().count(), 1);
}

#[test]
fn the_newest_of_a_period_is_what_the_clock_on_the_wall_says() {
    let zone = TimeZone::get("Europe/Berlin").unwrap();
    let taken = |calendar: Calendar, times: &[&str]| -> Vec<bool> {
        let mut periods = calendar::Periods::new(&calendar, zone.clone());
        times.iter().map(|time| periods.take(time.parse().unwrap())).collect()
    };
    // 23:30 UTC is the next day in Berlin.
    let days = ["2026-01-02T23:30:00Z", "2026-01-02T22:30:00Z", "2026-01-01T22:30:00Z", "2026-01-01T12:00:00Z"];
    assert_eq!(taken(Calendar { daily: 2, ..Calendar::default() }, &days), [true, true, false, false]);
    // The hour that comes twice in October.
    let hours = ["2026-10-25T01:30:00Z", "2026-10-25T01:10:00Z", "2026-10-25T00:30:00Z", "2026-10-24T23:30:00Z"];
    assert_eq!(taken(Calendar { hourly: 3, ..Calendar::default() }, &hours), [true, false, true, true]);
    // The first days of 2027 are in the last week of 2026.
    let weeks = ["2027-01-03T12:00:00Z", "2026-12-28T12:00:00Z", "2026-12-27T12:00:00Z"];
    assert_eq!(taken(Calendar { weekly: 9, ..Calendar::default() }, &weeks), [true, false, true]);
    assert_eq!(taken(Calendar { yearly: 9, ..Calendar::default() }, &weeks), [true, true, false]);
    let months = ["2026-12-28T12:00:00Z", "2025-12-28T12:00:00Z", "2025-12-27T12:00:00Z"];
    assert_eq!(taken(Calendar { monthly: 9, ..Calendar::default() }, &months), [true, true, false]);
    // A clock that was set back leaves a period apart; it is one all the same.
    let stepped = ["2026-05-02T12:00:00Z", "2026-05-03T12:00:00Z", "2026-05-02T11:00:00Z"];
    assert_eq!(taken(Calendar { daily: 9, ..Calendar::default() }, &stepped), [true, true, false]);
}

#[test]
fn completions_and_errors_stay_unless_the_policy_says_otherwise() {
    let all: Vec<Checkpoint> =
        ["complete", "error", "periodic", "periodic"].iter().enumerate().map(|(i, t)| checkpoint(i as u64, 0, t)).collect();
    let later = 400 * 60;
    let keeping = kept(&none_kept_by_number(), &all, later);
    assert_eq!(keeping, [Some(KeepReason::Complete), Some(KeepReason::Error), None, Some(KeepReason::Latest)]);
    let dropping = Policy { keep_complete: false, keep_error: false, ..none_kept_by_number() };
    assert_eq!(kept(&dropping, &all, later), [None, None, None, Some(KeepReason::Latest)]);
}

proptest! {
    /// Pruning again at the same time removes nothing more, and what stays later is part of what stays now.
    #[test]
    fn retention_is_stable(made in proptest::collection::vec((0i64..20_000, 0usize..12), 1..60), now in 20_000i64..40_000,
        step in 0i64..5000, calendar in proptest::array::uniform3(0u64..4), only_kept: bool) {
        let mut made = made;
        made.sort_unstable();
        let trigger = |i: usize| Trigger::ALL.get(i).copied().unwrap_or(Trigger::Periodic);
        let all: Vec<Checkpoint> = made.iter().enumerate().map(|(i, (m, t))| checkpoint(i as u64, *m, trigger(*t).name())).collect();
        let calendar = Calendar { hourly: calendar[0], daily: calendar[1], weekly: calendar[2], ..Calendar::default() };
        let policy = Policy { keep_last: 3, calendar, only_kept, ..Policy::default() };
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
    let store = parhelia_ledger::open(&dir.path().join("store"), &OpenOptions { create: true, ..Default::default() }).unwrap();
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
            cause: detail.and_then(|detail| Cause::ALL.into_iter().find(|cause| cause.name() == detail)).unwrap_or_default(),
            trigger_detail: detail.map(str::to_owned),
            ..Options::default()
        };
        create::run(&self.store, &options, &()).unwrap().checkpoint.record.id
    }

    fn append(&self, kind: &str, subject: &str, data: serde_json::Value) {
        let event = NewEvent { data: data.as_object().unwrap().clone(), ..NewEvent::new(kind, subject, Actor::default()) };
        self.store.append_events(&[event], &()).unwrap();
    }

    fn say(&self, kind: &str, id: Ulid, data: serde_json::Value) {
        self.append(kind, &id.to_string(), data);
    }

    /// A checkpoint made by hand, with a message.
    fn by_hand(&self, session: &str, message: &str) -> Ulid {
        let options = Options {
            workspace: self.workspace.clone(),
            session: session.into(),
            message: Some(message.into()),
            ..Options::default()
        };
        create::run(&self.store, &options, &()).unwrap().checkpoint.record.id
    }

    fn ids(&self) -> Vec<Ulid> {
        self.store.checkpoints().unwrap().iter().map(|c| c.record.id).collect()
    }
}

fn in_hours(hours: u64) -> Timestamp {
    clock::timestamp() + Duration::from_secs(hours * 3600)
}

#[test]
fn what_somebody_needs_stays_and_each_session_keeps_its_latest() {
    let f = fixture();
    let periodic = |session| f.create(session, Trigger::Periodic, None);
    let (approved, tagged, linked, used) = (periodic("a"), periodic("a"), periodic("a"), periodic("a"));
    let resumed = periodic("a");
    let started = json!({ "session": "a", "epoch": 1, "resumed_from": resumed.to_string() });
    f.append(kind::RUN_STARTED, "r1", started);
    let (message, silent) = (f.by_hand("a", "it works"), f.by_hand("a", " "));
    let safety = f.create("a", Trigger::Manual, Some("safety"));
    let (gone, rejected) = ([periodic("a"), periodic("a")], periodic("a"));
    // The newest of its day, as long as it is not too old.
    let newest = periodic("a");
    let (latest, other) = (periodic("a"), periodic("b"));
    let last_safety = f.create("a", Trigger::Manual, Some("safety"));
    f.say(kind::CHECKPOINT_DECIDED, approved, json!({"status": "approved"}));
    f.say(kind::CHECKPOINT_DECIDED, rejected, json!({"status": "rejected"}));
    f.say(kind::CHECKPOINT_TAGGED, tagged, json!({"tag": "stable"}));
    f.say(kind::CHECKPOINT_LINKED, linked, json!({"tracker": "github", "id": "1", "url": "u"}));
    let mut pin = Pin::take(&f.store.layout().pins(), false, "mount").unwrap();
    pin.add([used]).unwrap();
    let policy = Policy { keep_last: 1, ..Policy::default() };
    let actor = Actor::program("retention");
    let day = prune(&f.store, &policy, None, &actor, in_hours(40), &()).unwrap();
    let removed: Vec<_> = day.removed.iter().map(|(c, why)| (c.record.id, *why)).rev().collect();
    assert_eq!(removed, [gone[0], gone[1], rejected].map(|id| (id, RemovalReason::Thinned)));
    assert!([safety, silent, newest].iter().all(|id| f.ids().contains(id)));
    prune(&f.store, &policy, None, &actor, in_hours(1000), &()).unwrap();
    // The newest is held whichever of the two kinds is asked for.
    assert_eq!(f.ids(), [approved, tagged, linked, used, resumed, message, latest, other, last_safety]);
    let deleted = f.store.view().marks(safety).unwrap().deleted.unwrap();
    assert_eq!(deleted.reason.as_deref(), Some(RemovalReason::TooOld.text()));
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

#[test]
fn the_parent_of_a_head_that_went_back_stays() {
    let f = fixture();
    let ids: Vec<Ulid> = (0..5).map(|_| f.create("a", Trigger::Periodic, None)).collect();
    f.append(kind::RUN_STARTED, "r1", json!({ "session": "a", "epoch": 1 }));
    f.append(kind::SESSION_HEAD, "a", json!({ "checkpoint": ids[2].to_string() }));
    let policy = none_kept_by_number();
    let plan = plan(&f.store, &policy, None, in_hours(1000)).unwrap();
    let kept: Vec<_> = plan.keep.iter().map(|(c, why)| (c.record.id, *why)).collect();
    assert_eq!(kept, [(ids[4], KeepReason::Latest), (ids[2], KeepReason::Latest), (ids[1], KeepReason::Parent)]);
    prune(&f.store, &policy, None, &Actor::default(), in_hours(1000), &()).unwrap();
    assert_eq!(f.ids(), [ids[1], ids[2], ids[4]]);
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
    let report = prune(&f.store, &policy, None, &actor, clock::timestamp(), &()).unwrap();
    assert!(report.excess_bytes() == 0 && report.freed_bytes > 2 << 20, "{report:?}");
    let left = f.ids();
    assert!(left.contains(&ids[0]) && left.contains(&ids[5]) && !left.contains(&ids[1]) && left.len() >= 3, "{left:?}");
    // What is protected stays, and the report says by how much that is too much.
    let policy = Policy { max_store_bytes: 1000, ..Policy::default() };
    let report = prune(&f.store, &policy, None, &actor, clock::timestamp(), &()).unwrap();
    assert_eq!(f.ids(), [ids[0], ids[4], ids[5]]);
    assert!(report.excess_bytes() > 2 << 20 && report.protected.values().sum::<u64>() == 3, "{report:?}");
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
    let forecast = forecast(&f.store, &policy, Some("small"), clock::timestamp(), &()).unwrap();
    let goes: Vec<Ulid> = forecast.plan.remove.iter().map(|(c, _)| c.record.id).collect();
    assert_eq!(goes, ids[..3], "{forecast:?}");
    assert!(forecast.excess_bytes == 0 && forecast.estimated_freed_bytes > 3 << 20, "{forecast:?}");
    assert_eq!(f.ids().len(), 7, "a forecast changes nothing");
    let report = prune(&f.store, &policy, Some("small"), &Actor::default(), clock::timestamp(), &()).unwrap();
    assert_eq!(f.ids(), [&ids[3..], &small[..]].concat(), "{report:?}");
    assert!(
        report.removed.len() == 3 && report.removed.iter().all(|(_, why)| *why == RemovalReason::StoreTooLarge),
        "{report:?}"
    );
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
    // The latest of both, and their parents.
    let last = f.ids()[8..].to_vec();
    let policy = Policy { max_store_bytes: 1 << 20, ..Policy::default() };
    let foretold = forecast(&f.store, &policy, None, clock::timestamp(), &()).unwrap();
    assert!(foretold.plan.remove.iter().all(|(_, why)| *why == RemovalReason::StoreTooLarge), "{foretold:?}");
    let report = prune(&f.store, &policy, Some("a"), &Actor::default(), clock::timestamp(), &()).unwrap();
    assert_eq!(f.ids(), last);
    assert_eq!(
        (report.kept, &report.protected),
        (4, &BTreeMap::from([(KeepReason::Latest.text(), 2), (KeepReason::Parent.text(), 2)]))
    );
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
    let report = prune(&f.store, &policy, None, &Actor::default(), clock::timestamp(), &stops).unwrap();
    assert!(report.failed.as_ref().is_some_and(|e| e.to_string() == "interrupted"), "{report:?}");
    assert_eq!(report.removed.len(), 6 - f.ids().len());
    assert!(!report.removed.is_empty());
    let refused = prune(&f.store, &policy, None, &Actor::default(), clock::timestamp(), &UntilOneGoes(&f.store, 100));
    assert!(refused.is_err(), "nothing was removed: {refused:?}");
}
