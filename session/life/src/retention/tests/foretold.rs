//! Forecasts of the store's size.

use parhelia_store::{clock, delete::delete_checkpoints, gc};

use super::*;

/// A store of six checkpoints of a megabyte each, and its size.
fn filled() -> (Fixture, Vec<Ulid>, u64) {
    let f = fixture();
    let mut ids = Vec::new();
    for i in 0..6 {
        fs::write(f.workspace.join("file"), noise(i)).unwrap();
        ids.push(f.create("s", Trigger::Periodic, None));
    }
    let bytes = f.store.refresh().unwrap().packs().unwrap().values().map(|pack| pack.bytes).sum();
    (f, ids, bytes)
}

fn foretold(f: &Fixture, max_store_bytes: u64) -> (Vec<Ulid>, Forecast) {
    let policy = Policy { max_store_bytes, ..Policy::default() };
    let forecast = forecast(&f.store, &policy, None, clock::timestamp(), &()).unwrap();
    assert!(forecast.plan.remove.iter().all(|(_, why)| *why == RemovalReason::StoreTooLarge), "{forecast:?}");
    (forecast.plan.remove.iter().map(|(c, _)| c.record.id).collect(), forecast)
}

#[test]
fn nothing_goes_from_a_store_that_is_as_large_as_it_may_be() {
    let (f, _, bytes) = filled();
    for limit in [0, bytes, bytes + 1] {
        let (goes, forecast) = foretold(&f, limit);
        assert_eq!((goes.len(), forecast.plan.keep.len()), (0, 6));
        let seen = if limit == 0 { 0 } else { bytes };
        assert_eq!((forecast.store_bytes, forecast.estimated_freed_bytes, forecast.excess_bytes), (seen, 0, 0));
    }
}

#[test]
fn as_many_go_as_make_up_the_excess() {
    let (f, ids, bytes) = filled();
    let (goes, forecast) = foretold(&f, bytes - 1);
    assert_eq!((&goes[..], forecast.plan.keep.len(), forecast.excess_bytes), (&ids[..1], 5, 0));
    // What the commit of the first has added.
    let freed = forecast.estimated_freed_bytes;
    assert!(freed > 1 << 20 && freed < 3 << 19, "{freed}");
    assert_eq!(foretold(&f, bytes - freed).0, ids[..1]);
    assert_eq!(foretold(&f, bytes - freed - 1).0, ids[..2]);
    // The latest and its parent are all that stays, and they are too large.
    let (goes, forecast) = foretold(&f, 1000);
    assert_eq!(goes, ids[..4]);
    assert_eq!(forecast.excess_bytes, bytes - forecast.estimated_freed_bytes - 1000);
    assert!(forecast.estimated_freed_bytes > 4 << 20, "{forecast:?}");
}

#[test]
fn what_nobody_needs_any_more_is_counted_before_anything_else_goes() {
    let (f, ids, bytes) = filled();
    delete_checkpoints(&f.store, &ids[..1], None, &()).unwrap();
    let unused = gc::plan(&f.store, &gc::GcOptions::default(), &()).unwrap();
    let unused = unused.delete_bytes + unused.repack_bytes - unused.copy_bytes;
    assert!(unused > 1 << 20);
    let (goes, forecast) = foretold(&f, bytes - unused);
    assert_eq!((goes.len(), forecast.estimated_freed_bytes, forecast.excess_bytes), (0, unused, 0));
    let (goes, forecast) = foretold(&f, bytes - unused - 1);
    assert_eq!((&goes[..], forecast.excess_bytes), (&ids[1..2], 0));
    assert!(forecast.estimated_freed_bytes > unused + (1 << 20));
}

#[test]
fn what_the_rules_remove_is_named_once_and_counted_first() {
    let f = fixture();
    let mut ids = Vec::new();
    for (i, session) in ["a", "a", "a", "a", "b", "b", "b"].into_iter().enumerate() {
        fs::write(f.workspace.join("file"), noise(i as u64)).unwrap();
        ids.push(f.create(session, Trigger::Periodic, None));
    }
    let bytes: u64 = f.store.refresh().unwrap().packs().unwrap().values().map(|pack| pack.bytes).sum();
    let policy = Policy { max_store_bytes: 1000, ..none_kept_by_any_rule() };
    let forecast = limit::forecast(&f.store, &policy, Some("a"), clock::timestamp(), &()).unwrap();
    let goes: Vec<_> = forecast.plan.remove.iter().map(|(c, why)| (c.record.id, *why)).collect();
    let by_rule = [(ids[1], RemovalReason::NoRule), (ids[0], RemovalReason::NoRule)];
    assert_eq!(goes, [&by_rule[..], &[(ids[4], RemovalReason::StoreTooLarge)]].concat());
    assert_eq!(forecast.plan.keep.len(), 4);
    let freed = forecast.estimated_freed_bytes;
    assert!(freed > 3 << 20 && freed < 7 << 19, "{freed}");
    assert_eq!(forecast.excess_bytes, bytes - freed - 1000);
    // Where that is enough, what is kept is of the session that was asked about.
    let policy = Policy { max_store_bytes: bytes - (2 << 20), ..policy };
    let forecast = limit::forecast(&f.store, &policy, Some("a"), clock::timestamp(), &()).unwrap();
    assert_eq!((forecast.plan.remove.len(), forecast.plan.keep.len(), forecast.excess_bytes), (2, 2, 0));
}

#[test]
fn what_is_copied_is_not_freed() {
    let f = fixture();
    fs::write(f.workspace.join("shared"), &noise(0)[..300_000]).unwrap();
    for (i, name) in [(1, "large"), (2, "other")] {
        fs::write(f.workspace.join(name), noise(i)).unwrap();
    }
    let first = f.create("s", Trigger::Periodic, None);
    // Its pack holds more that is dead than what lives; the next one's is dead altogether.
    fs::remove_file(f.workspace.join("large")).unwrap();
    fs::remove_file(f.workspace.join("other")).unwrap();
    fs::write(f.workspace.join("more"), noise(3)).unwrap();
    let second = f.create("s", Trigger::Periodic, None);
    fs::remove_file(f.workspace.join("more")).unwrap();
    f.create("s", Trigger::Periodic, None);
    let bytes: u64 = f.store.refresh().unwrap().packs().unwrap().values().map(|pack| pack.bytes).sum();
    delete_checkpoints(&f.store, &[first, second], None, &()).unwrap();
    let unused = gc::plan(&f.store, &gc::GcOptions::default(), &()).unwrap();
    assert!(unused.delete_bytes > 1 << 20 && unused.repack_bytes > 2 << 20 && unused.copy_bytes > 200_000, "{unused:?}");
    let (goes, forecast) = foretold(&f, bytes - 1);
    let freed = unused.delete_bytes + unused.repack_bytes - unused.copy_bytes;
    assert_eq!((goes.len(), forecast.estimated_freed_bytes), (0, freed));
}

#[test]
fn a_store_exceeds_its_limit_by_what_is_above_it() {
    for (bytes, limit, excess) in [(6, 5, Some(1)), (5, 5, None), (4, 5, None)] {
        assert_eq!(limit::over(bytes, limit), excess);
    }
}
