//! A local store and its remote: a bucket that holds all of a team's checkpoints ([`parhelia_bucket`]).
//!
//! The local store stays whole and first: nothing here is in the way of a commit. [`push`] sends what this machine has recorded, oldest first;
//! [`fetch`] takes in what other machines have; [`gc`] frees what no machine needs. The machine's place in the bucket, its key and what was sent lie in
//! the store's folder `remote/`; losing that folder costs uploads, and no checkpoint.
//!
//! | | |
//! |---|---|
//! | `folder` | the files of `remote/`: which bucket, which machine, which key, what was sent |
//! | `add` `keys` | joining a bucket or making one; who can open it |
//! | `connect` | the bucket of a store, opened with this machine's key |
//! | `source` `target` | the store as the bucket's protocol wants it |
//! | `push` `fetch` `gc` `status` | the verbs |

mod add;
mod connect;
mod error;
mod fetch;
mod folder;
pub mod gc;
pub mod keys;
mod push;
mod source;
mod status;
mod target;

pub use parhelia_bucket::{
    keyslots::{RecoveryPhrase, Secret, SlotKind},
    remote::RemoteUrl,
};

pub use self::{
    add::{AddOptions, Added, Wanted, add, remove},
    connect::{ConnectOptions, Connection},
    error::{Error, Result},
    fetch::{FetchOptions, Fetched, fetch},
    folder::{Attempt, Joined, RemoteFolder},
    push::{Pushed, push},
    status::{Backlog, Machine, backlog, machines},
};
