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
//! let store = Arc::new(parhelia_ledger::open(Path::new("/srv/parhelia"), &OpenOptions::default())?);
//! let mounted = mount(store, What::Store, Path::new("/mnt/checkpoints"), &Options::default())?;
//! mounted.wait()?; // until somebody unmounts it
//! # Ok(())
//! # }
//! ```
//!
//! Map of the modules; a folder uses only those above it:
//!
//! | | |
//! |---|---|
//! | `caches` `counts` `error` `fault` | caches within a bound of bytes; counts of requests; errors of mounting; errors of one request, and their errno |
//! | `tree/` | a checkpoint's tree by preorder position: decoded nodes, finding and listing entries, hard links, what `stat` shows |
//! | `readahead/` | readahead: the tracker, which notes where each program is; decoding ahead of it, and filling the kernel's page cache; blocks of long files |
//! | `content/` | what files hold: recipes and ranges |
//! | `filesystem/` | a read-only filesystem, as a trait, and the two there are: `checkpoint`, and `store/` (sessions, dates, folders of tags, inode numbers) |
//! | `kernel/` | FUSE requests and their answers; whether a mount is in use |
//! | `mount/` | mounting, unmounting, attaching, the guard, the keeper, identity of mounts, `<store>/mounts/` |

// Unit tests make and change files as they like.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod caches;
mod content;
mod counts;
mod error;
mod fault;
mod filesystem;
mod kernel;
mod mount;
mod readahead;
mod tree;

pub use counts::Counts;
pub use error::{Error, Holder, Result};
pub use filesystem::store::Manifest;
pub use kernel::Log;
pub use mount::{
    FoundMount, MountHandle, MountText, Options, Stopper, What, clear_stale, detach, guard, holders, list, mount, shown_at,
    unmount,
};
