//! Parts of a checkpoint that are not taken at their word: those that would give privileges, where somebody else may have made it.

use std::{borrow::Cow, fs, os::unix::fs::MetadataExt};

use super::Options;
use crate::attributes::Attributes;
use crate::{
    record::Checkpoint,
    store::Store,
    tree::{Kind, Meta, Node, Xattr},
};

/// Holds the privileges that a program has whoever runs it.
const CAPABILITY: &[u8] = b"security.capability";

/// True if an extended attribute gives privileges, or is for the system to set.
pub(super) fn is_privileged(xattr: &[u8]) -> bool {
    xattr.starts_with(b"security.") || xattr.starts_with(b"trusted.")
}

impl Store {
    /// The reason for which the privileges in a checkpoint are not restored; `None` for a checkpoint that this user has made.
    pub fn distrusts(&self, checkpoint: &Checkpoint) -> Option<&'static str> {
        if checkpoint.record.is_imported() {
            return Some("the checkpoint was imported");
        }
        let user = rustix::process::geteuid().as_raw();
        // Not through links: one may lead into a store of this user's.
        let is_own = |path| fs::symlink_metadata(path).is_ok_and(|meta| meta.uid() == user);
        let layout = self.layout();
        let all = [layout.config(), layout.journal(), layout.packs()];
        if all.into_iter().all(is_own) { None } else { Some("the store belongs to somebody else") }
    }
}

impl Options {
    /// The metadata that an entry gets.
    pub(super) fn meta_of<'a>(&self, meta: &'a Meta) -> Cow<'a, Meta> {
        if self.preserve_special || meta.mode & 0o6000 == 0 && !meta.xattrs.iter().any(|(name, _)| is_privileged(name)) {
            return Cow::Borrowed(meta);
        }
        let xattrs = meta.xattrs.iter().filter(|(name, _)| !is_privileged(name)).cloned().collect();
        Cow::Owned(Meta { mode: meta.mode & 0o1777, xattrs, ..*meta })
    }

    /// Of the attributes that a live entry has, those that are compared with the checkpoint's, and go where it has them not. What the
    /// system itself has put there stays.
    pub(super) fn decided(&self, mut live: Vec<Xattr>) -> Vec<Xattr> {
        if !self.preserve_special {
            live.retain(|(name, _)| name == CAPABILITY || !is_privileged(name));
        }
        live
    }

    /// True if a live entry has the attributes that it should, as far as that can be told. One that `keeps` its own may have more.
    pub(super) fn fits(&self, live: Attributes, wanted: &[Xattr], keeps: bool) -> bool {
        match live.are_complete() && !keeps {
            true => self.decided(live.known) == wanted,
            false => wanted.iter().all(|xattr| live.known.contains(xattr)),
        }
    }

    /// Of the attributes that a live entry has, those that go where the checkpoint has them not: none of one that `keeps` its own.
    pub(super) fn decided_of(&self, live: Attributes, wanted: &Meta, keeps: bool) -> Vec<Xattr> {
        let mut live = self.decided(live.known);
        live.retain(|(name, _)| !keeps || wanted.xattrs.iter().any(|(wanted, _)| wanted == name));
        live
    }

    /// True if an entry is not made, because it would give privileges.
    pub(super) fn withholds(&self, node: &Node) -> bool {
        !self.preserve_special && matches!(node.kind, Kind::CharDevice { .. } | Kind::BlockDevice { .. })
    }

    /// The names of the attributes that an entry does not get, because they give privileges.
    pub(super) fn withheld<'a>(&self, meta: &'a Meta) -> impl Iterator<Item = &'a [u8]> {
        let xattrs = if self.preserve_special { &[] } else { meta.xattrs.as_slice() };
        xattrs.iter().map(|(name, _)| name.as_slice()).filter(|name| is_privileged(name))
    }
}
