//! Checkpoints as filesystems: any of them can be looked at, read, searched and copied like a folder, without being restored.
//!
//! A mount is read-only and exact: modes, owners, nanosecond times, hard links, holes, extended attributes, devices and odd names are
//! as they were captured. It never loads a tree as a whole. The sums in the tree nodes lead from the root to any preorder position,
//! and an inode number is such a position; so nothing is kept per inode, opening a checkpoint of a million files takes as long as one
//! of ten, and memory stays within the bounds of its caches.
//!
//! It is fast because the kernel hardly asks: what a checkpoint holds never changes, so everything may be remembered, absent names
//! too, and opening and closing files is never told us.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::{path::Path, sync::Arc};
//! use parhelia_fuse::{Options, What, mount};
//! use parhelia_store::{OpenOptions, Store};
//!
//! let store = Arc::new(Store::open(Path::new("/srv/parhelia"), &OpenOptions::default())?);
//! let mounted = mount(store, What::Store, Path::new("/mnt/checkpoints"), &Options::default())?;
//! mounted.wait()?; // until somebody unmounts it
//! # Ok(())
//! # }
//! ```

mod activity;
mod ahead;
mod attach;
mod attr;
mod cache;
mod catalogue;
mod content;
mod counts;
mod entry;
mod errno;
mod error;
mod fs;
mod guard;
mod identity;
mod inode;
mod keeper;
mod mount;
mod mountinfo;
mod notes;
mod numbers;
mod one_tree;
mod parts;
mod prefetch;
mod push;
mod root_view;
mod state;
mod tree_view;
mod unmount;
mod view;

pub use counts::Counts;
pub use error::{Error, Holder, Result};
pub use guard::guard;
pub use mount::{Log, Manifest, Mounted, Options, Stopper, What, mount};
pub use mountinfo::holders;
pub use state::{FoundMount, MountText, clear_stale, list, shown_at};
pub use unmount::{detach, unmount};
