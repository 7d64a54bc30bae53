//! The entries in which two folders differ. Of big folders, the parts that both have are not read.

use std::{
    cmp::Ordering,
    collections::{HashMap, HashSet},
    path::PathBuf,
};

use crate::{
    error::{Error, Result},
    id::TreeId,
    tree::{Node, TreeNode, Trees},
};

/// The entries of one name. At least one side has it.
pub(super) struct Pair {
    pub old: Option<Node>,
    pub new: Option<Node>,
}

impl Pair {
    pub(super) fn name(&self) -> &[u8] {
        self.old.as_ref().or(self.new.as_ref()).map_or(&[], |node| &node.name)
    }

    /// The trees of those sides that are folders.
    pub(super) fn trees(&self) -> (Option<TreeId>, Option<TreeId>) {
        let tree = |node: &Option<Node>| node.as_ref().and_then(Node::as_folder).map(|(tree, _)| tree);
        (tree(&self.old), tree(&self.new))
    }
}

pub(super) fn bad_tree(tree: TreeId, reason: &str) -> Error {
    Error::Corrupt { what: format!("tree {tree}"), place: PathBuf::from("packs"), reason: reason.into() }
}

/// One side's folder, as far as it has been read.
struct Part<'a> {
    trees: &'a dyn Trees,
    /// Nodes that are not read yet, in the order of the names in them.
    pending: Vec<TreeId>,
    /// Levels between the leaves and the pending ones; 0 where that was not looked at.
    height: usize,
    /// The entries of the leaves that are read.
    entries: Vec<Node>,
    /// Every node that was ever pending.
    seen: HashSet<TreeId>,
    /// Nodes that were read to find the height.
    peeked: HashMap<TreeId, TreeNode>,
}

impl<'a> Part<'a> {
    fn open(trees: &'a dyn Trees, root: Option<TreeId>) -> Result<Self> {
        let mut part = Part {
            trees,
            pending: root.into_iter().collect(),
            height: 0,
            entries: Vec::new(),
            seen: HashSet::new(),
            peeked: HashMap::new(),
        };
        part.expand()?;
        Ok(part)
    }

    fn measure(&mut self) -> Result<()> {
        let mut next = self.pending.first().copied();
        while let Some(id) = next {
            let node = self.trees.tree_node(id)?;
            next = match &node {
                TreeNode::Leaf(_) => None,
                TreeNode::Inner(children) => children.first().map(|child| child.tree),
            };
            if self.peeked.insert(id, node).is_some() {
                return Err(bad_tree(id, "it contains itself"));
            }
            self.height += usize::from(next.is_some());
        }
        Ok(())
    }

    /// Reads the pending nodes; what is below them becomes pending.
    fn expand(&mut self) -> Result<()> {
        let mut lower = Vec::new();
        for id in std::mem::take(&mut self.pending) {
            let node = match self.peeked.remove(&id) {
                Some(node) => node,
                None => self.trees.tree_node(id)?,
            };
            match node {
                TreeNode::Leaf(nodes) => self.entries.extend(nodes),
                TreeNode::Inner(children) => {
                    for child in children {
                        // Names are distinct, so no honest folder has a node twice; a forged one could multiply without end.
                        if !self.seen.insert(child.tree) {
                            return Err(bad_tree(child.tree, "it occurs twice in one folder"));
                        }
                        lower.push(child.tree);
                    }
                }
            }
        }
        self.pending = lower;
        self.height = self.height.saturating_sub(1);
        Ok(())
    }

    fn finish(self) -> Result<Vec<Node>> {
        match self.entries.windows(2).find(|pair| pair[0].name >= pair[1].name) {
            None => Ok(self.entries),
            Some(_) => Err(Error::Corrupt {
                what: "a big folder".into(),
                place: PathBuf::from("packs"),
                reason: "its parts are not in the order of names".into(),
            }),
        }
    }
}

/// Takes away the pending nodes that both sides have. Where a folder is cut depends on names alone, so an equal node holds the same
/// entries, and no other node of either folder holds one of these names.
fn drop_common(old: &mut Part<'_>, new: &mut Part<'_>) {
    let ids: HashSet<TreeId> = old.pending.iter().copied().collect();
    let common: HashSet<TreeId> = new.pending.iter().copied().filter(|id| ids.contains(id)).collect();
    old.pending.retain(|id| !common.contains(id));
    new.pending.retain(|id| !common.contains(id));
}

/// The names whose entries differ, in order. A side without a tree has no entries.
pub(super) fn pairs(old: (&dyn Trees, Option<TreeId>), new: (&dyn Trees, Option<TreeId>)) -> Result<Vec<Pair>> {
    let (mut old, mut new) = (Part::open(old.0, old.1)?, Part::open(new.0, new.1)?);
    if !old.pending.is_empty() && !new.pending.is_empty() {
        old.measure()?;
        new.measure()?;
    }
    while !old.pending.is_empty() || !new.pending.is_empty() {
        drop_common(&mut old, &mut new);
        // A folder that grew by a level meets the other one's nodes one level down: the higher side goes first.
        let order = old.height.cmp(&new.height);
        if order != Ordering::Less {
            old.expand()?;
        }
        if order != Ordering::Greater {
            new.expand()?;
        }
    }
    Ok(join(old.finish()?, new.finish()?))
}

fn join(old: Vec<Node>, new: Vec<Node>) -> Vec<Pair> {
    let mut pairs = Vec::new();
    let (mut old, mut new) = (old.into_iter().peekable(), new.into_iter().peekable());
    loop {
        let order = match (old.peek(), new.peek()) {
            (Some(a), Some(b)) => a.name.cmp(&b.name),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => return pairs,
        };
        let pair = Pair {
            old: if order == Ordering::Greater { None } else { old.next() },
            new: if order == Ordering::Less { None } else { new.next() },
        };
        if pair.old != pair.new {
            pairs.push(pair);
        }
    }
}
