//! Renames, found by content.

use std::collections::{HashMap, HashSet, VecDeque};

use super::{ChangeKind, TreeChange};
use crate::{
    id::BlobId,
    tree::{Kind, Node},
};

/// The changes that hold one content, by their places in the list.
#[derive(Default)]
struct Group {
    deleted: Vec<usize>,
    added: Vec<usize>,
}

/// Joins each deleted and added file of equal content to one renamed file, which stands at its new path. Each file is used once.
/// Among several that could be joined, those of the same name are, then those that come first.
///
/// Empty files and symlinks are left alone: that they are equal says too little.
pub fn find_renames(changes: &mut Vec<TreeChange>) {
    let mut groups: HashMap<BlobId, Group> = HashMap::new();
    for (i, change) in changes.iter().enumerate() {
        match change.kind {
            ChangeKind::Deleted => {
                content(change.old.as_ref()).into_iter().for_each(|blob| groups.entry(blob).or_default().deleted.push(i));
            }
            ChangeKind::Added => {
                content(change.new.as_ref()).into_iter().for_each(|blob| groups.entry(blob).or_default().added.push(i));
            }
            _ => {}
        }
    }
    groups.retain(|_, group| !group.deleted.is_empty() && !group.added.is_empty());
    let joined: Vec<(usize, usize)> = groups.values().flat_map(|group| join(group, changes)).collect();
    let mut gone = HashSet::with_capacity(joined.len());
    for (from, to) in joined {
        gone.insert(from);
        let source = &mut changes[from];
        let (path, old) = (std::mem::take(&mut source.path), source.old.take());
        changes[to].kind = ChangeKind::Renamed { from: path };
        changes[to].old = old;
    }
    let mut i = 0;
    changes.retain(|_| {
        i += 1;
        !gone.contains(&(i - 1))
    });
}

fn content(node: Option<&Node>) -> Option<BlobId> {
    match node.map(|node| &node.kind) {
        Some(Kind::File { size, blob, .. }) if *size > 0 => Some(*blob),
        _ => None,
    }
}

fn name(change: &TreeChange) -> &[u8] {
    change.old.as_ref().or(change.new.as_ref()).map_or(&[], |node| &node.name)
}

/// Pairs of a deleted file and the added one that it became. Linear: a folder with thousands of equal files may have moved.
fn join(group: &Group, changes: &[TreeChange]) -> Vec<(usize, usize)> {
    let mut by_name: HashMap<&[u8], VecDeque<usize>> = HashMap::new();
    for &from in &group.deleted {
        by_name.entry(name(&changes[from])).or_default().push_back(from);
    }
    let mut joined = Vec::new();
    let mut left = Vec::new();
    for &to in &group.added {
        match by_name.get_mut(name(&changes[to])).and_then(VecDeque::pop_front) {
            Some(from) => joined.push((from, to)),
            None => left.push(to),
        }
    }
    let used: HashSet<usize> = joined.iter().map(|(from, _)| *from).collect();
    let unused = group.deleted.iter().copied().filter(|from| !used.contains(from));
    joined.extend(unused.zip(left));
    joined
}
