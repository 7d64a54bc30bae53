//! A store in object storage, shared by any number of machines, without a server of its own.
//!
//! A [bucket] holds sealed [packs](pack), a [chain] of segments for each machine, and a chain of [gc]. Objects are immutable and put where
//! none is; put-if-absent is all that is asked of a [remote]. What chains add up to is a [view]. [`seal`] makes bytes that only holders of
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! # async fn example() -> parhelia_bucket::Result<()> {
//! let url = RemoteUrl::parse("s3://bucket/team")?;
//! let client = Client::connect(&url, &ConnectOptions::default())?;
//! let random = Arc::new(OsRandom::new());
//! remote::probe(&client, &*random).await?;
//! let bucket = Bucket::open(client, keys, random, Effort::BACKGROUND).await?;
//! let mut view = View::default();
//! view.refresh(&bucket, &mut |_| {}).await?;
//! println!("{} checkpoints", view.checkpoints().len());
//! # Ok(())
//! # }
//! ```
//!
//! The crate knows no local store: [`pack::PackSource`] and [`chain::MachineMemory`] are what one has to offer. `docs/format/bucket.md` has every
//! stored byte.
//!
//! | | |
//! |---|---|
//! | `remote/` | URLs, the client and its credentials, requests with deadlines, put-if-absent that is settled whatever the answers, the probe |
//! | `seal/` | pieces that are encrypted one by one, keys of objects, lengths that tell little |
//! | `layout` `settings` `codec` | names of objects, `store.json`, primitive encodings |
//! | `pack/` | packs under random names: uploads that go on, reads of ranges |
//! | `chain/` | segments and their records; pushing, and what a machine keeps of it |
//! | `gc/` | gc's chain, what it adds up to, rounds of gc |
//! | `view` | checkpoints that exist, and packs that they need |
//! | `random` `clock` | sources of randomness and time |

// Unit tests make files as they like.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod bucket;
pub mod chain;
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
mod settings;
pub mod view;

pub use bucket::Bucket;
pub use error::{Error, Result};
pub use settings::Settings;
