use std::collections::HashSet;

use proptest::prelude::*;

use super::model::{Folder, MemoryTrees, Paths, file, naive, two_folders};
use crate::{
    diff::{ChangeKind, DiffOptions, Fields, Side, Summary, TreeChange, compare, compare_each},
    error::ErrorKind,
    tree::{Node, TreeNode, Trees},
};

const NO_RENAMES: DiffOptions = DiffOptions { renames: false, folder_times: false };

fn hold(folder: &Folder, bits: u8) -> (MemoryTrees, Node, Paths) {
    let (mut trees, mut paths) = (MemoryTrees::default(), Paths::new());
    let node = trees.hold(b"root", bits, folder, &[], &mut paths);
    (trees, node, paths)
}

fn big(nodes: &[Node]) -> (MemoryTrees, Node) {
    let mut trees = MemoryTrees::default();
    let node = trees.folder(b"big", 0, nodes);
    (trees, node)
}

fn numbered(n: usize) -> Vec<Node> {
    (0..n).map(|i| file(format!("file-{i:06}"), b"x")).collect()
}

/// The changes, and the number of tree nodes that either side read for them.
fn changes(old: &(MemoryTrees, Node), new: &(MemoryTrees, Node)) -> (Vec<(String, &'static str)>, usize, usize) {
    let found = compare(Side::new(&old.0, &old.1), Side::new(&new.0, &new.1), NO_RENAMES).unwrap();
    let found = found.iter().map(|c| (String::from_utf8(c.path.clone()).unwrap(), c.kind.name())).collect();
    (found, old.0.take_reads(), new.0.take_reads())
}

fn leaves(trees: &MemoryTrees, node: &Node) -> usize {
    let mut pending = vec![node.as_folder().unwrap().0];
    let mut count = 0;
    while let Some(id) = pending.pop() {
        match trees.tree_node(id).unwrap() {
            TreeNode::Leaf(_) => count += 1,
            TreeNode::Inner(children) => pending.extend(children.iter().map(|c| c.tree)),
        }
    }
    trees.take_reads();
    count
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]
    #[test]
    fn it_says_what_comparing_path_by_path_says((old, new) in two_folders(), folder_times: bool) {
        let ((a, old_node, old_paths), (b, new_node, new_paths)) = (hold(&old, 0), hold(&new, 0));
        let options = DiffOptions { renames: false, folder_times };
        let found = compare(Side::new(&a, &old_node), Side::new(&b, &new_node), options).unwrap();
        prop_assert_eq!(&found, &naive(&old_paths, &new_paths, folder_times));
        let mut visited = Vec::new();
        compare_each(Side::new(&a, &old_node), Side::new(&b, &new_node), folder_times, &mut |c| {
            visited.push(c);
            Ok(())
        }).unwrap();
        prop_assert_eq!(visited, found);
    }

    #[test]
    fn bytes_added_less_bytes_removed_is_what_the_folder_grew_by((old, new) in two_folders(), renames: bool) {
        let ((a, old_node, _), (b, new_node, _)) = (hold(&old, 0), hold(&new, 0));
        let options = DiffOptions { renames, folder_times: false };
        let found = compare(Side::new(&a, &old_node), Side::new(&b, &new_node), options).unwrap();
        let summary = Summary::of(&found);
        prop_assert_eq!(summary.changes(), found.len() as u64);
        let bytes = |node: &Node| node.as_folder().unwrap().1.bytes;
        prop_assert_eq!(bytes(&old_node) + summary.bytes_added, bytes(&new_node) + summary.bytes_removed);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn big_folders_say_the_same(n in 100usize..3000, edits in proptest::collection::vec((0usize..4000, 0u8..3), 0..12)) {
        let old = numbered(n);
        let mut new = old.clone();
        for (i, edit) in edits {
            match new.binary_search_by(|node| node.name.cmp(&format!("file-{i:06}").into_bytes())) {
                Ok(at) if edit == 0 => drop(new.remove(at)),
                Ok(at) => new[at] = file(new[at].name.clone(), &[edit]),
                Err(at) => new.insert(at, file(format!("file-{i:06}"), b"new")),
            }
        }
        let paths = |nodes: &[Node]| nodes.iter().map(|node| (vec![node.name.clone()], node.clone())).collect::<Paths>();
        let expected = naive(&paths(&old), &paths(&new), false);
        let ((a, old_node), (b, new_node)) = (big(&old), big(&new));
        let found = compare(Side::new(&a, &old_node), Side::new(&b, &new_node), NO_RENAMES).unwrap();
        prop_assert_eq!(found, expected);
    }
}

#[test]
fn equal_trees_are_not_read() {
    let (old, new) = (big(&numbered(1000)), big(&numbered(1000)));
    assert_eq!(changes(&old, &new), (vec![], 0, 0));
}

#[test]
fn of_a_big_folder_only_the_parts_that_differ_are_read() {
    let old = numbered(20_000);
    let mut new = old.clone();
    new[10].meta.mode = 0o600;
    new[9_000] = file("file-009000", b"other");
    new.remove(15_000);
    new.push(file("last", b"y"));
    let (old, new) = (big(&old), big(&new));
    assert!(leaves(&old.0, &old.1) > 100);
    let (found, old_reads, new_reads) = changes(&old, &new);
    let expected = [("file-000010", "metadata"), ("file-009000", "modified"), ("file-015000", "deleted"), ("last", "added")];
    assert_eq!(found, expected.map(|(path, kind)| (path.to_owned(), kind)));
    // The root, the first leaf to learn the height, and a leaf or two for each change.
    assert!(old_reads <= 10 && new_reads <= 10, "{old_reads} and {new_reads}");
}

#[test]
fn a_folder_that_grew_by_a_level_shares_its_leaves_with_what_it_was() {
    let is_high = |n: usize| {
        let (trees, node) = big(&numbered(n));
        let TreeNode::Inner(children) = trees.tree_node(node.as_folder().unwrap().0).unwrap() else { panic!() };
        matches!(trees.tree_node(children[0].tree).unwrap(), TreeNode::Inner(_))
    };
    let (mut low, mut high) = (1000, 100_000);
    assert!(!is_high(low) && is_high(high));
    while high - low > 1 {
        let middle = (low + high) / 2;
        *if is_high(middle) { &mut high } else { &mut low } = middle;
    }
    let (small, large) = (big(&numbered(low)), big(&numbered(high)));
    for (old, new, kind) in [(&small, &large, "added"), (&large, &small, "deleted")] {
        let (found, old_reads, new_reads) = changes(old, new);
        assert_eq!(found, [(format!("file-{low:06}"), kind)]);
        assert!(old_reads <= 12 && new_reads <= 12, "{old_reads} and {new_reads}");
    }
}

#[test]
fn the_compared_folders_themselves_can_differ() {
    let (a, old, _) = hold(&Folder::new(), 0);
    let (b, new, _) = hold(&Folder::new(), 0b101);
    let found = compare(Side::new(&a, &old), Side::new(&b, &new), NO_RENAMES).unwrap();
    let [TreeChange { path, kind: ChangeKind::Metadata(fields), .. }] = found.as_slice() else { panic!("{found:?}") };
    assert!(path.is_empty() && fields.contains(Fields::MODE) && !fields.contains(Fields::XATTRS));
    assert_eq!(fields.names().collect::<Vec<_>>(), ["mode", "mtime"]);
}

#[test]
fn a_folder_whose_time_alone_differs_is_said_on_request() {
    let (a, old, _) = hold(&Folder::new(), 0);
    let (b, new, _) = hold(&Folder::new(), 0b100);
    for folder_times in [false, true] {
        let options = DiffOptions { renames: true, folder_times };
        let found = compare(Side::new(&a, &old), Side::new(&b, &new), options).unwrap();
        assert_eq!(found.len(), usize::from(folder_times));
    }
}

/// One folder in another, `depth` times.
fn nested(depth: usize) -> (MemoryTrees, Node) {
    let mut trees = MemoryTrees::default();
    let mut node = trees.folder(b"d", 0, &[file("f", b"x")]);
    for _ in 0..depth {
        node = trees.folder(b"d", 0, &[node]);
    }
    (trees, node)
}

#[test]
fn a_deep_tree_overflows_nothing() {
    let (empty, deep, too_deep) = (big(&[]), nested(10_000), nested(70_000));
    let mut seen = 0;
    compare_each(Side::new(&empty.0, &empty.1), Side::new(&deep.0, &deep.1), false, &mut |change| {
        assert_eq!(change.kind, ChangeKind::Added);
        seen += 1;
        Ok(())
    })
    .unwrap();
    assert_eq!(seen, 10_001);
    let error = compare_each(Side::new(&too_deep.0, &too_deep.1), Side::new(&empty.0, &empty.1), false, &mut |_| Ok(()));
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Corrupt);
}

