//! Entries that a restore is about: patterns, and those that it must never delete.

use std::{
    collections::HashSet,
    os::fd::BorrowedFd,
    path::{Path, PathBuf},
};

use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::{building, guard::Guard};
use crate::{
    error::{Error, Result},
    name,
    omitted::{Omission, Reason},
    secrets::Secrets,
    sys::Stat,
    tree::Time,
};

/// The patterns of a restore.
#[derive(Debug)]
pub struct Filter {
    include: Option<Gitignore>,
    exclude: Option<Gitignore>,
    left: HashSet<Vec<u8>>,
}

fn matcher(patterns: &[String]) -> Result<Option<Gitignore>> {
    if patterns.is_empty() {
        return Ok(None);
    }
    let mut builder = GitignoreBuilder::new("");
    let invalid = |pattern: &str, e: ignore::Error| Error::Invalid(format!("the pattern '{pattern}' does not parse: {e}"));
    for pattern in patterns {
        builder.add_line(None, &name::pattern(pattern)).map_err(|e| invalid(pattern, e))?;
    }
    builder.build().map(Some).map_err(|e| invalid(&patterns.join("', '"), e))
}

impl Filter {
    /// Reads the patterns; they are those of gitignore. What is at the paths in `left` is passed over, too.
    pub fn new(include: &[String], exclude: &[String], left: &[Vec<u8>]) -> Result<Self> {
        Ok(Filter { include: matcher(include)?, exclude: matcher(exclude)?, left: left.iter().cloned().collect() })
    }

    /// True if it lets everything through.
    pub fn is_all(&self) -> bool {
        self.include.is_none() && self.exclude.is_none() && self.left.is_empty()
    }

    /// True if only some entries are included.
    pub fn has_include(&self) -> bool {
        self.include.is_some()
    }

    /// True if an entry, and with a folder all that is in it, is passed over.
    pub fn excludes(&self, path: &[u8], is_folder: bool) -> bool {
        self.left.contains(path) || self.is_excluded(path, is_folder)
    }

    fn is_excluded(&self, path: &[u8], is_folder: bool) -> bool {
        self.exclude.as_ref().is_some_and(|m| m.matched(&*name::lossless(path), is_folder).is_ignore())
    }

    /// True if the patterns want a file that is restored by itself, by its name.
    pub fn wants_file(&self, name: &[u8]) -> bool {
        self.includes(name, false, false) && !self.is_excluded(name, false)
    }

    /// True if an entry is wanted; `inherited` says whether the folder it is in is.
    pub fn includes(&self, path: &[u8], is_folder: bool, inherited: bool) -> bool {
        let Some(include) = &self.include else { return true };
        let found = include.matched(&*name::lossless(path), is_folder);
        found.is_ignore() || inherited && !found.is_whitelist()
    }
}

/// Entries that are not deleted although the checkpoint does not have them: those that capture left out, those that somebody asks to
/// spare, the store itself, and what other restores build.
#[derive(Debug, Default)]
pub struct ProtectedEntries {
    exact: HashSet<Vec<u8>>,
    /// Entries that the checkpoint has without some of their attributes.
    bare: HashSet<Vec<u8>>,
    /// Length of the longest exact path.
    longest: usize,
    names: HashSet<Vec<u8>>,
    /// Device and inode of the store's folders.
    store: HashSet<(u64, u64)>,
    /// The store's folder of pins.
    pins: Option<PathBuf>,
    /// Files that no checkpoint takes in, and the target's path.
    secrets: Option<(Secrets, PathBuf)>,
    /// The limit on what was changed lately.
    guard: Option<Guard>,
}

