//! Damaged content is stored again by whoever comes upon the same content.

use super::{
    later::{edit, text},
    *,
};
use crate::{
    check::{self, CheckOptions, CheckReport, FindingKind, verify},
    damaged::DamageSet,
    gc::{self, GcOptions},
    pack::{Location, ObjectKind, PackFile},
    testing::{AtBegin, content_of},
};

fn check(f: &Fixture, read_data_percent: Option<u8>) -> CheckReport {
    check::run(f.store.layout(), &CheckOptions { read_data_percent }, &()).unwrap()
}

/// The file as another process reads it from a checkpoint.
fn read(f: &Fixture, checkpoint: &Checkpoint, path: &str) -> crate::Result<Vec<u8>> {
    let store = Store::open(f.store.path(), &OpenOptions::default()).unwrap();
    content_of(&store, checkpoint).map(|files| files[path].clone())
}

fn place(f: &Fixture, kind: ObjectKind, id: crate::id::ObjectId) -> Location {
    Store::open(f.store.path(), &OpenOptions::default()).unwrap().locate(kind, id).unwrap()
}

/// Flips a bit of what the block at a place holds.
fn flip(f: &Fixture, at: Location) {
    let path = f.store.layout().pack(at.pack);
    let directory = PackFile::open(f.store.layout(), at.pack).unwrap().read_directory(at.offset).unwrap();
    let mut bytes = fs::read(&path).unwrap();
    bytes[at.offset as usize + directory.directory_end + 5] ^= 4;
    fs::write(&path, bytes).unwrap();
}

/// A store with two checkpoints of a file of one chunk, one of many, and a tree, of each of which the block is damaged.
fn damaged() -> (Fixture, Checkpoint, Vec<Location>) {
    let f = fixture();
    f.write("small", &text(200, 1));
    f.write("large", &noise(1 << 20, 2));
    f.write("folder/other", b"other");
    let first = f.create().checkpoint;
    let_stamps_age();
    f.create();
    let node = f.store.node_at(&first, b"large").unwrap();
    let Kind::File { blob, size, .. } = node.kind else { panic!() };
    let chunk = f.store.blob(blob, size).unwrap().runs()[2].id;
    let small = crate::testing::blob_id(&text(200, 1)).object();
    let (tree, _) = f.store.workspace_node(&first).unwrap().as_folder().unwrap();
    let places = [(ObjectKind::Chunk, small), (ObjectKind::Chunk, chunk.object()), (ObjectKind::Tree, tree.object())];
    let mut blocks: Vec<Location> = places.iter().map(|(kind, id)| place(&f, *kind, *id)).collect();
    blocks.sort_unstable();
    blocks.dedup();
    blocks.iter().for_each(|at| flip(&f, *at));
    (f, first, blocks)
}

#[test]
fn what_a_check_found_damaged_is_stored_again_by_the_next_create() {
    for skip_if_unchanged in [false, true] {
        let (f, first, blocks) = damaged();
        // Nobody has looked yet, and nothing has changed.
        assert_eq!(f.create().files_read, 0);
        assert!(!check(&f, Some(100)).is_clean());
        let known = DamageSet::read(f.store.layout());
        assert!(blocks.iter().all(|at| known.has_block(*at)));
        // It is known from now on, also to who does not read data.
        assert!(check(&f, None).findings.iter().any(|finding| finding.kind == FindingKind::Damaged));
        assert!(!verify(&f.store, &first, false, &()).unwrap().is_ok());
        let made = run(&f.store, &Options { skip_if_unchanged, ..f.options() }, &()).unwrap();
        assert!(!made.skipped && made.new_bytes > 0);
        for checkpoint in [&made.checkpoint, &first] {
            assert_eq!(read(&f, checkpoint, "small").unwrap(), text(200, 1));
            assert!(read(&f, checkpoint, "large").unwrap() == noise(1 << 20, 2));
            let store = Store::open(f.store.path(), &OpenOptions::default()).unwrap();
            assert!(verify(&store, checkpoint, true, &()).unwrap().is_ok());
        }
        // A create after that has nothing to store again.
        let_stamps_age();
        f.create();
        assert_eq!(f.create().files_read, 0);
        // It is found where it is whole also by an index that is made anew; and what nobody needs goes, and is forgotten.
        check::rebuild_index(f.store.layout(), std::time::Duration::from_secs(60), &()).unwrap();
        assert!(read(&f, &first, "large").unwrap() == noise(1 << 20, 2));
        let plan = check::plan_repair(f.store.layout(), &[], &()).unwrap();
        assert!(plan.lost.is_empty());
        check::repair(f.store.layout(), &plan, std::time::Duration::from_secs(60), &()).unwrap();
        let report = check(&f, Some(100));
        assert!(report.is_clean(), "{:?}", report.findings);
        assert!(DamageSet::read(f.store.layout()).is_empty());
        let store = Store::open(f.store.path(), &OpenOptions::default()).unwrap();
        gc::run(&store, &GcOptions::default(), &()).unwrap();
    }
}

