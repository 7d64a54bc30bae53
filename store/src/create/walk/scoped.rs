//! Entries that a source calls unchanged are not looked at: they stay as the cache and its checkpoint have them.

use std::os::fd::BorrowedFd;

use super::{
    WalkState, lock,
    pending::{EntryUpdate, Folder, Slot},
};
use crate::{links::LinkedFolder, name, omitted::Omission, statcache::CacheEntry, sys, tree::features};

/// The omissions at a path and below it, of a list that is ordered by path.
fn at_and_below<'o>(omissions: &'o [Omission], path: &'o [u8]) -> impl Iterator<Item = &'o Omission> {
    let at = omissions.partition_point(|o| o.path.as_slice() < path);
    let itself = omissions[at..].iter().take_while(move |o| o.path == path);
    itself.chain(below(omissions, path))
}

/// The omissions below a folder. `a-b` stands between `a` and `a/b`.
fn below<'o>(omissions: &'o [Omission], folder: &[u8]) -> impl Iterator<Item = &'o Omission> {
    let inside = if folder.is_empty() { Vec::new() } else { [folder, b"/"].concat() };
    let start = omissions.partition_point(|o| o.path < inside);
    omissions[start..].iter().take_while(move |o| o.path.starts_with(&inside))
}

impl WalkState<'_, '_> {
    /// The names of entries of a folder that the cache's checkpoint left out.
    pub(super) fn left_out_in<'s>(&'s self, folder: &'s [u8]) -> impl Iterator<Item = &'s [u8]> {
        let inside = if folder.is_empty() { 0 } else { folder.len() + 1 };
        let names = below(self.walk.base_omissions, folder).map(move |o| &o.path[inside..]);
        names.filter(|name| !name.is_empty() && !name.contains(&b'/'))
    }

    /// Keeps an entry that the source says did not change, with everything below it, and gives the folders of hard-linked entries below it,
    /// the last one first; one that was left out stays so. `None` where the cache cannot be read, so that the entry has to be looked at.
    pub(super) fn keep(
        &self,
        folder: &Folder,
        path: &[u8],
        entry_name: &[u8],
        old: Option<&CacheEntry>,
        slot: &mut Slot,
    ) -> Option<Vec<LinkedFolder>> {
        let links = old.map_or(Some(Vec::new()), |old| self.cached_links(old, slot.dev, folder.depth + 1))?;
        if old.is_some() {
            slot.now = EntryUpdate::AsBefore;
        }
        let path = name::join(path, entry_name);
        lock(&self.omissions).extend(at_and_below(self.walk.base_omissions, &path).cloned());
        Some(links)
    }

    /// The folders of hard-linked entries below a cached entry that is in so many folders, the last one first. `None` where a section of
    /// the cache cannot be read.
    fn cached_links(&self, entry: &CacheEntry, dev: u64, depth: usize) -> Option<Vec<LinkedFolder>> {
        let has_links = |entry: &CacheEntry| {
            let folder = entry.node.as_folder();
            folder.is_some_and(|(_, totals)| totals.features & features::HARD_LINK != 0)
        };
        let enter = |entry: &CacheEntry| Some(self.walk.cache?.section(entry.section)?.entries.into_iter());
        let mut links = Vec::new();
        // The folders that are being read, and where each is among those that were found.
        let mut levels = Vec::new();
        if has_links(entry) {
            levels.push((enter(entry)?, 0));
            links.push(LinkedFolder::new(depth, &entry.node.name));
        }
        // An explicit stack: the tree may be deeper than the program's.
        while let Some((level, number)) = levels.last_mut() {
            let Some(below) = level.next() else {
                levels.pop();
                continue;
            };
            if has_links(&below) {
                let inside = enter(&below)?;
                links.push(LinkedFolder::new(depth + levels.len(), &below.node.name));
                levels.push((inside, links.len() - 1));
            } else if below.node.as_folder().is_none() && below.node.links > 1 {
                links[*number].push(&below.node.name, (dev, below.ino));
            }
        }
        links.reverse();
        Some(links)
    }

    /// True if one of the changed entries of a folder decides what else is captured in it and below it, so that all of that has to be
    /// judged anew. `known` are the names that were there before.
    pub(super) fn changes_rules(&self, folder: &[u8], known: &[Vec<u8>], changed: &[Vec<u8>], fd: BorrowedFd<'_>) -> bool {
        let excluder = self.walk.excluder;
        changed.iter().filter(|name| excluder.goes_by(name)).any(|name| {
            let stat = sys::stat_at(fd, name).ok();
            let appears_or_goes = stat.is_some() != known.binary_search(name).is_ok();
            appears_or_goes
                || match name.as_slice() {
                    b"CACHEDIR.TAG" => true,
                    // What git tracks is captured although the rules leave out what is around it.
                    b".git" => {
                        stat.is_some_and(|stat| !stat.is_folder()) || self.may_have_changed(&name::join(folder, name), b"index")
                    }
                    _ => false,
                }
        })
    }

    fn may_have_changed(&self, folder: &[u8], entry_name: &[u8]) -> bool {
        self.walk.source.scope(folder).has(entry_name)
    }
}
