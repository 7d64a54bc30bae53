mod flipped;
mod index;
mod lost;
mod mended;
mod repair;

use std::{fs, time::Duration};

use super::*;
use crate::{
    check::VerifyLevel,
    codec::{put_bytes, put_uint},
    pack::PackFile,
    testing::{AtBegin, Files, TestStore, collect, files, in_small_packs},
    tree::Kind,
    view::{Batch, Db, Family},
};

/// Longest time to wait for the lock.
const PATIENCE: Duration = Duration::from_secs(60);

const ALL: CheckOptions = CheckOptions { read_data_percent: Some(100) };

fn check(test: &TestStore, options: &CheckOptions) -> CheckReport {
    run(test.store.layout(), options, &()).unwrap()
}

fn only_pack(test: &TestStore) -> std::path::PathBuf {
    let id = *test.store.refresh().unwrap().packs().unwrap().keys().next().unwrap();
    test.store.layout().pack(id)
}

#[test]
fn a_sound_store_is_clean_absorbed_or_not() {
    let test = TestStore::new();
    let a = test.checkpoint(&files(1, 12));
    test.checkpoint(&files(2, 12));
    test.delete(a);
    for _ in 0..2 {
        let report = check(&test, &ALL);
        assert!(report.is_clean(), "{:?}", report.findings);
        assert!(report.blocks_read == report.blocks && report.blocks > 4 && report.objects > 10);
        let some = check(&test, &CheckOptions { read_data_percent: Some(40) });
        assert!(some.is_clean() && some.blocks_read < some.blocks);
        test.store.absorb().unwrap();
    }
}

#[test]
fn every_flipped_byte_of_a_pack_is_found() {
    for absorbed in [false, true] {
        let test = TestStore::new();
        let small: Files = files(1, 4).into_iter().map(|(path, bytes)| (path, bytes[..bytes.len().min(300)].to_vec())).collect();
        let id = test.checkpoint(&small);
        if absorbed {
            test.store.absorb().unwrap();
        }
        let path = only_pack(&test);
        let sound = fs::read(&path).unwrap();
        for at in 0..sound.len() {
            let mut bytes = sound.clone();
            bytes[at] ^= 1 << (at % 8);
            fs::write(&path, &bytes).unwrap();
            let report = check(&test, &ALL);
            assert!(!report.is_clean(), "byte {at}");
            let named = |finding: &Finding| finding.pack.is_some() || finding.object.is_some();
            assert!(report.findings.iter().any(named), "byte {at}: {:?}", report.findings);
            assert!(report.findings.iter().flat_map(|f| &f.touches).all(|touched| touched.checkpoint == id));
        }
        for length in (0..sound.len()).step_by(7) {
            fs::write(&path, &sound[..length]).unwrap();
            assert!(!check(&test, &CheckOptions::default()).is_clean(), "cut to {length}");
        }
        fs::remove_file(&path).unwrap();
        assert!(!check(&test, &CheckOptions::default()).is_clean());
        fs::write(&path, &sound).unwrap();
        assert!(check(&test, &ALL).is_clean());
    }
}