#[test]
fn what_a_deep_verification_found_damaged_is_stored_again_by_the_next_create() {
    let (f, first, _) = damaged();
    let store = Store::open(f.store.path(), &OpenOptions::default()).unwrap();
    // As far as trees can be read, one create after the other.
    for _ in 0..2 {
        verify(&store, &first, true, &()).unwrap();
        f.create();
    }
    assert!(verify(&Store::open(f.store.path(), &OpenOptions::default()).unwrap(), &first, true, &()).unwrap().is_ok());
    assert_eq!(read(&f, &first, "small").unwrap(), text(200, 1));
    assert!(read(&f, &first, "large").unwrap() == noise(1 << 20, 2));
}

#[test]
fn what_builds_on_a_damaged_object_is_stored_again_as_well() {
    let f = fixture();
    let mut source = text(800, 1);
    let mut versions = Vec::new();
    for number in 0..4 {
        f.write("main.rs", &source);
        versions.push((f.create().checkpoint, source.clone()));
        edit(&mut source, number);
    }
    flip(&f, place(&f, ObjectKind::Chunk, crate::testing::blob_id(&versions[0].1).object()));
    assert!(!check(&f, Some(100)).is_clean());
    let made = f.create().checkpoint;
    assert!(read(&f, &made, "main.rs").unwrap() == versions[3].1);
    assert!(read(&f, &versions[3].0, "main.rs").unwrap() == versions[3].1);
    // Older versions come back with the content that they build on.
    assert!(read(&f, &versions[1].0, "main.rs").is_err());
    f.write("main.rs", &versions[0].1);
    f.create();
    for (checkpoint, content) in &versions {
        assert!(read(&f, checkpoint, "main.rs").unwrap() == *content);
    }
}

#[test]
fn a_stat_cache_is_not_written_by_a_create_during_which_damage_was_found() {
    let (f, _, blocks) = damaged();
    f.write("new", b"new");
    let note = AtBegin::new(|| _ = crate::damaged::note(&f.store, blocks.iter().copied(), None));
    run(&f.store, &f.options(), &note).unwrap();
    assert!(note.is_done());
    let made = f.create();
    assert!(made.files_read >= 4, "{}", made.files_read);
    assert_eq!(read(&f, &made.checkpoint, "small").unwrap(), text(200, 1));
}

/// Objects below a tree that is lost are not come upon, and may be lost as well.
#[test]
fn what_lay_in_a_lost_or_torn_pack_is_stored_again_by_the_next_create() {
    for is_torn in [false, true] {
        let f = fixture();
        for n in 0..30 {
            f.write(&format!("folder/{}/{n}", n % 5), &text(200, n));
        }
        let first = f.create().checkpoint;
        f.write("new", b"new");
        let_stamps_age();
        f.create();
        let (tree, _) = f.store.workspace_node(&first).unwrap().as_folder().unwrap();
        let pack = f.store.layout().pack(place(&f, ObjectKind::Tree, tree.object()).pack);
        match is_torn {
            true => fs::write(&pack, &fs::read(&pack).unwrap()[..100]).unwrap(),
            false => fs::remove_file(&pack).unwrap(),
        }
        assert!(!check(&f, None).is_clean());
        let made = f.create();
        assert!(made.new_bytes > 0);
        let store = Store::open(f.store.path(), &OpenOptions::default()).unwrap();
        let found = verify(&store, &made.checkpoint, true, &()).unwrap();
        assert!(found.is_ok(), "{is_torn}: {:?}", found.problems);
        assert_eq!(read(&f, &made.checkpoint, "folder/3/13").unwrap(), text(200, 13));
    }
}