impl ProtectedEntries {
    /// From a checkpoint's omissions, with paths from `subpath`.
    pub fn new(omissions: Vec<Omission>, subpath: &[u8]) -> Self {
        let mut spared = ProtectedEntries::default();
        let base: Vec<&[u8]> = name::components(subpath).collect();
        for omission in omissions {
            let parts: Vec<&[u8]> = name::components(&omission.path).collect();
            let path = match parts.strip_prefix(base.as_slice()) {
                Some(rest) => rest.join(&b'/'),
                None => continue,
            };
            match omission.reason {
                Reason::Attributes(_) => _ = spared.bare.insert(path),
                reason if reason.is_left_out() => spared.insert(path),
                _ => {}
            }
        }
        spared
    }

    /// True if an entry keeps the attributes that it has and the checkpoint has not: capture could not read them. `path` is not asked for
    /// where there is no such entry.
    pub fn keeps_attributes(&self, path: impl FnOnce() -> Vec<u8>) -> bool {
        !self.bare.is_empty() && self.bare.contains(&path())
    }

    fn insert(&mut self, path: Vec<u8>) {
        self.longest = self.longest.max(path.len());
        self.exact.insert(path);
    }

    /// The same, and more paths.
    pub fn and(mut self, paths: &[Vec<u8>]) -> Self {
        let parts = |path: &Vec<u8>| name::components(path).collect::<Vec<_>>().join(&b'/');
        paths.iter().map(parts).filter(|path| !path.is_empty()).for_each(|path| self.insert(path));
        self
    }

    /// The same, and the folders of the store, by whatever path they are found.
    pub fn and_store(self, folders: HashSet<(u64, u64)>) -> Self {
        ProtectedEntries { store: folders, ..self }
    }

    /// The same, and what the operations with pins in this folder build.
    pub fn and_pinned(self, pins: PathBuf) -> Self {
        ProtectedEntries { pins: Some(pins), ..self }
    }

    /// The same, and whatever has one of these names, with the folder that it is in.
    pub fn and_names(self, names: &[Vec<u8>]) -> Self {
        ProtectedEntries { names: names.iter().cloned().collect(), ..self }
    }

    /// The same, and what never enters a store. `target` is where paths begin.
    pub fn and_secrets(self, secrets: &Secrets, target: &Path) -> Self {
        ProtectedEntries { secrets: Some((secrets.clone(), target.to_owned())), ..self }
    }

    /// The same, and what was changed at a time or later.
    pub fn and_since(self, since: Option<Time>) -> Self {
        ProtectedEntries { guard: since.map(Guard::new), ..self }
    }

    /// The guard that holds back changes which no checkpoint has.
    pub fn guard(&self) -> Option<&Guard> {
        self.guard.as_ref()
    }

    /// True if a name is one that is left alone.
    pub fn covers_name(&self, name: &[u8]) -> bool {
        self.names.contains(name)
    }

    /// True if one of the names in a folder is one that is left alone.
    pub fn covers_one_of(&self, names: &[Vec<u8>]) -> bool {
        !self.names.is_empty() && names.iter().any(|name| self.names.contains(name))
    }

    /// True if a path was left out, by itself or with a folder that it is in, or never enters a store.
    pub fn covers(&self, path: &[u8]) -> bool {
        let slashes = path.iter().take(self.longest + 1).enumerate().filter(|(_, b)| **b == b'/').map(|(i, _)| i);
        self.exact.contains(&b""[..]) || slashes.chain([path.len()]).any(|end| self.covers_exactly(&path[..end]))
    }

    /// True if a path was left out by itself, or never enters a store.
    pub fn covers_exactly(&self, path: &[u8]) -> bool {
        path.len() <= self.longest && self.exact.contains(path)
            || self.secrets.as_ref().is_some_and(|(secrets, target)| secrets.cover(&target.join(name::as_path(path))))
    }

    /// True if this is the store's folder, or one in it.
    pub fn is_store(&self, stat: &Stat) -> bool {
        self.store.contains(&(stat.dev, stat.ino))
    }

    /// True if another restore builds an entry of this name, or did until it died.
    pub fn is_being_built(&self, folder: BorrowedFd<'_>, name: &[u8]) -> bool {
        self.pins.as_ref().is_some_and(|pins| building::is_being_built(folder, name, pins))
    }
}