#[test]
fn a_missing_tree_is_named_with_its_path() {
    let mut trees = MemoryTrees::default();
    let lost = MemoryTrees::default().folder(b"lost", 0, &[file("f", b"x")]);
    let root = trees.folder(b"root", 0, &[lost]);
    let empty = big(&[]);
    let error = compare(Side::new(&empty.0, &empty.1), Side::new(&trees, &root), NO_RENAMES).unwrap_err();
    assert!(error.to_string().starts_with("lost: "), "{error}");
    assert_eq!(error.kind(), ErrorKind::Corrupt);
}

/// A folder whose inner node names one leaf over and over.
struct Forged(Vec<Node>);

impl Trees for Forged {
    fn tree_node(&self, id: crate::id::TreeId) -> crate::Result<TreeNode> {
        let child =
            |first: u8| crate::tree::Child { tree: crate::id::TreeId([9; 32]), first: vec![first], totals: Default::default() };
        Ok(match id.0[0] {
            9 => TreeNode::Leaf(self.0.clone()),
            _ => TreeNode::Inner((b'a'..=b'z').map(child).collect()),
        })
    }
}

#[test]
fn a_forged_folder_that_repeats_a_part_is_refused() {
    let (empty, forged) = (big(&[]), Forged(numbered(2)));
    let mut node = empty.1.clone();
    node.kind = crate::tree::Kind::Folder { tree: crate::id::TreeId([1; 32]), totals: Default::default() };
    let error = compare(Side::new(&empty.0, &empty.1), Side::new(&forged, &node), NO_RENAMES).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
}

#[test]
fn no_path_is_said_twice() {
    let old = big(&numbered(5000));
    let new = big(&numbered(5000).into_iter().step_by(3).collect::<Vec<_>>());
    let (found, _, _) = changes(&old, &new);
    let distinct: HashSet<_> = found.iter().map(|(path, _)| path).collect();
    assert_eq!((distinct.len(), found.len()), (3333, 3333));
}
