//! One tree as inodes. An inode number is a base plus the entry's preorder position, and the sums in the tree nodes lead from the top
//! to any position, so nothing is kept per inode: not what the kernel knows, nor what it forgets.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use fuser::FileAttr;
use parhelia_store::{
    Error, Result, Store,
    id::TreeId,
    links::{Links, LinksFolder, Member},
    name,
    record::Checkpoint,
    tree::{Node, Totals, TreeNode},
};

use crate::tree::{
    attr,
    nodes::{DecodedNode, Lines, TreeNodes, positions_of},
};

/// Levels of one big folder's tree nodes; more is forged.
const LEVELS_MAX: u8 = 10;

/// An entry, and where it stands.
pub struct Found {
    node: Arc<DecodedNode>,
    index: usize,
    /// Its preorder position; 0 is the top.
    pub position: u64,
    /// The position of the folder that holds it; the top's is its own.
    pub parent: u64,
}

impl Found {
    /// The node. `None` cannot be: a found entry is one of a leaf's.
    pub fn node(&self) -> Option<&Node> {
        match &self.node.lines {
            Lines::Leaf(nodes) => nodes.get(self.index),
            Lines::Inner(_) => None,
        }
    }

    /// The folder's tree and sums, if it is one.
    pub fn folder(&self) -> Option<(TreeId, &Totals)> {
        self.node().and_then(Node::as_folder)
    }

    /// The first position behind it and all below it.
    pub fn end(&self) -> u64 {
        self.position.saturating_add(self.node().map_or(1, positions_of))
    }
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A tree, shown under inode numbers.
pub struct PreorderTree {
    nodes: Arc<TreeNodes>,
    top: Arc<DecodedNode>,
    base: u64,
    checkpoint: Checkpoint,
    /// The position here of the workspace folder, from which the paths of hard links begin.
    workspace: u64,
    links: OnceLock<Links>,
    /// The folders of the table of hard links that were looked up, by their positions here.
    linked_folders: Mutex<HashMap<u64, Option<LinksFolder>>>,
    /// The positions here of the leaders that were looked up.
    leaders: Mutex<HashMap<Member, u64>>,
}

impl PreorderTree {
    /// Shows everything below `top`. Inode numbers are `base` plus the position; the workspace folder, in which hard links are, is at the
    /// position `workspace`.
    pub fn new(nodes: Arc<TreeNodes>, top: Node, base: u64, checkpoint: Checkpoint, workspace: u64) -> Self {
        let top = Arc::new(DecodedNode::new(TreeNode::Leaf(vec![top])));
        let (links, linked_folders, leaders) = Default::default();
        PreorderTree { nodes, top, base, checkpoint, workspace, links, linked_folders, leaders }
    }

    /// The checkpoint that it belongs to.
    pub fn checkpoint(&self) -> &Checkpoint {
        &self.checkpoint
    }

    /// The store.
    pub fn store(&self) -> &Arc<Store> {
        self.nodes.store()
    }

    /// Keeps decoded nodes within one of so many equal shares of their bytes from now on.
    pub fn share(&self, shares: u64) {
        self.nodes.share(shares);
    }

    /// The top itself.
    pub fn top(&self) -> Found {
        Found { node: self.top.clone(), index: 0, position: 0, parent: 0 }
    }

    fn bad(&self, tree: TreeId, reason: &str) -> Error {
        let place = self.store().layout().packs();
        Error::Corrupt { what: format!("tree {tree}"), place, reason: reason.into() }
    }

    /// The entry at a position; `None` where there is none. `on_way` is called with the name of each entry that leads there.
    pub fn locate_by(&self, position: u64, on_way: &mut dyn FnMut(&[u8])) -> Result<Option<Found>> {
        let mut at = self.top();
        while at.position != position {
            if position >= at.end() {
                return Ok(None);
            }
            let Some((tree, _)) = at.folder() else { return Ok(None) };
            let Some(next) = self.step(tree, &at, position)? else { return Ok(None) };
            at = next;
            on_way(at.node().map_or(&[], |node| &node.name));
        }
        Ok(Some(at))
    }

