//! A store in object storage, shared by any number of machines, without a server of its own.
//!
//! A [`Bucket`] holds sealed [packs](pack), a [chain] of segments for each machine, and a chain of [gc]. Objects are immutable and put where
//! none is; put-if-absent is all that is asked of a [remote]. What chains add up to is a [view]. [`seal`] makes bytes that only holders of
//! the bucket's [keys](keyslots) read.
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use parhelia_bucket::{
//!     Bucket, blocking::Runtime,
//!     keyslots::{self, Secret},
//!     random::OsRandom,
//!     remote::{self, Client, ConnectOptions, Effort, RemoteUrl},
//!     view::View,
//! };
//!
//! # fn main() -> parhelia_bucket::Result<()> {
//! let client = Client::connect(&RemoteUrl::parse("s3://bucket/team")?, &ConnectOptions::default())?;
//! let (random, effort) = (Arc::new(OsRandom::new()), Effort::BACKGROUND);
//! let checkpoints = Runtime::new()?.wait(async {
//!     remote::probe(&client, &*random).await?;
//!     let secret = Secret::Passphrase("correct horse".to_owned().into());
//!     let keys = keyslots::unlock(&client, &secret, None, &effort).await?;
//!     let bucket = Bucket::open(client, keys, random, effort).await?;
//!     let mut view = View::default();
//!     view.refresh(&bucket, &mut |_| {}).await?;
//!     Ok::<_, parhelia_bucket::Error>(view.checkpoints().len())
//! })?;
//! println!("{checkpoints} checkpoints");
//! # Ok(())
//! # }
//! ```
//!
//! The crate knows no local store: [`transfer::Source`], [`transfer::Target`] and [`chain::MachineMemory`] are what one has to offer.
//! `docs/format/bucket.md` has every stored byte.
//!
//! | | |
//! |---|---|
//! | `remote/` | URLs, the client and its credentials, requests with deadlines, put-if-absent that is settled whatever the answers, the probe |
//! | `seal/` | pieces that are encrypted one by one, keys of objects, lengths that tell little |
//! | `keyslots/` | who can open a bucket: passphrases, X25519 keys, recovery phrases; generations of the master key |
//! | `layout` `settings` `codec` | names of objects, `store.json`, primitive encodings |
//! | `pack/` | packs under random names: uploads that go on, reads of ranges |
//! | `chain/` | segments and their records; pushing, and what a machine keeps of it |
//! | `claim` | epochs of sessions, of which each goes to one machine |
//! | `gc/` | gc's chain, what it adds up to, rounds of gc |
//! | `transfer/` | pushing all of a local store, taking in all of a bucket |
//! | `view` | checkpoints that exist, and packs that they need |
//! | `random` `clock` `blocking` | sources of randomness and time; a face without async |

// Unit tests make files as they like.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod blocking;
mod bucket;
pub mod chain;
pub mod claim;
mod clock;
mod codec;
mod error;
pub mod gc;
pub mod keyslots;
pub mod layout;
pub mod pack;
pub mod random;
pub mod remote;
pub mod seal;
pub mod settings;
pub mod transfer;
pub mod view;

pub use bucket::Bucket;
pub use error::{Error, Result};
pub use settings::Settings;
