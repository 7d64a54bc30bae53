//! Levels and order of split folders.

use super::{Reach, Trust};
use crate::{
    codec::DecodeError,
    error::Result,
    id::TreeId,
    pack::ObjectKind,
    tree::{self, Child, TreeNode},
};

/// A node of a split folder, as the node above it and the one beside it see it.
#[derive(Clone)]
pub(super) struct Ends {
    level: u8,
    first: Option<Vec<u8>>,
    last: Option<Vec<u8>>,
}

/// More levels than a split folder has.
const LEVELS_MAX: usize = 10;

impl<'a> Reach<'a> {
    /// True if the nodes below an upper one are of the next lower level, begin with the names that it says, and leave the entries in order. What
    /// cannot be read is named where it is followed.
    pub(super) fn fits_together(&mut self, level: u8, children: &[Child]) -> bool {
        let is_quick = matches!(self.trust, Trust::Index(_));
        children.iter().enumerate().all(|(number, child)| {
            // What a verified checkpoint has as well is not read again.
            if is_quick && self.followed.contains_key(&child.tree.object().key()) {
                return true;
            }
            let Some(ends) = self.ends(child.tree, 0) else { return true };
            let begins = ends.level.checked_add(1) == Some(level) && ends.first.as_ref() == Some(&child.first);
            begins && children.get(number + 1).is_none_or(|next| ends.last.is_none_or(|last| last < next.first))
        })
    }

    /// The level of a tree node, and the first and the last name below it; `None` where it cannot be read. Each is read once.
    pub(super) fn ends(&mut self, id: TreeId, depth: usize) -> Option<Ends> {
        if let Some(known) = self.ends.get(&id.object().key()) {
            return Some(known.clone());
        }
        let (level, node) = self.read(ObjectKind::Tree, id.object(), levelled)?.ok()?;
        let (first, last) = match node {
            TreeNode::Leaf(mut nodes) => (nodes.first().map(|node| node.name.clone()), nodes.pop().map(|node| node.name)),
            TreeNode::Inner(children) => {
                let last = children.last().filter(|_| depth < LEVELS_MAX).and_then(|child| self.ends(child.tree, depth + 1));
                (children.first().map(|child| child.first.clone()), last.and_then(|ends| ends.last))
            }
        };
        let ends = Ends { level, first, last };
        self.ends.insert(id.object().key(), ends.clone());
        Some(ends)
    }
}

/// The reason against an upper tree node.
pub(super) const UNORDERED: &str = "split folder: levels, first names or order";

/// A tree node with its level.
pub(super) fn levelled(bytes: &[u8]) -> Result<(u8, TreeNode), DecodeError> {
    Ok((bytes.first().copied().unwrap_or_default(), tree::decode(bytes)?))
}
