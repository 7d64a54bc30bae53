//! Content that differs between two checkpoints of a workspace.

use std::collections::BTreeMap;

use parhelia_store::{
    Store,
    diff::{ChangeKind, DiffOptions, Side, TreeChange, compare, compare_each},
    name,
    record::Checkpoint,
    restore::is_staged,
};

use crate::scan::LeftOut;
use parhelia_host::Result;

/// Everything that differs between two checkpoints, by path; what one of them left out does not count.
pub fn between(store: &Store, old: &Checkpoint, new: &Checkpoint) -> Result<Vec<TreeChange>> {
    let (old_node, new_node) = (store.workspace_node(old)?, store.workspace_node(new)?);
    let omissions = store.omissions(new)?;
    let side = Side::new(store, &new_node).with_omissions(&omissions);
    let mut changes = compare(Side::new(store, &old_node), side, DiffOptions::default())?;
    let left_out = LeftOut::of(store.omissions(old)?, omissions);
    changes.retain(|change| !left_out.is(change));
    Ok(changes)
}

/// Calls `visit` with each file, link or other entry without entries of its own whose content is not as it was. The folders of git
/// repositories, and what a restore was building, are left out.
pub fn each_content(store: &Store, then: &Checkpoint, now: &Checkpoint, visit: &mut dyn FnMut(TreeChange)) -> Result<()> {
    let sides = (store.workspace_node(then)?, store.workspace_node(now)?);
    let left_out = LeftOut::of(store.omissions(then)?, store.omissions(now)?);
    let mut of_git = OfGit::new(store, [then, now]);
    compare_each(Side::new(store, &sides.0), Side::new(store, &sides.1), false, &mut |change| {
        let is_metadata = matches!(change.kind, ChangeKind::Metadata(_));
        let is_folder = change.new.as_ref().or(change.old.as_ref()).is_some_and(|node| node.as_folder().is_some());
        let is_staged = name::components(&change.path).any(is_staged);
        if !is_metadata && !is_folder && !is_staged && !left_out.is(&change) && !of_git.has(&change.path) {
            visit(change);
        }
        Ok(())
    })?;
    Ok(())
}

/// The git repositories of two checkpoints. Whoever calls a folder .git has not made it one of git.
pub struct OfGit<'a> {
    store: &'a Store,
    sides: [&'a Checkpoint; 2],
    /// Folders called .git, and whether they are repositories.
    known: BTreeMap<Vec<u8>, bool>,
}

impl<'a> OfGit<'a> {
    /// What git tracks in one of two checkpoints.
    pub fn new(store: &'a Store, sides: [&'a Checkpoint; 2]) -> Self {
        OfGit { store, sides, known: BTreeMap::new() }
    }

    /// True if a path is that of a repository, or of something in it.
    pub fn has(&mut self, path: &[u8]) -> bool {
        let Some(git) = git_folder(path) else { return false };
        if git == path {
            return true;
        }
        let is_one = || {
            let head = [git, b"/HEAD"].concat();
            self.sides.iter().any(|side| self.store.node_at(side, &head).is_ok())
        };
        *self.known.entry(git.to_vec()).or_insert_with(is_one)
    }
}

/// The part of a path up to its first component `.git`.
fn git_folder(path: &[u8]) -> Option<&[u8]> {
    let mut end = 0;
    for part in path.split(|byte| *byte == b'/') {
        end += part.len();
        if part == b".git" {
            return Some(&path[..end]);
        }
        end += 1;
    }
    None
}