    /// The entry at a position; `None` where there is none.
    pub fn locate(&self, position: u64) -> Result<Option<Found>> {
        self.locate_by(position, &mut |_| {})
    }

    /// The entry of a folder that is at a position, or above it.
    fn step(&self, tree: TreeId, folder: &Found, position: u64) -> Result<Option<Found>> {
        let (mut tree, mut first) = (tree, folder.position.saturating_add(1));
        for _ in 0..LEVELS_MAX {
            let node = self.nodes.get(tree)?;
            let Some(index) = node.covering(position.saturating_sub(first)) else { return Ok(None) };
            first = first.saturating_add(node.starts[index]);
            match &node.lines {
                Lines::Inner(children) => tree = children[index].tree,
                Lines::Leaf(_) => return Ok(Some(Found { node, index, position: first, parent: folder.position })),
            }
        }
        Err(self.bad(tree, "it is too deep"))
    }

    /// The entry of a folder with this name. Of a big folder, only the nodes on the way are read.
    pub fn child(&self, folder: &Found, name: &[u8]) -> Result<Option<Found>> {
        let Some((mut tree, _)) = folder.folder() else { return Ok(None) };
        let mut first = folder.position.saturating_add(1);
        for _ in 0..LEVELS_MAX {
            let node = self.nodes.get(tree)?;
            let index = match &node.lines {
                Lines::Inner(children) => {
                    let Some(index) = children.partition_point(|c| c.first.as_slice() <= name).checked_sub(1) else {
                        return Ok(None);
                    };
                    tree = children[index].tree;
                    index
                }
                Lines::Leaf(nodes) => {
                    let Ok(index) = nodes.binary_search_by(|node| node.name.as_slice().cmp(name)) else { return Ok(None) };
                    let position = first.saturating_add(node.starts[index]);
                    return Ok(Some(Found { node, index, position, parent: folder.position }));
                }
            };
            first = first.saturating_add(node.starts[index]);
        }
        Err(self.bad(tree, "it is too deep"))
    }

    /// Calls `visit` with the entries of a folder, in order, from the first one at or behind position `from` on, until it answers
    /// false.
    pub fn list(&self, folder: &Found, from: u64, visit: &mut dyn FnMut(Found) -> bool) -> Result<()> {
        let Some((tree, _)) = folder.folder() else { return Ok(()) };
        let first = folder.position.saturating_add(1);
        self.list_part(tree, (folder.position, first), from.max(first), LEVELS_MAX, visit).map(drop)
    }

