//! Freeing what no checkpoint needs, and forgetting what is known of checkpoints that are gone.

use parhelia_host::{Host, Observer, Result};
use parhelia_knowledge::summary;
use parhelia_oversight::search;
use parhelia_store::{
    Store,
    gc::{self, GcOptions, GcReport},
};

/// The result of a collection.
#[derive(Debug)]
pub struct GcOutcome {
    /// Space that was freed.
    pub freed: parhelia_store::Result<GcReport>,
    /// Success in forgetting deleted checkpoints, in the search index and in summaries; tried whether anything could be freed or not.
    pub forgotten: Result<()>,
}

/// Runs gc, then removes deleted checkpoints from the search index and from kept summaries, even if gc has failed.
pub fn collect(store: &Store, host: &dyn Host, observer: &dyn Observer) -> GcOutcome {
    let freed = gc::run(store, &GcOptions::default(), observer);
    let forget = || {
        search::forget_deleted(store, host, observer)?;
        summary::kept::forget_deleted(store, observer)
    };
    GcOutcome { freed, forgotten: forget() }
}
