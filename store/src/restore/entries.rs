//! The two views of a folder that a walk compares with what is live.

use crate::{
    statcache::{CacheEntry, Section},
    tree::Node,
};

/// The entries that the checkpoint has in a folder, and what the stat cache knows of those that are there.
pub struct Entries {
    /// The stat cache's section of the folder; none where the cache has none.
    pub section: Option<Section>,
    /// `None` where the section's nodes are the checkpoint's.
    pub loaded: Option<Vec<Node>>,
    /// True if the live folder is on the filesystem that the section is of.
    pub is_known: bool,
}

impl Entries {
    /// Number of entries in the checkpoint.
    pub fn len(&self) -> usize {
        self.loaded.as_ref().map_or_else(|| self.section.as_ref().map_or(0, |s| s.entries.len()), Vec::len)
    }

    /// One that the checkpoint has.
    pub fn node(&self, index: usize) -> &Node {
        match (&self.loaded, &self.section) {
            (Some(nodes), _) => &nodes[index],
            (None, Some(section)) => &section.entries[index].node,
            (None, None) => unreachable!("a listing without a section is loaded"),
        }
    }

    fn cached(&self, name: &[u8]) -> Option<&CacheEntry> {
        let section = self.section.as_ref()?;
        section.entries.binary_search_by(|e| e.node.name.as_slice().cmp(name)).ok().map(|i| &section.entries[i])
    }
}

impl Entries {
    /// The cache's knowledge of an entry that is there.
    pub fn cached_at(&self, index: usize, is_there: bool, name: &[u8]) -> Option<&CacheEntry> {
        match (is_there && self.is_known, &self.loaded, &self.section) {
            (true, None, Some(section)) => section.entries.get(index),
            (true, ..) => self.cached(name),
            _ => None,
        }
    }
}
