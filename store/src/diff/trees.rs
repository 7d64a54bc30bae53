//! Walking two trees in step, equal ones skipped without being read.

use std::{collections::HashSet, vec};

use super::{
    ChangeKind, TreeChange,
    folder::{self, Pair, bad_tree},
    renames::find_renames,
};
use crate::{
    error::{Error, Result},
    omitted::{Omission, Reason},
    tree::{DEPTH_MAX, Node, Trees},
};

/// One side of a comparison.
#[derive(Clone, Copy)]
pub struct Side<'a> {
    /// Source of its trees.
    pub trees: &'a dyn Trees,
    /// The folder. Its name plays no part.
    pub folder: &'a Node,
    /// Entries that capture left out of it. Those that could not be read may well be there.
    pub omissions: &'a [Omission],
}

impl<'a> Side<'a> {
    /// A folder, and where its trees are read.
    pub fn new(trees: &'a dyn Trees, folder: &'a Node) -> Self {
        Side { trees, folder, omissions: &[] }
    }

    /// The same side, with what capture left out of it. On the newer side, an entry that could not be read is no deletion.
    pub fn with_omissions(self, omissions: &'a [Omission]) -> Self {
        Side { omissions, ..self }
    }

    fn unread(&self) -> HashSet<&'a [u8]> {
        let unread = self.omissions.iter().filter(|omission| matches!(omission.reason, Reason::Unreadable(_)));
        unread.map(|omission| omission.path.as_slice()).collect()
    }
}

/// Options of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiffOptions {
    /// True if a deleted and an added file of equal content are one renamed file.
    pub renames: bool,
    /// True if a folder of which nothing but the mtime differs is reported. It does so whenever an entry came or went, which is reported
    /// anyway.
    pub folder_times: bool,
}

impl Default for DiffOptions {
    fn default() -> Self {
        DiffOptions { renames: true, folder_times: false }
    }
}

/// All changes from `old` to `new`, ordered by path: component by component, so that a folder stands right before what is in it.
/// Everything in an added or deleted folder is listed.
pub fn compare(old: Side<'_>, new: Side<'_>, options: DiffOptions) -> Result<Vec<TreeChange>> {
    let mut changes = Vec::new();
    compare_each(old, new, options.folder_times, &mut |change| {
        changes.push(change);
        Ok(())
    })?;
    if options.renames {
        find_renames(&mut changes);
    }
    Ok(changes)
}

/// Calls `visit` with each change, in the order of [`compare`], as it is found. Renames are not looked for: that takes all changes.
pub fn compare_each(
    old: Side<'_>,
    new: Side<'_>,
    folder_times: bool,
    visit: &mut dyn FnMut(TreeChange) -> Result<()>,
) -> Result<()> {
    let mut walk =
        Walk { old: old.trees, new: new.trees, unread: new.unread(), folder_times, visit, path: Vec::new(), stack: Vec::new() };
    walk.enter(Pair { old: Some(old.folder.clone()), new: Some(new.folder.clone()) })?;
    while let Some(level) = walk.stack.last_mut() {
        let Some(pair) = level.pairs.next() else {
            walk.stack.pop();
            continue;
        };
        walk.path.truncate(level.path_bytes);
        if !walk.path.is_empty() {
            walk.path.push(b'/');
        }
        walk.path.extend_from_slice(pair.name());
        walk.enter(pair)?;
    }
    Ok(())
}

/// A folder on the way down.
struct Level {
    pairs: vec::IntoIter<Pair>,
    path_bytes: usize,
}

struct Walk<'a> {
    old: &'a dyn Trees,
    new: &'a dyn Trees,
    /// Paths that the new side lacks because they could not be read.
    unread: HashSet<&'a [u8]>,
    folder_times: bool,
    visit: &'a mut dyn FnMut(TreeChange) -> Result<()>,
    path: Vec<u8>,
    /// An explicit stack: a hostile tree must not overflow the program's.
    stack: Vec<Level>,
}

impl Walk<'_> {
    /// Says what there is to say of the entries at `path`, and goes into them if they are folders that differ.
    fn enter(&mut self, pair: Pair) -> Result<()> {
        if pair.new.is_none() && self.unread.contains(&*self.path) {
            return Ok(());
        }
        let (old, new) = pair.trees();
        let kind = match (&pair.old, &pair.new) {
            (None, _) => Some(ChangeKind::Added),
            (_, None) => Some(ChangeKind::Deleted),
            (Some(old), Some(new)) => ChangeKind::between(old, new, self.folder_times),
        };
        if let Some(kind) = kind {
            (self.visit)(TreeChange { path: self.path.clone(), kind, old: pair.old, new: pair.new })?;
        }
        if old == new {
            return Ok(());
        }
        let pairs = match new.or(old) {
            Some(tree) if self.stack.len() >= DEPTH_MAX => Err(bad_tree(tree, "folders nest too deep")),
            _ => folder::pairs((self.old, old), (self.new, new)),
        }
        .map_err(|e| self.at(e))?;
        self.stack.push(Level { pairs: pairs.into_iter(), path_bytes: self.path.len() });
        Ok(())
    }

    fn at(&self, error: Error) -> Error {
        if self.path.is_empty() { error } else { error.at(&self.path) }
    }
}