#[test]
fn damage_is_named_with_checkpoints_and_paths() {
    let test = TestStore::new();
    let all = files(1, 6);
    let (a, b) = (test.checkpoint(&all), test.checkpoint(&all));
    test.store.absorb().unwrap();
    let checkpoint = test.get(a);
    let node = test.store.node_at(&checkpoint, b"dir1/file1").unwrap();
    let crate::tree::Kind::File { blob, size, .. } = node.kind else { panic!("no file") };
    let location = test.store.locate(crate::pack::ObjectKind::Chunk, blob.object()).unwrap();
    let path = test.store.layout().pack(location.pack);
    let directory = PackFile::open(test.store.layout(), location.pack).unwrap().read_directory(location.offset).unwrap();
    let mut bytes = fs::read(&path).unwrap();
    bytes[location.offset as usize + directory.directory_end + 5] ^= 4;
    fs::write(&path, &bytes).unwrap();
    assert!(check(&test, &CheckOptions::default()).is_clean());
    let shallow = verify(&test.open(), &checkpoint, false, &()).unwrap();
    assert!(shallow.is_ok(), "{shallow:?}");
    let report = check(&test, &ALL);
    let finding = report.findings.iter().find(|f| f.object == Some(blob.object())).unwrap();
    assert_eq!((finding.kind, finding.pack), (FindingKind::Damaged, Some(location.pack)));
    for id in [a, b] {
        assert!(finding.touches.contains(&AffectedPath { checkpoint: id, path: "dir1/file1".into() }), "{finding:?}");
    }
    // It is known from now on.
    assert!(!check(&test, &CheckOptions::default()).is_clean());
    let store = test.open();
    let shallow = verify(&store, &checkpoint, false, &()).unwrap();
    assert!(shallow.problems.iter().any(|problem| problem.path == "dir1/file1"), "{shallow:?}");
    let deep = verify(&store, &checkpoint, true, &()).unwrap();
    assert!(deep.problems.iter().any(|problem| problem.path == "dir1/file1"), "{deep:?}");
    assert!(store.blob(blob, size).unwrap().read_all().is_err());
}

#[test]
fn a_good_checkpoint_verifies() {
    let test = TestStore::new();
    let id = test.checkpoint(&files(1, 9));
    for deep in [false, true] {
        let report = verify(&test.store, &test.get(id), deep, &()).unwrap();
        assert!(report.is_ok() && report.files == 9, "{report:?}");
    }
}

#[test]
fn a_torn_journal_is_noted_and_a_broken_one_found() {
    let test = TestStore::new();
    test.checkpoint(&files(1, 3));
    test.checkpoint(&files(2, 3));
    let journal = fs::read_dir(test.store.layout().journal()).unwrap().flatten().map(|e| e.path());
    let path = journal.into_iter().find(|p| p.extension().is_some_and(|e| e == "log")).unwrap();
    let sound = fs::read(&path).unwrap();
    fs::write(&path, [&sound[..], b"torn"].concat()).unwrap();
    let report = check(&test, &ALL);
    assert!(report.is_clean() && report.notes.len() == 1, "{report:?}");
    let mut bytes = sound.clone();
    bytes[100] ^= 1;
    fs::write(&path, bytes).unwrap();
    assert!(check(&test, &ALL).findings.iter().any(|f| f.kind == FindingKind::Journal));
    fs::write(&path, sound).unwrap();
    let config = test.store.layout().config();
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, text.replace("\"compression_level\": 3", "\"compression_level\": 4")).unwrap();
    assert!(check(&test, &ALL).findings.iter().any(|f| f.kind == FindingKind::Config));
}

#[test]
fn what_was_verified_before_is_not_looked_at_again() {
    let test = TestStore::new();
    let mut content = files(1, 40);
    let a = test.get(test.checkpoint(&content));
    content.insert("dir1/file1".into(), vec![b'x'; 7000]);
    let b = test.get(test.checkpoint(&content));
    let (full, first) = (verify_new(&test.store, &b, None, &()).unwrap(), verify_new(&test.store, &a, None, &()).unwrap());
    let since = verify_new(&test.store, &b, Some(&a), &()).unwrap();
    assert!(full.is_ok() && first.is_ok() && since.is_ok());
    let levels = [full.level, first.level, since.level];
    assert_eq!(levels, [VerifyLevel::Index, VerifyLevel::Index, VerifyLevel::New]);
    // What the index lacks is missed, unless it was verified before.
    let added = test.store.view().locate(b.record.root.object()).unwrap().unwrap();
    fs::remove_file(test.store.layout().pack(added.pack)).unwrap();
    let fresh = test.open();
    assert!(!verify_new(&fresh, &b, Some(&a), &()).unwrap().is_ok());
    assert!(verify_new(&test.open(), &a, None, &()).unwrap().is_ok());
}

