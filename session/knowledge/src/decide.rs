//! A decision, and what the project learns of it.

use parhelia_host::{Host, Observer, Result, notice::Notice};
use parhelia_oversight::review::decide::{self, DecisionOutcome, DecisionRequest};
use parhelia_store::Store;

use crate::memory;

/// Records a decision as [`decide::record`] does, and tells the project's memory.
pub fn decide(store: &Store, host: &dyn Host, request: &DecisionRequest<'_>, observer: &dyn Observer) -> Result<DecisionOutcome> {
    let decided = decide::record(store, host, request, observer)?;
    if !decided.had
        && let Some(checkpoint) = store.view().checkpoint(request.checkpoint)?
        && let Err(e) = memory::learn(store, host, &checkpoint, request.verdict.status())
    {
        observer.warn(&Notice::NotRecorded { what: "the project's memory does not have the decision", why: e.to_string() });
    }
    Ok(decided)
}