    fn list_part(
        &self,
        tree: TreeId,
        (parent, first): (u64, u64),
        from: u64,
        levels: u8,
        visit: &mut dyn FnMut(Found) -> bool,
    ) -> Result<bool> {
        if levels == 0 {
            return Err(self.bad(tree, "it is too deep"));
        }
        let node = self.nodes.get(tree)?;
        let Some(start) = node.covering(from.saturating_sub(first)) else { return Ok(true) };
        for index in start..node.starts.len() {
            let position = first.saturating_add(node.starts[index]);
            let goes_on = match &node.lines {
                Lines::Inner(children) => self.list_part(children[index].tree, (parent, position), from, levels - 1, visit)?,
                Lines::Leaf(_) if position < from => true,
                Lines::Leaf(_) => visit(Found { node: node.clone(), index, position, parent }),
            };
            if !goes_on {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn links(&self) -> Result<&Links> {
        if let Some(links) = self.links.get() {
            return Ok(links);
        }
        let links = self.store().links(&self.checkpoint)?;
        Ok(self.links.get_or_init(|| links))
    }

    /// The folder of the table of hard links that stands for the folder at a position.
    fn linked_folder(&self, links: &Links, position: u64) -> Result<Option<LinksFolder>> {
        if let Some(known) = locked(&self.linked_folders).get(&position) {
            return Ok(*known);
        }
        let mut folder = None;
        if position == self.workspace {
            folder = links.root();
        } else if position > self.workspace
            && let Some(found) = self.locate(position)?
            && let Some(node) = found.node()
        {
            // The way to it is taken one by one, because a tree may be deeper than the stack.
            let mut names = vec![node.name.clone()];
            let mut above = found.parent;
            while above > self.workspace
                && let Some(parent) = self.locate(above)?
            {
                names.extend(parent.node().map(|node| node.name.clone()));
                above = parent.parent;
            }
            let root = links.root().filter(|_| above == self.workspace);
            folder = names.iter().rev().try_fold(root, |at, name| Some(at.and_then(|at| links.child(at, name)))).flatten();
        }
        locked(&self.linked_folders).insert(position, folder);
        Ok(folder)
    }

    /// The position of a group's leader. Those of all leaders in its folder are found with it.
    fn leader_position(&self, links: &Links, leader: Member) -> Result<Option<u64>> {
        if let Some(known) = locked(&self.leaders).get(&leader) {
            return Ok(Some(*known));
        }
        let folder = links.folder_of(leader);
        let Some(mut at) = self.locate(self.workspace)? else { return Ok(None) };
        let path = links.folder_path(folder);
        for name in name::components(&path) {
            let Some(next) = self.child(&at, name)? else { return Ok(None) };
            at = next;
        }
        let mut members = links.members(folder).peekable();
        let mut leaders = locked(&self.leaders);
        self.list(&at, 0, &mut |found| {
            let Some(node) = found.node() else { return false };
            while let Some(member) = members.next_if(|member| links.name(*member) <= node.name.as_slice()) {
                if links.name(member) == node.name && links.leader_of(member) == member {
                    leaders.insert(member, found.position);
                }
            }
            members.peek().is_some()
        })?;
        Ok(leaders.get(&leader).copied())
    }

    /// The inode number of an entry: that of its hard-link group's leader.
    pub fn inode(&self, found: &Found) -> Result<u64> {
        let mut position = found.position;
        if let Some(node) = found.node().filter(|node| node.links > 1 && node.as_folder().is_none()) {
            let links = self.links()?;
            if !links.is_empty()
                && let Some(folder) = self.linked_folder(links, found.parent)?
                && let Some(member) = links.member(folder, &node.name)
                && let leader = links.leader_of(member)
                && leader != member
                && let Some(of_leader) = self.leader_position(links, leader)?
            {
                position = of_leader;
            }
        }
        Ok(self.inode_at(position))
    }

    /// The inode number of the entry at a position that is known to be no hard link.
    pub fn inode_at(&self, position: u64) -> u64 {
        self.base.saturating_add(position)
    }

    /// The position that an inode number stands for.
    pub fn position(&self, ino: u64) -> Option<u64> {
        ino.checked_sub(self.base)
    }

    /// What `stat` says of an entry.
    pub fn attr(&self, found: &Found) -> Result<Option<FileAttr>> {
        let ino = self.inode(found)?;
        Ok(found.node().map(|node| attr::of(node, ino)))
    }

    /// The path of an entry from the top, as people read it.
    pub fn path(&self, position: u64) -> String {
        let mut path = Vec::new();
        let found = self.locate_by(position, &mut |component| path = name::join(&path, component));
        match found {
            Ok(Some(_)) => name::display(&path),
            _ => format!("entry {position}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use parhelia_store::{OpenOptions, create};
    use proptest::prelude::*;

    use super::*;

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

    fn listed(tree: &PreorderTree, folder: &Found, pieces: usize) -> Vec<(Vec<u8>, u64)> {
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
            let store = Store::open(&dir.path().join("store"), &OpenOptions { create: true, ..OpenOptions::default() }).unwrap();
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
}
