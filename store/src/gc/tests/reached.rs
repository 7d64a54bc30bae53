//! Everything that a checkpoint needs outlives gc: tables, big folders, long recipes, and what a reader has pinned.

use std::os::unix::fs::symlink;

use super::*;
use crate::{
    check::{self, CheckOptions},
    create,
    pack::ObjectKind,
    recipe,
    record::{Checkpoint, Rules},
    tree::TreeNode,
};

/// Collects with every option, and panics unless everything that is left is whole.
fn collect_all(store: &Store) -> GcReport {
    let report = run(store, &everything(), &()).unwrap();
    let checked = check::run(store.layout(), &CheckOptions { read_data_percent: Some(100) }, &()).unwrap();
    assert!(checked.is_clean(), "{:?}", checked.findings);
    report
}

#[test]
fn tables_of_hard_links_and_of_what_was_left_out_outlive_gc() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(&dir.path().join("store"), &crate::OpenOptions { create: true, ..Default::default() }).unwrap();
    let workspace = dir.path().join("workspace");
    std::fs::create_dir(&workspace).unwrap();
    std::fs::write(workspace.join("a"), "content").unwrap();
    std::fs::hard_link(workspace.join("a"), workspace.join("b")).unwrap();
    std::fs::write(workspace.join("out.log"), "left out").unwrap();
    std::fs::write(workspace.join("empty"), "").unwrap();
    symlink("a", workspace.join("link")).unwrap();
    let options = create::Options { workspace: workspace.clone(), session: "s".into(), ..create::Options::default() };
    let with_rules = |pattern: &str| create::Options {
        rules: Rules { patterns: vec![pattern.into()], ..Rules::default() },
        ..options.clone()
    };
    let kept = create::run(&store, &with_rules("*.log"), &()).unwrap();
    // Its pack is the only one with the tables, and gc copies or removes each pack that has something dead in it.
    std::fs::write(workspace.join("c"), content(1, 5)).unwrap();
    let dead = create::run(&store, &with_rules("*.txt"), &()).unwrap().checkpoint.record.id;
    crate::delete::delete_checkpoints(&store, &[dead], None, &()).unwrap();
    let report = collect_all(&store);
    assert!(report.dropped_packs > 0, "{report:?}");
    let store = Store::open(store.path(), &Default::default()).unwrap();
    let found: Vec<Checkpoint> = store.checkpoints().unwrap();
    assert_eq!(found, [kept.checkpoint]);
    assert_eq!(kept.omissions.len(), 1);
    assert_eq!(store.omissions(&found[0]).unwrap(), kept.omissions);
    assert_eq!(store.links(&found[0]).unwrap().groups(), [[b"a".to_vec(), b"b".to_vec()]]);
}

#[test]
fn big_folders_and_long_recipes_outlive_gc() {
    let test = TestStore::new();
    test.cut.set(10);
    let mut all: Files = (0..3000).map(|i| (format!("big/file{i}"), i.to_string().into_bytes())).collect();
    all.insert("long".to_owned(), content(1, 5));
    let kept = test.checkpoint(&all);
    // The same again but for one entry each, so that some nodes of the tree are shared and others are not.
    let mut others = all.clone();
    others.insert("big/file1".to_owned(), b"changed".to_vec());
    others.insert("long".to_owned(), [content(1, 5), content(2, 1)].concat());
    let dead = test.checkpoint(&others);
    let checkpoint = test.get(kept);
    let (workspace, _) = test.store.workspace_node(&checkpoint).unwrap().as_folder().map(|(tree, sums)| (tree, *sums)).unwrap();
    let big = test.store.folder(workspace).unwrap().into_iter().find(|node| node.name == b"big"[..]).unwrap();
    let big = test.store.tree_node(big.as_folder().unwrap().0).unwrap();
    assert!(matches!(big, TreeNode::Inner(_)), "the folder has one node alone");
    let blob = crate::testing::blob_id(&content(1, 5));
    let read = |bytes: &[u8]| recipe::decode_root(&crate::testing::ids(), blob, bytes);
    let root = test.store.read_object(ObjectKind::RecipeRoot, crate::testing::ids().recipe_root(blob), read).unwrap();
    assert!(matches!(root, recipe::Node::Nodes(_)), "the recipe has one node alone");
    test.delete(dead);
    let report = collect_all(&test.store);
    assert!(report.dropped_packs > 0, "{report:?}");
    all_read_back(&test, &BTreeMap::from([(kept, all)]));
}

