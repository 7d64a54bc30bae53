use std::collections::{BTreeMap, HashMap, HashSet};

use proptest::prelude::*;

use super::model::{Folder, MemoryTrees, Paths, file, two_folders};
use crate::{
    diff::{ChangeKind, DiffOptions, Side, Summary, TreeChange, compare, find_renames},
    id::BlobId,
    tree::{Kind, Node},
};

fn both(old: &Folder, new: &Folder) -> (Vec<TreeChange>, Vec<TreeChange>) {
    let mut trees = MemoryTrees::default();
    let (old, new) = (trees.hold(b"r", 0, old, &[], &mut Paths::new()), trees.hold(b"r", 0, new, &[], &mut Paths::new()));
    let run = |renames| {
        let options = DiffOptions { renames, folder_times: false };
        compare(Side::new(&trees, &old), Side::new(&trees, &new), options).unwrap()
    };
    (run(false), run(true))
}

fn blob(node: &Option<Node>) -> Option<BlobId> {
    match node.as_ref().map(|n| &n.kind) {
        Some(Kind::File { size, blob, .. }) if *size > 0 => Some(*blob),
        _ => None,
    }
}

/// Counts of deleted and added files, by content and name.
type Tally = HashMap<(BlobId, Vec<u8>), (u32, u32)>;

/// Deleted and added files by content alone, and by content and name.
fn tally(changes: &[TreeChange]) -> [Tally; 2] {
    let mut tallies = [Tally::new(), Tally::new()];
    for change in changes {
        let node = change.old.as_ref().or(change.new.as_ref()).unwrap();
        let Some(blob) = blob(&Some(node.clone())) else { continue };
        for (tally, name) in tallies.iter_mut().zip([vec![], node.name.clone()]) {
            let count = tally.entry((blob, name)).or_default();
            match change.kind {
                ChangeKind::Deleted => count.0 += 1,
                ChangeKind::Added => count.1 += 1,
                _ => {}
            }
        }
    }
    tallies
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]
    #[test]
    fn as_many_files_are_joined_as_can_be((old, new) in two_folders()) {
        let (plain, joined) = both(&old, &new);
        let [by_content, by_name] = tally(&plain);
        let pairs = |tally: &Tally| tally.values().map(|(gone, come)| u64::from(*gone.min(come))).sum::<u64>();
        let (before, after) = (Summary::of(&plain), Summary::of(&joined));
        prop_assert_eq!(after.renamed, pairs(&by_content));
        prop_assert_eq!((after.added + after.renamed, after.deleted + after.renamed), (before.added, before.deleted));
        let name = |path: &[u8]| path.rsplit(|b| *b == b'/').next().unwrap().to_vec();
        let same_name = joined.iter().filter(|c| c.old_path() != c.path && name(c.old_path()) == name(&c.path)).count();
        prop_assert_eq!(same_name as u64, pairs(&by_name));
    }

    #[test]
    fn a_rename_is_one_deleted_and_one_added_file_of_equal_content((old, new) in two_folders()) {
        let (plain, joined) = both(&old, &new);
        let mut left: BTreeMap<(Vec<u8>, &str), &TreeChange> = plain.iter().map(|c| ((c.path.clone(), c.kind.name()), c)).collect();
        let mut used = HashSet::new();
        for change in &joined {
            let ChangeKind::Renamed { from } = &change.kind else {
                prop_assert_eq!(left.remove(&(change.path.clone(), change.kind.name())), Some(change));
                continue;
            };
            let source = left.remove(&(from.clone(), "deleted")).unwrap();
            let target = left.remove(&(change.path.clone(), "added")).unwrap();
            prop_assert_eq!((&source.old, &target.new), (&change.old, &change.new));
            prop_assert!(blob(&change.old).is_some() && blob(&change.old) == blob(&change.new));
            prop_assert!(used.insert(from.clone()));
        }
        prop_assert!(left.is_empty());
        let order = |c: &TreeChange| c.path.split(|b| *b == b'/').map(<[u8]>::to_vec).collect::<Vec<_>>();
        prop_assert!(joined.windows(2).all(|pair| order(&pair[0]) < order(&pair[1])));
    }
}

fn gone(path: &str, content: &[u8]) -> TreeChange {
    TreeChange {
        path: path.into(),
        kind: ChangeKind::Deleted,
        old: Some(file(path.rsplit('/').next().unwrap(), content)),
        new: None,
    }
}

fn come(path: &str, content: &[u8]) -> TreeChange {
    TreeChange {
        path: path.into(),
        kind: ChangeKind::Added,
        old: None,
        new: Some(file(path.rsplit('/').next().unwrap(), content)),
    }
}

fn shown(mut changes: Vec<TreeChange>) -> Vec<String> {
    find_renames(&mut changes);
    let text = |path: &[u8]| String::from_utf8(path.to_vec()).unwrap();
    changes.iter().map(|c| format!("{} {} {}", c.kind.name(), text(c.old_path()), text(&c.path))).collect()
}

#[test]
fn the_same_name_wins_then_the_first_path() {
    let changes = vec![
        gone("a/x", b"1"),
        gone("b/y", b"1"),
        gone("c/z", b"1"),
        come("d/y", b"1"),
        come("e/new", b"1"),
        come("f/other", b"2"),
    ];
    assert_eq!(shown(changes), ["deleted c/z c/z", "renamed b/y d/y", "renamed a/x e/new", "added f/other f/other"]);
}

#[test]
fn empty_files_are_not_joined() {
    assert_eq!(shown(vec![gone("a", b""), come("b", b"")]), ["deleted a a", "added b b"]);
}

#[test]
fn a_hundred_thousand_equal_files_move_in_no_time() {
    let mut changes: Vec<TreeChange> = (0..100_000).map(|i| gone(&format!("a/{i:06}"), b"x")).collect();
    changes.extend((0..100_000).map(|i| come(&format!("b/{:06}", i + 50_000), b"x")));
    let started = std::time::Instant::now();
    find_renames(&mut changes);
    assert!(started.elapsed().as_secs() < 5);
    assert_eq!(changes.len(), 100_000);
    assert!(changes.iter().filter(|c| c.old_path().ends_with(&c.path[2..])).count() >= 50_000);
}
