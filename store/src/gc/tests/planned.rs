//! Sums of plans and reports, and the cases in which gc starts over.

use super::*;
use crate::{
    error::IoContext,
    testing::{collect, in_small_packs},
};

/// The lengths of the packs' files.
fn lengths(test: &TestStore) -> BTreeMap<PackId, u64> {
    let files = std::fs::read_dir(test.store.layout().packs()).unwrap().map(|file| file.unwrap());
    files.map(|file| (crate::layout::Layout::pack_of(&file.path()).unwrap(), file.metadata().unwrap().len())).collect()
}

/// Leaves a whole pack that no record tells of, as a writer does that dies.
fn leave_orphan(test: &TestStore, seed: u64) {
    let draft = test.draft("test", &files(seed, 9));
    let (name, text) = (test.store.layout().pins().join(format!("{}.pin", draft.pin.op)), "{}");
    drop(draft);
    std::fs::write(name, text).unwrap();
}

#[test]
fn a_plan_and_its_report_add_up() {
    let test = TestStore::new();
    // The packs go by themselves.
    test.builds.set(false);
    let options = GcOptions::below(70);
    let ids: Vec<Ulid> = (1..8).map(|seed| test.checkpoint(&files(seed, 9))).collect();
    // What is condemned while a writer runs.
    let writer = Pin::take(&test.store.layout().pins(), true, "test").unwrap();
    test.delete(ids[5]);
    run(&test.store, &options, &()).unwrap();
    // The first pack has what the others share; two more are dead altogether.
    [ids[0], ids[1], ids[2]].into_iter().for_each(|id| test.delete(id));
    let pin = Pin::take(&test.store.layout().pins(), true, "gc").unwrap();
    (20..22).for_each(|seed| leave_orphan(&test, seed));
    let (plan, lengths) = (super::plan(&test.store, &options, &()).unwrap(), lengths(&test));
    let sum = |ids: &[PackId]| ids.iter().map(|id| lengths[id]).sum::<u64>();
    assert_eq!((plan.checkpoints, plan.packs as usize), (3, lengths.len() - 3));
    assert_eq!((plan.delete.len(), plan.repack.len(), plan.condemned.len(), plan.orphans), (2, 1, 1, 2));
    assert_eq!(plan.delete_bytes, sum(&plan.delete));
    assert_eq!(plan.repack_bytes, sum(&plan.repack));
    assert_eq!(plan.condemned_bytes, sum(&plan.condemned));
    assert_eq!(plan.total_bytes, lengths.values().sum::<u64>());
    assert!(plan.orphan_bytes > 0 && plan.copy_bytes > 0 && plan.copy_bytes < plan.repack_bytes);
    assert!(plan.live_bytes > plan.copy_bytes);
    assert_eq!(plan.dead_bytes, plan.total_bytes - plan.live_bytes);
    let goes = plan.delete_bytes + plan.repack_bytes + plan.condemned_bytes + plan.orphan_bytes;
    assert_eq!(plan.freed_bytes, goes - plan.copy_bytes);
    assert_eq!(plan.waits_for.iter().collect::<HashSet<_>>(), [writer.op, pin.op].iter().collect());
    drop((writer, pin));
    let report = run(&test.store, &options, &()).unwrap();
    let after = self::lengths(&test);
    let added: u64 = after.iter().filter(|(id, _)| !lengths.contains_key(id)).map(|(_, bytes)| bytes).sum();
    assert_eq!((report.added_packs, report.added_bytes, report.condemned_packs), (1, added, 3));
    assert_eq!((report.dropped_packs, report.orphans, report.orphan_bytes), (4, 2, plan.orphan_bytes));
    assert_eq!(report.dropped_bytes, plan.delete_bytes + plan.repack_bytes + plan.condemned_bytes);
    assert_eq!(report.freed_bytes, lengths.values().sum::<u64>() - after.values().sum::<u64>());
    assert_eq!(report.waits_for, []);
    assert!(!report.disk_was_full);
}

#[test]
fn nothing_is_copied_where_that_is_not_asked_for() {
    let repacks = |below, consolidate| GcOptions { consolidate, ..GcOptions::below(below) }.repacks();
    assert_eq!([(0, false), (1, false), (0, true), (1, true)].map(|(below, all)| repacks(below, all)), [false, true, true, true]);
    assert!(GcOptions::default().repacks() && !GcOptions::no_repack().repacks());
    let (test, ..) = in_small_packs();
    let report = run(&test.store, &GcOptions::no_repack(), &()).unwrap();
    assert_eq!((report.added_packs, report.condemned_packs, report.plan.repack.len()), (0, 0, 0));
    let report = run(&test.store, &GcOptions::default(), &()).unwrap();
    assert!(report.added_packs == 1 && report.plan.repack.len() == 20, "{report:?}");
}

#[test]
fn what_fails_is_tried_again_only_where_gc_has_come_between() {
    let (test, _, _, other) = in_small_packs();
    let io = |kind: std::io::ErrorKind| Err::<(), _>(std::io::Error::from(kind)).at("read", "pack").unwrap_err();
    let corrupt = || Error::Corrupt { what: "pack".into(), place: "here".into(), reason: "test".into() };
    // How often something is tried that fails once.
    let tried = |error: &dyn Fn() -> Error, collects: bool| {
        let mut calls = 0;
        let done = retried(&test.store, || {
            calls += 1;
            if calls > 1 {
                return Ok(());
            }
            if collects {
                let id = other.checkpoint(&[("new".to_owned(), Ulid::generate().to_string().into_bytes())].into());
                other.delete(id);
                collect(&other);
            }
            Err(error())
        });
        (calls, done.is_ok())
    };
    assert_eq!(tried(&|| io(std::io::ErrorKind::NotFound), false), (1, false));
    assert_eq!(tried(&|| io(std::io::ErrorKind::NotFound), true), (2, true));
    assert_eq!(tried(&corrupt, false), (1, false));
    assert_eq!(tried(&corrupt, true), (2, true));
    assert_eq!(tried(&|| io(std::io::ErrorKind::PermissionDenied), true), (1, false));
    assert_eq!(tried(&|| Error::Overtaken { tries: 1 }, false), (2, true));
    let mut calls = 0;
    let given_up = retried(&test.store, || -> Result<()> {
        calls += 1;
        Err(Error::Overtaken { tries: 1 })
    });
    assert!(calls == TRIES_MAX && matches!(given_up, Err(Error::Overtaken { tries: TRIES_MAX })));
}
