//! A limit on the store's size removes what frees something, as many as it takes, and those that a dry run names.

use parhelia_store::progress::Progress;

use super::*;
use crate::retention::limit::fewest;

#[test]
fn the_fewest_go_that_are_enough_and_none_go_for_nothing() {
    let of = |left: &[u64], limit| fewest(left.len() - 1, limit, |number| Ok(left[number])).unwrap();
    assert_eq!(of(&[90, 80, 70], 90), (0, 90, true));
    assert_eq!(of(&[1000, 1000, 990, 800, 700], 850), (3, 800, false));
    assert_eq!(of(&[1000, 1000, 990, 800, 700], 700), (4, 700, false));
    // What may go frees next to nothing.
    assert_eq!(of(&[1000, 1000, 998, 996], 500), (0, 1000, false));
    assert_eq!(of(&[1000], 500), (0, 1000, false));
    // It is not enough, but it frees something; what comes behind the first does not.
    assert_eq!(of(&[1000, 800, 799, 797], 500), (1, 800, false));
    for limit in 0..1100 {
        let left = [1000, 990, 990, 700, 660, 655, 300, 299];
        let (number, bytes, is_enough_without) = of(&left, limit);
        assert_eq!((bytes, is_enough_without), (left[number], limit >= 1000));
        assert!(number == 0 || left[number - 1] > limit, "{limit}: {number}");
    }
}

/// Notices.
#[derive(Default)]
struct Said(std::sync::Mutex<Vec<String>>);

impl Progress for Said {
    fn notice(&self, text: &str) {
        self.0.lock().unwrap().push(text.to_owned());
    }
}

/// A store of edits: every version has a small new file, and a line of each of the others is another one.
fn edited() -> (Fixture, u64) {
    let f = fixture();
    let mut files: Vec<Vec<u8>> = (0..20u64)
        .map(|i| noise(i)[..6000].iter().flat_map(|byte| format!("{byte} is a number\n").into_bytes()).collect())
        .collect();
    for version in 0..30u64 {
        for (number, bytes) in files.iter_mut().enumerate() {
            let at = (version as usize * 977 + number * 131) % (bytes.len() - 64);
            bytes[at..at + 16].copy_from_slice(format!("version {version:08}").as_bytes());
            fs::write(f.workspace.join(format!("file{number}")), &bytes).unwrap();
        }
        fs::write(f.workspace.join("new"), &noise(1000 + version)[..15_000]).unwrap();
        f.create("s", Trigger::Periodic, None);
    }
    let bytes = f.store.refresh().unwrap().packs().unwrap().values().map(|pack| pack.bytes).sum();
    (f, bytes)
}

#[test]
fn what_a_dry_run_names_is_what_goes_and_it_is_said_first() {
    for percent in [98, 80, 55, 20] {
        let (f, bytes) = edited();
        let limit = bytes * percent / 100;
        let policy = Policy { max_store_bytes: limit, ..Policy::default() };
        let foretold = forecast(&f.store, &policy, None, clock::timestamp(), &()).unwrap();
        assert_eq!(f.ids().len(), 30, "a forecast changes nothing");
        let (said, goes) = (Said::default(), |removed: &[(Checkpoint, RemovalReason)]| {
            removed.iter().map(|(c, _)| c.record.id).collect::<Vec<_>>()
        });
        let report = prune(&f.store, &policy, None, &Actor::default(), clock::timestamp(), &said).unwrap();
        assert_eq!(goes(&report.removed), goes(&foretold.plan.remove), "{percent}");
        assert_eq!((report.overruled, foretold.overruled), (report.removed.len() as u64, report.removed.len() as u64));
        // The estimate is rough where little versions are compressed anew.
        let left = bytes - foretold.estimated_freed_bytes;
        assert!(left.abs_diff(report.store_bytes) * 100 <= 12 * bytes, "{percent}: {left} foretold, {}", report.store_bytes);
        assert_eq!(foretold.excess_bytes, left.saturating_sub(limit));
        let said = said.0.into_inner().unwrap().join("\n");
        let number = report.removed.len();
        match number {
            0 => assert!(!said.contains("are removed"), "{said}"),
            _ => assert!(
                said.contains(&format!("the {number} oldest checkpoints")) && said.contains("all other rules keep"),
                "{said}"
            ),
        }
    }
}

#[test]
fn checkpoints_that_share_everything_stay_though_the_store_is_too_large() {
    let f = fixture();
    fs::write(f.workspace.join("large"), noise(0)).unwrap();
    let ids: Vec<Ulid> = (0..12).map(|_| f.create("s", Trigger::Periodic, None)).collect();
    let policy = Policy { max_store_bytes: 1 << 19, ..Policy::default() };
    let foretold = forecast(&f.store, &policy, None, clock::timestamp(), &()).unwrap();
    assert_eq!((foretold.plan.remove.len(), foretold.plan.keep.len()), (0, 12));
    assert!(foretold.excess_bytes > 1 << 19);
    let report = prune(&f.store, &policy, None, &Actor::default(), clock::timestamp(), &()).unwrap();
    assert_eq!((f.ids(), report.removed.len(), report.kept), (ids, 0, 12));
    assert!(report.excess_bytes() > 1 << 19);
}

#[test]
fn what_no_rule_keeps_goes_before_older_ones_that_a_rule_keeps() {
    let f = fixture();
    let mut ids = Vec::new();
    for (i, session) in ["old", "old", "old", "new", "new", "new", "new"].into_iter().enumerate() {
        fs::write(f.workspace.join("file"), noise(i as u64)).unwrap();
        ids.push(f.create(session, Trigger::Manual, None));
    }
    let bytes: u64 = f.store.refresh().unwrap().packs().unwrap().values().map(|pack| pack.bytes).sum();
    // The oldest session keeps its last three, the other one as well; one of that is left over.
    let policy = Policy { keep_last: 3, only_kept: true, all_hours: 0, max_store_bytes: bytes - (1 << 19), ..Policy::default() };
    let foretold = forecast(&f.store, &policy, Some("old"), clock::timestamp(), &()).unwrap();
    assert_eq!(foretold.plan.remove.iter().map(|(c, _)| c.record.id).collect::<Vec<_>>(), [ids[3]], "{foretold:?}");
    assert_eq!(foretold.overruled, 0);
    // More has to go.
    let policy = Policy { max_store_bytes: bytes - (3 << 19), ..policy };
    let foretold = forecast(&f.store, &policy, Some("old"), clock::timestamp(), &()).unwrap();
    assert_eq!(foretold.plan.remove.iter().map(|(c, _)| c.record.id).collect::<Vec<_>>(), [ids[3], ids[0]], "{foretold:?}");
    assert_eq!(foretold.overruled, 1);
}
