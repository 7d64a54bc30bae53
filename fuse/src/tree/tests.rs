//! Positions against a walk of the tree.

use std::{fs, path::Path, sync::Arc};

use parhelia_store::{OpenOptions, create, name};
use proptest::prelude::*;

use super::{
    nodes::TreeNodes,
    preorder::{PreorderTree, TreeEntry},
};

/// A folder with this many files, and folders below.
#[derive(Clone, Debug)]
struct Plan {
    files: usize,
    folders: Vec<Plan>,
}

fn plan() -> impl Strategy<Value = Plan> {
    // Sometimes so many that the folder is split.
    let files = prop_oneof![8 => 0usize..6, 1 => 250usize..700];
    let leaf = files.clone().prop_map(|files| Plan { files, folders: Vec::new() });
    leaf.prop_recursive(4, 12, 4, move |inner| {
        (files.clone(), proptest::collection::vec(inner, 0..4)).prop_map(|(files, folders)| Plan { files, folders })
    })
}

fn grow(folder: &Path, plan: &Plan) {
    fs::create_dir_all(folder).unwrap();
    for i in 0..plan.files {
        fs::write(folder.join(format!("{}f{i}", i % 7)), "").unwrap();
    }
    for (i, below) in plan.folders.iter().enumerate() {
        grow(&folder.join(format!("{}d{i}", i * 3 % 7)), below);
    }
}

fn listed(tree: &PreorderTree, folder: &TreeEntry, pieces: usize) -> Vec<(Vec<u8>, u64)> {
    let mut all = Vec::new();
    let mut from = 0;
    loop {
        let before = all.len();
        tree.list(folder, from, &mut |found| {
            if all.len() - before == pieces {
                return false;
            }
            from = found.end();
            all.push((found.node().unwrap().name.clone(), found.position));
            true
        })
        .unwrap();
        if all.len() - before < pieces {
            return all;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, max_shrink_iters: 20, ..ProptestConfig::default() })]

    #[test]
    fn positions_are_those_of_a_walk(plan in plan(), pieces in 1usize..400) {
        let dir = tempfile::tempdir().unwrap();
        let store = parhelia_ledger::open(&dir.path().join("store"), &OpenOptions { create: true, ..OpenOptions::default() }).unwrap();
        let workspace = dir.path().join("workspace");
        grow(&workspace, &plan);
        let options = create::Options { workspace, session: "s".into(), ..create::Options::default() };
        let checkpoint = create::run(&store, &options, &()).unwrap().checkpoint;
        let store = Arc::new(store);
        let node = store.workspace_node(&checkpoint).unwrap();
        let (root, totals) = node.as_folder().map(|(root, totals)| (root, *totals)).unwrap();
        // So small a cache that nodes are evicted on the way.
        let nodes = Arc::new(TreeNodes::new(store.clone(), 64 << 10));
        let tree = PreorderTree::new(nodes, node, 1, checkpoint, 0);
        let mut count = 0;
        store.walk(root, &mut |path, position, node| {
            count += 1;
            let found = tree.locate(position).unwrap().unwrap();
            assert_eq!(found.node().unwrap(), node);
            assert_eq!(tree.path(position), name::display(path));
            let parent = tree.locate(found.parent).unwrap().unwrap();
            assert_eq!(tree.child(&parent, &node.name).unwrap().unwrap().position, position);
            assert_eq!(tree.position(tree.inode(&found).unwrap()), Some(position));
            if let Some((folder, _)) = node.as_folder() {
                let names: Vec<_> = listed(&tree, &found, pieces).into_iter().map(|(name, _)| name).collect();
                let expected: Vec<_> = store.folder(folder).unwrap().into_iter().map(|node| node.name).collect();
                assert_eq!(names, expected);
            }
            Ok(true)
        }).unwrap();
        prop_assert_eq!(count, totals.entries);
        for position in [count + 1, count + 2, u64::MAX] {
            prop_assert!(tree.locate(position).unwrap().is_none());
        }
        prop_assert!(tree.child(&tree.top(), b"no such name").unwrap().is_none());
    }
}