#[test]
fn what_is_read_under_a_pin_outlives_its_deletion() {
    let test = TestStore::new();
    let (read, other) = (test.checkpoint(&files(1, 9)), test.checkpoint(&files(2, 9)));
    let checkpoint = test.get(read);
    let pin = test.open().pin_for_reading([read], "test", |text| panic!("{text}")).unwrap();
    let found = pin::list(&test.store.layout().pins()).unwrap();
    assert!(!found[0].text.writer && found[0].text.checkpoints == [read] && found[0].text.purpose == "test", "{found:?}");
    // Pinned again, it is named once.
    let mut pin = pin;
    pin.add([read, other]).unwrap();
    pin.add([read]).unwrap();
    assert_eq!(pin::list(&test.store.layout().pins()).unwrap()[0].text.checkpoints, [read, other]);
    test.delete(read);
    test.delete(other);
    let last = test.checkpoint(&files(3, 9));
    collect_all(&test.store);
    assert_eq!(test.content(&checkpoint).unwrap(), files(1, 9));
    // A reader does not keep the bytes of what is condemned meanwhile.
    drop(pin);
    let report = collect_all(&test.store);
    assert!(report.dropped_packs > 0 && report.waiting_packs == 0, "{report:?}");
    all_read_back(&test, &BTreeMap::from([(last, files(3, 9))]));
}

#[test]
fn whole_blocks_and_several_packs_are_copied() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(&dir.path().join("store"), &crate::OpenOptions { create: true, ..Default::default() }).unwrap();
    let workspace = dir.path().join("workspace");
    std::fs::create_dir(&workspace).unwrap();
    let noise = |seed: u64, bytes: usize| {
        let mut out = vec![0; bytes];
        blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof().fill(&mut out);
        out
    };
    // More than a pack, in blocks that are copied as they are, and small files beside them.
    let mut all = Files::new();
    (0..36).for_each(|i| _ = all.insert(format!("large{i}"), noise(i, 1 << 20)));
    (0..40).for_each(|i| _ = all.insert(format!("small{i}"), content(i, 3)));
    all.iter().for_each(|(name, bytes)| std::fs::write(workspace.join(name), bytes).unwrap());
    let options = create::Options { workspace: workspace.clone(), session: "s".into(), ..create::Options::default() };
    let dead = create::run(&store, &options, &()).unwrap().checkpoint.record.id;
    for name in ["large3", "large20", "small7"] {
        std::fs::remove_file(workspace.join(name)).unwrap();
        all.remove(name);
    }
    let kept = create::run(&store, &options, &()).unwrap().checkpoint;
    crate::delete::delete_checkpoints(&store, &[dead], None, &()).unwrap();
    let report = collect_all(&store);
    assert!(report.added_packs > 1, "{report:?}");
    let store = Store::open(store.path(), &Default::default()).unwrap();
    assert_eq!(content_of(&store, &kept).unwrap(), all);
    for dead in [noise(3, 1 << 20), content(7, 3)] {
        assert!(store.view().locate(crate::testing::blob_id(&dead).object()).unwrap().is_none());
    }
    // Only what somebody needs was copied.
    let stored: u64 =
        std::fs::read_dir(store.layout().packs()).unwrap().map(|pack| pack.unwrap().metadata().unwrap().len()).sum();
    assert!(stored < 35 << 20, "{stored}");
}

