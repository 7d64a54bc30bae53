//! A pack is lost. What builds on its objects is lost with them, and is stored again by whoever has the same content.

use std::time::Duration;

use super::{
    later::{depth, edit, text},
    *,
};
use crate::{
    check::{self, CheckOptions, FindingKind},
    gc::{self, GcOptions},
    pack::ObjectKind,
    testing::content_of,
};

/// The number of the lost version.
const LOST: usize = 4;

const PATIENCE: Duration = Duration::from_secs(60);

/// Ways to an index that leaves out what a lost pack held.
#[derive(Clone, Copy, Debug)]
enum Anew {
    Rebuilt,
    ByNextCommit,
    Unread,
    NotYet,
}

/// A store with eight versions of a file, of which the pack of the fifth is lost: all later ones build on that.
fn with_lost_pack() -> (Fixture, Vec<(Checkpoint, Vec<u8>)>) {
    let f = fixture();
    let mut source = text(800, 1);
    let mut versions = Vec::new();
    for number in 0..8 {
        f.write("main.rs", &source);
        versions.push((f.create().checkpoint, source.clone()));
        edit(&mut source, number);
    }
    let depths: Vec<u32> = versions.iter().map(|(checkpoint, _)| depth(&f, "main.rs", checkpoint)).collect();
    assert_eq!(depths, [0, 1, 2, 3, 1, 2, 3, 4]);
    let lost = f.store.locate(ObjectKind::Chunk, crate::testing::blob_id(&versions[LOST].1).object()).unwrap().pack;
    fs::remove_file(f.store.layout().pack(lost)).unwrap();
    (f, versions)
}

fn reopened(f: Fixture, anew: Anew) -> Fixture {
    let (root, layout) = (f.store.path().to_owned(), f.store.layout().clone());
    let options = OpenOptions::default();
    let store = match anew {
        Anew::Rebuilt => {
            check::rebuild_index(&layout, PATIENCE, &()).unwrap();
            Store::open_with_index(&root, &options).unwrap()
        }
        Anew::ByNextCommit => {
            f.store.absorb().unwrap();
            fs::write(f.store.layout().view().join("CURRENT"), "nonsense").unwrap();
            Store::open(&root, &options).unwrap().absorb().unwrap();
            Store::open_with_index(&root, &options).unwrap()
        }
        Anew::Unread => Store::open_without_index(&root, &options).unwrap(),
        Anew::NotYet => Store::open(&root, &options).unwrap(),
    };
    Fixture { store, ..f }
}

#[test]
fn what_builds_on_a_lost_object_is_stored_again() {
    for anew in [Anew::Rebuilt, Anew::ByNextCommit, Anew::Unread, Anew::NotYet] {
        // The one that builds on what is lost, and one that builds on that.
        for number in [6, 7] {
            let (f, versions) = with_lost_pack();
            let f = reopened(f, anew);
            let other = f.workspace.with_file_name("other");
            fs::create_dir(&other).unwrap();
            let f = Fixture { workspace: other, ..f };
            f.write("copy.rs", &versions[number].1);
            let options = Options { session: "other".into(), ..f.options() };
            let made = run(&f.store, &options, &()).unwrap().checkpoint;
            let store = Store::open(f.store.path(), &OpenOptions::default()).unwrap();
            assert!(content_of(&store, &made).unwrap()["copy.rs"] == versions[number].1, "{anew:?} {number}");
            // It is found where it was stored again, also by whoever makes the index once more.
            check::rebuild_index(f.store.layout(), PATIENCE, &()).unwrap();
            let store = Store::open(f.store.path(), &OpenOptions::default()).unwrap();
            assert!(content_of(&store, &made).unwrap()["copy.rs"] == versions[number].1, "{anew:?} {number}");
            assert!(content_of(&store, &versions[0].0).unwrap()["main.rs"] == versions[0].1);
        }
    }
}

#[test]
fn what_builds_on_a_lost_object_is_named_and_stays() {
    let (f, versions) = with_lost_pack();
    let f = reopened(f, Anew::Rebuilt);
    let report = check::run(f.store.layout(), &CheckOptions::default(), &()).unwrap();
    assert!(!report.rebuild_index, "{:?}", report.findings);
    let touches = |finding: &check::Finding, number: usize| {
        finding.touches.iter().any(|touched| touched.checkpoint == versions[number].0.record.id)
    };
    for number in LOST..versions.len() {
        let kind = if number == LOST { FindingKind::Missing } else { FindingKind::Damaged };
        let is_named = report.findings.iter().any(|finding| finding.kind == kind && touches(finding, number));
        assert!(is_named, "{number}: {:?}", report.findings);
    }
    assert!(!report.findings.iter().any(|finding| (0..LOST).any(|number| touches(finding, number))), "{:?}", report.findings);
    assert!(report.findings.iter().any(|finding| finding.message.contains("builds on an object that is lost")));
    // Nothing goes as long as something is missing.
    let packs = || -> Vec<_> { fs::read_dir(f.store.layout().packs()).unwrap().map(|pack| pack.unwrap().file_name()).collect() };
    let before = packs();
    assert!(gc::run(&f.store, &GcOptions::default(), &()).is_err());
    assert_eq!(packs(), before);
    let plan = check::plan_repair(f.store.layout(), &[], &()).unwrap();
    for (checkpoint, _) in &versions[LOST..] {
        let is_named = |lost: &check::LostObject| lost.touches.iter().any(|touched| touched.checkpoint == checkpoint.record.id);
        assert!(plan.lost.iter().any(is_named));
    }
}
