//! Freeing what no machine needs.

use parhelia_bucket::{
    gc::{self, GcPolicy},
    view::View,
};
use parhelia_store::{Store, clock, progress::Progress};

pub use parhelia_bucket::gc::GcReport;

use crate::{
    connect::{ConnectOptions, Connection},
    error::Result,
};

/// Runs a round of the bucket's gc. Any machine may, at any time, beside all others.
pub fn run(store: &Store, options: &ConnectOptions, progress: &dyn Progress) -> Result<GcReport> {
    let connection = Connection::open(store, options, progress)?;
    let (mut view, policy) = (View::default(), GcPolicy::default());
    connection.wait(progress, gc::round(&connection.bucket, &mut view, &policy, clock::timestamp()))
}