#[test]
fn a_pack_that_is_missing_or_damaged_is_left_as_it_is() {
    for is_missing in [true, false] {
        let test = TestStore::new();
        let contents = BTreeMap::from([1, 2].map(|seed| (test.checkpoint(&files(seed, 30)), files(seed, 30))));
        let dead = test.checkpoint(&files(3, 9));
        test.delete(dead);
        let first = contents.keys().next().unwrap();
        let log = crate::journal::Journal::of(test.store.layout());
        let records = log.read(&crate::journal::Position::start()).unwrap().records;
        let pack = records.iter().find_map(|logged| match &logged.entry {
            crate::journal::Entry::Commit { record, packs, .. } if record.contains(&first.to_string()) => Some(packs[0].id),
            _ => None,
        });
        let path = test.store.layout().pack(pack.unwrap());
        let whole = std::fs::read(&path).unwrap();
        match is_missing {
            true => std::fs::remove_file(&path).unwrap(),
            // The end of the file: what says where its blocks are.
            false => std::fs::write(&path, &whole[..whole.len() - 3]).unwrap(),
        }
        let store = test.open();
        let _ = run(&store, &everything(), &());
        std::fs::write(&path, &whole).unwrap();
        all_read_back(&test.another(), &contents);
        let report = run(&test.open(), &everything(), &()).unwrap();
        assert_eq!(report.plan.checkpoints, 2);
        all_read_back(&test.another(), &contents);
    }
}

/// Does something once, while gc waits for a lock that is held.
struct WhileWaiting<F>(std::sync::Mutex<Option<(crate::lock::WriterLock, F)>>);

impl<F: FnOnce() + Send> Progress for WhileWaiting<F> {
    fn notice(&self, text: &str) {
        if text.contains("waiting")
            && let Some((lock, work)) = self.0.lock().unwrap().take()
        {
            drop(lock);
            work();
        }
    }
}

#[test]
fn what_is_committed_while_gc_waits_for_the_lock_is_spared() {
    let test = TestStore::new();
    let (dead, kept) = (test.checkpoint(&files(1, 9)), test.checkpoint(&files(2, 9)));
    test.delete(dead);
    let other = test.another();
    let draft = other.draft("test", &files(1, 9));
    let id = draft.id;
    let lock = test.another().store.lock(&()).unwrap();
    let progress = WhileWaiting(std::sync::Mutex::new(Some((lock, move || _ = other.commit(draft).unwrap()))));
    run(&test.store, &everything(), &progress).unwrap();
    assert!(progress.0.into_inner().unwrap().is_none(), "gc did not wait");
    all_read_back(&test.another(), &BTreeMap::from([(id, files(1, 9)), (kept, files(2, 9))]));
    let checked = check::run(test.store.layout(), &CheckOptions { read_data_percent: Some(100) }, &()).unwrap();
    assert!(checked.is_clean(), "{:?}", checked.findings);
}

#[test]
fn packs_of_gc_that_somebody_removes_are_written_again() {
    let test = TestStore::new();
    let (dead, kept) = (test.checkpoint(&files(1, 9)), test.checkpoint(&files(2, 9)));
    test.delete(dead);
    let before: HashSet<_> = std::fs::read_dir(test.store.layout().packs()).unwrap().map(|pack| pack.unwrap().path()).collect();
    let packs = test.store.layout().packs();
    let remove = || {
        let all = std::fs::read_dir(&packs).unwrap().map(|pack| pack.unwrap().path());
        let new: Vec<_> = all.filter(|pack| !before.contains(pack)).collect();
        assert!(!new.is_empty());
        new.iter().for_each(|pack| std::fs::remove_file(pack).unwrap());
    };
    let lock = test.another().store.lock(&()).unwrap();
    let progress = WhileWaiting(std::sync::Mutex::new(Some((lock, remove))));
    run(&test.store, &everything(), &progress).unwrap();
    assert!(progress.0.into_inner().unwrap().is_none(), "gc did not wait");
    all_read_back(&test.another(), &BTreeMap::from([(kept, files(2, 9))]));
}