#[test]
fn what_gc_moves_during_a_verification_is_no_damage() {
    for deep in [false, true] {
        let (test, first, _, other) = in_small_packs();
        let moving = AtBegin::new(move || collect(&other));
        let report = verify(&test.store, &first, deep, &moving).unwrap();
        assert!(report.is_ok(), "{report:?}");
        assert!(moving.is_done());
    }
    for with_parent in [false, true] {
        let (test, first, last, other) = in_small_packs();
        let moving = AtBegin::new(move || collect(&other));
        let report = verify_new(&test.store, &last, with_parent.then_some(&first), &moving).unwrap();
        assert!(report.is_ok(), "{report:?}");
    }
}

#[test]
fn what_was_deleted_and_collected_during_a_verification_is_not_there() {
    let (test, first, _, other) = in_small_packs();
    let id = first.record.id;
    let going = AtBegin::new(move || {
        other.delete(id);
        collect(&other);
    });
    let gone = verify(&test.store, &first, true, &going);
    assert!(matches!(gone, Err(Error::NoCheckpoint { .. })), "{gone:?}");
}

/// An upper tree node that is made by hand.
fn upper(level: u8, lower: &[(&str, crate::id::TreeId, crate::tree::Totals)]) -> crate::recipe::EncodedObject {
    let (mut head, mut tail) = (Vec::new(), Vec::new());
    for (first, tree, totals) in lower {
        put_bytes(&mut head, first.as_bytes());
        for number in [totals.entries, totals.files, totals.bytes, totals.folders, totals.subfolders] {
            put_uint(&mut head, number);
        }
        head.push(totals.features);
        tail.extend_from_slice(&tree.0);
    }
    let mut bytes = vec![level, lower.len() as u8];
    put_bytes(&mut bytes, &head);
    bytes.extend_from_slice(&tail);
    let id = crate::testing::ids().tree(&bytes).object();
    crate::recipe::EncodedObject { kind: crate::pack::ObjectKind::Tree, id, tail_bytes: tail.len(), bytes }
}

#[test]
fn a_split_folder_that_does_not_fit_together_is_found_and_not_read() {
    use crate::{id::TreeId, testing::meta, tree::Totals};
    let split = |level: u8, leaves: &'static [(&'static str, &'static [&'static str])]| {
        let test = TestStore::new();
        let checkpoint = test.forge(|sink| {
            let node = |name: &&str| crate::tree::Node { name: (*name).into(), meta: meta(), links: 1, kind: Kind::Fifo };
            let lower = leaves.iter().map(|(first, names)| {
                let (tree, totals) = sink.nodes(&names.iter().map(node).collect::<Vec<_>>());
                (*first, tree, totals)
            });
            let lower: Vec<_> = lower.collect();
            let mut sums = Totals::default();
            lower.iter().for_each(|(.., totals)| sums.merge(totals));
            let root = upper(level, &lower);
            let tree = TreeId(root.id.0);
            sink.put(root).unwrap();
            (tree, sums)
        });
        let (tree, _) = test.store.workspace_node(&checkpoint).unwrap().as_folder().map(|(tree, sums)| (tree, *sums)).unwrap();
        let report = check(&test, &ALL);
        assert!(report.findings.iter().all(|found| found.object == Some(tree.object())), "{:?}", report.findings);
        (report.is_clean(), test.store.folder(tree).is_ok())
    };
    assert_eq!(split(1, &[("a", &["a", "b"]), ("c", &["c", "d"])]), (true, true));
    // A level is left out; a name stands in two leaves; names of one leaf lie between those of the other; a first name is another's.
    assert_eq!(split(2, &[("a", &["a", "b"]), ("c", &["c", "d"])]), (false, false));
    assert_eq!(split(1, &[("a", &["a", "b"]), ("b", &["b", "c"])]), (false, false));
    assert_eq!(split(1, &[("a", &["a", "d"]), ("b", &["b", "c"])]), (false, false));
    assert!(!split(1, &[("a", &["a", "b"]), ("bb", &["c", "d"])]).0);
    assert!(!split(1, &[("a", &["a", "b"]), ("c", &[])]).0);
}
