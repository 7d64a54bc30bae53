//! Content-addressed snapshot store.

pub mod archive;
pub mod blob;
pub mod cache;
pub mod check;
pub mod codec;
pub mod create;
pub mod delete;
pub mod diff;
pub mod disk;
pub mod error;
pub mod format;
pub mod gc;
pub mod id;
pub mod journal;
pub mod layout;
pub mod links;
pub mod lock;
pub mod manifest;
pub mod mounts;
pub mod name;
pub mod omitted;
pub mod pack;
pub mod pin;
pub mod progress;
pub mod recipe;
pub mod record;
pub mod restore;
pub mod selector;
pub mod statcache;
pub mod stats;
pub mod store;
pub mod sys;
#[cfg(test)]
mod testing;
pub mod tree;
pub mod view;

pub use error::{Error, ErrorKind, Result};
pub use store::{OpenOptions, Store};
