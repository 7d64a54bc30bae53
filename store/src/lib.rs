//! A content-addressed snapshot store: exact checkpoints of folders, deduplicated, compressed, and safe to keep work in that exists
//! nowhere else.
//!
//! A file's content is a [blob], cut into chunks; which chunks make it is its [recipe]. A folder is a [tree](mod@tree): its
//! entries with everything about them, under one hash. Chunks, recipes and trees lie in [packs](pack), immutable files that describe
//! themselves. A checkpoint is a sealed [record](mod@record) that names a root tree; it exists from the moment the [journal] has it.
//! Everything that can be derived from packs and journal is the [view], most of it in RocksDB; losing it loses nothing.
//!
//! [`create`] captures a folder, [`restore`] brings one back, [`diff`] compares two, [`check`] finds damage, [`gc`] frees what nothing
//! needs, [`archive`] reads and writes `.tar.zst`. Several processes may do all of this at once: only commits and steps of gc take the
//! [writer lock](lock), and whoever reads holds a [pin](mod@pin).
//!
//! ```no_run
//! use std::path::Path;
//! use parhelia_store::{OpenOptions, Store, create, restore};
//!
//! # fn main() -> parhelia_store::Result<()> {
//! let store = Store::open(Path::new("/srv/parhelia"), &OpenOptions { create: true, ..OpenOptions::default() })?;
//! let options = create::Options { workspace: "work".into(), session: "demo".into(), ..create::Options::default() };
//! let made = create::run(&store, &options, &())?;
//! let options = restore::Options::new("elsewhere");
//! let plan = restore::plan(&store, &made.checkpoint, &options, &())?;
//! restore::execute(&store, &made.checkpoint, plan, &())?;
//! # Ok(())
//! # }
//! ```
//!
//! The crate prints nothing, reads no environment and runs nothing in the background. `docs/format/` has every stored byte.
//!
//! Map of the modules; a folder is a noun or a verb:
//!
//! | | |
//! |---|---|
//! | `id` `format` `config` `codec` `name` `meta` | identities and kinds of objects, constants and limits, `store.json`, primitive encodings, names of entries and sessions, metadata of entries |
//! | `keys/` | what makes ids of bytes, and stored bytes of bytes, in one store: nothing else does either |
//! | `pack/` | blocks and packs: immutable, self-describing; `parity/`, by which damaged ones are read; which decoded blocks are kept |
//! | `recipe` `blob` | which chunks make a file; reading them |
//! | `tree/` | a folder's entries as content-addressed nodes; reading them |
//! | `graph` | what a checkpoint refers to, and what that refers to in turn: one walk, for marking, verifying and repairing |
//! | `links/` `omitted` | tables beside a root: hard-link groups, what capture left out |
//! | `journal` `record` | the append-only log, reading around its damage, and mending it; sealed checkpoint records |
//! | `fold` | what whoever uses the store makes of its events: fed by the view, kept in the index, and read by nobody here |
//! | `event` `append` | facts beside the checkpoints: a chain of them; appending, once each, and not by a run that was taken over from |
//! | `db/` | the index in RocksDB, whose types stay in this module; its logs are looked through before it reads them |
//! | `view/` | what can be derived: the index and the journal's tail |
//! | `errno` `attributes` | the one table of what a failed call says of an entry, and the second look that it takes; extended attributes, read as far as they can be |
//! | `lock` `pin` `disk` `sys` `threads` `tasks` | the writer lock, pins, durable writing, system calls relative to open folders, helping threads where there are any, folders as tasks for them |
//! | `files` | files below the store's folder: every crate opens, writes, moves and removes them here, without following links, owned by the store's owner; clippy knows no other way |
//! | `damaged` `healed` | blocks that are known to be damaged; packs that were read by their parity |
//! | `statcache` | what a workspace looked like when its content was last known |
//! | `clock` `filesystem` `writers` `kernel` | when stamps can be believed: clocks that are set back, filesystems that take each other's place, files that somebody writes to; the few system calls that need `unsafe` |
//! | `place` `maker` | which folder a workspace is: known again after it was moved, missed where its disk is not mounted; who makes a checkpoint |
//! | `secrets` | files that never enter a store; its caller says which |
//! | `json` | fields of reports in JSON: types that other programs see derive `Serialize` and `JsonSchema` where they are declared |
//! | `exchange/` | what other stores of a team need of this one, and taking in what they have |
//! | `create/` `restore/` `diff/` `check/` `gc/` `archive/` | the verbs |
//! | `store` | opening a store and reading one object: nothing else |

// Unit tests make and change files as they like.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod append;
pub mod archive;
mod attributes;
pub mod blob;
pub mod check;
pub mod clock;
pub mod codec;
pub mod config;
pub mod copy;
pub mod create;
mod damaged;
mod db;
pub mod delete;
pub mod diff;
pub mod disk;
pub mod errno;
pub mod error;
pub mod event;
pub mod exchange;
pub mod files;
pub mod filesystem;
pub mod fold;
pub mod format;
pub mod gc;
mod graph;
pub mod healed;
pub mod id;
pub mod journal;
mod json;
mod kernel;
pub mod keys;
pub mod layout;
pub mod links;
pub mod lock;
mod maker;
mod meta;
pub mod mounts;
pub mod name;
pub mod omitted;
pub mod pack;
pub mod pin;
pub mod place;
pub mod progress;
pub mod recipe;
pub mod record;
pub mod restore;
pub mod secrets;
mod seen;
pub mod statcache;
pub mod stats;
pub mod store;
pub mod sys;
mod tasks;
#[cfg(test)]
mod testing;
pub mod threads;
pub mod tree;
pub mod view;
mod writers;

pub use error::{Error, ErrorKind, Result};
pub use store::{OpenOptions, ROOM_AGAIN, Store};
