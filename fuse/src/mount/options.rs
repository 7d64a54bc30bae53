//! Options of a mount.

use std::{ffi::OsString, sync::Arc};

use parhelia_store::{Store, name, record::Checkpoint};
use ulid::Ulid;

use crate::{filesystem::store::Manifest, kernel::Log};

/// The thing to mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// The workspace of one checkpoint.
    Tree {
        /// Id of the checkpoint to mount.
        checkpoint: Ulid,
        /// A folder in it; empty for all of it.
        path: Vec<u8>,
    },
    /// Every checkpoint, by session, date and tag.
    Store,
}

impl What {
    /// The text that `parhelia mounts` shows.
    pub(super) fn text(&self) -> String {
        match self {
            What::Store => "store".into(),
            What::Tree { checkpoint, path } if path.is_empty() => checkpoint.to_string(),
            What::Tree { checkpoint, path } => format!("{checkpoint}:{}", name::display(path)),
        }
    }
}

/// Options of a mount.
#[derive(Clone)]
pub struct Options {
    /// Other users may look, as far as the modes and ACLs of the entries let them.
    pub allow_other: bool,
    /// Requests that are answered at a time; 0 for one per processor, and at least two.
    pub threads: usize,
    /// Bytes of decoded folders that are kept. Blocks of content have the store's own cache.
    pub tree_cache_bytes: u64,
    /// The command of a process that detaches the mount when this process dies: it calls [`crate::guard`] with the two arguments that
    /// are appended. Empty for none.
    pub guard: Vec<OsString>,
    /// The log to which damage is reported.
    pub log: Log,
    /// The content of a checkpoint's `manifest.json` in a mounted store.
    pub manifest: Manifest,
}

/// The sealed record, as it is stored.
fn sealed(_: &Store, checkpoint: &Checkpoint) -> Vec<u8> {
    checkpoint.sealed.clone().into()
}

impl Default for Options {
    fn default() -> Self {
        Options {
            allow_other: false,
            threads: 0,
            tree_cache_bytes: 16 << 20,
            guard: Vec::new(),
            log: Arc::new(|_| {}),
            manifest: sealed,
        }
    }
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Options { allow_other, threads, tree_cache_bytes, guard, .. } = self;
        f.debug_struct("Options")
            .field("allow_other", allow_other)
            .field("threads", threads)
            .field("tree_cache_bytes", tree_cache_bytes)
            .field("guard", guard)
            .finish_non_exhaustive()
    }
}
