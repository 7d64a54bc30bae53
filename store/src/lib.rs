//! Content-addressed snapshot store.

pub mod blob;
pub mod codec;
pub mod disk;
pub mod error;
pub mod format;
pub mod id;
pub mod journal;
pub mod layout;
pub mod links;
pub mod lock;
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
pub mod store;
pub mod sys;
pub mod tree;
pub mod view;

pub use error::{Error, ErrorKind, Result};
pub use store::{OpenOptions, Store};
