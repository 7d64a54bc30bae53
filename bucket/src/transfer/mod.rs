//! Whole stores: pushing what a local store has, and taking in what a bucket has.
//!
//! A local store offers a [`Source`] and a [`Target`]. Either side may end anywhere; the next run goes on.

mod fetch;
mod push;

pub use self::{
    fetch::{Extent, FetchReport, Target, fetch},
    push::{Batch, PushReport, Source, push},
};
use crate::{chain::Pushed, pack::PackRef};

/// An observer of a transfer. Its methods do nothing by default.
pub trait Observer: Sync {
    /// A batch is in the bucket for good.
    fn pushed(&self, _pushed: &Pushed) {}
    /// A pack was taken in.
    fn fetched(&self, _pack: &PackRef) {}
}

impl Observer for () {}
